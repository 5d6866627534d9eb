"""Mechanisms of a head: its variants and claims together, and as a document."""

import json

import numpy as np
import pytest

from attncli.attention import NORMALISERS, SCORES
from attncli.base.errors import RequestError
from attncli.checks import mechanisms as measuring
from attncli.checks.claims import check_claims
from attncli.checks.designs import designs
from attncli.checks.looks import HeadInLayer
from attncli.checks.mechanisms import COLDEST, HOTTEST, check_temperature, mechanisms
from attncli.checks.papers import check_papers
from attncli.checks.variants import variants


@pytest.mark.slow
def test_the_document_holds_every_variant_and_claim(minilm, trained):
    head = trained(2, 9, "causal")
    found = json.loads(json.dumps(mechanisms(minilm, head, 0.5, seed=7).document(), allow_nan=False))
    assert (found["layer"], found["head"], found["mask"]) == (2, 9, "causal")
    assert (found["temperature"], found["seed"]) == (0.5, 7)
    assert np.array_equal(np.float32(found["weights"]), head.record.map(2, 9))
    assert len(found["variants"]) == len(SCORES) * len(NORMALISERS)
    for one, expected in zip(found["variants"], variants(head, 0.5, 7), strict=True):
        assert (one["score"], one["normaliser"], one["moved"]) == (expected.score, expected.normaliser, expected.moved)
        assert np.array_equal(np.float32(one["weights"]), expected.weights)
    in_layer = HeadInLayer.of(minilm, head)
    claims = [*check_claims(minilm, head, 7), *check_papers(head, in_layer, 7)]
    assert found["claims"] == [vars(claim) for claim in claims]
    assert found["designs"] == json.loads(json.dumps([one.document() for one in designs(in_layer, 2, 0.5, 7)]))


def test_of_one_design_there_is_nothing_else(minilm, trained):
    found = mechanisms(minilm, trained(), reach=5, design="window").document()
    assert (found["variants"], found["claims"], found["reach"]) == ([], [], 5)
    [one] = found["designs"]
    assert (one["name"], one["described"]) == ("window", "window of 5")


def test_a_design_that_there_is_not_for_a_head_is_refused(minilm, trained, monkeypatch):
    monkeypatch.setattr(measuring, "designs", lambda *asked: [])
    with pytest.raises(RequestError, match="--design grouped is for several heads of two or more elements: here"):
        mechanisms(minilm, trained(), design="grouped")


@pytest.mark.parametrize("temperature", [COLDEST, 1.0, HOTTEST])
def test_temperatures_that_are_possible(temperature):
    check_temperature(temperature)


@pytest.mark.parametrize("temperature", [0.0, -1.0, 0.0009, 1001.0, float("inf"), float("nan")])
def test_temperatures_that_are_not(minilm, trained, temperature):
    with pytest.raises(RequestError, match=r"out of range: give one from 0\.001 to 1000"):
        mechanisms(minilm, trained(), temperature)
