"""Erase tokens of a text, and score rankings of the tokens by the change of the output.

Two ways: [MASK] stands in the place of the tokens, or they are deleted, and later tokens move up. Neither gives a text
that a network was trained on where more than a few are gone. It is worth knowing where the two disagree.

A ranking is scored by erasing the tokens that it puts first, and all others (DeYoung et al. 2020, "ERASER"):

    comprehensiveness_k = change when the first k are erased             large, where the ranking is right
    sufficiency_k       = change when all but the first k are erased     small, where it is

k is 1, 5, 10, 20 and 50 % of the tokens that may be erased, rounded up, without repetitions. AOPC is the mean over k
(section 4.2 there; Samek et al. 2017, "area over the perturbation curve"). The first k of every ranking are a chain of
nested sets. Where all sets are known, so is the score of every chain.

Limits normalise AOPC (Edin et al. 2025, "Normalized AOPC: Fixing Misleading Faithfulness Metrics for Feature
Attributions Explainability"):

    normalised = (AOPC - least) / (most - least)

least and most are over all orders of the tokens, of the AOPC above (theirs is over every k). For few tokens every set
is tried, and the best chain of nested sets is found size by size. Otherwise their beam search adds a token at a time
and keeps the best chains.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import torch

from attncli.base.arrays import Doubles, Ints
from attncli.base.errors import RequestError
from attncli.effects.asking import FROM_NOTHING
from attncli.effects.question import Left, Question
from attncli.models.engine import Engine
from attncli.models.rows import batches
from attncli.text.tokens import MASK_TOKENS, Tokens, word_groups

MASKED, DELETED = "mask", "deletion"

Places = frozenset[int]  # of the tokens that are erased


class Erasing:
    """The changes from erasing tokens of the first text of a question, in one way; each set of tokens is tried once.

    change = the number of the full text - the number without the tokens, as in comprehensiveness: above 0 the tokens
    speak for it. A divergence and a distance are 0 for the full text, and are the change themselves.
    erasable: the places of the tokens that may be erased: all except special ones and those that the question is about.
    """

    def __init__(self, question: Question, way: str) -> None:
        self.question = question
        self.text = question.texts[0]
        self.way = way
        self.erasable = erasable(question)
        self.known: dict[Places, float] = {frozenset(): 0.0}

    def changes(self, erased: Sequence[Places]) -> Doubles:
        """Return the change for each set of tokens, `[set]`."""
        new = [places for places in dict.fromkeys(erased) if places not in self.known]
        texts = [self.without(places) for places in new]
        for numbers in batches(texts, self.text.model.batch_tokens):
            some = [new[number] for number in numbers]
            self.known.update(zip(some, self.measured(some, [texts[number] for number in numbers]), strict=True))
        return np.array([self.known[places] for places in erased])

    def measured(self, erased: Sequence[Places], texts: Sequence[Tokens]) -> list[float]:
        """Measure the changes of sets that go through the network together."""
        spoken = self.text.tokens.spoken
        every = range(len(spoken))
        apart = spoken is not self.text.tokens  # tokens of the encoder are erased, and the decoder is asked
        kept = [[place for place in every if apart or place not in places] for places in erased]
        with torch.inference_mode():
            last = self.text.model.last_hidden(texts, self.text.mask)
            left = [Left(*one, self.way == DELETED and not apart) for one in zip(last, kept, strict=True)]
            numbers = self.question.of_left(left)
        changes = numbers if self.question.kind in FROM_NOTHING else self.question.value - numbers
        return [float(change) for change in changes.cpu()]

    def without(self, erased: Places) -> Tokens:
        """Return the text without these tokens."""
        tokens = self.text.tokens
        if self.way == DELETED:
            return tokens.take(place for place in range(len(tokens)) if place not in erased)
        mask, number = _mask_token(self.text.model)
        return replace(
            tokens,
            ids=[number if place in erased else own for place, own in enumerate(tokens.ids)],
            text=[mask if place in erased else own for place, own in enumerate(tokens.text)],
            shown=[mask if place in erased else own for place, own in enumerate(tokens.shown)],
        )


def erasable(question: Question) -> list[int]:
    """Return the places of the tokens that may be erased."""
    tokens = question.texts[0].tokens
    protected = question.protected if tokens.spoken is tokens else ()
    return [place for place, added in enumerate(tokens.special) if not added and place not in protected]


def ways(model: Engine) -> list[str]:
    """Return the ways of erasing that a model has: only deletion without a [MASK]."""
    return [MASKED, DELETED] if _mask_token(model)[0] else [DELETED]


def _mask_token(model: Engine) -> tuple[str, int]:
    """Return the vocabulary's [MASK] and its number; "" where it has none."""
    numbers = {name: model.tokenizer.backend.token_to_id(name) for name in MASK_TOKENS}
    return next(((name, number) for name, number in numbers.items() if number is not None), ("", 0))


