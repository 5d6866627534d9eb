"""Megatron-BERT (Shoeybi et al. 2019, figure 7, right), and GatorTron: BERT with pre-norm layers.

There is a norm before the attention, before the feed-forward part and after the last layer, but none before the first.
"""

from typing import Any

from attncli.models.families.bert import TENSORS, heads
from attncli.models.families.family import Family, Values, tensors_of


def settings(values: Values) -> dict[str, Any]:
    values.check_positions()
    return {"norm_first": True, "embedding_norm": False}


FAMILY = Family(
    name="megatron-bert",
    types={
        "megatron-bert": {
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "vocab_size": 29056,
        }
    },
    tensors={
        **TENSORS,
        "layers.{n}.attention_norm": tensors_of("encoder.layer.{n}.attention.ln"),
        "layers.{n}.feed_forward_norm": tensors_of("encoder.layer.{n}.ln"),
        "final_norm": tensors_of("encoder.ln"),
    },
    prefix="bert.",
    body=("embeddings.", "encoder."),
    settings=settings,
    heads=heads,
)
