"""Texts become batches: nothing is lost, nothing is padded, and nothing is too large."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from records import tokens_of

from attncli.corpus import reducer
from attncli.text.windows import Window


def window(text: int, length: int) -> Window:
    nothing = np.zeros(length, dtype=int)
    return Window(text, 1, (0, length), tokens_of(length), nothing, nothing, nothing > 0)


LENGTHS = st.lists(st.integers(3, 30), min_size=1, max_size=40)


@given(LENGTHS, st.integers(1, 200))
def test_batches_hold_every_window_once_and_not_too_many_tokens(lengths, most):
    group = [window(number, length) for number, length in enumerate(lengths)]
    batches = reducer.batches(group, most)
    assert sorted(one.text for batch in batches for one in batch) == list(range(len(lengths)))
    neighbours = sorted(sorted(len(one) for one in batch) for batch in batches)
    assert [length for batch in neighbours for length in batch] == sorted(lengths)
    assert all(len(batch) == 1 or sum(map(len, batch)) <= most for batch in batches)


def test_a_long_text_stands_alone_in_as_many_groups_as_it_takes(monkeypatch):
    monkeypatch.setattr(reducer, "TOKENS_SORTED", 20)
    texts = [
        [window(0, 5)],
        [window(1, 5)],
        [window(2, 10)] * 5,
        [window(3, 5)],
        [window(4, 10)] * 2,
        [window(5, 5)],
    ]
    assert parts(reducer.groups(texts)) == [[0, 1], [2, 2], [2, 2], [2], [3], [4, 4], [5]]


def test_no_more_of_a_long_text_is_there_than_a_group_and_the_next(monkeypatch):
    monkeypatch.setattr(reducer, "TOKENS_SORTED", 20)
    read = []
    long = (read.append(number) or window(0, 10) for number in range(100))
    groups = reducer.groups([long])
    for number in range(5):
        next(groups)
        assert len(read) == 2 * (number + 1)


def parts(groups) -> list[list[int]]:
    return [[one.text for one in group] for group in groups]
