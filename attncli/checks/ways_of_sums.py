"""What `stats` adds up, beside the same in numpy from transformers' weights (see `attncli.checks.ways`)."""

from contextlib import suppress
from dataclasses import replace

import numpy as np

from attncli.checks.agreement import worst
from attncli.checks.beside import Both, NothingToCompare, allowed_by_hand, beginning
from attncli.corpus.reducer import Pace, Reducer
from attncli.corpus.sums import Counting, Sums, plain_part
from attncli.text.tokens import Unreadable
from attncli.text.windows import Window, windows

FEW = 5000  # weights at once: of a text of 64 tokens a few queries


def cut(both: Both) -> list[list[Window]]:
    """The texts as `stats` has them. Raises NothingToCompare when every one is longer than the model reads at once."""
    some: list[list[Window]] = []
    for text in (text for one in both.inputs for text in variants(one.text)):
        with suppress(Unreadable):  # half of a text may have nothing in it that the tokenizer keeps
            made = list(windows(len(some), text, both.model.tokenizer))
            if len(made) == 1:  # the first query does not count, as some don't in the windows of a long text
                some.append([replace(made[0], counted=(1, len(made[0])))])
    if not some:
        raise NothingToCompare("every text is longer than the model reads at once")
    return some


def theirs(both: Both, texts: list[list[Window]], counting: Counting) -> Sums:
    """The sums over these texts, in numpy from transformers' weights."""
    expected = Sums.nothing(both.model.config.layers, both.model.config.heads, counting.distances)
    for [window] in texts:
        weights = both.theirs(window.tokens).weights.double()
        if counting.measure == "norm":
            norms = both.their_norms(window.tokens)
            weights = norms / norms.sum(dim=-1, keepdim=True)
        allowed = allowed_by_hand(window.tokens, both.mask, both.model.config.reach)
        expected = expected + plain_part(window, weights.cpu().numpy(), allowed, counting.distances).of_text()
    return expected


def variants(text: str) -> list[str]:
    """The first words of a text, the same in reverse, which are as long, and half of them."""
    words = beginning(text).split()
    return [" ".join(words), " ".join(reversed(words)), " ".join(words[: len(words) // 2 or 1])]


def sums(both: Both, measure: str = "weight") -> float:
    """Every figure, its spread between texts, and the most that entropy can be; relative to 1 where it is larger.

    As they are added up for all queries at once, and, as for a long text, block by block.
    """
    texts, counting, layers = cut(both), Counting(both.mask, measure=measure), both.layers
    few = Pace.on(both.model.device.type, block_weights=FEW)
    expected = theirs(both, texts, counting)
    found = [Reducer(both.model, counting, pace).reduce(texts) for pace in (None, few)]
    return worst(
        float((np.abs(ours - wanted) / np.maximum(1, np.abs(wanted))).max())
        for one in found
        for ours, wanted in (
            (one.figures[layers], expected.figures[layers]),
            (one.spread[layers], expected.spread[layers]),
            ((one.limit / one.queries)[layers], (expected.limit / expected.queries)[layers]),
        )
    )


def distances(both: Both) -> float:
    """The mean Jensen-Shannon divergence between each two heads of these layers."""
    texts, counting, heads = cut(both), Counting(both.mask, distances=True), both.model.config.heads
    found, expected = Reducer(both.model, counting).reduce(texts), theirs(both, texts, counting)
    chosen = [layer * heads + head for layer in both.layers for head in range(heads)]
    assert found.divergence is not None and expected.divergence is not None
    apart = (found.divergence - expected.divergence)[np.ix_(chosen, chosen)]
    return float(np.abs(apart).max()) / expected.queries
