"""Sums that add up, the figures they become, what a head is called, and which texts show a head best."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import record_of, tokens_of
from windows import text_sums

from attncli import RequestError, corpus_statistics
from attncli.analysis.patterns import BROAD, BROAD_BELOW, PATTERNS, summarise
from attncli.corpus.statistics import CLEARLY, HeadStatistics, Statistics, record_statistics
from attncli.corpus.sums import FIGURES, LINEAR, Counting, Sums, factors
from attncli.record import ModelInfo
from attncli.text.windows import Window, word_numbers

MODEL = ModelInfo("made-up", "/made/up", "0" * 64, 2, 3, 24)


@st.composite
def many_texts(draw) -> list[tuple[int, np.ndarray]]:
    """Draw texts: the number of queries of each, and the sums of its figures."""
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    counts = draw(st.lists(st.integers(1, 50), min_size=1, max_size=8))
    return [(count, numbers.random((2, 3, len(FIGURES))) * count) for count in counts]


def added(texts) -> Sums:
    return sum((text_sums(count, float(count), totals) for count, totals in texts), Sums.nothing(2, 3))


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


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0, 1)), min_size=1, max_size=5))
def test_what_a_head_gives_that_looks_at_everything_alike_is_a_mean_over_tokens(texts):
    zero = np.zeros((2, 3, len(FIGURES)))
    sums = [text_sums(count, 1.0, zero, alike=np.full((2, len(LINEAR)), count * each)) for count, each in texts]
    found = Statistics.of(sum(sums, Sums.nothing(2, 3)), MODEL).alike
    mean = np.average([each for _, each in texts], weights=[count for count, _ in texts])
    assert np.allclose(found, np.full((2, len(LINEAR)), mean))


def test_the_most_that_entropy_can_be_is_each_layers_own():
    """A window of two keys in layer 0, four keys in layer 1; two queries of one text, three of another."""
    zero = np.zeros((2, 3, len(FIGURES)))
    texts = [text_sums(count, count * np.log([2, 4]), zero) for count in (2, 3)]
    found = Statistics.of(texts[0] + texts[1], MODEL)
    assert found.entropy_limit == pytest.approx(np.log([2, 4]))
    assert Sums.nothing(2, 3).limit.tolist() == [0, 0]


@given(st.integers(4, 20), st.integers(0, 2**32 - 1))
def test_shares_are_those_of_a_record(length, seed):
    weights = np.random.default_rng(seed).random((length, length))
    weights /= weights.sum(axis=-1, keepdims=True)
    record = record_of(weights)
    found, [statistics] = summarise(record)[0, 0], record_statistics([record]).heads
    assert {name: statistics.figures[name] for name in PATTERNS} == pytest.approx(found.shares, abs=1e-6)
    assert statistics.figures["entropy"] == pytest.approx(found.entropy, abs=1e-5)
    places = np.arange(length)
    assert statistics.figures["distance"] == pytest.approx((weights * abs(places[:, None] - places)).sum() / length)


def test_the_same_word_is_elsewhere_in_any_case_and_whole():
    tokens = tokens_of(8)
    text = ["[CLS]", "Cat", "##s", "cat", ",", "cats", ",", "[SEP]"]
    words = [None, 0, 0, 1, 2, 3, 4, None]
    tokens = replace(tokens, shown=[], text=text, words=words)
    window = Window(0, 1, (0, 8), tokens, *word_numbers(tokens))
    same = factors(window, 0, 8)[LINEAR.index("same_word")]
    assert np.argwhere(same).tolist() == [[1, 5], [2, 5], [5, 1], [5, 2]]
    assert factors(window, 0, 1)[LINEAR.index("punctuation"), 0].tolist() == [0, 0, 0, 0, 1, 0, 1, 0]


def head(**figures: float) -> HeadStatistics:
    return HeadStatistics(0, 0, {**dict.fromkeys(FIGURES, 0.0), **figures}, dict.fromkeys(FIGURES, 0.0))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_label_is_the_pattern_with_the_largest_share(pattern):
    one = head(**{**dict.fromkeys(PATTERNS, 0.1), pattern: 0.4, "entropy": 3.0, "cls": 0.5})
    assert (one.label, one.strength) == (pattern, 0.4)


def test_a_head_without_a_clear_pattern_is_broad():
    one = head(next=0.29)
    assert (one.label, one.strength) == (BROAD, 0.29)


def test_what_can_not_be_counted_is_refused_with_what_can():
    with pytest.raises(RequestError, match="no mask 'future': it is one of padding, causal, none"):
        Counting("future")
    with pytest.raises(RequestError, match="no measure 'length': it is one of weight, norm"):
        Counting(measure="length")


# --- the clearest texts ----------------------------------------------------------------------------------


def made(shares=None, even=0.1, **figures) -> Statistics:
    """Shares are 0 but those given as name={(layer, head): share}; who looks at everything alike gives `even`."""
    totals = np.zeros((2, 3, len(FIGURES))) if shares is None else shares
    for name, values in figures.items():
        for place, value in values.items():
            totals[(*place, FIGURES.index(name))] = value
    return Statistics.of(text_sums(1, 2.5, totals, alike=np.full((2, len(LINEAR)), even)), MODEL)


def place(head):
    return None if head is None else (head.layer, head.head)


@pytest.mark.parametrize(
    ("share", "even", "does"),
    [
        (0.29, 0.01, False),  # of no label
        (0.3, 0.01, True),
        (0.34, 0.33, False),  # in texts of three tokens everybody gives so much
        (0.6, 0.33, False),
        (0.67, 0.33, True),
    ],
)
def test_a_head_that_does_not_do_it_is_not_called_the_clearest(share, even, does):
    statistics = made(even=even, self={(1, 0): share})
    assert place(statistics.clearest("self")) == ((1, 0) if does else None)
    assert statistics.uniform(1, "self") == pytest.approx(even)


@given(st.integers(0, 2**32 - 1), st.floats(0, 0.6))
def test_who_is_called_clearest_is_labelled_so_and_no_fellow_gives_more(seed, even):
    shares = np.random.default_rng(seed).random((2, 3, len(FIGURES))) * 0.8
    statistics = made(shares, even)
    for pattern in PATTERNS:
        one = statistics.clearest(pattern)
        fellows = [head.figures[pattern] for head in statistics.labelled(pattern)]
        if one is None:
            assert all(share < CLEARLY * even for share in fellows)
        else:
            assert one.label == pattern and one.figures[pattern] == max(fellows)
            assert one.figures[pattern] >= max(BROAD_BELOW, CLEARLY * even)


# --- statistics of records -------------------------------------------------------------------------------


TEXTS = ["The unbelievable cat sat on the mat, and the dog sat too.", "It is big.", "中文, and the cat"]


@pytest.mark.parametrize(
    ("mask", "measure", "words"),
    [("padding", "weight", False), ("causal", "weight", True), ("padding", "norm", False), ("none", "norm", True)],
)
def test_they_are_those_of_the_corpus(mask, measure, words, minilm):
    records = list(minilm.attend_many(TEXTS, mask=mask, measure=measure))
    found = record_statistics(records, words=words)
    expected = corpus_statistics(minilm, TEXTS, mask, measure, words)
    for field in dataclasses.fields(expected):
        here, there = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(there, np.ndarray):
            np.testing.assert_allclose(here, there, atol=2e-6)
        else:
            assert here == there, field.name


def test_padding_is_left_out(minilm):
    padded, bare = minilm.attend(TEXTS[0], pad_to=40), minilm.attend(TEXTS[0])
    found, expected = record_statistics([padded]), record_statistics([bare])
    np.testing.assert_allclose(found.figures, expected.figures, atol=1e-5)
    assert found.tokens == expected.tokens
    np.testing.assert_allclose(found.entropy_limit, expected.entropy_limit)


def test_layers_in_any_order_are_their_own(minilm):
    record = minilm.attend("The cat sat.")
    turned = record.select([5, 4, 3, 2, 1, 0])
    np.testing.assert_array_equal(record_statistics([turned]).figures, record_statistics([record]).figures)


EVEN = record_of(np.full((2, 2, 5, 5), 0.2))


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "no record"),
        ([EVEN.select([0])], "all 2 layers and 2 heads: .*without -l"),
        ([EVEN, dataclasses.replace(EVEN, mask_name="none")], "one mask"),
        ([EVEN, dataclasses.replace(EVEN, measure="norm")], "one measure"),
        ([EVEN, dataclasses.replace(EVEN, model=dataclasses.replace(EVEN.model, name="b"))], "one model"),
        ([dataclasses.replace(EVEN, key_tokens=EVEN.tokens)], "between two texts"),
        ([dataclasses.replace(EVEN, tokens=tokens_of(5, padding=1))], r"gives it weight"),
        ([dataclasses.replace(EVEN, mask_name="mine")], "no mask 'mine'"),
    ],
)
def test_what_has_no_statistics(records, said):
    with pytest.raises(RequestError, match=said):
        record_statistics(records)
