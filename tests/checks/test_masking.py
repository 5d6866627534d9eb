"""One text under every mask: records of the same tokens, what moved, and what would be unlawful."""

import json
from dataclasses import replace

import numpy as np
import pytest
from checkpoints import EACH
from foreign_checkpoints import ANSWER, DECODERS, ENCODER_DECODERS
from foreign_checkpoints import TEXT as WORDS

from attncli import RequestError, load_model
from attncli.analysis.masking import MaskEffect, mask_effects
from attncli.checks.masking import COMPARED, look
from attncli.models import transformers_place
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


@pytest.mark.slow
def test_without_a_length_there_are_four_pads_unless_there_is_no_room(minilm):
    assert sum(look(minilm, Input(TEXT, "A pair."), Request(0, 0)).tokens.padding) == 4
    assert sum(look(minilm, Input("word " * 509), Request(0, 0)).tokens.padding) == 1


@pytest.mark.parametrize("family", EACH)
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


# --- models that transformers runs -----------------------------------------------------------------------


@pytest.mark.parametrize("family", [*DECODERS, *ENCODER_DECODERS, "modernbert"])
def test_a_model_that_transformers_runs_has_every_mask(foreign, family):
    """Each record is that of the model; what moved is half the difference of the rows of real tokens."""
    model = foreign(family)
    pad_to = None if model.tokenizer.pad_id is None else 20
    found = look(model, Input(WORDS), Request(pad_to=pad_to))
    assert list(found.records) == ["none", *COMPARED] == ["none", *found.effects] and found.lawful and not found.missing
    which = model.to_itself(None)
    shown = {name: model.attend(WORDS, mask=name, pad_to=pad_to, which=which).weights for name in found.records}
    real = len(found.tokens) - sum(found.tokens.padding)
    for name, effects in found.effects.items():
        assert np.array_equal(found.records[name].weights, shown[name])
        for (layer, head), effect in effects.items():
            rows = np.abs(shown["none"][layer, head, :real] - shown[name][layer, head, :real])
            assert effect.moved == pytest.approx(rows.sum(axis=-1).mean() / 2, abs=1e-6) and effect.forbidden == 0
    assert not np.triu(shown["causal"], 1).any() and np.triu(shown["none"], 1).any()
    json.dumps(found.document(), allow_nan=False)


def test_what_a_decoder_writes_is_looked_at_with_one_target(foreign):
    model = foreign("bart")
    request = Request(which="decoder", target=ANSWER)
    found = look(model, Input(WORDS), request)
    assert np.array_equal(found.records["causal"].weights, model.attend(WORDS, which="decoder", target=ANSWER).weights)
    assert [law.holds for law in found.laws] == [None] * 4 and found.lawful


def test_weight_where_the_mask_is_not_minded_is_seen(foreign, monkeypatch):
    """What is forbidden is what the names of masks say, whatever the network was told."""
    model = foreign("t5")
    monkeypatch.setattr(transformers_place, "asked_mask", lambda *_: None)  # nothing is hidden from anybody
    found = look(model, Input(WORDS), Request(pad_to=20))
    assert not found.lawful and all(effect.forbidden > 0 for effect in found.effects["padding"].values())


@pytest.mark.parametrize(
    ("family", "asked", "why"),
    [
        ("t5", {"which": "cross"}, "cross-attention is between two texts"),
        ("t5", {"target": ANSWER}, "--target is the decoder's output"),
        ("t5", {"which": "decoder", "pad_to": 20}, "leave --pad-to out"),
        ("gpt2", {"pad_to": 20}, "has no padding token: omit --pad-to"),
        ("gpt2", {"target": ANSWER}, "writes nothing"),
    ],
)
def test_what_can_not_be_looked_at(foreign, family, asked, why):
    with pytest.raises(RequestError, match=why):
        look(foreign(family), Input(WORDS), Request(**asked))
