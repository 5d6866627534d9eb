"""Patterns of heads: entropy, the shares of weight by pattern, and the pattern with the largest share.

All figures are means over the queries that are real tokens; [PAD] never counts as a query. Rows in which nothing may be
attended to, by the mask of the head's layer, do not count either. The patterns are those of `attncli stats`
(`attncli.corpus.reducer`).
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attncli.base.arrays import Bools, Doubles, Floats, Ints
from attncli.record import AttentionRecord
from attncli.text.windows import NO_WORD, word_numbers

PATTERNS = ("self", "previous", "next", "first", "separator", "punctuation", "same_word")  # the labels of heads
BROAD, BROAD_BELOW = "broad", 0.3  # the label of a head that gives no pattern this share
EVERY = slice(None)
SAME_WORD = "same_word"
ABOVE_CHANCE = 0.1  # of what is left: the least that a pattern takes more than chance
TOGETHER = 256  # queries: of a long text's maps there is no second copy


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


@dataclass(frozen=True)
class HeadSummary:
    """One head in figures.

    entropy: mean of -Σ w ln w over queries, in nats (Clark et al. 2019, section 3.3); 0 looks at one token,
    ln(tokens) at all alike.
    shares: the mean weight that goes to the query itself, the token before, the token after, the first token,
    separators (what the tokenizer added after the first token: [SEP]), punctuation, and the same word elsewhere; they
    overlap. The last is over the queries whose word stands elsewhere, where they may look at it: the others, which are
    most of a sentence, have nothing to look at. (In `attncli stats` it is over all, as figures of texts add up there.)
    alike: what these are of a head that looks at everything alike.
    label: the pattern with the largest share of those that are `clear`, or "broad" where there is none. What is over
    some queries only, the same word, comes last.
    """

    entropy: float
    shares: dict[str, float]
    alike: dict[str, float]

    @cached_property
    def label(self) -> str:
        able = [name for name in PATTERNS if clear(self.shares[name], self.alike[name])]
        return max(able, key=lambda name: (name != SAME_WORD, self.shares[name]), default=BROAD)

    @property
    def strength(self) -> float:
        """The share of the pattern that it is labelled with; of a broad head the largest."""
        return max(self.shares.values()) if self.label == BROAD else self.shares[self.label]


def clear(share: float, alike: float) -> bool:
    """Whether a share is 0.3 or more, and more than chance, which is what a head gives that looks at everything alike:
    of three tokens each gets a third from such a head. As in Cohen's kappa (1960) what counts is by how much of the way
    from chance to all it is above.
    """
    return share >= max(BROAD_BELOW, alike + ABOVE_CHANCE * (1 - alike))


def entropy(weights: Floats) -> Doubles:
    """H = -Σ_key w ln w, in nats, with 0 ln 0 = 0. `[..., query, key]` -> `[..., query]`."""
    wide = weights.astype(np.float64)
    logs = np.log(wide, out=np.zeros_like(wide), where=wide > 0)
    result: Doubles = np.abs((wide * logs).sum(axis=-1))
    return result


def total_variation(weights: Floats, other: Floats, sinks: bool = False) -> Doubles:
    """½ Σ_key |w - w'|: the weight that must move to make one row the other. `[..., query, key]` -> `[..., query]`.

    sinks: the rest of a row, up to 1, is weight that goes to no token, and is counted as one more key.
    """
    difference = weights.astype(np.float64) - other.astype(np.float64)
    distance: Doubles = np.abs(difference).sum(axis=-1) / 2
    return distance + np.abs(difference.sum(axis=-1)) / 2 if sinks else distance


def counted_queries(record: AttentionRecord, layer: int) -> Bools:
    """bool `[query]`: real tokens that may attend to something in this layer, by its number in the model."""
    queries: Bools = ~np.array(record.tokens.padding) & record.mask_of(layer).any(axis=1)
    return queries


def summarise(record: AttentionRecord) -> dict[tuple[int, int], HeadSummary]:
    """A summary of each head of a record, by (layer, head)."""
    totals: defaultdict[tuple[int, int], defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    alike: defaultdict[int, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    queries: defaultdict[int, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    special = np.array(record.keys.special) & ~np.array(record.keys.padding)
    words = word_numbers(record.keys)
    for start in range(0, len(record.tokens), TOGETHER):
        block = slice(start, min(start + TOGETHER, len(record.tokens)))
        found = pattern_keys(special, *words, block, own=record.key_tokens is None)
        shape = block.stop - block.start, len(special)
        every = {name: np.broadcast_to(found.get(name, False), shape) for name in PATTERNS}
        for layer in record.layers:
            counted = counted_queries(record, layer)[block]
            allowed = record.mask_of(layer)[block][counted]
            seen = {name: every[name][counted] & allowed for name in PATTERNS}
            for name in PATTERNS:
                queries[layer][name] += int((seen[name].any(axis=1) if name == SAME_WORD else counted).sum())
                alike[layer][name] += float((seen[name].sum(axis=1) / allowed.sum(axis=1)).sum())
            for head in record.heads:
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
    """The keys that get most of a head's weight, and the mean weight each gets: strongest first."""
    weights = record.map(layer, head)[counted_queries(record, layer)]
    return strongest(weights.mean(axis=0) if len(weights) else weights.sum(axis=0), count)


def strongest(row: Floats, count: int) -> list[tuple[int, float]]:
    """The largest weights of a row and their keys, strongest first; keys with no weight are left out."""
    order = np.argsort(-row, kind="stable")[:count]
    return [(int(key), float(row[key])) for key in order if row[key] > 0]


def row_shares(record: AttentionRecord) -> AttentionRecord:
    """A record of norms with every row divided by its sum; any other record as it is.

    Norms have no upper limit and rows of them no common sum. Colours and shades of weights, patterns and entropies
    need both. A row of zeros stays one.
    """
    if record.measure != "norm":
        return record
    sums = record.weights.sum(axis=-1, keepdims=True)
    shares = np.divide(record.weights, sums, out=np.zeros_like(record.weights), where=sums > 0)
    return replace(record, weights=shares, measure="share of norm")
