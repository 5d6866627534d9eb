"""What heads do over many texts: figures that are means over all tokens, from sums that add up.

The sums of a text, of any part of its queries, or of a whole corpus are the same kind of thing (`Sums`), so that
nothing has to be kept but one of them. A token counts once as a query, special tokens among them; [PAD] never does.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from attncli.analysis.distances import Distances, check_installed
from attncli.base import choices
from attncli.base.arrays import Bools, Doubles, Floats, Ints
from attncli.base.brief import Brief, titled
from attncli.record import ModelInfo
from attncli.text.windows import NO_WORD, Window

# The figures of a head, each a mean over queries. With w its weights from a query q to the keys k:
MEANING: dict[choices.Figure, str] = {
    "entropy": "-Σ w ln w, in nats (Clark et al. 2019, section 3.3)",
    "strongest": "max w: how sure the head is (its confidence in Voita et al. 2019)",
    "distance": "Σ w |q - k|, in tokens (Vig and Belinkov 2019)",
    "self": "the weight on the query itself (Clark et al. 2019, section 3.1)",
    "previous": "on the token before (Clark et al. 2019, section 3.1)",
    "next": "on the token after (Clark et al. 2019, section 3.1)",
    "first": "on the first token, whatever it is",
    "cls": "on [CLS]: the first token where the tokenizer added it (Clark et al. 2019, section 3.2)",
    "separator": "on [SEP]: what else the tokenizer added (Clark et al. 2019, section 3.2)",
    "punctuation": "on punctuation: every mark of it, where Clark et al. (3.2) have full stops and commas",
    "same_word": "on the same word elsewhere, in any case (pattern 4 in Vig 2019); punctuation is no word",
}
FIGURES = choices.names(choices.Figure)
LINEAR = FIGURES[2:]  # those that are sums of w times something; see `factors`
PATTERNS = ("self", "previous", "next", "first", "separator", "punctuation", "same_word")  # that a head can be of
BROAD, BROAD_BELOW = "broad", 0.3  # as in attncli.analysis.patterns


@dataclass(frozen=True)
class Counting:
    """What is counted of a corpus.

    mask: "padding", "causal" or "none"; distances: between all heads too; measure: "weight", or "norm", each row of
    which is divided by its sum; words: between words instead of tokens. which: of an encoder-decoder the "encoder" (the
    default) or the "decoder", in what that writes; of another model what it is.

    Raises RequestError for a mask, a measure or a part that there is not, and when distances need a library that is not
    there.
    """

    mask: str | None = None
    distances: bool = False
    measure: str = "weight"
    words: bool = False
    which: str | None = None

    def __post_init__(self) -> None:
        if self.mask is not None:
            choices.check("mask", self.mask, choices.Mask)
        choices.check("measure", self.measure, choices.Measure)
        if self.which is not None:
            choices.check("part", self.which, choices.Kind)
        if self.distances:
            check_installed()  # hours before they are computed

    @property
    def shown(self) -> str:
        """What the figures are of, in the words of a record's `measure`."""
        return "share of norm" if self.measure == "norm" else self.measure


USUAL = Counting()


EVERY = slice(None)


def pattern_keys(
    special: Bools, word: Ints, place: Ints, punctuation: Bools, queries: slice, among: slice = EVERY, own: bool = True
) -> dict[str, Bools]:
    """Return, for each pattern, which keys of some queries belong to it: bool, broadcasts to `[query, key]`.

    special: which tokens the tokenizer added. word, place, punctuation: as in a Window. among: the keys. own: whether
    queries and keys are of one text; else no key is the query itself, a neighbour of it, or its word elsewhere.
    """
    keys = np.arange(len(special))[among]
    found = {"first": keys == 0, "separator": special[among] & (keys > 0), "punctuation": punctuation[among]}
    if not own:
        return found
    rows = np.arange(queries.start, queries.stop)[:, None]
    same = (word[rows] == word[among]) & (word[among] != NO_WORD)
    return found | {
        "self": rows == keys,
        "previous": rows - 1 == keys,
        "next": rows + 1 == keys,
        "same_word": same & (place[rows] != place[among]),
    }


def factors(window: Window, start: int, stop: int, among: slice = EVERY) -> Floats:
    """What the weights of the queries [start, stop) are multiplied with, `[LINEAR, query, key]`; `among` which keys.

    A figure in LINEAR, of a query, is Σ_key weight · factor; all rows of queries that don't count are 0.
    """
    special, keys = np.array(window.tokens.special), np.arange(len(window))[among]
    by_figure: dict[str, npt.NDArray[Any]] = {
        "distance": np.abs(np.arange(start, stop)[:, None] - keys),
        "cls": special[among] & (keys == 0),
        **pattern_keys(special, window.word, window.place, window.punctuation, slice(start, stop), among),
    }
    made = np.zeros((len(LINEAR), stop - start, len(keys)), dtype=np.float32)
    rows = slice(*(min(max(border, start), stop) - start for border in window.counted))
    for place, name in enumerate(LINEAR):
        made[place, rows] = np.broadcast_to(by_figure[name], made.shape[1:])[rows]
    return made


