"""What is asked of a model: of which text, and what to keep of its attention."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

from attncli.base import choices
from attncli.base.arguments import check_instance, check_optional_text, describe, each_text
from attncli.record.selection import NamedHeads, Selection


class Input(NamedTuple):
    """A text, and its second segment if it has one."""

    text: str
    pair: str | None = None


def inputs_of(texts: Iterable[str], pairs: Iterable[str | None] | None = None) -> Iterator[Input]:
    """Texts with their pairs. Raises ValueError when there are not as many of them, and TypeError for no text."""
    for text, pair in zip(
        each_text("texts", texts), repeat(None) if pairs is None else pairs, strict=pairs is not None
    ):
        check_optional_text("a pair", pair)
        yield Input(text, pair)


@dataclass(frozen=True)
class Grouping:
    """What is to stand along the axes of a text's maps (`attncli.record.grouping`); by default each of its tokens.

    tokens: these alone, as queries and as keys ("4000-4099", "0,4000-4099"); of another text's keys all are kept. Rows
    sum to what they give each other.
    words: words instead of their pieces. stretches: where there are too many to be shown one by one, stretches of
    neighbours instead.
    """

    tokens: Selection | None = None
    words: bool = False
    stretches: bool = False


TOKENS = Grouping()


@dataclass(frozen=True)
class Request:
    """What to do with a text, and what to keep.

    layers, heads: "all", a number, numbers, or text such as "0-3,-1"; a negative layer counts from the end.
    mask: "padding" hides [PAD], "causal" hides [PAD] and the future, "none" hides nothing; None is what the network was
    trained with: "causal" of a decoder, else "padding". A layer's window stays.
    pad_to: append [PAD] up to so many tokens.
    measure: "weight"; or "norm", of weight times transformed value (Kobayashi et al. 2020), which keeps no vectors.
    vectors: whose queries and keys to keep too, as `record.vectors`: text such as "4.7" or "4.0-3,-1.all", pairs
    (layer, head), "all"; None or "none" for nobody's. They are some of the layers and heads asked for.
    which: of an encoder-decoder "encoder", "decoder" or "cross" (the default); of another model what it is.
    target: what an encoder-decoder's decoder is made to write (teacher forcing); by default its own greedy output.
    predict: keep what the model says of the text too (`record.prediction`), where it has a head that attncli reads.
    grouping: what the maps are between, where that is not every token: only this is kept, however long the text is.

    Raises RequestError for a mask, a measure or a part (`which`) that there is not, and TypeError for values of other
    types. What a model has no room for, or an engine can't do, is refused by that engine.
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