def leave_one_out(erasing: Erasing) -> Doubles:
    """Return the change from erasing each token by itself, `[erasable token]`.

    Li et al. 2016, "Understanding Neural Networks through Representation Erasure".
    """
    return erasing.changes([frozenset([place]) for place in erasing.erasable])


DRAWS = 20  # sets of other tokens, as a control


def words(tokens: Tokens, erasable: Sequence[int]) -> list[list[int]]:
    """Return the places of the tokens of each word, as far as they can be erased."""
    groups = ([place for place in group if place in erasable] for group in word_groups(tokens))
    return [group for group in groups if group]


def leave_word_out(erasing: Erasing, words: Sequence[Sequence[int]], seed: int) -> tuple[Doubles, Doubles]:
    """Return the change from erasing each word, and the mean change from erasing as many other tokens, `[word]` each.

    Other single tokens are all tried. Of larger sets DRAWS are drawn. NaN where too few tokens are left.
    """
    generator, control = np.random.default_rng(seed), []
    for word in words:
        others = [place for place in erasing.erasable if place not in word]
        drawn = [[place] for place in others]
        if len(word) > 1:
            possible = len(others) >= len(word)
            drawn = [generator.choice(others, len(word), replace=False).tolist() for _ in range(DRAWS * possible)]
        control.append(erasing.changes([frozenset(some) for some in drawn]).mean() if drawn else math.nan)
    return erasing.changes([frozenset(word) for word in words]), np.array(control)


# --- AOPC -----------------------------------------------------------------------------------------------

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)


def sizes(count: int) -> list[int]:
    """Return the numbers of tokens to erase of `count`, ascending."""
    return sorted({math.ceil(round(share * count, 9)) for share in SHARES})


def order(importance: Doubles) -> Ints:
    """Order tokens by importance, the largest first; equal ones as they stand."""
    return np.argsort(-importance, kind="stable")


def _chain(ranked: Sequence[int], counts: Sequence[int]) -> list[Places]:
    """Return the sets of the first tokens of a ranking, one per count."""
    return [frozenset(ranked[:count]) for count in counts]


def aopc(erasing: Erasing, orders: Sequence[Ints]) -> tuple[Doubles, Doubles]:
    """Return comprehensiveness and sufficiency of rankings, `[ranking]` each.

    orders: places among the erasable tokens, the most important first.
    """
    erasable = erasing.erasable
    every, counts = frozenset(erasable), sizes(len(erasable))
    chains = [_chain([erasable[place] for place in ranked], counts) for ranked in orders]
    first = [places for one in chains for places in one]
    changes = erasing.changes([*first, *(every - places for places in first)])
    comprehensiveness, sufficiency = changes.reshape(2, len(orders), len(counts)).mean(axis=-1)
    return comprehensiveness, sufficiency


def as_good(erasings: Sequence[Erasing], orders: Sequence[Ints], room: float) -> Doubles:
    """Return the exact share of all orders of the tokens whose gap is at least a ranking's, `[ranking]`.

    The gap is comprehensiveness minus sufficiency, mean over the ways of erasing. room: gaps that are smaller by this
    count as equal, since numbers are rounded.
    """
    erasable = erasings[0].erasable
    counts = sizes(len(erasable))
    steps = [_gaps(erasings, size) for size in counts]
    own = np.zeros(len(orders))
    for (sets, values), size in zip(steps, counts, strict=True):
        firsts = [_bits(ranked[:size]) for ranked in orders]
        own += values[np.searchsorted(sets, firsts)]
    chains, sums = np.zeros(1, dtype=np.int64), np.zeros(1)  # of all sizes but the last
    for sets, values in steps[:-1]:
        inner, outer = np.nonzero((chains[:, None] & sets) == chains[:, None])
        chains, sums = sets[outer], sums[inner] + values[outer]
    good, every = np.zeros(len(orders)), 0
    sets, values = steps[-1]
    for chain_end in np.unique(chains):
        last, before = np.sort(values[(sets & chain_end) == chain_end]), sums[chains == chain_end]
        less = np.searchsorted(last, (own - room * len(counts))[:, None] - before)
        good += (len(last) - less).sum(axis=1)
        every += len(last) * len(before)
    return good / every


