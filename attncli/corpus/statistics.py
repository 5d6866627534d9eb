"""Statistics of heads over many texts, as means over all tokens, and their files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import numpy as np

from attncli.analysis.patterns import BROAD, BROAD_BELOW, PATTERNS, label_of, row_shares
from attncli.base import choices
from attncli.base.arrays import Doubles, titled
from attncli.base.errors import RequestError
from attncli.base.files import as_dataframe, save_document, table_of
from attncli.base.printable import first_line
from attncli.base.schema import anything, fields, flag, integer, list_of, one_of, real
from attncli.base.typed import NotRequired
from attncli.base.untrusted import read_json
from attncli.corpus.sums import FIGURES, LINEAR, USUAL, Counting, Sums, plain_part
from attncli.record import AttentionRecord, ModelInfo
from attncli.record.grouping import merge_words
from attncli.record.loading import MODEL
from attncli.record.parts import HeadDocument, ModelDocument
from attncli.text.windows import TextWindow

if TYPE_CHECKING:
    from pandas import DataFrame


class PatternDocument(TypedDict):
    """A pattern over all heads."""

    clearest: Annotated[HeadDocument | None, "the clearest head; null if no head shows the pattern"]
    labelled: Annotated[int, "number of heads with this label"]


class _HeadEntry(HeadDocument):
    label: Annotated[str, "the pattern with the largest share, or broad"]
    strength: Annotated[float, "share of that pattern", "share of the weight"]
    figures: Annotated[
        dict[str, float],
        "means over all tokens, by the names of `--by`; `same_word` over those whose word occurs elsewhere",
        "nats, tokens, shares",
    ]
    spread: Annotated[dict[str, float], "standard deviation of the means per text", "that of the statistic"]


class StatsDocument(TypedDict):
    """`.csv`: a row per entry of `heads`: `layer,head,label,strength`, the statistics by name, and their spreads
    (`entropy_spread` ...).
    """

    model: ModelDocument
    kind: NotRequired[Annotated[str, "decoder; missing for encoder attention"]]
    mask: Annotated[str, choices.one_of(choices.MaskName)]
    measure: Annotated[str, "weight, or share of norm"]
    words: Annotated[bool, "true if tokens were merged into words"]
    texts: Annotated[int, "number of texts"]
    tokens: Annotated[int, "number of tokens in them, or of words if merged"]
    partial: Annotated[bool, "true if the run was interrupted before the last text"]
    entropy_limit: Annotated[float | list[float], "entropy of uniform attention; by layer if layers differ", "nats"]
    heads: list[_HeadEntry]
    alike: Annotated[
        list[dict[str, float]],
        "the statistics of uniform attention, by the names of `--by`",
        "`[layer]` of nats, tokens, shares",
    ]
    patterns: Annotated[dict[str, PatternDocument], "the heads of each pattern, by its name"]


CLEARLY = 2  # a head shows a pattern if its share is at least this many times that of uniform attention


@dataclass(frozen=True)
class HeadStatistics:
    """The statistics of one head, by name.

    The label is the pattern with the largest share if that is at least 0.3 (`label_of`), otherwise "broad". The
    strength is the largest share.
    """

    layer: int
    head: int
    figures: dict[str, float]
    spread: dict[str, float]

    @property
    def name(self) -> str:
        """The head's name, such as "3.1"."""
        return f"{self.layer}.{self.head}"

    @property
    def label(self) -> str:
        return label_of(self.figures, [name for name in PATTERNS if self.figures[name] >= BROAD_BELOW])

    @property
    def strength(self) -> float:
        """The share of the label's pattern; for a broad head, the largest share."""
        return max(self.figures[name] for name in PATTERNS) if self.label == BROAD else self.figures[self.label]


