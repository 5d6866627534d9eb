"""EuroBERT (Boizard et al. 2025): Llama's layers (Touvron et al. 2023), without the causal mask.

RMSNorm before both parts of a layer and after the last layer, none after the embeddings; rotary positions; SwiGLU;
grouped-query attention in the larger ones. Its [PAD] is the token that ends a text.
"""

import reprlib
from typing import Any

from attncli.base.errors import RequestError
from attncli.models.families.family import (
    FIRST,
    LATE,
    MEAN,
    Biases,
    Dense,
    Family,
    Scores,
    TaskHeads,
    Values,
    classes,
    rotary_positions,
    tokens,
    words,
)
from attncli.models.families.llama import TENSORS

POOLING = {"bos": FIRST, "mean": MEAN, "late": LATE}


def settings(values: Values) -> dict[str, Any]:
    return {
        "segments": 0,
        "position_table": False,
        "positions": (rotary_positions(values),) * values.layers,
        "norm_first": True,
        "rms_norm": True,
        "embedding_norm": False,
        "key_heads": values.key_heads,
        "head_dim": values.head_dim,
        "gated": True,
        "biases": Biases(values.flag("attention_bias"), values.flag("mlp_bias"), norms=False),
    }


def heads(values: Values) -> TaskHeads:
    pooling = values.value("classifier_pooling")
    if pooling not in POOLING:
        raise RequestError(f"classifier_pooling is {reprlib.repr(pooling)}, not one of {', '.join(POOLING)}")
    biases = ("lm_head.bias",) if values.flag("mlp_bias") else ()
    return {
        "classes": classes(Dense("dense", "gelu"), reads=POOLING[pooling]),
        "tokens": tokens(),
        "words": words(scores=Scores("lm_head", biases, tied=values.flag("tie_word_embeddings"))),
    }


FAMILY = Family(
    name="eurobert",
    types={
        "eurobert": {
            "vocab_size": 128256,
            "max_position_embeddings": 8192,
            "hidden_act": "silu",
            "layer_norm_eps": 1e-5,
            "pad_token_id": 128001,
            "head_dim": None,
            "attention_bias": False,
            "mlp_bias": False,
            "tie_word_embeddings": False,
            "classifier_pooling": "late",
            "rope_theta": 10_000.0,  # the published models have 250,000
        }
    },
    tensors=TENSORS,
    prefix="model.",
    body=("embed_tokens.", "layers.", "norm."),
    keys={"layer_norm_eps": "rms_norm_eps", "type_vocab_size": None},
    settings=settings,
    heads=heads,
)
