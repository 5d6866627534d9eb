"""Intervals of shares and who is right more often: beside scipy, by hand, and by luck itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.analysis.significance import LEVEL, binomial_cdf, fewest_decisive, sign_test, wilson

COUNTS = st.integers(1, 3000).flatmap(lambda count: st.tuples(st.integers(0, count), st.just(count)))


@given(COUNTS, st.sampled_from([0.05, 0.05 / 144, 0.5]))
def test_intervals_are_scipys(of, level):
    found, count = of
    expected = pytest.importorskip("scipy.stats").binomtest(found, count).proportion_ci(1 - level, method="wilson")
    assert wilson(found, count, level) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(st.integers(0, 400), st.integers(0, 400))
def test_the_sign_test_is_scipys(more, less):
    stats = pytest.importorskip("scipy.stats")
    expected = stats.binomtest(more, more + less, alternative="greater").pvalue if more + less else 1.0
    assert sign_test(more, less) == pytest.approx(expected, rel=1e-6)


def test_by_hand():
    assert sign_test(3, 0) == pytest.approx(1 / 8)
    assert sign_test(2, 1) == pytest.approx(4 / 8)
    assert sign_test(0, 0) == 1
    assert 0 <= sign_test(30_000, 29_000) < 0.001  # large numbers are numbers too
    assert wilson(0, 10, 0.05)[0] == pytest.approx(0) and wilson(10, 10, 0.05)[1] == pytest.approx(1)


@pytest.mark.parametrize(("of", "words"), [(1, 5), (144, 12), (288, 13)])
def test_of_fewer_words_nothing_can_be_said(of, words):
    assert fewest_decisive(of) == words
    assert of * 0.5**words <= LEVEL < of * 0.5 ** (words - 1)


@given(COUNTS, st.sampled_from([0.05 / 6, 0.05, 0.5]))
def test_a_tail_is_scipys(of, share):
    stats = pytest.importorskip("scipy.stats")
    found, count = of
    assert binomial_cdf(found, count, share) == pytest.approx(stats.binom.cdf(found, count, share), rel=1e-6, abs=1e-12)
