"""Predictions in a record: saved and loaded, between words, and checked; and numbers as text."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from records import record_of

from attncli import RequestError, load_record
from attncli.record.grouping import group_record, merge_words
from attncli.record.parts import Answer, PredictionSummary, decimals
from attncli.record.selection import Grouping

SAID = PredictionSummary(
    "classes", "classes", True, [Answer("yes\x1b[31m", 2.5, 0.75), Answer("[bold]no", -1e-9, 0.25)]
)
PLACES = PredictionSummary(
    "tokens", "tokens", True, [Answer(f"label {place}", 1.0, 0.5, place, place + 1) for place in range(1, 4)]
)
NUMBER = PredictionSummary("classes", "classes", False, [Answer("LABEL_0", 0.1 + 0.2, None)])


@pytest.fixture
def record():
    return record_of(np.full((1, 1, 5, 5), 0.2))


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".json"])
@pytest.mark.parametrize("said", [None, SAID, PLACES, NUMBER])
def test_it_comes_back_as_it_was(said, suffix, record, tmp_path):
    replace(record, prediction=said).save(tmp_path / f"r{suffix}")
    assert load_record(tmp_path / f"r{suffix}").prediction == said


ANSWER = {"label": "yes", "logit": 1.0, "probability": 0.5, "start": None, "end": None}
GOOD = {"output": "classes", "kind": "classes", "single": True, "answers": [ANSWER]}
BAD = [
    {},
    {**GOOD, "kind": "guess"},
    {**GOOD, "single": 1},
    {**GOOD, "more": 1},
    {**GOOD, "answers": {}},
    *(
        {**GOOD, "answers": [{**ANSWER, **wrong}]}
        for wrong in (
            {"label": 5},
            {"logit": 1e300},
            {"probability": 1.5},
            {"end": 1},
            {"start": 2, "end": 2},
            {"start": 0, "end": 6},
            {"start": 0, "end": 10**30},
        )
    ),
]


@pytest.mark.parametrize("wrong", BAD, ids=range(len(BAD)))
def test_what_no_model_says_is_refused(wrong, record, tmp_path):
    path = tmp_path / "r.json"
    replace(record, prediction=NUMBER).save(path)
    document = json.loads(path.read_text())
    document["records"][0]["prediction"] = GOOD
    path.write_text(json.dumps(document))
    assert load_record(path).prediction.answers[0].label == "yes"
    document["records"][0]["prediction"] = wrong
    path.write_text(json.dumps(document))
    with pytest.raises(RequestError, match="is not a complete attncli record") as caught:
        load_record(path)
    assert str(caught.value).isprintable() and len(str(caught.value)) <= 300


def test_it_follows_tokens_into_words_and_out_of_a_text(record):
    """[CLS] cat ##s 中 [SEP], the first two pieces of one word."""
    tokens = replace(record.tokens, words=[None, 0, 0, 1, None])
    whole = replace(record, tokens=tokens, prediction=PLACES)
    words = merge_words(whole).prediction
    assert [(one.label, one.start, one.end) for one in words.answers] == [
        ("label 1", 1, 2), ("label 2", 1, 2), ("label 3", 2, 3),
    ]  # fmt: skip
    [some] = group_record(whole, Grouping("3-4")).prediction.answers
    assert (some.label, some.start, some.end) == ("label 3", 0, 1)
    assert merge_words(replace(whole, prediction=SAID)).prediction == SAID
    span = PredictionSummary("span", "span", True, [Answer("cats 中", 1.0, 0.5, 1, 4)])
    assert merge_words(replace(whole, prediction=span)).prediction.answers[0].end == 3


# --- numbers as text -------------------------------------------------------------------------------------


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(arrays.arrays(np.float32, arrays.array_shapes(max_dims=3), elements=FLOATS))
def test_every_number_reads_back_bit_by_bit(numbers):
    read = np.array(json.loads(decimals(numbers)), dtype=np.float64).astype(np.float32)
    assert np.array_equal(read.view(np.uint32), numbers.view(np.uint32))
