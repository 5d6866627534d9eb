"""Axes of maps: stretches keep all of the weight, some tokens keep theirs, and no map is stored twice."""

import sys
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from measuring import peak_added
from records import record_of, tokens

from attncli import load_model
from attncli.analysis.patterns import summarise
from attncli.record import grouping
from attncli.record.grouping import group_record, merge_words, stretches
from attncli.record.parts import AxisUnits
from attncli.record.selection import Grouping

IN_STRETCHES = Grouping(stretches=True)


def random_record(length, layers=2, heads=3, seed=0):
    random = np.random.default_rng(seed)
    mask = random.random((layers, length, length)) < 0.7
    weights = random.random((layers, heads, length, length)) * mask[:, None]
    sums = weights.sum(axis=-1, keepdims=True)
    return record_of(np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0), mask)


@given(st.integers(5, 40), st.integers(2, 12), st.integers(0, 9))
def test_between_stretches_weights_add_up_to_them_and_are_means_from_them(length, most, seed):
    record = random_record(length, seed=seed)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(grouping, "LONG", 4)
        patched.setattr(grouping, "MOST", most)
        shown, groups = group_record(record, IN_STRETCHES), stretches(length)
    assert len(shown.tokens) == len(groups) <= most
    assert [place for group in groups for place in group] == list(range(length))
    for row, of_row in enumerate(groups):
        for column, of_column in enumerate(groups):
            part = record.weights[:, :, of_row][..., of_column]
            np.testing.assert_allclose(shown.weights[:, :, row, column], part.sum(axis=-1).mean(axis=-1), atol=1e-6)
            assert np.array_equal(shown.masks[:, row, column], record.masks[:, of_row][..., of_column].any(axis=(1, 2)))
    assert shown.tokens.text[0] == (f"0-{len(groups[0]) - 1}" if len(groups[0]) > 1 else "0")


@given(st.integers(3, 20), st.data())
def test_some_tokens_give_each_other_what_they_give_each_other(length, data):
    record = random_record(length)
    first = data.draw(st.integers(0, length - 1))
    last = data.draw(st.integers(first, length - 1))
    chosen = data.draw(st.sampled_from([f"{first}-{last}", f"{last},{first}"]))
    places = list(range(first, last + 1)) if "-" in chosen else sorted({first, last})
    shown = group_record(record, Grouping(chosen))
    assert np.array_equal(shown.weights, record.weights[:, :, places][..., places])
    assert np.array_equal(shown.masks, record.masks[:, places][..., places])
    assert shown.tokens.text == [record.tokens.text[place] for place in places]


def test_stretches_of_words_are_means_of_words(monkeypatch):
    """Two pieces of a word count together as much as a word of one."""
    monkeypatch.setattr(grouping, "LONG", 2)
    monkeypatch.setattr(grouping, "MOST", 2)
    words = tokens(["a", "b", "##c", "d", "e"], [0, 1, 1, 2, 3])
    record = replace(random_record(5), tokens=words)
    shown = group_record(record, Grouping(unit="word", stretches=True))
    between = group_record(record, Grouping(unit="word"))
    for row, column in product(range(2), repeat=2):
        part = between.weights[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        np.testing.assert_allclose(shown.weights[:, :, row, column], part.sum(-1).mean(-1), rtol=1e-5)
    assert shown.part == AxisUnits(5, "", "words", 4, 2)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux only")
def test_to_look_at_a_long_map_takes_no_second_one():
    """4,096 tokens: a map has 64 MiB, one in float64 twice that."""
    length = 4096
    record = record_of(np.full((1, 1, length, length), 1 / length, dtype=np.float32), np.ones((length, length), bool))
    for look in (summarise, partial(group_record, grouping=IN_STRETCHES)):
        look(record)
        assert peak_added(lambda look=look: look(record), torch.device("cpu")) < 64 * 2**20


@pytest.mark.parametrize("some", ["1-3", "0,2,4"])
def test_some_tokens_keep_what_their_scores_are_the_sum_of(tiny, some):
    model = load_model(str(tiny("deberta-v2")), device="cpu")
    record = model.attend("the cat sat on the big thing", vectors="all")
    chosen = [1, 2, 3] if some == "1-3" else [0, 2, 4]
    shown = group_record(record, Grouping(some))
    for layer, head in record.vectors.heads:
        every, some = record.vectors.parts(layer, head), shown.vectors.parts(layer, head)
        assert list(some) == list(every) and len(some) == 3
        for name, part in some.items():
            np.testing.assert_allclose(part, every[name][chosen][:, chosen], rtol=1e-12)


def test_rows_of_rows_keep_their_places():
    """Three of seven tokens are taken as rows, then two of these; rows of words are numbered by words."""
    text = tokens(["[CLS]", "un", "##believ", "##able", "cats", "sat", "[SEP]"], [None, 0, 0, 0, 1, 2, None])
    record = replace(record_of(np.random.default_rng(0).dirichlet(np.ones(7), 7)), tokens=text)
    some = group_record(record, Grouping(queries="0,3,5"))
    assert some.rows == [0, 3, 5] and np.array_equal(some.weights, record.weights[:, :, [0, 3, 5]])
    fewer = group_record(some, Grouping(queries="1-2"))
    assert fewer.rows == [3, 5] and fewer.tokens.text == ["##able", "sat"]
    assert np.array_equal(fewer.weights, record.weights[:, :, [3, 5]]) and fewer.keys == text
    apart = group_record(record, Grouping(queries="1,2", unit="word"))  # a row stays one of a token
    assert apart.rows == [1, 1] and apart.tokens.text == ["un", "##believ"] and apart.keys == merge_words(some).keys
    np.testing.assert_allclose(apart.weights[0, 0, :, 1], record.weights[0, 0, [1, 2], 1:4].sum(-1), atol=1e-6)
    words = merge_words(some)
    assert words.rows == [0, 1, 3] and words.keys.text == ["[CLS]", "unbelievable", "cats", "sat", "[SEP]"]
    np.testing.assert_allclose(words.weights[0, 0, :, 1], record.weights[0, 0, [0, 3, 5], 1:4].sum(-1), atol=1e-6)
