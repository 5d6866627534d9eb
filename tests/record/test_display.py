"""Describe a record for every medium: names, sizes, predictions, notes, terms, pooled cells."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import cross_records, record_of, tokens_of

from attncli import RequestError
from attncli.record import Vectors
from attncli.record.display import (
    describe_prediction,
    model_name,
    notes,
    pool,
    record_size,
    score_terms,
    token_count,
    with_terms,
)
from attncli.record.grouping import group_record
from attncli.record.parts import Answer, PredictionSummary
from attncli.record.selection import Grouping

# --- names and sizes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shown"), [("/long/path/to/model", "model"), ("C:\\models\\mine\\", "mine"), ("a\x1b[31m", "a\\x1b[31m")]
)
def test_a_model_is_named_without_its_folders_and_without_harm(name, shown):
    assert model_name(name) == shown


def test_padding_is_counted_apart():
    assert token_count(tokens_of(9)) == "9 tokens"
    assert token_count(tokens_of(3).take([1])) == "1 token"
    assert token_count(tokens_of(9, padding=2)) == "7 tokens + 2 [PAD]"
    record = record_of([[0.5, 0.5], [1, 0]])
    assert record_size(record) == token_count(record.tokens)


@given(cross_records())
def test_keys_of_another_text_are_counted_too(record):
    assert record_size(record) == f"{len(record.tokens)} tokens to {len(record.keys)} tokens"
    assert record_size(replace(record, key_tokens=None)) == f"{len(record.tokens)} tokens"


# --- predictions -------------------------------------------------------------------------------------


@pytest.fixture
def lines():
    """`lines(said)` for [CLS] cat ##s 中 [SEP], the first two pieces of one word."""
    record = record_of(np.full((1, 1, 5, 5), 0.2))
    record = replace(record, tokens=replace(record.tokens, words=[None, 0, 0, 1, None], shown=[]))
    return lambda said: describe_prediction(replace(record, prediction=said))


def classes(single: bool, *answers: tuple[str, float, float | None], output: str = "classes") -> PredictionSummary:
    return PredictionSummary(output, "classes", single, [Answer(*one) for one in answers])


def of_tokens(
    kind: str, *answers: tuple[str, float, int, int], single: bool = True, output: str = ""
) -> PredictionSummary:
    made = [Answer(label, 1.0, probability, start, end) for label, probability, start, end in answers]
    return PredictionSummary(output or kind, kind, single, made)


MANY = [(f"L{number}", 1.0, 0.1) for number in range(7)]
B_X, OTHER, ANOTHER = ("B-X", 0.9, 1, 2), ("O", 0.9, 2, 3), ("O", 0.8, 3, 4)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (None, []),
        (classes(True, ("yes", 2.0, 0.9714), ("no", 0.0, 0.0286)), ["yes 97.1%, no 2.9%"]),
        (classes(True, *MANY), ["L0 10.0%, L1 10.0%, L2 10.0%, L3 10.0% and 3 more"]),
        (classes(True, ("follows", 2.0, 0.9), output="next sentence"), [", next sentence: follows 90.0%"]),
        # labels each of which may be right
        (classes(False, ("rude", 2.0, 0.9), ("kind", 0.0, 0.5), ("wise", -1.0, 0.2)), ["rude 90.0%, kind 50.0%"]),
        # numbers of a regression
        (classes(False, ("LABEL_0", -0.123456, None)), ["-0.1235"]),
        (classes(False, ("stars", 4.5, None), ("price", 12345.678, None)), ["stars 4.5, price 1.235e+04"]),
        # labels of words
        (of_tokens("tokens", B_X, OTHER, ANOTHER), ["cats B-X 90.0%"]),
        (
            of_tokens("tokens", ("new", 0.3, 1, 2), ("new", 0.7, 3, 4), single=False, output="replaced"),
            [", replaced: 中 new 70.0%"],
        ),
        (of_tokens("span", ("cats 中", 0.8, 1, 4), ("cats", 0.1, 1, 3)), ['"cats 中" 80.0%']),
        (
            of_tokens("words", *((word, 0.3, place, place + 1) for place in (1, 3) for word in ("a", "b"))),
            ["cat 1 is a 30.0%, b 30.0%", "中 3 is a 30.0%, b 30.0%"],
        ),
    ],
)
def test_a_prediction_in_lines(lines, said, expected):
    assert lines(said) == [f"prediction{'' if one.startswith(', ') else ': '}{one}" for one in expected]