@dataclass(frozen=True, repr=False)
class Sums(Brief):
    """What has been added up.

    totals: the sum over all queries of each figure; means and squares: the sums over all texts of the text's mean of
    it, and of that mean's square. float64 `[layer, head, figure]`.
    limit: the sum over all queries of ln(how many keys it may attend to), which is the most that entropy can be.
    float64 `[layer]`.
    divergence: the sum over all queries of the Jensen-Shannon divergence between each two heads
    (`attncli.analysis.distances`), `[layers * heads, layers * heads]`; None where nobody asked for it.
    alike: the sum over all queries of the figures in LINEAR of a head that looks at everything alike: what they are
    where nobody looks for anything. float64 `[layer, figure]`; None where an older version had counted.
    """

    texts: int
    queries: int
    limit: Doubles
    totals: Doubles
    means: Doubles
    squares: Doubles
    divergence: Doubles | None = None
    alike: Doubles | None = None

    @classmethod
    def nothing(cls, layers: int, heads: int, divergence: bool = False) -> "Sums":
        zero = np.zeros((layers, heads, len(FIGURES)))
        between = np.zeros((layers * heads, layers * heads)) if divergence else None
        return cls(0, 0, np.zeros(layers), zero, zero, zero, between, np.zeros((layers, len(LINEAR))))

    @classmethod
    def of_text(
        cls,
        queries: int,
        limit: Doubles | float,
        totals: Doubles,
        divergence: Doubles | None = None,
        alike: Doubles | None = None,
    ) -> "Sums":
        """Of one whole text, from the sums over its queries; `limit` may be one number for all layers."""
        mean = totals / queries
        return cls(1, queries, np.broadcast_to(limit, len(totals)), totals, mean, mean**2, divergence, alike)

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            self.texts + other.texts,
            self.queries + other.queries,
            self.limit + other.limit,
            self.totals + other.totals,
            self.means + other.means,
            self.squares + other.squares,
            added(self.divergence, other.divergence),
            added(self.alike, other.alike),
        )

    @property
    def figures(self) -> Doubles:
        """`[layer, head, figure]`: the mean over all queries of all texts."""
        return self.totals / self.queries

    @property
    def spread(self) -> Doubles:
        """`[layer, head, figure]`: how far texts are apart, as the standard deviation of their means."""
        variance: Doubles = self.squares / self.texts - (self.means / self.texts) ** 2
        return np.sqrt(np.maximum(variance, 0.0))


def added(one: Doubles | None, other: Doubles | None) -> Doubles | None:
    """Their sum; None where either is not known."""
    return None if one is None or other is None else one + other


@dataclass(frozen=True)
class HeadStatistics:
    """One head, in figures by their names; its label is the pattern with the largest share, and the strength is that
    share. Below 0.3 it is "broad".
    """

    layer: int
    head: int
    figures: dict[str, float]
    spread: dict[str, float]

    @property
    def pattern(self) -> str:
        """The pattern that takes most of the weight, however little that is."""
        return max(PATTERNS, key=lambda name: self.figures[name])

    @property
    def strength(self) -> float:
        return self.figures[self.pattern]

    @property
    def label(self) -> str:
        return self.pattern if self.strength >= BROAD_BELOW else BROAD


@dataclass(frozen=True)
class Statistics:
    """What came out, of all heads of a model.

    measure: "weight", or "share of norm", as in a record; words: between words, not tokens; kind: "encoder" or
    "decoder", as in a record.
    texts, tokens: how many were counted, words for tokens where they were put together; partial: it was interrupted,
    and there are more of them.
    entropy_limit: the entropy, over these tokens, of a head that looks at everything alike. float64 `[layer]`.
    alike: its figures in LINEAR, float64 `[layer, figure]`; None where an older version had counted.
    figures: means over all tokens; spread: how far texts are apart, as the standard deviation of their means.
    float64 `[layer, head, figure]`, in the order of FIGURES.
    distances: between heads, where they were asked for.
    """

    model: ModelInfo
    mask: str
    texts: int
    tokens: int
    entropy_limit: Doubles
    figures: Doubles
    spread: Doubles
    partial: bool = False
    distances: Distances | None = None
    measure: str = "weight"
    words: bool = False
    alike: Doubles | None = None
    kind: str = "encoder"

    def __repr__(self) -> str:
        counted = (
            f"{self.texts} text{'s' if self.texts > 1 else ''}, {self.tokens} {'words' if self.words else 'tokens'}"
        )
        partial = "partial" if self.partial else ""
        return titled(self, self.model.shown, counted, f"mask {self.mask}", self.measure, partial)

    @classmethod
    def of(
        cls,
        sums: Sums,
        model: ModelInfo,
        counting: Counting = USUAL,
        partial: bool = False,
        kind: str = "encoder",
    ) -> "Statistics":
        """From sums of at least one text. Raises RequestError as `Distances.of` does."""
        return cls(
            model=model,
            mask=counting.mask or "padding",
            texts=sums.texts,
            tokens=sums.queries,
            entropy_limit=sums.limit / sums.queries,
            figures=sums.figures,
            spread=sums.spread,
            partial=partial,
            distances=None if sums.divergence is None else Distances.of(sums.divergence / sums.queries),
            measure=counting.shown,
            words=counting.words,
            alike=None if sums.alike is None else sums.alike / sums.queries,
            kind=kind,
        )

    @property
    def parts(self) -> list[str]:
        """What a title says after the model's name: what is unusual, as in a record; how much was counted; the mask."""
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
            HeadStatistics(layer, head, named(self.figures[layer, head]), named(self.spread[layer, head]))
            for layer in range(self.model.layers)
            for head in range(self.model.heads)
        ]

    def figure(self, name: str) -> Doubles:
        """One figure of all heads, `[layer, head]`."""
        one: Doubles = self.figures[..., FIGURES.index(name)]
        return one


def named(values: Doubles) -> dict[str, float]:
    return dict(zip(FIGURES, values.tolist(), strict=True))
