"""What is counted: tokens, or words made of them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from records import tokens_of

from attncli.corpus import Window
from attncli.models.packed import Run
from attncli.models.units import Units

CPU = torch.device("cpu")


def window(pieces: list[int], counted: tuple[int, int] | None = None) -> Window:
    """A window whose words have so many pieces each."""
    place = np.repeat(np.arange(len(pieces)), pieces)
    nothing = np.zeros(len(place), dtype=int)
    return Window(0, 1, counted or (0, len(place)), tokens_of(len(place)), nothing, place, nothing > 0)


def run_of(windows: list[Window], block: int | None = None) -> Run:
    length = len(windows[0])
    return Run(windows, slice(0, len(windows)), slice(0, length * len(windows)), block or length)


PIECES = st.lists(st.integers(1, 5), min_size=1, max_size=12)


@given(PIECES, st.integers(1, 20))
def test_blocks_are_whole_words_and_no_larger_than_asked_unless_a_word_is(pieces, size):
    one = window(pieces)
    units = Units(run_of([one], size), True, CPU)
    blocks = list(units.blocks(size))
    assert [token for block in blocks for token in range(block.start, block.stop)] == list(range(len(one)))
    assert all(block.start in one.starts for block in blocks)
    for block in blocks:
        words = len(np.unique(one.place[block]))
        assert block.stop - block.start <= size or words == 1
    rows = [units.rows(block) for block in blocks]
    assert [word for block in rows for word in range(block.start, block.stop)] == list(range(len(pieces)))


@given(PIECES, st.integers(1, 20))
def test_blocks_of_tokens_are_as_large_as_asked(pieces, size):
    one = window(pieces)
    blocks = list(Units(run_of([one], size), False, CPU).blocks(size))
    assert [block.stop - block.start for block in blocks[:-1]] == [size] * (len(blocks) - 1)


def test_merging_by_hand():
    """Words "a b" + "c" and "a" + "b c": to the pieces of a word weights add up, from them they are averaged."""
    units = Units(run_of([window([2, 1]), window([1, 2])]), True, CPU)
    weights = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [0.0, 0.6, 0.4]]).expand(2, 1, 3, 3)
    found = units.merged(weights, slice(0, 3))
    assert found[0, 0].flatten().tolist() == pytest.approx([0.475, 0.525, 0.6, 0.4])
    assert found[1, 0].flatten().tolist() == pytest.approx([0.5, 0.5, 0.05, 0.95])


def test_windows_with_fewer_words_are_filled_up_with_nothing():
    units = Units(run_of([window([1, 1, 1]), window([3])]), True, CPU)
    found = units.merged(torch.full((2, 4, 3, 3), 1 / 3), slice(0, 3))
    assert found.shape == (2, 4, 3, 3)
    assert found[1, :, 0, 0].tolist() == pytest.approx([1.0] * 4)
    assert found[1].sum() == pytest.approx(4.0)


@pytest.mark.parametrize(("counted", "words"), [((0, 6), (0, 3)), ((2, 6), (1, 3)), ((3, 6), (2, 3)), ((0, 4), (0, 2))])
def test_a_word_counts_where_its_first_piece_does(counted, words):
    one = window([2, 2, 2], counted).words
    assert (one.counted, one.queries, len(one)) == (words, words[1] - words[0], 3)
