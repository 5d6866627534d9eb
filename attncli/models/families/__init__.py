"""The families of networks: one file each, with a FAMILY. A run imports only the family of its model."""

from importlib import import_module

from attncli.models.families.family import Family

# From config.json's `model_type` to the file in this folder.
FILES = {
    "albert": "albert",
    "bert": "bert",
    "deberta": "deberta",
    "deberta-v2": "deberta_v2",
    "distilbert": "distilbert",
    "electra": "electra",
    "ernie": "ernie",
    "eurobert": "eurobert",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3",
    "gpt2": "gpt2",
    "gpt_neox": "gpt_neox",
    "gte": "gte",
    "new": "gte",
    "jina_embeddings_v3": "jina_embeddings_v3",
    "llama": "llama",
    "megatron-bert": "megatron_bert",
    "mistral": "llama",
    "modernbert": "modernbert",
    "mpnet": "mpnet",
    "nomic_bert": "nomic_bert",
    "olmo2": "olmo2",
    "phi3": "phi3",
    "qwen2": "llama",
    "qwen3": "qwen3",
    "roberta": "roberta",
    "xlm-roberta": "roberta",
    "camembert": "roberta",
    "roberta-prelayernorm": "roberta_prelayernorm",
    "roformer": "roformer",
    "smollm3": "llama",
    "xlm-roberta-xl": "xlm_roberta_xl",
}
FAMILIES: dict[str, Family] = {}  # by model type, those imported so far


def find_family(model_type: str) -> Family | None:
    """Return the family of a model type, or None."""
    if model_type in FILES and model_type not in FAMILIES:
        FAMILIES[model_type] = import_module(f"{__name__}.{FILES[model_type]}").FAMILY
    return FAMILIES.get(model_type)