def test_what_comes_from_outside_commands_no_terminal(lines):
    evil = "\x1b[31mred\n[bold]"
    for said in (
        classes(True, (evil, 1.0, 0.9), output=evil),
        classes(False, (evil, 1.0, None)),
        *(of_tokens(kind, (evil, 0.9, 1, 2)) for kind in ("tokens", "span", "words")),
    ):
        [line] = lines(said)
        assert line.isprintable() and "[bold]" in line


# --- notes -------------------------------------------------------------------------------------------


def test_how_much_of_their_weight_is_said():
    record = record_of(np.array([[0.5, 0.25, 0.25], [0.1, 0.25, 0.65], [0, 0, 1]]))
    chosen = Grouping("0-1")
    [said] = notes(group_record(record, chosen))
    assert said == "tokens 0-1 of 3, renumbered from 0: they give each other 55% of their weight"
    [said] = notes(group_record(replace(record, measure="norm"), chosen))
    assert said == "tokens 0-1 of 3, renumbered from 0"
    assert notes(record) == []


# --- terms of scores ---------------------------------------------------------------------------------


NUMBERS = np.random.default_rng(0)
MASK = np.tri(5, dtype=bool)


def made(heads=1, terms=("position",), **more):
    """A record whose weights are made of its queries, keys and terms."""
    query, key = NUMBERS.normal(size=(2, heads, 5, 4)).astype(np.float32)
    added = {name: NUMBERS.normal(size=(heads, 5, 5)).astype(np.float32) for name in terms}
    pairs = [(0, head) for head in range(heads)]
    vectors = Vectors(pairs, query, key, np.full(heads, 0.3), added)
    raised = np.exp(0.3 * query @ key.mT + sum(added.values())) * MASK
    return replace(record_of((raised / raised.sum(-1, keepdims=True))[None], MASK), vectors=vectors, **more)


def test_the_parts_add_up_to_the_score_and_that_leads_to_the_weights():
    record = made(terms=("content to position", "position to content"))
    score, *parts = score_terms(record).values()
    np.testing.assert_allclose(score, sum(parts))
    raised = np.exp(np.nan_to_num(score, nan=-np.inf))
    np.testing.assert_allclose(raised / raised.sum(-1, keepdims=True), record.map(0, 0), atol=1e-6)
    assert list(score_terms(record)) == ["score", "content", "content to position", "position to content"]


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (made(heads=2), "one head: choose it with -l and -H"),
        (replace(made(), vectors=None), "lacks q and k of head 0.0 .*--vectors 0.0 -o"),
        (made(terms=()), "add no term: omit --terms"),
        (made(measure="norm"), "lacks q and k"),
    ],
)
def test_what_has_none_is_refused(record, says):
    with pytest.raises(RequestError, match=says):
        with_terms(record)


# --- pooling -----------------------------------------------------------------------------------------


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 30), st.integers(1, 30))
def test_pooling_keeps_the_largest(rows, columns, most_rows, most_columns):
    weights = np.random.default_rng(0).random((rows, columns)).astype(np.float32)
    small = pool(weights, most_rows, most_columns)
    assert small.shape == (min(rows, most_rows), min(columns, most_columns))
    assert small.max() == weights.max()
    if small.shape == weights.shape:
        assert np.array_equal(small, weights)
