"""Sums over the queries of many texts, from which the statistics of heads are computed.

The sums of some queries, of a text and of a whole corpus have the same type (`Sums`) and can be added, so that only one
has to be kept. Every token counts once as a query, special tokens too; [PAD] never counts.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from attncli.analysis.patterns import EVERY, SAME_WORD, pattern_keys
from attncli.base import choices
from attncli.base.arrays import Bools, Brief, Doubles, Floats
from attncli.record.selection import check_choices
from attncli.text.windows import TextWindow

# The statistics of a head, each a mean over queries. With w its weights from a query q to the keys k:
MEANING: dict[choices.Figure, str] = {
    "entropy": "-Σ w ln w, in nats (Clark et al. 2019, section 3.3)",
    "strongest": "max w (called confidence in Voita et al. 2019)",
    "distance": "Σ w |q - k|, in tokens (Vig and Belinkov 2019)",
    "self": "the weight on the query itself (Clark et al. 2019, section 3.1)",
    "previous": "on the previous token (Clark et al. 2019, section 3.1)",
    "next": "on the next token (Clark et al. 2019, section 3.1)",
    "first": "on the first token",
    "cls": "on [CLS]: the first token if the tokenizer added it (Clark et al. 2019, section 3.2)",
    "separator": "on [SEP]: all other tokens that the tokenizer added (Clark et al. 2019, section 3.2)",
    "punctuation": "on all punctuation; Clark et al. (3.2) count full stops and commas only",
    "same_word": "on the same word elsewhere, in any case (pattern 4 in Vig 2019), over queries that may attend to it",
}
FIGURES = choices.names(choices.Figure)
LINEAR = FIGURES[2:]  # the statistics that are sums of weights times `factors`
SAME = LINEAR.index(SAME_WORD)
LEAST = 1e-37  # replaces a weight of 0, which has no logarithm


@dataclass(frozen=True)
class Counting:
    """The settings of statistics over a corpus.

    mask: "padding", "causal" or "none". measure: "weight", or "norm", whose rows are divided by their sums. words:
    between words instead of tokens. which: the "encoder" (the default) or the "decoder" of an encoder-decoder, on the
    text that it generates; for any other model, its kind.

    Raises RequestError for an unknown mask, measure or part.
    """

    mask: str | None = None
    measure: str = "weight"
    words: bool = False
    which: str | None = None

    def __post_init__(self) -> None:
        check_choices(self.mask, self.measure, self.which)


USUAL = Counting()

# --- sums -----------------------------------------------------------------------------------------------


def factors(window: TextWindow, start: int, stop: int, among: slice = EVERY) -> Floats:
    """Return the factors of the weights of the queries [start, stop), `[LINEAR, query, key]`.

    among: the keys. For a query, a statistic in LINEAR is Σ_key weight · factor. Rows of queries that do not count are
    0.
    """
    special, keys = np.array(window.tokens.special), np.arange(len(window))[among]
    by_figure: dict[str, npt.NDArray[Any]] = {
        "distance": np.abs(np.arange(start, stop)[:, None] - keys),
        "cls": special[among] & (keys == 0),
        **pattern_keys(special, window.word, window.place, window.punctuation, np.arange(start, stop), among),
    }
    made = np.zeros((len(LINEAR), stop - start, len(keys)), dtype=np.float32)
    rows = slice(*(min(max(border, start), stop) - start for border in window.counted))
    for place, name in enumerate(LINEAR):
        made[place, rows] = np.broadcast_to(by_figure[name], made.shape[1:])[rows]
    return made


@dataclass(frozen=True, repr=False)
class Sums(Brief):
    """Sums over queries; they can be added.

    texts: the number of whole texts; 0 for a part of a text, whose means and squares are 0 too. totals: the sum of each
    statistic over queries. means, squares: the sums over texts of the text's mean, and of its square. All are float64
    `[layer, head, figure]`. counts, having: the number of these queries and texts, float64 `[layer, figure]`. For
    "same_word" only the queries count whose word occurs elsewhere where the layer's mask allows it, and the texts that
    have any. limit: the sum over all queries of ln(keys that it may attend to), the largest possible entropy. float64
    `[layer]`. alike: the sum over all queries of uniform attention's statistics in LINEAR, float64 `[layer, figure]`.
    """

    texts: int
    queries: int
    limit: Doubles
    totals: Doubles
    means: Doubles
    squares: Doubles
    counts: Doubles
    having: Doubles
    alike: Doubles

    @classmethod
    def nothing(cls, layers: int, heads: int) -> "Sums":
        zero, none = np.zeros((layers, heads, len(FIGURES))), np.zeros((layers, len(FIGURES)))
        return cls(0, 0, np.zeros(layers), zero, zero, zero, none, none, np.zeros((layers, len(LINEAR))))

    @classmethod
    def of_part(cls, queries: int, totals: Doubles, limit: Doubles, alike: Doubles, repeats: Doubles) -> "Sums":
        """Return the sums over some queries of a text. repeats: the number whose word occurs elsewhere, `[layer]`."""
        zero, none = np.zeros_like(totals), np.zeros((len(totals), len(FIGURES)))
        counts = np.full_like(none, queries)
        counts[:, FIGURES.index(SAME_WORD)] = repeats
        return cls(0, queries, limit, totals, zero, zero, counts, none, alike)

    def of_text(self) -> "Sums":
        """Return these sums, which cover all queries of one text, as those of a whole text."""
        mean = self.figures
        return replace(self, texts=1, means=mean, squares=mean**2, having=np.minimum(self.counts, 1))

    def __add__(self, other: "Sums") -> "Sums":
        added: dict[str, Any] = {name: one + getattr(other, name) for name, one in vars(self).items()}
        return Sums(**added)

    @property
    def figures(self) -> Doubles:
        """The means over the queries of all texts, `[layer, head, figure]`; 0 without queries."""
        return self.totals / np.maximum(self.counts, 1)[:, None]

    @property
    def spread(self) -> Doubles:
        """The standard deviation of the texts' means, `[layer, head, figure]`."""
        texts = np.maximum(self.having, 1)[:, None]
        return np.sqrt(np.maximum(self.squares / texts - (self.means / texts) ** 2, 0.0))

    @property
    def uniform(self) -> Doubles:
        """The statistics in LINEAR of uniform attention, `[layer, figure]`."""
        return self.alike / np.maximum(self.counts[:, -len(LINEAR) :], 1)


