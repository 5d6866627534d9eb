"""BERT (Devlin et al. 2019): the family that the others are told from. MiniLM is one too."""

from typing import Any

from attncli.models.families.family import Family, whole
from attncli.models.families.values import Values

TENSORS = {
    "embeddings.tokens": whole("embeddings.word_embeddings"),
    "embeddings.positions.table": whole("embeddings.position_embeddings"),
    "embeddings.segments": whole("embeddings.token_type_embeddings"),
    "embeddings.norm": whole("embeddings.LayerNorm"),
    "layers.{n}.attention.query": whole("encoder.layer.{n}.attention.self.query"),
    "layers.{n}.attention.key": whole("encoder.layer.{n}.attention.self.key"),
    "layers.{n}.attention.value": whole("encoder.layer.{n}.attention.self.value"),
    "layers.{n}.attention.output": whole("encoder.layer.{n}.attention.output.dense"),
    "layers.{n}.attention_norm": whole("encoder.layer.{n}.attention.output.LayerNorm"),
    "layers.{n}.feed_forward.up": whole("encoder.layer.{n}.intermediate.dense"),
    "layers.{n}.feed_forward.down": whole("encoder.layer.{n}.output.dense"),
    "layers.{n}.feed_forward_norm": whole("encoder.layer.{n}.output.LayerNorm"),
}


def settings(values: Values) -> dict[str, Any]:
    values.check_positions()
    return {}


FAMILY = Family(
    name="bert",
    types={"bert": {}},
    tensors=TENSORS,
    prefix="bert.",
    body=("embeddings.", "encoder."),
    settings=settings,
)
