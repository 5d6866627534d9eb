"""How far windows reach: counted from the layers, measured on the network, and seen to be broken where it is broken."""

import json
from dataclasses import replace

import pytest
from made_up_family import FAMILY, LAYERS, REACH, made_up_checkpoint, settings

from attncli import load_model
from attncli.attention import Window
from attncli.checks.masking import look
from attncli.checks.windows import reaches, windows
from attncli.models import rows
from attncli.models.families import FAMILIES
from attncli.models.model import Model
from attncli.record import Input

TEXT = "the cat sat on the big cat, too, it sat"


@pytest.fixture
def model(tmp_path, monkeypatch):
    """`model(2, None, ...)` -> the made-up family with these windows, by layer; without a dtype in float64."""

    def make(*own, dtype="float64"):
        family = replace(FAMILY, settings=lambda values: {**settings(values), "reach": own})
        monkeypatch.setitem(FAMILIES, "made-up", family)
        return load_model(str(made_up_checkpoint(tmp_path / "made-up")), device="cpu", dtype=dtype)

    return make


def test_reaches_add_up_until_a_global_layer():
    found = reaches([2, 3, None, 1, 1])
    assert [one.reach for one in found] == [2, 3, None, 1, 1]
    assert [one.together for one in found] == [2, 5, None, 1, 2]
    assert [one.whole for one in found] == [2, 5, None, None, None]


@pytest.mark.parametrize("own", [(1, 1, 1, 1), (None, 2, 1, None), (1, None, None, 2), (None, 1, 2, 1), (0, 0, 0, 0)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_beyond_the_reach_nothing_changes_and_within_something(model, own, dtype):
    made = model(*own, dtype=dtype)
    tokens = made.tokenizer.encode(TEXT)
    found = windows(made, tokens)
    assert found.law.holds is (None if max(map(abs, filter(None, own)), default=0) == 0 else True)
    assert found.law.deviation == 0 and found.shortest == min(one for one in own if one is not None) + 2
    for one in found.layers:
        assert (one.within is None) == (one.reach is None or one.together == 0)
        if one.beyond is not None:
            assert one.beyond == 0 and one.together + 1 < len(tokens)
        if one.within is not None:
            assert one.within > 1e-6


@pytest.mark.parametrize("ignored", [{1}, {2}, {1, 2}])
def test_a_network_that_forgets_a_window_breaks_the_law(model, monkeypatch, ignored):
    made, masks = model(None, 2, 1, None), rows.layer_masks
    tokens = made.tokenizer.encode(TEXT)
    forgotten = lambda *asked: [None if layer in ignored else mask for layer, mask in enumerate(masks(*asked))]  # noqa: E731
    monkeypatch.setattr(rows, "layer_masks", forgotten)
    found = windows(made, tokens)
    assert found.law.holds is False and found.law.deviation > 1e-3


def test_a_window_that_is_one_too_wide_breaks_the_law(model, monkeypatch):
    made = model(None, REACH, None, REACH)
    made.rows = lambda *asked: wider(Model.rows(made, *asked))
    assert windows(made, made.tokenizer.encode(TEXT)).law.holds is False


def wider(batch):
    """With windows that reach one token further."""
    runs = [
        replace(run, masks=[one and replace(one, window=further(one.window)) for one in run.masks])
        for run in batch.runs
    ]
    return replace(batch, runs=runs)


def further(window):
    return None if window is None else Window(window.reach + 1)


def test_a_text_that_is_too_short_says_how_long_it_must_be(model):
    made = model(None, 2, None, 2)
    found = windows(made, made.tokenizer.encode("a"))
    assert found.document()["hides"] is False and found.document()["shortest"] == 4
    assert found.law.holds is None and found.law.note == "windows hide nothing of 3 tokens: 4 would be enough"
    assert windows(made, made.tokenizer.encode("a c")).law.holds is True


def test_a_look_has_it_and_one_without_windows_has_not(model, minilm):
    found = look(model(None, 2, None, 2), Input(TEXT))
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert len(document["window"]["layers"]) == LAYERS and document["laws"][-1]["name"] == "window" and found.lawful
    plain = look(minilm, Input(TEXT)).document()
    assert "window" not in plain and "window" not in [law["name"] for law in plain["laws"]]
