"""The families of networks, related ones in one file. A run imports only the file of its model."""

from importlib import import_module

from attncli.models.families.family import Family

# From config.json's `model_type` to the file in this folder, and the name of the family in it.
PLACES = {
    "albert": "albert.FAMILY",
    "bert": "bert.FAMILY",
    "deberta": "deberta.VERSION_1",
    "deberta-v2": "deberta.VERSION_2",
    "distilbert": "bert.DISTILBERT",
    "electra": "bert.ELECTRA",
    "ernie": "bert.ERNIE",
    "eurobert": "eurobert.FAMILY",
    "gemma": "gemma.GEMMA",
    "gemma2": "gemma.GEMMA2",
    "gemma3_text": "gemma.GEMMA3",
    "gpt2": "gpt2.FAMILY",
    "gpt_neox": "gpt_neox.FAMILY",
    "gte": "rotary.GTE",
    "new": "rotary.GTE",
    "jina_embeddings_v3": "rotary.JINA",
    "llama": "llama.FAMILY",
    "megatron-bert": "bert.MEGATRON",
    "mistral": "llama.FAMILY",
    "modernbert": "modernbert.FAMILY",
    "mpnet": "roberta.MPNET",
    "nomic_bert": "rotary.NOMIC",
    "olmo2": "llama.OLMO2",
    "phi3": "llama.PHI3",
    "qwen2": "llama.FAMILY",
    "qwen3": "llama.QWEN3",
    "roberta": "roberta.FAMILY",
    "xlm-roberta": "roberta.FAMILY",
    "camembert": "roberta.FAMILY",
    "roberta-prelayernorm": "roberta.PRE_NORM",
    "roformer": "rotary.ROFORMER",
    "smollm3": "llama.FAMILY",
    "xlm-roberta-xl": "roberta.XL",
}
FAMILIES: dict[str, Family] = {}  # by model type, those imported so far


def find_family(model_type: str) -> Family | None:
    """Return the family of a model type, or None."""
    if model_type in PLACES and model_type not in FAMILIES:
        file, name = PLACES[model_type].split(".")
        FAMILIES[model_type] = getattr(import_module(f"{__name__}.{file}"), name)
    return FAMILIES.get(model_type)
