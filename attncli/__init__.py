"""attncli: see what every attention head of a BERT does to your text.

    import attncli
    model = attncli.load_model("minilm")
    record = model.attend("The cat sat.")
    record.weights          # numpy float32 [layer, head, query, key]

The names below are imported when they are first used, so that reading a record does not import torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attncli.errors import Notice, RequestError
    from attncli.models.model import Model, load_model
    from attncli.models.statistics import corpus_statistics
    from attncli.record import AttentionRecord, load_record, load_records, save_records

__version__ = "0.1.0"

HOMES = {
    "Notice": "attncli.errors",
    "RequestError": "attncli.errors",
    "Model": "attncli.models.model",
    "load_model": "attncli.models.model",
    "corpus_statistics": "attncli.models.statistics",
    "AttentionRecord": "attncli.record",
    "load_record": "attncli.record",
    "load_records": "attncli.record",
    "save_records": "attncli.record",
}

__all__ = [
    "AttentionRecord",
    "Model",
    "Notice",
    "RequestError",
    "corpus_statistics",
    "load_model",
    "load_record",
    "load_records",
    "save_records",
]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'attncli' has no attribute {name!r}")
    return getattr(importlib.import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
