"""What answers a Request: the interface that attncli's own networks and those of transformers have in common."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sized
from typing import Any

from attncli.models.hub import Place
from attncli.record.record import AttentionRecord
from attncli.record.request import Input, Request, inputs_of
from attncli.record.selection import Selection

RENAMED = {"neurons": "vectors"}  # in version 0.2


class Engine(ABC):
    """A model with its tokenizer, ready to be asked for the attention of texts.

    name: "attncli" or "transformers"; place: where the model lies.
    """

    name: str
    place: Place

    @abstractmethod
    def answer(self, inputs: Iterable[Input], request: Request) -> Iterator[AttentionRecord]:
        """A record of each text, in their order.

        Raises RequestError as `check` does; for an empty text; and for a layer, head or length out of range.
        """

    @abstractmethod
    def check(self, request: Request) -> None:
        """Raises RequestError for what this engine, or this model, can't do: the one place where that is said."""

    def writes(self, request: Request) -> bool:
        """Whether a decoder has to write something before the maps are there."""
        return False

    def attend(
        self,
        text: str,
        pair: str | None = None,
        layers: Selection = "all",
        heads: Selection = "all",
        mask: str = "padding",
        pad_to: int | None = None,
        **more: Any,
    ) -> AttentionRecord:
        """The attention of one text, or of a pair of texts.

        What is asked is a `attncli.Request`; `more` are its other fields: measure, vectors, which, target.

        Raises RequestError as `answer` and `Request` do.
        """
        return next(self.attend_many([text], [pair], layers, heads, mask, pad_to, **more))

    def attend_many(
        self,
        texts: Iterable[str],
        pairs: Iterable[str | None] | None = None,
        layers: Selection = "all",
        heads: Selection = "all",
        mask: str = "padding",
        pad_to: int | None = None,
        progress: bool = False,
        **more: Any,
    ) -> Iterator[AttentionRecord]:
        """The attention of many texts, in their order. Arguments and errors as for `attend`.

        progress: show how far it is, in a terminal as in a notebook; of a generator's texts without how many there are.
        """
        records = self.answer(inputs_of(texts, pairs), Request(layers, heads, mask, pad_to, **renamed(more)))
        yield from with_bar(records, texts) if progress else records


def with_bar(records: Iterator[AttentionRecord], texts: Iterable[str]) -> Iterable[AttentionRecord]:
    """The same records, one a text, with a bar on stderr."""
    from tqdm.auto import tqdm

    return tqdm(records, total=len(texts) if isinstance(texts, Sized) else None, unit=" texts")


def renamed(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a Request by the names that they have now."""
    for old, new in RENAMED.items():
        if old in fields:
            warnings.warn(f"{old} is called {new} now", DeprecationWarning, stacklevel=4)
    return {RENAMED.get(name, name): value for name, value in fields.items()}
