"""One text under every mask: records of the same tokens, what moved, and what would be unlawful."""

import json
from dataclasses import replace

import numpy as np
import pytest
from checkpoints import ONE_OF_EACH

from attncli import load_model
from attncli.analysis.masking import MaskEffect, mask_effects
from attncli.checks.masking import COMPARED, look
from attncli.record import Input, Request

TEXT = "The cat sat on the mat."


def test_records_are_the_model_s_and_effects_are_of_them(minilm):
    found = look(minilm, Input(TEXT), Request("0,-1", "1,3", pad_to=14))
    assert list(found.records) == ["none", *COMPARED] and found.tokens.padding == [False] * 9 + [True] * 5
    for name, record in found.records.items():
        expected = minilm.attend(TEXT, mask=name, pad_to=14, layers="0,-1", heads="1,3")
        assert np.array_equal(record.weights, expected.weights)
    for name, effects in found.effects.items():
        assert effects == mask_effects(found.records[name], found.records["none"])
    moved = {head: effect.moved for head, effect in found.effects["causal"].items()}
    assert set(moved) == {(0, 1), (0, 3), (5, 1), (5, 3)} and moved[found.most_moved] == max(moved.values())


def test_without_a_length_there_are_four_pads_unless_there_is_no_room(minilm):
    assert sum(look(minilm, Input(TEXT, "A pair."), Request(0, 0)).tokens.padding) == 4
    assert sum(look(minilm, Input("word " * 509), Request(0, 0)).tokens.padding) == 1


@pytest.mark.parametrize("family", ONE_OF_EACH)
def test_every_family_is_lawful(tiny, family):
    found = look(load_model(str(tiny(family)), device="cpu"), Input("a b c a d"))
    assert found.lawful
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert document["lawful"] is True and document["tokens"] == found.tokens.text
    assert [(row["layer"], row["head"]) for row in document["heads"]] == list(found.effects["padding"])
    assert [law["name"] for law in document["laws"]] == [law.name for law in found.laws]


def test_a_weight_where_none_may_be_or_a_broken_law_is_unlawful(minilm):
    found = look(minilm, Input(TEXT), Request(0, 0))
    assert found.lawful
    leaking = {**found.effects, "padding": {(0, 0): MaskEffect(moved=0.1, forbidden=1e-30)}}
    assert not replace(found, effects=leaking).lawful
    broken, *others = found.laws
    assert not replace(found, laws=[replace(broken, holds=False), *others]).lawful
    assert replace(found, laws=[replace(broken, holds=None), *others]).lawful
