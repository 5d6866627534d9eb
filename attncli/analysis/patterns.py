"""Patterns of heads: entropy, the shares of weight by pattern, and the pattern with the largest share.

All numbers are means over the queries that are real tokens; [PAD] is never counted. Rows in which the mask of the
head's layer hides every key are not counted either. The patterns are those of `attncli stats`
(`attncli.corpus.reducer`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attncli.base.arrays import Bools, Doubles, Floats, Ints
from attncli.record import AttentionRecord
from attncli.text.windows import NO_WORD, word_numbers

PATTERNS = ("self", "previous", "next", "first", "separator", "punctuation", "same_word")  # the labels of heads
BROAD, BROAD_BELOW = "broad", 0.3  # the label of a head without a pattern of at least this share
SPREAD = "spread: the standard deviation of the means per text"
GLYPHS = {
    "self": "↺", "previous": "←", "next": "→", "first": "⇤", "separator": "■", "punctuation": ",", "same_word": "=",
    BROAD: "·",
}  # fmt: skip
EVERY = slice(None)
SAME_WORD = "same_word"
ABOVE_CHANCE = 0.1  # minimum above chance, as a share of the range from chance to 1
TOGETHER = 256  # queries at a time, so that the maps of a long text are not copied


def pattern_keys(
    special: Bools,
    word: Ints,
    place: Ints,
    punctuation: Bools,
    queries: Ints,
    among: slice = EVERY,
    own: bool = True,
    first: int = 0,
) -> dict[str, Bools]:
    """Return the keys of some queries that belong to each pattern: bool, broadcasts to `[query, key]`.

    special: True for tokens that the tokenizer added. word, place, punctuation: as in a Window. queries: their
    positions. among: the keys. own: True if queries and keys are of one text. Otherwise no key is the query itself, its
    neighbour or its word elsewhere. first: the position of the first key that is not [PAD].
    """
    keys = np.arange(len(special))[among]
    found = {"first": keys == first, "separator": special[among] & (keys > first), "punctuation": punctuation[among]}
    if not own:
        return found
    rows = queries[:, None]
    same = (word[rows] == word[among]) & (word[among] != NO_WORD)
    return found | {
        "self": rows == keys,
        "previous": rows - 1 == keys,
        "next": rows + 1 == keys,
        "same_word": same & (place[rows] != place[among]),
    }


@dataclass(frozen=True)
class HeadSummary:
    """The statistics of one head.

    entropy: the mean of -Σ w ln w over queries, in nats (Clark et al. 2019, section 3.3). It is 0 for a head that looks
    at one token, and ln(tokens) for uniform attention.
    shares: the mean weight to the query itself, the previous token, the next token, the first token, separators (tokens
    that the tokenizer added after the first: [SEP]), punctuation, and the same word elsewhere. They overlap. The last
    is the mean over the queries whose word occurs elsewhere and is visible there. alike: the shares of uniform
    attention.
    label: the `clear` pattern with the largest share, or "broad" if none is clear. The same word is a mean over only
    some queries, so it comes last.
    """

    entropy: float
    shares: dict[str, float]
    alike: dict[str, float]

    @cached_property
    def label(self) -> str:
        return label_of(self.shares, [name for name in PATTERNS if clear(self.shares[name], self.alike[name])])

    @property
    def strength(self) -> float:
        """The share of the label's pattern; for a broad head, the largest share."""
        return max(self.shares.values()) if self.label == BROAD else self.shares[self.label]


def label_of(shares: Mapping[str, float], able: Sequence[str]) -> str:
    """Return the pattern with the largest share among `able`, or "broad". The same word comes last."""
    return max(able, key=lambda name: (name != SAME_WORD, shares[name]), default=BROAD)


def clear(share: float, alike: float) -> bool:
    """Return True if a share is at least 0.3, and clearly above the share of uniform attention.

    Uniform attention gives each of three tokens a third. As in Cohen's kappa (1960), the distance above chance is
    measured as a share of the range from chance to 1, and must be at least a tenth.
    """
    return share >= max(BROAD_BELOW, alike + ABOVE_CHANCE * (1 - alike))


