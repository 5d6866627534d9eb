"""`check` calls no right case wrong and no wrong case right, and names the mistakes."""

from collections import defaultdict

import pytest
from checks.code.known_cases import EVERY, PAIRS, PLANTED, STYLES, result_of
from slow import slow_except

from attncli.attention.mistakes import MISTAKES

# The formula has no part for what these have; the refusal says which.
REFUSED = {"lucidrains null key", "T5 bias", "einsum with bias"}
QUICK = {
    "batched added with_mask fused_kernel LinearQ MatricesBefore": "right",
    "no scale, function|mask after softmax, arrays|keys as values, arrays|-1e9 in half precision, function": "wrong",
    "key heads in the wrong order, grouped_function": "wrong",
    # masks that differ between texts, a cache that is used twice, cross-attention, inputs changed in place
    "mask of the first text|positions from 0 after a cache|mask of the query|query changed in place": "wrong",
    # softmax in float32, a scale in float32, a cache, rotary positions, a window, a softcap, sinks, ALiBi
    "annotated heads|GPT-J float32 scale|GPT-2 cache|Llama rotary and cache|Mistral window|Gemma 2 softcap": "right",
    "gpt-oss sinks|ALiBi|d2l heads, lazy|memory with its own mask|tokens in columns|two masks, NaN": "right",
}
EARLY = [title for titles in QUICK for title in (titles.split("|") if "|" in titles else titles.split())]


@pytest.mark.parametrize("title", slow_except(EVERY, EARLY))
def test_the_verdict_is_true(title):
    case, result = EVERY[title], result_of(title)
    true = "right" if case.right else "wrong"
    assert result.verdict in ((true, "refused") if title in REFUSED else (true,)), result
    if result.verdict == "right":
        assert not result.names and result.said.startswith("right")
    if case.part and title in EARLY:
        assert sorted(result.names) == sorted(case.mistakes), result


def is_named(case):
    """Say whether all mistakes are named, and nothing else."""
    return sorted(result_of(case.title).names) == sorted(case.mistakes)


@pytest.mark.slow
def test_205_of_215_mistakes_are_named_and_each_in_four_of_its_five_programs():
    missed = defaultdict(list)
    for case in PLANTED:
        missed[case.mistakes] += [result_of(case.title)] * (not is_named(case))
    assert set(missed) == {(one.name,) for one in MISTAKES}
    assert max(map(len, missed.values())) <= 1 and sum(map(len, missed.values())) <= 10, missed


@pytest.mark.slow
def test_13_of_14_pairs_are_named():
    missed = [result_of(case.title) for case in PAIRS if not is_named(case)]
    assert len(missed) <= 1, missed


@pytest.mark.slow
def test_the_line_that_is_shown_is_the_mistaken_one():
    wrong = [(case, result_of(case.title).line) for case in (*PLANTED, *STYLES) if not case.right]
    shown = [(case, case.source.splitlines()[line - 1]) for case, line in wrong if line]
    elsewhere = {case.title for case, line in shown if line in case.base.splitlines() and line != case.marker}
    # Scores that another line scaled; and a temperature of 0.1 that is a scale multiplied by d_k of 10.
    assert elsewhere <= {"no scale, fused", "temperature, rearranged"}, elsewhere
