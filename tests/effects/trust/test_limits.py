"""The least and the most that an order can score, against every order; and which counts of tokens are erased."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.base.errors import RequestError
from attncli.effects.trust.aopc import chain, order, sizes
from attncli.effects.trust.limits import limits, steps, width


def drawn(seed):
    """A change for every set, drawn once."""
    known, generator = {}, np.random.default_rng(seed)
    return lambda sets: np.array([known.setdefault(one, generator.normal()) for one in sets])


@pytest.mark.parametrize("counts", [[1], [1, 2], [1, 2, 3], [2, 4], [1, 3, 6]])
def test_the_limits_are_those_of_all_orders(counts):
    tokens, changes = [3, 4, 6, 7, 8, 9], drawn(len(counts))
    means = [changes(chain(ranked, counts)).mean() for ranked in permutations(tokens)]
    told = []
    found = limits(changes, tokens, counts, 0, lambda: told.append(1))
    assert (found.least, found.most) == (pytest.approx(min(means)), pytest.approx(max(means)))
    assert found.beam is None and len(told) == steps(counts, 0)
    wide = limits(changes, tokens, counts, 100, lambda: told.append(1))
    assert wide[:2] == pytest.approx(found[:2]) and len(told) == steps(counts, 0) + steps(counts, 100)


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=9), st.integers(1, 4))
def test_where_tokens_add_up_a_beam_finds_the_limits_and_none_goes_past_them(values, beam):
    tokens, counts = range(len(values)), sizes(len(values))
    found = limits(
        lambda sets: np.array([sum(values[one] for one in some) for some in sets]), tokens, counts, beam, int
    )
    ranked = [sorted(values), sorted(values, reverse=True)]
    ends = [np.mean([sum(some[:count]) for count in counts]) for some in ranked]
    assert found[:2] == pytest.approx(ends)


def test_a_beam_stays_within_the_limits():
    changes, tokens = drawn(4), range(8)
    exact, beam = (limits(changes, tokens, [1, 2, 4], kept, int) for kept in (0, 2))
    assert exact.least <= beam.least <= beam.most <= exact.most


def test_few_tokens_are_tried_all_and_many_are_not_searched_unasked():
    assert [width(count, sizes(count), None) for count in (2, 12, 13, 24, 25, 200)] == [0, 0, 5, 5, None, None]
    assert width(200, sizes(200), 3) == 3 and width(14, sizes(14), 0) == 0
    with pytest.raises(RequestError, match=r"would try .* sets of 40 tokens: give a width, such as --beam 5"):
        width(40, sizes(40), 0)


def test_shares_of_the_tokens_are_rounded_up_and_count_once():
    assert sizes(2) == [1]
    assert sizes(10) == [1, 2, 5]
    assert sizes(14) == [1, 2, 3, 7]
    assert sizes(100) == [1, 5, 10, 20, 50]
    assert sizes(101) == [2, 6, 11, 21, 51]


def test_of_equally_important_tokens_the_first_comes_first():
    assert order(np.array([0.1, 0.5, 0.1, 0.5])).tolist() == [1, 3, 0, 2]
