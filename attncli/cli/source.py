"""Where a command's records come from: a model that runs on texts, or a saved record."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Context

from attncli.base.errors import RequestError
from attncli.cli.given import refuse
from attncli.cli.texts import check_one, read_inputs
from attncli.models.opening import Opening
from attncli.record.request import TOKENS, Grouping, Input, Request

if TYPE_CHECKING:
    from attncli.analysis.telling import Usual
    from attncli.models.engine import Engine
    from attncli.models.model import Model
    from attncli.models.tapped import TappedModel
    from attncli.record import AttentionRecord

# What makes a record: with --from it is made already.
MAKING = (
    "text",
    "pair",
    "file",
    "model",
    "mask",
    "pad_to",
    "measure",
    "vectors",
    "engine",
    "without",
    "which",
    "target",
    "device",
    "dtype",
)


class Source(ABC):
    """Texts or a saved record; `of` reads the options that say which. They have the names of `attncli.cli.options`."""

    @staticmethod
    def of(
        context: Context, layers: str, stdin: bool = False, grouping: Grouping = TOKENS, predict: bool = False
    ) -> "Source":
        """The source that a command's options name. layers: those meant without -l; stdin: as `read_inputs` has it;
        grouping: what its maps are to be between; predict: whether records hold what the model says of the texts.

        Raises RequestError as `read_inputs` and `Request` do, and for options that have no effect on a saved record.
        """
        options = context.params
        if options.get("saved") is not None:
            made = [name for name in MAKING if name in options]
            refuse(context, "with --from, which takes what was saved", *made)
            return Saved(options["saved"], options.get("layer"), options.get("head"), grouping)
        inputs = read_inputs(options["text"], options.get("pair"), options.get("file"), stdin)
        if options.get("target") is not None and len(inputs) > 1:
            raise RequestError(f"--target is what becomes of one text, and there are {len(inputs)}: give the one")
        request = replace(request_of(options, layers), grouping=grouping, predict=predict)
        return Texts(inputs, opening_of(options), request)

    @abstractmethod
    def records(self, together: bool = False, copies: float = 0) -> "Iterator[AttentionRecord]":
        """A record of each text, with the layers and heads that are meant; together: whether all of them are kept;
        copies: how many of their maps are made then.
        """

    @abstractmethod
    def __len__(self) -> int:
        """How many texts there are."""

    @abstractmethod
    def every_layer(self) -> "Source":
        """The same with all layers, whatever -l says: for whoever means something else by it."""

    def usual(self, words: bool = False) -> "Usual | None":
        """What is usual of the heads, over texts that come with the program; None where no model can be asked."""
        return None

    def one(self, otherwise: str, copies: float = 0) -> "AttentionRecord":
        """The one record. Raises RequestError when there are several texts: `otherwise` says what to do then."""
        check_one(len(self), otherwise)
        [record] = self.records(copies=copies)
        return record


def open_part(opening: Opening, which: str | None) -> "Engine":
    """The model, for a command that takes --which where there are several parts. Raises RequestError as `open` does."""
    engine = opening.open()
    if [which] == list(engine.parts):
        raise RequestError(f"--which has no effect on {engine.place.name}, which is one {which}: leave it out")
    return engine


def open_tapped(options: dict[str, Any]) -> "TappedModel":
    """Open the model that options name, as the part that --which names, for a command whose taps look into it.

    Raises RequestError as `open_part` does, and where nothing can be tapped.
    """
    which = options.get("which")
    engine = open_part(opening_of(options), which)
    from attncli.models.tapped import require_tapped

    return require_tapped(engine, which)


def open_own(name: str, device: str, dtype: str) -> "Model":
    """Open a model for a command that has to look inside the network. Raises RequestError as `load_own` does."""
    from attncli.models.hub import locate

    place = locate(name)  # as in `Opening.open`
    from attncli.models.loading import load_own_from

    return load_own_from(place, device, dtype)


def opening_of(options: dict[str, Any]) -> Opening:
    """Which model the options name."""
    others = {name: options[name] for name in ("engine", "without") if name in options}
    return Opening(options["model"], options["device"], options["dtype"], **others)


def request_of(options: dict[str, Any], layers: str) -> Request:
    """What the options ask of a model. Raises RequestError as `Request` does."""
    names = ("mask", "pad_to", "measure", "vectors", "which", "target")
    if options.get("terms"):
        options = {**options, "vectors": "all"}
    return Request(
        layers=layers if options.get("layer") is None else options["layer"],
        heads="all" if options.get("head") is None else options["head"],
        **{name: options[name] for name in names if options.get(name) is not None},
    )


@dataclass(frozen=True)
class Texts(Source):
    """Texts, and what is asked of which model."""

    inputs: Sequence[Input]
    opening: Opening
    request: Request

    def __len__(self) -> int:
        return len(self.inputs)

    @cached_property
    def engine(self) -> "Engine":
        """Raises RequestError as `load_model` does."""
        return self.opening.open()

    def records(self, together: bool = False, copies: float = 0) -> "Iterator[AttentionRecord]":
        return self.engine.answer(self.inputs, self.request, together, copies)

    def usual(self, words: bool = False) -> "Usual | None":
        from attncli.corpus.usual import usual_of

        return usual_of(self.engine, self.request, words)

    def every_layer(self) -> "Texts":
        return self.asking(layers="all")

    def asking(self, **changes: Any) -> "Texts":
        """The same texts with another request."""
        return replace(self, request=replace(self.request, **changes))


@dataclass(frozen=True)
class Saved(Source):
    """A saved record; layers and heads None are all that it holds."""

    path: Path
    layers: str | None
    heads: str | None
    grouping: Grouping = TOKENS

    def __len__(self) -> int:
        return len(self.loaded)

    def records(self, together: bool = False, copies: float = 0) -> "Iterator[AttentionRecord]":
        """Raises RequestError when the file is no record, or does not hold what is chosen."""
        from attncli.record.grouping import grouped

        return (grouped(record.select(self.layers, self.heads), self.grouping) for record in self.loaded)

    def every_layer(self) -> "Saved":
        return replace(self, layers=None)

    @cached_property
    def loaded(self) -> "list[AttentionRecord]":
        from attncli.record import load_records

        return load_records(self.path)