@dataclass(frozen=True)
class Statistics:
    """The statistics of all heads of a model over texts.

    measure: "weight", or "share of norm", as in a record. words: between words, not tokens. kind: "encoder" or
    "decoder", as in a record. texts, tokens: the counted texts and tokens, or words if tokens were merged. partial: the
    run was interrupted before the last text. entropy_limit: the entropy of uniform attention over these tokens, float64
    `[layer]`. alike: the statistics of uniform attention in LINEAR, float64 `[layer, figure]`. figures: means over all
    tokens. spread: the standard deviation of the texts' means. Both are float64 `[layer, head, figure]`, in the order
    of FIGURES.
    """

    model: ModelInfo
    mask: str
    texts: int
    tokens: int
    entropy_limit: Doubles
    figures: Doubles
    spread: Doubles
    alike: Doubles
    partial: bool = False
    measure: str = "weight"
    words: bool = False
    kind: str = "encoder"

    def __repr__(self) -> str:
        return titled(self, self.model.full_name, *self.parts)

    @classmethod
    def of(
        cls,
        sums: Sums,
        model: ModelInfo,
        counting: Counting = USUAL,
        partial: bool = False,
        kind: str = "encoder",
    ) -> "Statistics":
        """Return the statistics of sums of at least one text."""
        return cls(
            model=model,
            mask=counting.mask or "padding",
            texts=sums.texts,
            tokens=sums.queries,
            entropy_limit=sums.limit / sums.queries,
            figures=sums.figures,
            spread=sums.spread,
            partial=partial,
            measure="share of norm" if counting.measure == "norm" else counting.measure,
            words=counting.words,
            alike=sums.uniform,
            kind=kind,
        )

    @property
    def parts(self) -> list[str]:
        """The parts of a title after the model's name: unusual settings, the amount of text, the mask."""
        return [
            *([] if self.kind == "encoder" else [f"{self.kind} attention"]),
            *([] if self.measure == "weight" else [self.measure]),
            "1 text" if self.texts == 1 else f"{self.texts:,} texts",
            f"{self.tokens:,} {'words' if self.words else 'tokens'}",
            f"mask {self.mask}",
            *(["PARTIAL"] if self.partial else []),
        ]

    @cached_property
    def heads(self) -> list[HeadStatistics]:
        """All heads, layer by layer."""
        return [
            HeadStatistics(
                layer,
                head,
                *(dict(zip(FIGURES, each[layer, head].tolist(), strict=True)) for each in (self.figures, self.spread)),
            )
            for layer, head in product(range(self.model.layers), range(self.model.heads))
        ]

    def figure(self, name: str) -> Doubles:
        """Return one statistic of all heads, `[layer, head]`."""
        return self.figures[..., FIGURES.index(name)]

    def spread_of(self, name: str) -> Doubles:
        """Return the spread of one statistic of all heads, `[layer, head]`."""
        return self.spread[..., FIGURES.index(name)]

    def uniform(self, layer: int, figure: str) -> float:
        """Return a statistic in LINEAR of uniform attention in a layer."""
        return float(self.alike[layer, LINEAR.index(figure)])

    def labelled(self, label: str) -> list[HeadStatistics]:
        """Return the heads with a label."""
        return [head for head in self.heads if head.label == label]

    def clearest(self, pattern: str) -> HeadStatistics | None:
        """Return the head that shows a pattern most clearly; None if no head shows it.

        A head shows it if the pattern is its label and its share is at least twice that of uniform attention. In short
        texts all shares are large: of three tokens, uniform attention gives each a third.
        """
        able = [
            head
            for head in self.labelled(pattern)
            if head.figures[pattern] >= CLEARLY * self.uniform(head.layer, pattern)
        ]
        return max(able, key=lambda head: head.figures[pattern], default=None)

    def document(self) -> StatsDocument:
        """Return the document of `stats --json`."""
        limit: list[float] = self.entropy_limit.tolist()
        clearest = {pattern: self.clearest(pattern) for pattern in PATTERNS}
        document: StatsDocument = {
            "model": self.model.document(),
            "kind": self.kind,
            "mask": self.mask,
            "measure": self.measure,
            "words": self.words,
            "texts": self.texts,
            "tokens": self.tokens,
            "partial": self.partial,
            "entropy_limit": limit[0] if len(set(limit)) == 1 else limit,
            "heads": [
                {
                    "layer": one.layer,
                    "head": one.head,
                    "label": one.label,
                    "strength": one.strength,
                    "figures": one.figures,
                    "spread": one.spread,
                }
                for one in self.heads
            ],
            "alike": [dict(zip(LINEAR, one, strict=True)) for one in self.alike.tolist()],
            "patterns": {
                pattern: {
                    "clearest": None if one is None else {"layer": one.layer, "head": one.head},
                    "labelled": len(self.labelled(pattern)),
                }
                for pattern, one in clearest.items()
            },
        }
        if self.kind == "encoder":
            del document["kind"]
        return document

    def rows(self) -> list[dict[str, Any]]:
        """Return one row of a table per head."""
        return [
            {
                "layer": one.layer,
                "head": one.head,
                "label": one.label,
                "strength": one.strength,
                **one.figures,
                **{f"{name}_spread": spread for name, spread in one.spread.items()},
            }
            for one in self.heads
        ]

    def to_dataframe(self) -> "DataFrame":
        """Return a pandas DataFrame with one row per head, like the .csv. Raises RequestError without pandas."""
        return as_dataframe(table_of(self.rows()))

    def save(self, path: str | Path) -> None:
        """Save by suffix, atomically: .json (the document of `stats --json`) or .csv (one row per head).

        Raises RequestError for another suffix or an unwritable place.
        """
        save_document(self.document(), self.rows(), Path(path))


# --- statistics of records ------------------------------------------------------------------------------


