"""Work on a model, which each process that does it opens for itself: what is the same whatever is counted."""

from dataclasses import dataclass, field, replace
from typing import Any

from attncli.corpus.shards.work import Total, Work
from attncli.models.engine import Engine
from attncli.models.opening import Opening


@dataclass(frozen=True)
class OfModel(Work[Total]):
    """opening: how the model is opened; model: where it is open in this process. What is asked has its digest."""

    opening: Opening
    asked: dict[str, Any]
    model: Engine | None = field(default=None, kw_only=True)

    def on(self, device: str) -> Work[Total]:
        return replace(self, opening=replace(self.opening, device=device))

    def away(self) -> Work[Total]:
        return replace(self, model=None)

    def opened(self) -> Engine:
        """The model. Raises RequestError as `Opening.again` does."""
        return self.opening.again(self.model, self.asked["model"])


def asked_of(command: str, model: Engine, which: str | None) -> dict[str, Any]:
    """What a command asks of a model, or of one of its parts, by the names that options have."""
    kind = model.kind(which)
    return {
        "command": command,
        "model": model.sha256,
        "--dtype": model.dtype_name,
        "--engine": model.name,
        "--which": None if kind == "encoder" else kind,
        "--without": model.info_of(which).changes or None,
    }
