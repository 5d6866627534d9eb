"""Sums that add up, the figures they become, what a head is called; and statistics of records beside those of texts."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from checkpoints import EACH
from hypothesis import given
from hypothesis import strategies as st
from records import record_of, tokens_of
from slow import slow_except
from small_networks import make_small
from windows import text_sums

from attncli import RequestError, corpus_statistics, load_model
from attncli.analysis.patterns import BROAD, BROAD_BELOW, PATTERNS, summarise
from attncli.corpus.statistics import CLEARLY, HeadStatistics, Statistics, record_statistics
from attncli.corpus.sums import FIGURES, LINEAR, Sums, factors
from attncli.record import ModelInfo
from attncli.text.windows import TextWindow, word_numbers

MODEL = ModelInfo("made-up", "/made/up", "0" * 64, 2, 3, 24)
ZERO = np.zeros((2, 3, len(FIGURES)))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
def test_figures_are_means_over_tokens_and_the_spread_is_that_of_the_texts_means(counts, seed):
    numbers = np.random.default_rng(seed)
    means, uniform, limits = (numbers.random((len(counts), *shape)) for shape in (ZERO.shape, (2, len(LINEAR)), (2,)))
    texts = zip(counts, means, uniform, limits, strict=True)
    sums = sum(
        (text_sums(count, count * limit, count * mean, count * even) for count, mean, even, limit in texts),
        Sums.nothing(2, 3),
    )
    found = Statistics.of(sums, MODEL)
    assert (found.texts, found.tokens) == (len(counts), sum(counts))
    for ours, each in ((found.figures, means), (found.alike, uniform), (found.entropy_limit, limits)):
        assert np.allclose(ours, np.average(each, axis=0, weights=counts))
    assert np.allclose(found.spread, np.std(means, axis=0), atol=1e-7)


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
    text = ["[CLS]", "Cat", "##s", "cat", ",", "cats", ",", "[SEP]"]
    tokens = replace(tokens_of(8), shown=[], text=text, words=[None, 0, 0, 1, 2, 3, 4, None])
    window = TextWindow(0, 1, (0, 8), tokens, *word_numbers(tokens))
    same = factors(window, 0, 8)[LINEAR.index("same_word")]
    assert np.argwhere(same).tolist() == [[1, 5], [2, 5], [5, 1], [5, 2]]
    assert factors(window, 0, 1)[LINEAR.index("punctuation"), 0].tolist() == [0, 0, 0, 0, 1, 0, 1, 0]


def test_a_label_is_the_pattern_with_the_largest_share_or_broad():
    for pattern in PATTERNS:
        shares = {**dict.fromkeys(FIGURES, 0.1), pattern: 0.4, "entropy": 3.0, "cls": 0.5}
        one = HeadStatistics(0, 0, shares, shares)
        assert (one.label, one.strength) == (pattern, 0.4)
    one = HeadStatistics(0, 0, {**dict.fromkeys(FIGURES, 0.0), "next": 0.29}, {})
    assert (one.label, one.strength) == (BROAD, 0.29)


@pytest.mark.parametrize(
    ("share", "even", "does"),
    [
        (0.29, 0.01, False),  # of no label
        (0.3, 0.01, True),
        (0.6, 0.33, False),  # in texts of three tokens uniform attention gives a third
        (0.67, 0.33, True),
    ],
)
def test_a_head_that_does_not_do_it_is_not_called_the_clearest(share, even, does):
    totals = ZERO.copy()
    totals[1, 0, FIGURES.index("self")] = share
    statistics = Statistics.of(text_sums(1, 2.5, totals, np.full((2, len(LINEAR)), even)), MODEL)
    one = statistics.clearest("self")
    assert (one and one.name) == ("1.0" if does else None)
    assert statistics.uniform(1, "self") == pytest.approx(even)


@given(st.integers(0, 2**32 - 1), st.floats(0, 0.6))
def test_who_is_called_clearest_is_labelled_so_and_no_fellow_gives_more(seed, even):
    shares = np.random.default_rng(seed).random(ZERO.shape) * 0.8
    statistics = Statistics.of(text_sums(1, 2.5, shares, np.full((2, len(LINEAR)), even)), MODEL)
    for pattern in PATTERNS:
        one = statistics.clearest(pattern)
        fellows = [head.figures[pattern] for head in statistics.labelled(pattern)]
        if one is None:
            assert all(share < CLEARLY * even for share in fellows)
        else:
            assert one.label == pattern and one.figures[pattern] == max(fellows)
            assert one.figures[pattern] >= max(BROAD_BELOW, CLEARLY * even)


# --- statistics of records, and of texts that a network reads ----------------------------------------------

TEXTS = ["The unbelievable cat sat on the mat, and the dog sat too.", "It is big.", "中文, and the cat"]
ASKED = [
    {},
    {"mask": "causal", "words": True},
    {"measure": "norm"},
    {"mask": "none", "measure": "norm", "words": True},
]


def check_same(model, texts, words=False, **asked):
    """Statistics of texts are those of their records, which other tests hold against transformers."""
    found = record_statistics(list(model.attend_many(texts, **asked)), words)
    expected = corpus_statistics(model, texts, words=words, **asked)
    for field in dataclasses.fields(expected):
        here, there = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(there, np.ndarray):
            np.testing.assert_allclose(here, there, atol=2e-5 if field.name == "spread" else 2e-6, err_msg=field.name)
        elif field.name != "kind":
            assert here == there, field.name


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_texts_are_counted_as_their_records(minilm, asked):
    check_same(minilm, TEXTS, **asked)


@pytest.mark.parametrize("family", EACH)
def test_every_family_is_counted_as_its_records(tiny, family):
    check_same(load_model(str(tiny(family)), device="cpu", dtype="float64"), ["the cat sat on the cat", "it, too"])


PARTS = [
    *((name, None) for name in ("gpt2", "llama", "gemma3", "gemma2", "gpt_oss", "opt", "esm")),
    *((name, part) for name in ("t5", "bart") for part in ("encoder", "decoder")),
]


@pytest.mark.parametrize("asked", slow_except([{}, {"words": True}, {"measure": "norm", "words": True}], [{}]), ids=str)
@pytest.mark.parametrize("network", slow_except(PARTS, [("gpt2", None), ("t5", "decoder")]), ids=str)
def test_inside_networks_of_transformers_too(tmp_path, network, asked):
    name, part = network
    model = load_model(str(make_small(tmp_path, name)), device="cpu", engine="transformers")
    check_same(model, ["the cat sat", "a big cat on the mat", "it"], which=part, **asked)


@pytest.mark.parametrize("asked", [{"mask": "none", "words": True}, {"stride": 9}], ids=str)
def test_a_bert_is_counted_alike_by_both_engines(tiny, asked):
    texts = ["in the cat, the mat. a cat sat", "the unbelievable cat, " * 20]
    ours, other = (
        corpus_statistics(load_model(str(tiny("bert")), "cpu", engine=engine), texts, **asked)
        for engine in ("attncli", "transformers")
    )
    assert np.allclose(ours.figures, other.figures, atol=1e-5) and np.allclose(ours.spread, other.spread, atol=1e-5)
    assert ours.entropy_limit == pytest.approx(other.entropy_limit) and ours.parts == other.parts


@pytest.mark.parametrize(
    ("family", "asked", "why"),
    [
        ("t5", {"which": "cross"}, "cross-attention is between two texts"),
        ("gpt2", {"which": "encoder"}, "has no encoder attention, since it is only a decoder"),
        ("gpt2", {"which": "middle"}, "no part 'middle'"),
    ],
)
def test_what_can_not_be_counted(foreign, family, asked, why):
    with pytest.raises(RequestError, match=why):
        corpus_statistics(foreign(family), TEXTS, **asked)


def test_padding_is_left_out_of_records_and_their_layers_may_have_any_order(minilm):
    padded, bare = minilm.attend(TEXTS[0], pad_to=40), minilm.attend(TEXTS[0])
    found, expected = record_statistics([padded.select([5, 4, 3, 2, 1, 0])]), record_statistics([bare])
    np.testing.assert_allclose(found.figures, expected.figures, atol=1e-5)
    assert found.tokens == expected.tokens
    np.testing.assert_allclose(found.entropy_limit, expected.entropy_limit)


EVEN = record_of(np.full((2, 2, 5, 5), 0.2))


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "no record"),
        ([EVEN.select([0])], "all 2 layers and 2 heads: .*without -l"),
        ([EVEN, replace(EVEN, mask_name="none")], "with the same mask"),
        ([EVEN, replace(EVEN, measure="norm")], "with the same measure"),
        ([EVEN, replace(EVEN, model=replace(EVEN.model, name="b"))], "with the same model"),
        ([replace(EVEN, key_tokens=EVEN.tokens)], "between two texts"),
        ([replace(EVEN, tokens=tokens_of(5, padding=1))], r"gives it weight"),
        ([replace(EVEN, mask_name="mine")], "no mask 'mine'"),
    ],
)
def test_records_that_have_no_statistics(records, said):
    with pytest.raises(RequestError, match=said):
        record_statistics(records)