def _gaps(erasings: Sequence[Erasing], size: int) -> tuple[Ints, Doubles]:
    """Return all sets of `size` tokens as numbers, ascending, and the part of each in the gap of an order."""
    erasable = erasings[0].erasable
    chosen = sorted(combinations(range(len(erasable)), size), key=_bits)
    every, sets = frozenset(erasable), [frozenset(erasable[place] for place in some) for some in chosen]
    found = [one.changes(sets) - one.changes([every - places for places in sets]) for one in erasings]
    return np.array([_bits(some) for some in chosen], dtype=np.int64), np.mean(found, axis=0)


def _bits(places: Iterable[int]) -> int:
    """Return a set of places as a number, with a bit per place."""
    return sum(1 << int(place) for place in places)


# --- limits of AOPC -------------------------------------------------------------------------------------

MOST_SETS = 1300  # sets that are all tried: those of 12 tokens
MOST_TRIED = 10**5  # sets that --beam 0 tries
MOST_BEAM_TOKENS = 24  # tokens that are searched without --beam
BEAM = 5  # chains that are kept (Edin et al.)

Changes = Callable[[Sequence[Places]], Doubles]


def width(count: int, counts: Sequence[int], beam: int | None) -> int | None:
    """Return the number of chains to keep: `beam`, 0 to try all sets, None where a search would take long.

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
    """Return the number of times that `limits` calls `advance`."""
    return counts[-1] if beam else len(counts)


def limits(
    changes: Changes, tokens: Sequence[int], counts: Sequence[int], beam: int, advance: Callable[[], None]
) -> tuple[float, float]:
    """Return the least and the largest mean change of a chain of nested sets of these tokens.

    beam: chains that are kept; 0 tries all.
    """
    found = _searched(changes, tokens, counts, beam, advance) if beam else _tried(changes, tokens, counts, advance)
    return found[0] / len(counts), found[1] / len(counts)


def _tried(
    changes: Changes, tokens: Sequence[int], counts: Sequence[int], advance: Callable[[], None]
) -> tuple[float, float]:
    """Return the least and the largest sum along any chain.

    The best sum that ends in a set is the change of the set plus the best sum of any set within it.
    """
    best: list[dict[Places, float]] = []
    for size in counts:
        sets = [frozenset(some) for some in combinations(tokens, size)]
        values = dict(zip(sets, changes(sets).tolist(), strict=True))
        if best:
            within = size - len(next(iter(best[0])))
            best = [
                {one: values[one] + pick(sums[inner] for inner in _smaller(one, within)) for one in sets}
                for pick, sums in zip((min, max), best, strict=True)
            ]
        else:
            best = [values, values]
        advance()
    return min(best[0].values()), max(best[1].values())


def _smaller(places: Places, fewer: int) -> Iterator[Places]:
    """Yield the sets within a set that have `fewer` tokens less."""
    return (places - frozenset(some) for some in combinations(sorted(places), fewer))


def _searched(
    changes: Changes, tokens: Sequence[int], counts: Sequence[int], beam: int, advance: Callable[[], None]
) -> tuple[float, float]:
    """Return the same by beam search. A set whose size does not count ranks by the change that it would add."""
    beams: list[dict[Places, float]] = [{frozenset(): 0.0}, {frozenset(): 0.0}]
    for size in range(1, counts[-1] + 1):
        longer = [_extended(kept, tokens, pick) for kept, pick in zip(beams, (min, max), strict=True)]
        sets = list(dict.fromkeys(one for some in longer for one in some))
        values = dict(zip(sets, changes(sets).tolist(), strict=True))
        beams = []
        for sums, sign in zip(longer, (1, -1), strict=True):
            ranked = sorted(sums, key=lambda one: sign * (sums[one] + values[one]))[:beam]
            beams.append({one: sums[one] + (values[one] if size in counts else 0.0) for one in ranked})
        advance()
    return min(beams[0].values()), max(beams[1].values())


def _extended(kept: dict[Places, float], tokens: Sequence[int], pick: Callable[..., float]) -> dict[Places, float]:
    """Return every set with one token more, and the best sum that leads to it."""
    found: dict[Places, float] = {}
    for places, total in kept.items():
        for token in tokens:
            if token not in places:
                longer = places | {token}
                found[longer] = pick(found.get(longer, total), total)
    return found
