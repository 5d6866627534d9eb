"""ERNIE (Sun et al. 2019), also of version 2 and 3 (Sun et al. 2020, 2021): BERT with task embeddings.

No tokenizer returns a task, so every text has the first one, the default in transformers.
"""

from typing import Any

from attncli.models.families.bert import TENSORS, heads
from attncli.models.families.family import Family, Values, tensors_of


def settings(values: Values) -> dict[str, Any]:
    values.check_positions()
    return {"tasks": values.count("task_type_vocab_size") if values.flag("use_task_id") else 0}


FAMILY = Family(
    name="ernie",
    types={"ernie": {"use_task_id": False, "task_type_vocab_size": 3}},
    tensors={**TENSORS, "embeddings.tasks": tensors_of("embeddings.task_type_embeddings")},
    prefix="ernie.",
    body=("embeddings.", "encoder."),
    settings=settings,
    heads=heads,
)
