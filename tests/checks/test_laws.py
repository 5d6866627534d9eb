"""The laws of masks hold for every family, and are seen to be broken where they are broken."""

import pytest
import torch
from checkpoints import EACH
from foreign_checkpoints import DECODERS, ENCODER_DECODERS

from attncli import load_model
from attncli.checks.laws import check_laws, moved, pad_some
from attncli.models import model as encoder
from attncli.models import rows

NAMES = ["padding", "forgotten padding mask", "causal", "permutation"]


def laws_of(model, text="The cat sat on the mat, and it was flat.", pad_to=None):
    tokens = model.tokenizer.encode(text)
    return {law.name: law for law in check_laws(model, tokens, pad_some(model, tokens, pad_to))}


def test_they_hold_for_real_weights(minilm):
    laws = laws_of(minilm)
    assert list(laws) == NAMES
    assert all(law.holds for law in laws.values())
    assert laws["forgotten padding mask"].deviation > 100 * laws["padding"].deviation


@pytest.mark.parametrize("family", EACH)
def test_they_hold_for_every_family(tiny, family):
    laws = laws_of(load_model(str(tiny(family)), device="cpu"), "a b c a d")
    assert [law.holds for law in laws.values()].count(True) >= 3
    assert not any(law.holds is False for law in laws.values())


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_they_hold_in_other_precisions(dtype):
    laws = laws_of(load_model("minilm", device="cpu", dtype=dtype))
    assert all(law.holds for law in laws.values()), laws


def test_a_model_that_ignores_its_masks_breaks_them(minilm, monkeypatch):
    monkeypatch.setattr(rows, "layer_masks", lambda real, config, name: [None] * config.layers)
    laws = laws_of(minilm)
    assert laws["padding"].holds is False
    assert laws["causal"].holds is False


def test_a_model_that_adds_positions_all_the_same_breaks_the_last(minilm, monkeypatch):
    rows_of = encoder.as_rows
    monkeypatch.setattr(encoder, "as_rows", lambda *asked: rows_of(*asked[:4]))
    laws = laws_of(minilm)
    assert laws["permutation"].holds is False
    assert laws["padding"].holds is True


def test_a_full_text_leaves_no_room_for_padding(minilm):
    laws = laws_of(minilm, "word " * 510)
    assert laws["padding"].holds is None
    assert "no room" in laws["padding"].note
    assert laws["causal"].holds is True


def test_of_a_decoder_the_causal_law_is_tested_and_holds(foreign):
    for family in DECODERS:
        laws = laws_of(foreign(family), "the cat sat on a mat")
        assert laws["causal"].holds is True and laws["causal"].deviation > 0
        assert {name: law.holds for name, law in laws.items() if name != "causal"} == dict.fromkeys(
            set(NAMES) - {"causal"}
        )
        assert laws["padding"].note == "the tokenizer has no [PAD]"
        assert laws["permutation"].note == "transformers can't omit the positions"


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_of_a_decoder_in_float64_the_causal_law_holds(foreign, family):
    """transformers computes its norms in float32 and our place all scores in float64, whatever a prefix's length."""
    model = load_model(foreign(family).place.name, "cpu", "float64", engine="transformers")
    causal = laws_of(model, "the cat sat on a mat")["causal"]
    assert causal.holds and causal.deviation < 1e-6


def test_of_an_encoder_by_transformers_those_of_padding_are_tested(foreign):
    for family in (*ENCODER_DECODERS, "modernbert"):
        laws = laws_of(foreign(family), "the cat sat on a mat", pad_to=20)
        assert [law.holds for law in laws.values()] == [True, True, True, None]


def test_a_bert_is_as_lawful_by_transformers(tiny):
    path = str(tiny("bert"))
    ours, theirs = (laws_of(load_model(path, "cpu", engine=engine)) for engine in ("attncli", "transformers"))
    for name in ("padding", "forgotten padding mask"):
        assert ours[name].holds is theirs[name].holds is True
    assert theirs["forgotten padding mask"].leaks == pytest.approx(ours["forgotten padding mask"].leaks, abs=1e-5)
    assert theirs["forgotten padding mask"].deviation == pytest.approx(
        ours["forgotten padding mask"].deviation, rel=1e-3
    )


def test_a_causal_law_that_is_broken_is_seen(foreign, monkeypatch):
    model = foreign("gpt2")
    states = type(model).hidden_states

    def mixed(self, tokens, mask="padding", positions=True):
        """As of a network in which every token sees all others."""
        return [state + state.mean(dim=0) for state in states(self, tokens, mask, positions)]

    monkeypatch.setattr(type(model), "hidden_states", mixed)
    assert laws_of(model, "the cat sat on a mat")["causal"].holds is False


def test_what_rounding_explains_grows_with_the_vectors(foreign):
    some = [torch.full((2, 3), size) for size in (1.0, 5000.0)]
    model = foreign("gpt2")
    near, far = ([state * (1 + change) for state in some] for change in (3e-7, 3e-6))
    for more, same in ((near, True), (far, False)):
        found = moved(model, some, more)
        assert (found.deviation <= found.tolerance) is same
    assert moved(model, some[:1], some[:1]).tolerance == 1e-4
