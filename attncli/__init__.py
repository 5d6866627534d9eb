"""attncli: see what every attention head does to your text.

    import attncli
    model = attncli.load_model("minilm")
    record = model.attend("The cat sat.")
    record.weights          # numpy float32 [layer, head, query, key]

The names below are imported on first use, so that reading a record does not import torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from attncli.base import __version__ as __version__

if TYPE_CHECKING:
    from attncli.base.errors import Notice, RequestError
    from attncli.checks.code.check import check
    from attncli.corpus.reducer import corpus_statistics
    from attncli.features.ablate import ablate
    from attncli.features.compare import compare
    from attncli.features.cut import cut
    from attncli.features.diff import diff
    from attncli.features.explain import explain
    from attncli.features.find import find
    from attncli.features.flow import flow
    from attncli.features.generate import generate
    from attncli.features.heatmap import heatmap
    from attncli.features.kinds import kinds
    from attncli.features.mask import mask
    from attncli.features.mechanisms import mechanisms
    from attncli.features.patch import patch
    from attncli.features.probe import probe
    from attncli.features.run import run
    from attncli.features.similar import similar
    from attncli.features.sources import sources
    from attncli.features.stats import stats
    from attncli.features.trust import trust
    from attncli.features.view import view
    from attncli.models.capture import capture
    from attncli.models.engine import Engine
    from attncli.models.loading import load_model
    from attncli.models.model import Model
    from attncli.record import AttentionRecord, Request, save_records
    from attncli.record.loading import load_record, load_records
    from attncli.record.making import record_of, records_of

HOMES = {
    "Notice": "attncli.base.errors",
    "RequestError": "attncli.base.errors",
    "check": "attncli.checks.code.check",
    "corpus_statistics": "attncli.corpus.reducer",
    "ablate": "attncli.features.ablate",
    "compare": "attncli.features.compare",
    "cut": "attncli.features.cut",
    "diff": "attncli.features.diff",
    "explain": "attncli.features.explain",
    "find": "attncli.features.find",
    "flow": "attncli.features.flow",
    "generate": "attncli.features.generate",
    "heatmap": "attncli.features.heatmap",
    "kinds": "attncli.features.kinds",
    "mask": "attncli.features.mask",
    "mechanisms": "attncli.features.mechanisms",
    "patch": "attncli.features.patch",
    "probe": "attncli.features.probe",
    "run": "attncli.features.run",
    "trust": "attncli.features.trust",
    "similar": "attncli.features.similar",
    "view": "attncli.features.view",
    "sources": "attncli.features.sources",
    "stats": "attncli.features.stats",
    "capture": "attncli.models.capture",
    "Engine": "attncli.models.engine",
    "load_model": "attncli.models.loading",
    "Model": "attncli.models.model",
    "AttentionRecord": "attncli.record",
    "Request": "attncli.record",
    "load_record": "attncli.record.loading",
    "load_records": "attncli.record.loading",
    "record_of": "attncli.record.making",
    "records_of": "attncli.record.making",
    "save_records": "attncli.record",
}

__all__ = [  # noqa: RUF022  (as above)
    "Notice",
    "RequestError",
    "check",
    "corpus_statistics",
    "ablate",
    "compare",
    "cut",
    "diff",
    "explain",
    "find",
    "flow",
    "generate",
    "heatmap",
    "kinds",
    "mask",
    "mechanisms",
    "patch",
    "probe",
    "run",
    "trust",
    "similar",
    "view",
    "sources",
    "stats",
    "capture",
    "Engine",
    "load_model",
    "Model",
    "AttentionRecord",
    "Request",
    "load_record",
    "load_records",
    "record_of",
    "records_of",
    "save_records",
]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'attncli' has no attribute {name!r}")
    return getattr(importlib.import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
