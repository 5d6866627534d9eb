"""Queries and keys are tokens, or words made of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from records import tokens_of

from attncli.corpus.batch_sums import Units
from attncli.corpus.sums import factors
from attncli.models.rows import LayerMask
from attncli.text.windows import Window

CPU = torch.device("cpu")


def window(pieces: list[int]) -> Window:
    """A window whose words have so many pieces each."""
    place = np.repeat(np.arange(len(pieces)), pieces)
    nothing = np.zeros(len(place), dtype=int)
    return Window(0, 1, (0, len(place)), tokens_of(len(place)), nothing, place, nothing > 0)


def units_of(windows: list[Window], words: bool, block: int | None = None) -> Units:
    return Units(windows, words, block or len(windows[0]), CPU)


PIECES = st.lists(st.integers(1, 5), min_size=1, max_size=12)


@given(PIECES, st.integers(1, 20))
def test_blocks_are_whole_words_and_no_larger_than_asked_unless_a_word_is(pieces, size):
    one = window(pieces)
    units = units_of([one], True, size)
    blocks = list(units.blocks())
    assert [token for block in blocks for token in range(block.start, block.stop)] == list(range(len(one)))
    assert all(block.start in one.starts for block in blocks)
    for block in blocks:
        words = len(np.unique(one.place[block]))
        assert block.stop - block.start <= size or words == 1
    rows = [units.rows(block) for block in blocks]
    assert [word for block in rows for word in range(block.start, block.stop)] == list(range(len(pieces)))


def test_merging_by_hand():
    """Words "a b" + "c" and "a" + "b c": to the pieces of a word weights add up, from them they are averaged."""
    units = units_of([window([2, 1]), window([1, 2])], True)
    weights = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [0.0, 0.6, 0.4]]).expand(2, 1, 3, 3)
    found = units.merged(weights, slice(0, 3))
    assert found[0, 0].flatten().tolist() == pytest.approx([0.475, 0.525, 0.6, 0.4])
    assert found[1, 0].flatten().tolist() == pytest.approx([0.5, 0.5, 0.05, 0.95])


@given(PIECES, st.integers(1, 20), st.booleans(), st.data())
def test_factors_and_counts_of_blocks_are_those_of_the_window(pieces, size, words, data):
    assume(sum(pieces) > 1)  # [CLS] and [SEP]
    begin, end = sorted(data.draw(st.integers(0, sum(pieces))) for _ in range(2))
    one = replace(window(pieces), counted=(begin, end))
    units = units_of([one], words, size)
    counted = one.in_words if words else one
    rows = [(units.factors(block), units.counts(block)) for block in units.blocks()]
    whole = factors(counted, 0, len(counted))
    assert torch.equal(torch.cat([made for made, _ in rows], dim=2)[0], torch.from_numpy(whole))
    assert torch.cat([counts for _, counts in rows], dim=2)[0, 0].nonzero().flatten().tolist() == [
        *range(*counted.counted)
    ]


@given(PIECES, st.integers(1, 20), st.booleans(), st.booleans(), st.data())
def test_who_looks_at_everything_alike_gives_each_key_that_is_seen_the_same(pieces, size, words, causal, data):
    assume(sum(pieces) > 1)
    begin, end = sorted(data.draw(st.integers(0, sum(pieces))) for _ in range(2))
    one = replace(window(pieces), counted=(begin, end))
    counted = one.in_words if words else one
    seen = np.tri(len(counted)) if causal else np.ones((len(counted), len(counted)))
    rows = seen / seen.sum(axis=1, keepdims=True)
    mask = LayerMask(torch.ones(len(one), len(one), dtype=torch.bool).tril()[None, None], None) if causal else None
    units = units_of([one], words, size)
    entropy, linear = units.uniform_sums(mask, units.counted())
    assert entropy[0] == pytest.approx(np.log(seen.sum(axis=1))[slice(*counted.counted)].sum())
    assert linear[0] == pytest.approx((factors(counted, 0, len(counted)) * rows).sum(axis=(1, 2)), rel=1e-5)
