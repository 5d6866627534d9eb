"""What `stats` adds up, beside the same in numpy from transformers' weights (see `attncli.checks.ways`)."""

from contextlib import suppress
from dataclasses import replace

import numpy as np

from attncli.analysis.statistics import Counting, Sums
from attncli.checks.agreement import worst
from attncli.checks.beside import Both, NothingToCompare, allowed_by_hand, beginning
from attncli.checks.plain_sums import plain_sums
from attncli.corpus.reducer import Reducer
from attncli.text.windows import Window, windows

FEW = 5000  # weights at once: of a text of 64 tokens a few queries


def sums_of_both(
    both: Both, measure: str = "weight", distances: bool = False, at_once: int | None = None
) -> tuple[Sums, Sums]:
    """What `stats` adds up over the texts, and the same in numpy from transformers' weights.

    at_once: weights that are there at once, as of a long text, whose queries are taken block by block.

    Raises NothingToCompare when every text is longer than the model reads at once.
    """
    some: list[list[Window]] = []
    for text in (text for one in both.inputs for text in variants(one.text)):
        with suppress(ValueError):  # half of a text may have nothing in it that the tokenizer keeps
            cut = windows(len(some), text, both.model.tokenizer)
            if len(cut) == 1:  # the first query does not count, as some don't in the windows of a long text
                some.append([replace(cut[0], counted=(1, len(cut[0])))])
    if not some:
        raise NothingToCompare("every text is longer than the model reads at once")
    found = Reducer(both.model, Counting(both.mask, distances, measure), block_weights=at_once).reduce(some)
    expected = Sums.nothing(both.model.config.layers, both.model.config.heads, distances)
    for [window] in some:
        weights = both.theirs(window.tokens).weights.double()
        if measure == "norm":
            norms_there = both.their_norms(window.tokens)
            weights = norms_there / norms_there.sum(dim=-1, keepdim=True)
        allowed = allowed_by_hand(window.tokens, both.mask)
        expected = expected + plain_sums(window, weights.cpu().numpy(), allowed, distances)
    return found, expected


def variants(text: str) -> list[str]:
    """The first words of a text, the same in reverse, which are as long, and half of them."""
    words = beginning(text).split()
    return [" ".join(words), " ".join(reversed(words)), " ".join(words[: len(words) // 2 or 1])]


def sums(both: Both, measure: str = "weight") -> float:
    """Every figure, its spread between texts, and the most that entropy can be; relative to 1 where it is larger."""
    both_ways = [sums_of_both(both, measure, at_once=at_once) for at_once in (None, FEW)]
    return worst(
        float((np.abs(ours - theirs) / np.maximum(1, np.abs(theirs))).max())
        for found, expected in both_ways
        for ours, theirs in (
            (found.figures[both.layers], expected.figures[both.layers]),
            (found.spread[both.layers], expected.spread[both.layers]),
            (np.array(found.limit / found.queries), np.array(expected.limit / expected.queries)),
        )
    )


def distances(both: Both) -> float:
    """The mean Jensen-Shannon divergence between each two heads of these layers."""
    found, expected = sums_of_both(both, distances=True)
    heads = both.model.config.heads
    chosen = [layer * heads + head for layer in both.layers for head in range(heads)]
    assert found.divergence is not None and expected.divergence is not None
    apart = (found.divergence - expected.divergence)[np.ix_(chosen, chosen)]
    return float(np.abs(apart).max()) / expected.queries
