"""How much and how little any ranking of these tokens could score: what normalises AOPC (Edin et al. 2025, "Normalized
AOPC: Fixing Misleading Faithfulness Metrics for Feature Attributions Explainability").

    normalised = (AOPC - least) / (most - least)

least and most are over all orders of the tokens, of the very mean that AOPC is here (theirs is over every count of
tokens, ours over DeYoung's). Exactly where the sets of tokens are few: each is tried, and the best chain of nested sets
is found size by size. Else by their beam search: a token is added at a time, and the best chains so far are kept.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from attncli.base.arrays import Doubles
from attncli.base.errors import RequestError
from attncli.effects.trust.erasing import Places

MOST_SETS = 1300  # that are all tried: those of 12 tokens
MOST_TRIED = 10**5  # where all are asked for
MOST_BEAM_TOKENS = 24  # that are searched without having been asked to
BEAM = 5  # Edin et al.

Changes = Callable[[Sequence[Places]], Doubles]


class Limits(NamedTuple):
    """The least and the most that AOPC can be; beam: how many chains were kept, None where all were tried."""

    least: float
    most: float
    beam: int | None


def width(count: int, counts: Sequence[int], beam: int | None) -> int | None:
    """How many chains to keep of so many tokens: as many as are asked for, 0 for all, None where it would take long.

    Raises RequestError where all are asked for and are too many.
    """
    sets = sum(math.comb(count, size) for size in counts)
    if beam == 0 and sets > MOST_TRIED:
        raise RequestError(f"--beam 0 would try {sets:,} sets of {count} tokens: give a width, such as --beam {BEAM}")
    if beam is not None:
        return beam
    if sets <= MOST_SETS:
        return 0
    return BEAM if count <= MOST_BEAM_TOKENS else None


def steps(counts: Sequence[int], beam: int) -> int:
    """How often `advance` is called by `limits`."""
    return counts[-1] if beam else len(counts)


def limits(
    changes: Changes, tokens: Sequence[int], counts: Sequence[int], beam: int, advance: Callable[[], None]
) -> Limits:
    """The least and the most that the mean of the changes of a chain can be: nested sets of so many of these tokens.

    beam: chains that are kept; 0 tries all. The search goes both ways at once.
    """
    found = searched(changes, tokens, counts, beam, advance) if beam else tried(changes, tokens, counts, advance)
    return Limits(found[0] / len(counts), found[1] / len(counts), beam or None)


def tried(
    changes: Changes, tokens: Sequence[int], counts: Sequence[int], advance: Callable[[], None]
) -> tuple[float, float]:
    """The least and the greatest sum along any chain: the best sum that ends in a set is its change and the best of any
    set within it.
    """
    best: list[dict[Places, float]] = []
    for size in counts:
        sets = [frozenset(some) for some in combinations(tokens, size)]
        values = dict(zip(sets, changes(sets).tolist(), strict=True))
        if best:
            within = size - len(next(iter(best[0])))
            best = [
                {one: values[one] + pick(sums[inner] for inner in smaller(one, within)) for one in sets}
                for pick, sums in zip((min, max), best, strict=True)
            ]
        else:
            best = [values, values]
        advance()
    return min(best[0].values()), max(best[1].values())


def smaller(places: Places, fewer: int) -> Iterator[Places]:
    """The sets within a set that have so many fewer."""
    return (places - frozenset(some) for some in combinations(sorted(places), fewer))


def searched(
    changes: Changes, tokens: Sequence[int], counts: Sequence[int], beam: int, advance: Callable[[], None]
) -> tuple[float, float]:
    """The same by beam search. A set that is not counted ranks by what its change would add."""
    beams: list[dict[Places, float]] = [{frozenset(): 0.0}, {frozenset(): 0.0}]
    for size in range(1, counts[-1] + 1):
        longer = [extended(kept, tokens, pick) for kept, pick in zip(beams, (min, max), strict=True)]
        sets = list(dict.fromkeys(one for some in longer for one in some))
        values = dict(zip(sets, changes(sets).tolist(), strict=True))
        beams = []
        for sums, sign in zip(longer, (1, -1), strict=True):
            ranked = sorted(sums, key=lambda one: sign * (sums[one] + values[one]))[:beam]
            beams.append({one: sums[one] + (values[one] if size in counts else 0.0) for one in ranked})
        advance()
    return min(beams[0].values()), max(beams[1].values())


def extended(kept: dict[Places, float], tokens: Sequence[int], pick: Callable[..., float]) -> dict[Places, float]:
    """Every set with one token more, with the best sum that leads to it."""
    found: dict[Places, float] = {}
    for places, total in kept.items():
        for token in tokens:
            if token not in places:
                longer = places | {token}
                found[longer] = pick(found.get(longer, total), total)
    return found
