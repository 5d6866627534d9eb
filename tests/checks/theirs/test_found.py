"""What was found, in a sentence and as JSON."""

import json
import math

import pytest

from attncli.checks.theirs.found import Check, Diagnosed, Found

HOLDS, FAILS, NOTHING = Check("a", True, 0.0), Check("b", False, math.inf), Check("c", None, note="why")
MISTAKE = Diagnosed("no scale", "without the division by √d_k", "divide", 3, "q @ k")


def found(*checks: Check, **more) -> Found:
    return Found("Mine", "mine.py", "attention", checks, **more)


@pytest.mark.parametrize(
    "checks, right",
    [((HOLDS,), True), ((HOLDS, NOTHING), True), ((HOLDS, FAILS), False), ((NOTHING,), False), ((), False)],
)
def test_it_is_right_if_something_holds_and_nothing_fails(checks, right):
    assert found(*checks).right == right


def test_the_verdict_in_a_sentence():
    assert found(HOLDS, conventions=("it is so", "and so")).verdict == "right: Mine is attention, it is so; and so"
    assert found(HOLDS, FAILS).verdict == "wrong: Mine differs in 1 of 2 checks (b), and no known mistake explains it"
    one = found(HOLDS, FAILS, diagnosis=(MISTAKE,))
    assert one.verdict == "wrong: Mine is attention without the division by √d_k"
    both = found(FAILS, diagnosis=(MISTAKE, MISTAKE._replace(says="with dropout")))
    assert both.verdict.endswith("without the division by √d_k, and with dropout")


def test_in_words_there_is_the_remedy_and_the_smallest_input():
    assert str(found(HOLDS)) == "right: Mine is attention"
    said = str(found(FAILS, diagnosis=(MISTAKE,))).splitlines()
    assert said[1:] == ["line 3 has `q @ k` (a guess, by what it does): divide"]
    assert str(MISTAKE._replace(line=None, text="")) == "divide"
    assert str(found(FAILS, smallest="of one key")).splitlines()[1:] == ["of one key"]


@pytest.mark.parametrize("difference, told", [(math.inf, None), (math.nan, None), (None, None), (0.5, 0.5), (0.0, 0.0)])
def test_json_has_no_infinity(difference, told):
    assert Check("a", False, difference).document()["difference"] == told


def test_the_document_has_everything():
    document = found(HOLDS, FAILS, NOTHING, diagnosis=(MISTAKE,), smallest="of one key").document()
    read = json.loads(json.dumps(document, allow_nan=False))
    assert read["right"] is False and read["verdict"].startswith("wrong: Mine")
    assert [(one["name"], one["holds"]) for one in read["checks"]] == [("a", True), ("b", False), ("c", None)]
    assert read["checks"][2]["note"] == "why" and read["diagnosis"][0]["line"] == 3
    assert read["smallest"] == "of one key" and found(HOLDS).document()["smallest"] is None and read["maps"] is None
