"""Work that runs a model, which each process opens for itself; and the cores that it runs on."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from attncli.base.errors import RequestError
from attncli.corpus.shards import Total, Work
from attncli.models.opening import Opening

if TYPE_CHECKING:
    from attncli.models.engine import Engine

MOST_THREADS = 8  # cores of a batch that has all of them: more wait for each other


@dataclass(frozen=True)
class OfModel(Work[Total]):
    """Work that runs a model. opening: how to open it; model: the open model in this process."""

    opening: Opening
    options: dict[str, Any]
    model: "Engine | None" = field(default=None, kw_only=True)
    needs: ClassVar[tuple[str, ...]] = ("attncli.corpus.reducer",)  # which imports torch and our networks

    def on(self, device: str) -> Work[Total]:
        return replace(self, opening=replace(self.opening, device=device))

    def without_model(self) -> Work[Total]:
        return replace(self, model=None)

    def open_model(self) -> "Engine":
        """Return the model. Raises RequestError as `Opening.open`, and for weights of another digest."""
        found = self.opening.open() if self.model is None else self.model
        if found.sha256 != self.options["model"]:
            raise RequestError(f"{self.opening.name} is a different model on this machine")
        return found


def model_options(command: str, model: "Engine", which: str | None) -> dict[str, Any]:
    """Return the options of a command that concern the model or a part of it, by name."""
    kind = model.kind(which)
    return {
        "command": command,
        "model": model.sha256,
        "--dtype": model.dtype_name,
        "--engine": model.name,
        "--which": None if kind == "encoder" else kind,
        "--without": model.info_of(which).changes or None,
    }


@contextmanager
def pool(cores: int, threads: int) -> Iterator[ThreadPoolExecutor]:
    """Start threads that compute on one core each, while this thread computes on so many `threads`.

    The last bit of a product may depend on the number of cores that share it.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    each = ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield each
    finally:
        each.shutdown(cancel_futures=True)
        torch.set_num_threads(before)
