"""RoFormer (Su et al. 2021): BERT with only rotary positions. Its embeddings may be smaller than the hidden size.

Checkpoints contain its sines and cosines as a table, which attncli computes. Some rotate values too.
"""

from typing import Any

from attncli.models.families.bert import TENSORS, transformed_words
from attncli.models.families.family import (
    Dense,
    Family,
    Heads,
    Turned,
    Values,
    classes,
    span,
    tensors_of,
    tokens,
    turned_size,
)

BASE = 10_000.0  # as in the published code, whatever config.json says


def settings(values: Values) -> dict[str, Any]:
    stated = "hidden_size" if values.value("embedding_size") is None else "embedding_size"
    turned = Turned(turned_size(values), BASE, interleaved=True, values=values.flag("rotary_value"), exact=True)
    return {
        "embedding_size": values.count(stated),
        "widens": values.count(stated) != values.count("hidden_size"),
        "position_table": False,
        "positions": (turned,) * values.layers,
    }


def heads(values: Values) -> Heads:
    return {
        "classes": classes(Dense("classifier.dense", values.activation("hidden_act")), scores="classifier.out_proj"),
        "tokens": tokens(),
        "span": span(),
        "words": transformed_words(values, size="embedding_size"),
    }


FAMILY = Family(
    name="roformer",
    types={
        "roformer": {
            "vocab_size": 50000,
            "max_position_embeddings": 1536,
            "embedding_size": None,
            "rotary_value": False,
        }
    },
    tensors={**TENSORS, "embeddings.project": tensors_of("embeddings_project")},
    prefix="roformer.",
    body=("embeddings.", "embeddings_project.", "encoder."),
    tokenizer="RoFormerTokenizer",
    settings=settings,
    heads=heads,
)
