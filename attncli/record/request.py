"""Requests to a model: the text, and the attention to keep."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

from attncli.base import choices
from attncli.base.arguments import check_instance, check_optional_text, describe, each_text
from attncli.record.selection import NamedHeads, Selection


class Input(NamedTuple):
    """A text, and its second segment if there is one."""

    text: str
    pair: str | None = None


def inputs_of(texts: Iterable[str], pairs: Iterable[str | None] | None = None) -> Iterator[Input]:
    """Yield texts with their pairs. Raises ValueError if their numbers differ, and TypeError for a value that is no
    text.
    """
    for text, pair in zip(
        each_text("texts", texts), repeat(None) if pairs is None else pairs, strict=pairs is not None
    ):
        check_optional_text("a pair", pair)
        yield Input(text, pair)


@dataclass(frozen=True)
class Grouping:
    """The units on the axes of a text's maps (`attncli.record.grouping`). The default is each token.

    tokens: only these, as queries and keys ("4000-4099", "0,4000-4099"). All keys of another text are kept. Rows sum to
    the weight among the selected tokens. words: words instead of their pieces. stretches: stretches of neighbours if
    there are too many units to show.
    """

    tokens: Selection | None = None
    words: bool = False
    stretches: bool = False


TOKENS = Grouping()


@dataclass(frozen=True)
class Request:
    """The layers, heads, mask and further results that are requested of a model.

    layers, heads: "all", a number, numbers, or text such as "0-3,-1"; a negative layer counts from the end.
    mask: "padding" hides [PAD], "causal" hides [PAD] and the future, "none" hides nothing. None is the mask of the
    network's training: "causal" for a decoder, else "padding". A layer's window remains.
    pad_to: append [PAD] up to that many tokens.
    measure: "weight"; or "norm", the norm of weight times transformed value (Kobayashi et al. 2020), without vectors.
    vectors: heads whose queries and keys to keep in `record.vectors`: text such as "4.7" or "4.0-3,-1.all", pairs
    (layer, head), "all"; None or "none" for none. They must be among `layers` and `heads`.
    which: for an encoder-decoder "encoder", "decoder" or "cross" (the default); for other models their only part.
    target: the text that an encoder-decoder's decoder must write (teacher forcing); by default its own greedy output.
    predict: also keep the model's prediction (`record.prediction`) if it has a head that attncli supports.
    grouping: the units of the maps if these are not single tokens. Maps between tokens are then never kept.

    Raises RequestError for an unknown mask, measure or part (`which`), and TypeError for values of other types. Engines
    reject requests that exceed the model or that they can't satisfy.
    """

    layers: Selection = "all"
    heads: Selection = "all"
    mask: str | None = None
    pad_to: int | None = None
    measure: str = "weight"
    vectors: NamedHeads = None
    which: str | None = None
    target: str | None = None
    predict: bool = False
    grouping: Grouping = TOKENS

    def __post_init__(self) -> None:
        if self.mask is not None:
            choices.check("mask", self.mask, choices.Mask)
        choices.check("measure", self.measure, choices.Measure)
        if self.which is not None:
            choices.check("part", self.which, choices.Kind)
        check_optional_text("target", self.target)
        check_instance("grouping", self.grouping, Grouping, "give an attncli.record.request.Grouping")
        if self.pad_to is not None and not hasattr(self.pad_to, "__index__"):
            raise TypeError(f"pad_to is a number of tokens, not {describe(self.pad_to)}: give an int, or None")
