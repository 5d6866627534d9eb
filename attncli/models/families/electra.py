"""ELECTRA (Clark et al. 2020): BERT whose vectors of tokens, positions and segments may be narrower and are widened."""

from typing import Any

from attncli.models.families.bert import TENSORS
from attncli.models.families.family import Family, whole
from attncli.models.families.values import Values


def settings(values: Values) -> dict[str, Any]:
    values.check_positions()
    size = values.count("embedding_size")
    return {"embedding_size": size, "widens": size != values.count("hidden_size")}


FAMILY = Family(
    name="electra",
    types={"electra": {"num_attention_heads": 4, "hidden_size": 256, "intermediate_size": 1024, "embedding_size": 128}},
    tensors={**TENSORS, "embeddings.project": whole("embeddings_project")},
    prefix="electra.",
    body=("embeddings.", "embeddings_project.", "encoder."),
    settings=settings,
)
