"""The laws of masks hold for every family, and are seen to be broken where they are broken."""

import pytest
from checkpoints import ONE_OF_EACH

from attncli import load_model
from attncli.checks.laws import check_laws, pad_some
from attncli.models import model, rows

NAMES = ["padding", "forgotten padding mask", "causal", "permutation"]


def laws_of(model, text="The cat sat on the mat, and it was flat.", pad_to=None):
    tokens = model.tokenizer.encode(text)
    return {law.name: law for law in check_laws(model, tokens, pad_some(model, tokens, pad_to))}


def test_they_hold_for_real_weights(minilm):
    laws = laws_of(minilm)
    assert list(laws) == NAMES
    assert all(law.holds for law in laws.values())
    assert laws["forgotten padding mask"].deviation > 100 * laws["padding"].deviation


@pytest.mark.parametrize("family", ONE_OF_EACH)
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
    rows_of = model.as_rows
    monkeypatch.setattr(model, "as_rows", lambda *asked: rows_of(*asked[:4]))
    laws = laws_of(minilm)
    assert laws["permutation"].holds is False
    assert laws["padding"].holds is True


def test_a_full_text_leaves_no_room_for_padding(minilm):
    laws = laws_of(minilm, "word " * 510)
    assert laws["padding"].holds is None
    assert "no room" in laws["padding"].note
    assert laws["causal"].holds is True
