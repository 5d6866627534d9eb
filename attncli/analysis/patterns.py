"""What kind of head is it? Entropy, where the weight goes, and the pattern that takes most of it.

All figures are means over the queries that are real tokens; [PAD] never counts as a query. Rows in which
nothing may be attended to, by the mask of the head's layer, do not count either.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import product

import numpy as np

from attncli.base.arrays import Bools, Doubles, Floats
from attncli.record import AttentionRecord

# In the order in which a tie is decided.
PATTERNS = ("self", "previous", "next", "first", "separator")
BROAD = "broad"
BROAD_BELOW = 0.3  # a head whose strongest pattern takes less than this is called broad
TOGETHER = 256  # queries: of a long text's maps there is no second copy


@dataclass(frozen=True)
class HeadSummary:
    """One head in figures.

    entropy: mean of -Σ w ln w over queries, in nats (Clark et al. 2019, section 3.3); 0 looks at one token,
    ln(tokens) at all alike.
    shares: the mean weight that goes to the query itself, the token before, the token after, the first token,
    and separators (what the tokenizer added after the first token: [SEP]); they overlap.
    label: the pattern with the largest share, or "broad" where none takes 0.3.
    """

    entropy: float
    shares: dict[str, float]
    label: str


def entropy(weights: Floats) -> Doubles:
    """H = -Σ_key w ln w, in nats, with 0 ln 0 = 0. `[..., query, key]` -> `[..., query]`."""
    wide = weights.astype(np.float64)
    logs = np.log(wide, out=np.zeros_like(wide), where=wide > 0)
    result: Doubles = np.abs((wide * logs).sum(axis=-1))
    return result


def counted_queries(record: AttentionRecord, layer: int) -> Bools:
    """bool `[query]`: real tokens that may attend to something in this layer, by its number in the model."""
    queries: Bools = ~np.array(record.tokens.padding) & record.mask_of(layer).any(axis=1)
    return queries


def pattern_keys(record: AttentionRecord, queries: slice) -> dict[str, Bools]:
    """For each pattern the keys of some queries that belong to it: bool `[query, key]`.

    Where the keys are another text than the queries, no key is the query itself or a neighbour of it.
    """
    keys = record.keys
    shape = queries.stop - queries.start, len(keys)
    separators = np.array(keys.special) & ~np.array(keys.padding)
    separators[0] = False
    first = np.zeros(shape, dtype=bool)
    first[:, 0] = True
    own, at = record.key_tokens is None, queries.start
    return {
        "self": np.eye(*shape, k=at, dtype=bool) & own,
        "previous": np.eye(*shape, k=at - 1, dtype=bool) & own,
        "next": np.eye(*shape, k=at + 1, dtype=bool) & own,
        "first": first,
        "separator": np.broadcast_to(separators, shape),
    }


def summarise(record: AttentionRecord) -> dict[tuple[int, int], HeadSummary]:
    """A summary of each head of a record, by (layer, head)."""
    totals: defaultdict[tuple[int, int], defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    counted = {layer: counted_queries(record, layer) for layer in record.layers}
    for start in range(0, len(record.tokens), TOGETHER):
        block = slice(start, min(start + TOGETHER, len(record.tokens)))
        every = pattern_keys(record, block)
        for layer, head in product(record.layers, record.heads):
            queries, total = counted[layer][block], totals[layer, head]
            weights = record.map(layer, head)[block][queries]
            total["entropy"] += float(entropy(weights).sum())
            for name in PATTERNS:
                total[name] += float(weights[every[name][queries]].sum(dtype=np.float64))
    summaries = {}
    for (layer, head), total in totals.items():
        means = {name: total[name] / max(int(counted[layer].sum()), 1) for name in ("entropy", *PATTERNS)}
        shares = {name: means[name] for name in PATTERNS}
        best = max(PATTERNS, key=lambda name: shares[name])
        label = best if shares[best] >= BROAD_BELOW else BROAD
        summaries[layer, head] = HeadSummary(entropy=means["entropy"], shares=shares, label=label)
    return summaries


def most_attended(record: AttentionRecord, layer: int, head: int, count: int) -> list[tuple[int, float]]:
    """The keys that get most of a head's weight, and the mean weight each gets: strongest first."""
    weights = record.map(layer, head)[counted_queries(record, layer)]
    return strongest(weights.mean(axis=0) if len(weights) else weights.sum(axis=0), count)


def strongest(row: Floats, count: int) -> list[tuple[int, float]]:
    """The largest weights of a row and their keys, strongest first; keys with no weight are left out."""
    order = np.argsort(-row, kind="stable")[:count]
    return [(int(key), float(row[key])) for key in order if row[key] > 0]