def entropy(weights: Floats) -> Doubles:
    """Return H = -Σ_key w ln w, in nats, with 0 ln 0 = 0. `[..., query, key]` -> `[..., query]`."""
    wide = weights.astype(np.float64)
    logs = np.log(wide, out=np.zeros_like(wide), where=wide > 0)
    return np.abs((wide * logs).sum(axis=-1))


def total_variation(weights: Floats, other: Floats, sinks: bool = False) -> Doubles:
    """Return ½ Σ_key |w - w'|, the weight that must move to turn one row into the other.

    `[..., query, key]` -> `[..., query]`. sinks: count the rest of a row, up to 1, as one more key.
    """
    difference = weights.astype(np.float64) - other.astype(np.float64)
    distance: Doubles = np.abs(difference).sum(axis=-1) / 2
    return distance + np.abs(difference.sum(axis=-1)) / 2 if sinks else distance


def counted_queries(record: AttentionRecord, layer: int) -> Bools:
    """Return the queries that are real tokens with a visible key in this layer, bool `[query]`.

    layer: its number in the model.
    """
    return ~np.array(record.tokens.padding) & record.mask_of(layer).any(axis=1)


def summarise(record: AttentionRecord) -> dict[tuple[int, int], HeadSummary]:
    """Return the summary of each head of a record, by (layer, head)."""
    totals: defaultdict[tuple[int, int], defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    alike: defaultdict[int, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    queries: defaultdict[int, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    special = np.array(record.keys.special) & ~np.array(record.keys.padding)
    words = word_numbers(record.keys)
    for start in range(0, len(record.tokens), TOGETHER):
        block = slice(start, min(start + TOGETHER, len(record.tokens)))
        found = pattern_keys(special, *words, record.places[block], own=not record.crosses, first=record.keys.first)
        shape = block.stop - block.start, len(special)
        every = {name: np.broadcast_to(found.get(name, False), shape) for name in PATTERNS}
        for layer in record.layers:
            counted = counted_queries(record, layer)[block]
            allowed = record.mask_of(layer)[block][counted]
            seen = {name: every[name][counted] & allowed for name in PATTERNS}
            for name in PATTERNS:
                queries[layer][name] += int((seen[name].any(axis=1) if name == SAME_WORD else counted).sum())
                alike[layer][name] += float((seen[name].sum(axis=1) / allowed.sum(axis=1)).sum())
            for head in record.heads_of(layer):
                weights, total = record.map(layer, head)[block][counted], totals[layer, head]
                total["entropy"] += float(entropy(weights).sum())
                for name in PATTERNS:
                    total[name] += float(weights[seen[name]].sum(dtype=np.float64))
            queries[layer]["entropy"] += int(counted.sum())

    def means(sums: dict[str, float], layer: int) -> dict[str, float]:
        return {name: sums[name] / max(queries[layer][name], 1) for name in sums}

    summaries = {}
    for (layer, head), total in totals.items():
        shares = means(total, layer)
        summaries[layer, head] = HeadSummary(shares.pop("entropy"), shares, means(alike[layer], layer))
    return summaries


def most_attended(record: AttentionRecord, layer: int, head: int, count: int) -> list[tuple[int, float]]:
    """Return the keys with the largest mean weight of a head, and that weight, the strongest first."""
    weights = record.map(layer, head)[counted_queries(record, layer)]
    return strongest(weights.mean(axis=0) if len(weights) else weights.sum(axis=0), count)


def strongest(row: Floats, count: int) -> list[tuple[int, float]]:
    """Return the keys with the largest weights of a row, and these weights, the strongest first; none with weight 0."""
    order = np.argsort(-row, kind="stable")[:count]
    return [(int(key), float(row[key])) for key in order if row[key] > 0]


def row_shares(record: AttentionRecord) -> AttentionRecord:
    """Divide each row of a record of norms by its sum. Return any other record unchanged.

    Colours, patterns and entropies need an upper limit and a common sum of rows, which norms lack. A row of zeros stays
    unchanged.
    """
    if record.measure != "norm":
        return record
    sums = record.weights.sum(axis=-1, keepdims=True)
    shares = np.divide(record.weights, sums, out=np.zeros_like(record.weights), where=sums > 0)
    return replace(record, weights=shares, measure="share of norm")
