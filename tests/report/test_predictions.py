"""What is said of a prediction in words."""

from dataclasses import replace

import numpy as np
import pytest
from records import record_of

from attncli.record.display import describe_prediction
from attncli.record.parts import Answer, Said


@pytest.fixture
def lines():
    """`lines(said)` for [CLS] cat ##s 中 [SEP], the first two pieces of one word."""
    record = record_of(np.full((1, 1, 5, 5), 0.2))
    record = replace(record, tokens=replace(record.tokens, words=[None, 0, 0, 1, None], shown=[]))
    return lambda said: describe_prediction(replace(record, prediction=said))


def classes(single: bool, *answers: tuple[str, float, float | None], output: str = "classes") -> Said:
    return Said(output, "classes", single, [Answer(*one) for one in answers])


def test_nothing_of_a_record_without(lines):
    assert lines(None) == []


def test_labels_of_a_text(lines):
    many = [(f"L{number}", 1.0, 0.1) for number in range(7)]
    assert lines(classes(True, ("yes", 2.0, 0.9714), ("no", 0.0, 0.0286))) == ["prediction: yes 97.1%, no 2.9%"]
    assert lines(classes(True, *many)) == ["prediction: L0 10.0%, L1 10.0%, L2 10.0%, L3 10.0% and 3 more"]
    assert lines(classes(True, ("follows", 2.0, 0.9), output="next sentence")) == [
        "prediction, next sentence: follows 90.0%"
    ]


def test_labels_each_of_which_may_be_right(lines):
    assert lines(classes(False, ("rude", 2.0, 0.9), ("kind", 0.0, 0.5), ("wise", -1.0, 0.2))) == [
        "prediction: rude 90.0%, kind 50.0%"
    ]
    assert lines(classes(False, ("rude", -2.0, 0.1))) == ["prediction: none of 1 labels has 50%"]


def test_numbers_of_a_regression(lines):
    assert lines(classes(False, ("LABEL_0", -0.123456, None))) == ["prediction: -0.1235"]
    assert lines(classes(False, ("stars", 4.5, None), ("price", 12345.678, None))) == [
        "prediction: stars 4.5, price 1.235e+04"
    ]


def test_labels_of_words(lines):
    labelled = [Answer("B-X", 1.0, 0.9, 1, 2), Answer("O", 1.0, 0.9, 2, 3), Answer("O", 1.0, 0.8, 3, 4)]
    assert lines(Said("tokens", "tokens", True, labelled)) == ["prediction: cats B-X 90.0%"]
    assert lines(Said("tokens", "tokens", True, labelled[1:])) == ["prediction: no token has a label"]
    replaced = [Answer("replaced", 1.0, 0.3, 1, 2), Answer("replaced", 1.0, 0.7, 3, 4)]
    assert lines(Said("replaced", "tokens", False, replaced)) == ["prediction, replaced: 中 replaced 70.0%"]


def test_a_span_and_words(lines):
    spans = [Answer("cats 中", 3.0, 0.8, 1, 4), Answer("cats", 2.0, 0.1, 1, 3)]
    assert lines(Said("span", "span", True, spans)) == ['prediction: "cats 中" 80.0%']
    words = [Answer(word, 1.0, 0.3, place, place + 1) for place in (1, 3) for word in ("a", "b")]
    assert lines(Said("words", "words", True, words)) == [
        "prediction: cat 1 is a 30.0%, b 30.0%",
        "prediction: 中 3 is a 30.0%, b 30.0%",
    ]


def test_what_comes_from_outside_commands_no_terminal(lines):
    evil = "\x1b[31mred\n[bold]"
    for said in (
        classes(True, (evil, 1.0, 0.9), output=evil),
        classes(False, (evil, 1.0, None)),
        Said("tokens", "tokens", True, [Answer(evil, 1.0, 0.9, 1, 2)]),
        Said("span", "span", True, [Answer(evil, 1.0, 0.9, 1, 2)]),
        Said("words", "words", True, [Answer(evil, 1.0, 0.9, 1, 2)]),
    ):
        [line] = lines(said)
        assert line.isprintable() and "[bold]" in line
