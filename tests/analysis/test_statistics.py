"""Sums that add up, the figures they become, and what a head is called."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import record_of, tokens_of

from attncli import RequestError
from attncli.analysis.patterns import summarise
from attncli.analysis.statistics import (
    BROAD,
    FIGURES,
    LINEAR,
    PATTERNS,
    Counted,
    HeadStatistics,
    Statistics,
    Sums,
    cells,
    check_figure,
)
from attncli.corpus import Window, word_numbers
from attncli.record import ModelInfo

MODEL = ModelInfo("made-up", "/made/up", "0" * 64, 2, 3, 24)


def window_of(length: int, counted: tuple[int, int] | None = None) -> Window:
    tokens = tokens_of(length)
    return Window(0, 1, (0, length) if counted is None else counted, tokens, *word_numbers(tokens))


@st.composite
def many_texts(draw) -> list[tuple[int, np.ndarray]]:
    """For each text how many queries it has, and its figures' sums."""
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    counts = draw(st.lists(st.integers(1, 50), min_size=1, max_size=8))
    return [(count, numbers.random((2, 3, len(FIGURES))) * count) for count in counts]


def added(texts) -> Sums:
    return sum((Sums.of_text(count, float(count), totals) for count, totals in texts), Sums.nothing(2, 3))


@given(many_texts())
def test_figures_are_means_over_tokens_and_the_spread_is_that_of_the_texts_means(texts):
    sums = added(texts)
    means = [totals / count for count, totals in texts]
    assert np.allclose(sums.figures, np.average(means, axis=0, weights=[count for count, _ in texts]))
    assert np.allclose(sums.spread, np.std(means, axis=0), atol=1e-7)
    assert (sums.texts, sums.queries) == (len(texts), sum(count for count, _ in texts))


@given(many_texts(), st.integers(0, 8))
def test_sums_of_parts_of_a_corpus_add_up_to_the_sums_of_all(texts, where):
    parts, whole = added(texts[:where]) + added(texts[where:]), added(texts)
    assert (parts.texts, parts.queries) == (whole.texts, whole.queries)
    assert np.allclose(parts.figures, whole.figures)
    assert np.allclose(parts.spread, whole.spread, atol=1e-7)


@given(st.integers(3, 14), st.integers(0, 14), st.integers(0, 14), st.integers(0, 2**32 - 1))
def test_cells_of_blocks_are_those_of_the_whole_and_rows_that_do_not_count_are_nothing(length, one, other, seed):
    begin, end = sorted(min(border, length) for border in (one, other))
    window, everything = window_of(length, (begin, end)), window_of(length)
    whole = cells(window, 0, length)
    border = seed % length
    assert np.array_equal(np.concatenate([cells(window, 0, border), cells(window, border, length)], axis=1), whole)
    assert np.array_equal(whole[:, begin:end], cells(everything, 0, length)[:, begin:end])
    assert not whole[:, :begin].any() and not whole[:, end:].any()


@given(st.integers(4, 20), st.integers(0, 2**32 - 1))
def test_shares_are_those_of_a_record(length, seed):
    weights = np.random.default_rng(seed).random((length, length))
    weights /= weights.sum(axis=-1, keepdims=True)
    made = (cells(window_of(length), 0, length) * weights).sum(axis=(1, 2)) / length
    found = dict(zip(LINEAR, made, strict=True))
    for name, share in summarise(record_of(weights))[0, 0].shares.items():
        assert found[name] == pytest.approx(share, abs=1e-6)
    places = np.arange(length)
    assert found["distance"] == pytest.approx((weights * abs(places[:, None] - places)).sum() / length)


def test_the_same_word_is_elsewhere_in_any_case_and_whole():
    tokens = tokens_of(8)
    text = ["[CLS]", "Cat", "##s", "cat", ",", "cats", ",", "[SEP]"]
    words = [None, 0, 0, 1, 2, 3, 4, None]
    tokens = replace(tokens, text=text, words=words)
    window = Window(0, 1, (0, 8), tokens, *word_numbers(tokens))
    same = cells(window, 0, 8)[LINEAR.index("same_word")]
    assert np.argwhere(same).tolist() == [[1, 5], [2, 5], [5, 1], [5, 2]]
    assert cells(window, 0, 1)[LINEAR.index("punctuation"), 0].tolist() == [0, 0, 0, 0, 1, 0, 1, 0]


def head(**figures: float) -> HeadStatistics:
    return HeadStatistics(0, 0, {**dict.fromkeys(FIGURES, 0.0), **figures}, dict.fromkeys(FIGURES, 0.0))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_label_is_the_pattern_with_the_largest_share(pattern):
    one = head(**{**dict.fromkeys(PATTERNS, 0.1), pattern: 0.4, "entropy": 3.0, "cls": 0.5})
    assert (one.label, one.strength) == (pattern, 0.4)


def test_a_head_without_a_clear_pattern_is_broad():
    one = head(next=0.29)
    assert (one.label, one.pattern, one.strength) == (BROAD, "next", 0.29)


def test_the_clearest_head_has_the_largest_share():
    totals = np.zeros((2, 3, len(FIGURES)))
    totals[1, 2, FIGURES.index("next")] = 0.7
    totals[0, 1, FIGURES.index("next")] = 0.6
    statistics = Statistics.of(Sums.of_text(1, 2.5, totals), MODEL, "padding")
    clear = statistics.clearest("next")
    assert (clear.layer, clear.head, clear.label) == (1, 2, "next")
    assert statistics.entropy_limit == 2.5
    assert statistics.figure("next").tolist() == [[0, 0.6, 0], [0, 0, 0.7]]
    assert [(one.layer, one.head) for one in statistics.heads] == [
        (layer, head) for layer in (0, 1) for head in range(3)
    ]


@given(st.sets(st.integers(0, 20)), st.integers(0, 20))
def test_what_is_counted_is_wanted_no_more(texts, border):
    counted = Counted(Sums.nothing(2, 3))
    for text in texts:
        counted = counted.plus(text, Sums.of_text(1, 0.0, np.zeros((2, 3, len(FIGURES)))))
    assert {text for text in range(25) if not counted.wants(text)} == texts
    counted = counted.up_to(border)
    assert {text for text in range(25) if not counted.wants(text)} == texts | set(range(border))


def test_an_unknown_figure_is_refused_with_those_there_are():
    assert check_figure("entropy") == "entropy"
    with pytest.raises(RequestError, match="same_word"):
        check_figure("entropie")