def record_statistics(records: Sequence[AttentionRecord], words: bool = False) -> Statistics:
    """Return the statistics of the maps in records, each one window.

    words: as in `Counting`. Norms count as shares of their rows. [PAD] is omitted.

    Raises RequestError without records, and as `Counting` does. Also for a record that lacks a layer or head, is
    between two texts, gives weight to [PAD], or differs from the first in model, mask or measure.
    """
    if not records:
        raise RequestError("no records given: statistics need at least one")
    first = records[0]
    counting = Counting(first.mask_name, "weight" if first.measure == "weight" else "norm", words)
    total = Sums.nothing(first.model.layers, first.model.heads)
    for record in records:
        for what, one, other in (
            ("model", record.model, first.model),
            ("mask", record.mask_name, first.mask_name),
            ("measure", record.measure, first.measure),
        ):
            if one != other:
                raise RequestError(
                    f"statistics need records with the same {what}, but these have several: measure them separately"
                )
        whole = _complete(merge_words(record) if words else record)
        total += plain_part(TextWindow.uncut(whole.tokens), whole.weights, whole.masks).of_text()
    return Statistics.of(total, first.model, counting)


def _complete(record: AttentionRecord) -> AttentionRecord:
    """Return a record without [PAD], with all layers and heads in order. Raises RequestError if any is missing."""
    if record.key_tokens is not None:
        what = "is between two texts" if record.crosses else "lacks the rows of some tokens"
        raise RequestError(f"statistics need a text's attention to itself, but this record {what}")
    model = record.model
    if len(record.each_head) != model.layers * model.heads:
        raise RequestError(
            f"statistics need all {model.layers} layers and {model.heads} heads: save the record without -l and -H"
        )
    record = row_shares(record.select(range(model.layers), range(model.heads)))
    padding = np.array(record.tokens.padding)
    if not padding.any():
        return record
    real = np.flatnonzero(~padding)
    if record.weights[:, :, real][..., padding].any():
        raise RequestError(
            "statistics need texts without [PAD], but this record gives it weight: save it without --pad-to"
        )
    return replace(
        record,
        weights=record.weights[..., real[:, None], real],
        tokens=record.tokens.take(real.tolist()),
        masks=record.masks[..., real[:, None], real],
        vectors=None,
    )


# --- loading --------------------------------------------------------------------------------------------

_FIGURES = fields(dict.fromkeys(FIGURES, real()))

# The document of `stats --json`. Labels, strengths and patterns are recomputed from its statistics.
DOCUMENT = fields(
    {
        "model": MODEL,
        "mask": one_of(choices.names(choices.MaskName)),
        "measure": one_of(("weight", "share of norm")),
        "words": flag(),
        "texts": integer(1),
        "tokens": integer(1),
        "partial": flag(),
        "entropy_limit": anything,  # a number, or one per layer of the model
        "heads": list_of(
            fields(
                {
                    "layer": integer(),
                    "head": integer(),
                    "label": one_of((*PATTERNS, BROAD)),
                    "strength": real(),
                    "figures": _FIGURES,
                    "spread": _FIGURES,
                }
            )
        ),
        "alike": list_of(fields(dict.fromkeys(LINEAR, real()))),
        "patterns": anything,
    },
    {"kind": one_of(choices.names(choices.Itself))},
)
NOTHING = 1e-6  # tolerance for numbers that should be 0


def load_statistics(path: Path) -> Statistics:
    """Load statistics that were saved as .json.

    Raises RequestError if the file is missing, truncated, or holds something else.
    """
    try:
        found = read_json(path)
        DOCUMENT(found, "it")
        return _read_document(found)
    except OSError as error:
        raise RequestError(f"can't read {path}: {error.strerror or error}") from error
    except (ValueError, TypeError) as error:
        raise RequestError(f"{path} holds no complete attncli statistics: {first_line(error)}") from error


def _read_document(found: dict[str, Any]) -> Statistics:
    """Return the statistics in a document. Raises ValueError for impossible numbers."""
    layers, heads, limit = found["model"]["layers"], found["model"]["heads"], found["entropy_limit"]
    places = zip(product(range(layers), range(heads)), found["heads"], strict=False)
    if len(found["heads"]) != layers * heads or any(place != (one["layer"], one["head"]) for place, one in places):
        raise ValueError(f"it does not list all {heads} heads of {layers} layers in order")

    def doubles(name: str, values: Any, *shape: int) -> Doubles:
        array = np.array(values, dtype=np.float64).reshape(shape)
        if not (np.isfinite(array) & (array >= -NOTHING)).all():
            raise ValueError(f"{name} has a number that is impossible for a head")
        return array

    def by_head(kind: str) -> Doubles:
        values = [[one[kind][name] for name in FIGURES] for one in found["heads"]]
        return doubles(kind, values, layers, heads, len(FIGURES))

    figures = by_head("figures")
    if (figures[..., [FIGURES.index(name) for name in PATTERNS]] > 1 + NOTHING).any():
        raise ValueError("the weights of a head sum to more than 1")
    return Statistics(
        model=ModelInfo(**found["model"]),
        mask=found["mask"],
        texts=found["texts"],
        tokens=found["tokens"],
        entropy_limit=doubles("entropy_limit", limit if isinstance(limit, list) else [limit] * layers, layers),
        figures=figures,
        spread=by_head("spread"),
        alike=doubles("alike", [[one[name] for name in LINEAR] for one in found["alike"]], layers, len(LINEAR)),
        partial=found["partial"],
        measure=found["measure"],
        words=found["words"],
        kind=found.get("kind", "encoder"),
    )
