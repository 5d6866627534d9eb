"""RoBERTa with pre-norm layers (fairseq, Ott et al. 2019): the models of Wettig et al. 2023.

The input of the first layer is normalised as in RoBERTa, and then by the layer once more.
"""

from typing import Any

from attncli.models.families import roberta
from attncli.models.families.family import Family, Values, tensors_of


def settings(values: Values) -> dict[str, Any]:
    return {**roberta.settings(values), "norm_first": True}


FAMILY = Family(
    name="roberta-prelayernorm",
    types={"roberta-prelayernorm": {"vocab_size": 50265, "pad_token_id": 1}},
    tensors={
        **roberta.FAMILY.tensors,
        "layers.{n}.attention_norm": tensors_of("encoder.layer.{n}.attention.LayerNorm"),
        "layers.{n}.feed_forward_norm": tensors_of("encoder.layer.{n}.intermediate.LayerNorm"),
        "final_norm": tensors_of("LayerNorm"),
    },
    prefix="roberta_prelayernorm.",
    body=("embeddings.", "encoder.", "LayerNorm."),
    settings=settings,
    heads=roberta.heads,
)