def plain_part(window: TextWindow, weights: Floats, allowed: Bools | None = None) -> Sums:
    """Return the sums over the counted queries of a window, from its weights `[layer, head, query, key]`.

    Used for records, and as the reference for `attncli.corpus.batch_sums`. allowed: True for keys that may be attended
    to, bool `[query, key]` or one per layer; None for all.
    """
    counted = slice(*window.counted)
    by_figure = factors(window, *window.counted)
    linear = by_figure.reshape(len(LINEAR), -1).T
    rows = weights[:, :, counted]
    every = np.ones(rows.shape[2:], dtype=bool) if allowed is None else allowed[..., counted, :]
    seen = np.broadcast_to(every, (len(weights), *rows.shape[2:]))  # [layer, query, key]
    keys = np.maximum(seen.sum(axis=-1, keepdims=True), 1)
    totals = []
    for layer in rows:  # [head, query, key]
        entropy = -(layer * np.log(np.maximum(layer, LEAST))).sum(axis=(1, 2))
        strongest = layer.max(axis=-1).sum(axis=-1)
        rest = layer.reshape(len(layer), -1) @ linear
        totals.append(np.concatenate([entropy[:, None], strongest[:, None], rest], axis=1).astype(np.float64))
    return Sums.of_part(
        queries=window.queries,
        totals=np.stack(totals),
        limit=np.log(keys).sum(axis=(1, 2)),
        alike=(seen / keys).reshape(len(seen), -1) @ linear.astype(np.float64),
        repeats=(seen & (by_figure[SAME] > 0)).any(axis=-1).sum(axis=-1),
    )
