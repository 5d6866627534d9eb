"""attncli mask: maps under masks, the weight that moved, laws and windows, and how each is seen to be broken."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from checkpoints import EACH
from foreign_checkpoints import ANSWER, DECODERS, ENCODER_DECODERS
from foreign_checkpoints import TEXT as WORDS
from hypothesis import given
from made_up_family import FAMILY, LAYERS, REACH, made_up_checkpoint, settings
from records import attention_records, layered_records, record_of

import attncli as library
from attncli import RequestError, load_model
from attncli.analysis.patterns import total_variation
from attncli.attention import Window
from attncli.features import mask as feature
from attncli.features.mask import (
    HIDING,
    MaskEffect,
    check_laws,
    compare_masks,
    difference,
    mask_effects,
    measure_exactly,
    measure_permutation,
    measure_windows,
    reaches,
)
from attncli.models import model as encoder
from attncli.models import transformers_place
from attncli.models.families import FAMILIES
from attncli.models.model import Model
from attncli.models.parts import self_attention_part
from attncli.record import Input, Request

TEXT = "The trophy does not fit in the suitcase."


def test_maps_effects_and_laws_are_shown(attncli):
    result = attncli("mask", "-l", "2", "-H", "9", TEXT)
    assert result.code == 0 and result.err == ""
    for words in ("layer 2 head 9", "unmasked", "causal", "padding\n", "4 [PAD]", "without the padding mask", "holds"):
        assert words in result.out
    assert re.search(r"no real token's vector +\d\S*e-0\d +1e-04 +holds", result.out)


def test_json_gives_the_library_s_numbers(attncli, minilm):
    document = json.loads(attncli("mask", "--json", "-l", "0,4", "-H", "1,3", "--pad-to", "16", TEXT).out)
    [text] = document["texts"]
    assert text["lawful"] is True
    report = library.mask(minilm, TEXT, layer="0,4", head="1,3", pad_to=16)
    assert report.lawful and report.report().holds is True and json.loads(json.dumps(report.document())) == document
    assert text["tokens"][-5:] == ["[PAD]"] * 5
    assert [(head["layer"], head["head"]) for head in text["heads"]] == [(0, 1), (0, 3), (4, 1), (4, 3)]
    for head in text["heads"]:
        where = {"layers": head["layer"], "heads": head["head"], "pad_to": 16}
        unmasked, causal = (minilm.attend(TEXT, mask=name, **where).weights[0, 0, :11] for name in ("none", "causal"))
        assert head["causal"]["moved"] == pytest.approx(float(np.mean(total_variation(causal, unmasked))))
        assert head["causal"]["forbidden"] == head["padding"]["forbidden"] == 0
    unmasked = minilm.attend(TEXT, mask="none", pad_to=16).weights[:, :, :11, 11:].sum(axis=-1).mean(axis=(1, 2))
    assert list(text["laws"][1]["leaks"].values()) == pytest.approx(unmasked.tolist(), rel=1e-4)
    assert [law["name"] for law in text["laws"]] == NAMES
    assert [law["deviation"] > law["tolerance"] for law in text["laws"]] == [
        False,
        True,
        False,
        False,
        True,
        False,
        True,
    ]


def test_a_broken_law_is_exit_code_1(attncli, monkeypatch, tmp_path):
    saved = attncli("mask", TEXT, "-o", tmp_path / "mask.json")
    assert saved.code == 0 and saved.err == "attncli: right: 7 laws hold, and hidden keys have no weight\n"
    monkeypatch.setattr(feature.Masked, "lawful", property(lambda self: False))
    assert attncli("mask", TEXT).code == 1
    assert attncli("mask", TEXT, "-o", tmp_path / "mask.json").err == "attncli: wrong: hidden keys have weight\n"


# --- one text under every mask ------------------------------------------------------------------------------


CAT = "The cat sat on the mat."


@pytest.mark.parametrize("family", EACH)
def test_every_family_is_lawful(tiny, family):
    found = compare_masks(load_model(str(tiny(family)), device="cpu"), Input("a b c a d"))
    assert found.lawful and [law.holds for law in found.laws].count(True) >= 3
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert document["lawful"] is True and document["tokens"] == found.tokens.text
    assert [(row["layer"], row["head"]) for row in document["heads"]] == list(found.effects["padding"])
    assert [law["name"] for law in document["laws"]] == [law.name for law in found.laws]


def test_a_weight_where_none_may_be_or_a_broken_law_is_unlawful(minilm):
    found = compare_masks(minilm, Input(CAT), Request(0, 0))
    assert found.lawful
    leaking = {**found.effects, "padding": {(0, 0): MaskEffect(moved=0.1, forbidden=1e-30)}}
    assert not replace(found, effects=leaking).lawful
    broken, *others = found.laws
    unlawful = replace(found, laws=[replace(broken, holds=False), *others])
    assert not unlawful.lawful
    assert feature.MaskedTexts(minilm.info, [unlawful]).verdict == f"wrong: {broken.statement}"
    assert replace(found, laws=[replace(broken, holds=None), *others]).lawful


# --- models that transformers runs -----------------------------------------------------------------------


@pytest.mark.parametrize("family", [*DECODERS, *ENCODER_DECODERS, "modernbert"])
def test_a_model_that_transformers_runs_has_every_mask(foreign, family):
    """Compare each record with the model's, and the distance with half the difference of the rows of real tokens."""
    model = foreign(family)
    pad_to = None if model.tokenizer.pad_id is None else 20
    found = compare_masks(model, Input(WORDS), Request(pad_to=pad_to))
    assert list(found.records) == ["none", *HIDING] == ["none", *found.effects] and found.lawful
    which = self_attention_part(model, None)
    shown = {name: model.attend(WORDS, mask=name, pad_to=pad_to, which=which).weights for name in found.records}
    real = ~np.array(found.tokens.padding)
    for name, effects in found.effects.items():
        assert np.array_equal(found.records[name].weights, shown[name])
        for (layer, head), effect in effects.items():
            rows = np.abs(shown["none"][layer, head, real] - shown[name][layer, head, real])
            assert effect.moved == pytest.approx(rows.sum(axis=-1).mean() / 2, abs=1e-6) and effect.forbidden == 0
    assert not np.triu(shown["causal"], 1).any() and np.triu(shown["none"], 1).any()
    json.dumps(found.document(), allow_nan=False)


def test_what_a_decoder_writes_is_looked_at_with_one_target(foreign):
    model = foreign("bart")
    request = Request(which="decoder", target=ANSWER)
    found = compare_masks(model, Input(WORDS), request)
    assert np.array_equal(found.records["causal"].weights, model.attend(WORDS, which="decoder", target=ANSWER).weights)
    assert [law.holds for law in found.laws] == [None] * len(NAMES) and found.lawful


def test_weight_where_the_mask_is_not_minded_is_seen(foreign, monkeypatch):
    """Forbid by the name of the mask, whatever mask the network applied."""
    model = foreign("t5")
    monkeypatch.setattr(transformers_place, "requested_mask", lambda *_: None)  # nothing is hidden from anybody
    found = compare_masks(model, Input(WORDS), Request(pad_to=20))
    assert not found.lawful and all(effect.forbidden > 0 for effect in found.effects["padding"].values())


@pytest.mark.parametrize(
    ("family", "asked", "why"),
    [
        ("t5", {"which": "cross"}, "cross-attention is between two texts"),
        ("t5", {"target": ANSWER}, "--target is the decoder's output"),
        ("t5", {"which": "decoder", "pad_to": 20}, "omit --pad-to"),
        ("gpt2", {"pad_to": 20}, "has no padding token: omit --pad-to"),
        ("gpt2", {"target": ANSWER}, "is a decoder: omit it"),
    ],
)
def test_what_can_not_be_looked_at(foreign, family, asked, why):
    with pytest.raises(RequestError, match=why):
        compare_masks(foreign(family), Input(WORDS), Request(**asked))


# --- weight that moves, and weight where none may be --------------------------------------------------------


@given(attention_records())
def test_taking_the_future_away_moves_exactly_its_weight(record):
    """Under a mask that is applied afterwards, what moves is what stood on the hidden positions."""
    length = len(record.tokens)
    mask = np.tri(length, dtype=bool)
    hidden = np.where(mask, 0, record.weights)
    kept = np.where(mask, record.weights, 0)
    masked = record_of(kept / kept.sum(axis=-1, keepdims=True), mask=mask, mask_name="causal")
    for (layer, head), effect in mask_effects(masked, record).items():
        assert effect.forbidden == 0
        assert effect.moved == pytest.approx(float(hidden[layer, head].sum(axis=-1).mean()), abs=1e-5)


@given(layered_records(padding=1))
def test_every_layer_is_held_against_its_own_mask(record):
    unmasked = replace(record, weights=np.full_like(record.weights, 1 / len(record.tokens)))
    effects = mask_effects(record, unmasked)
    for layer in record.layers:
        alone = mask_effects(record.select(layer), unmasked.select(layer))
        assert {head: effects[head] for head in alone} == alone
        hides_all = not record.mask_of(layer)[:-1].any()
        assert all(effect.forbidden == 0 and (effect.moved == 0) == hides_all for effect in alone.values())


def test_weight_on_a_position_that_another_layer_allows_is_forbidden():
    masks = np.stack([np.ones((4, 4), dtype=bool), np.tri(4, dtype=bool)])
    record = record_of(np.full((2, 1, 4, 4), 0.25), masks)
    effects = mask_effects(record, record)
    assert (effects[0, 0].forbidden, effects[1, 0].forbidden) == (0, 6 * 0.25)


# --- laws ---------------------------------------------------------------------------------------------------


NAMES = [
    "padding",
    "forgotten padding mask",
    "causal",
    "permutation",
    "permutation with positions",
    "alone",
    "together",
]


@pytest.fixture(scope="module")
def small(tiny):
    return load_model(str(tiny("bert")), "cpu")


def laws_of(model, text="The cat sat on the mat, and it was flat.", pad_to=None):
    tokens = model.tokenizer.encode(text)
    return {law.name: law for law in check_laws(model, tokens, model.tokenizer.pad_some(tokens, pad_to))}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_they_hold_for_real_weights_in_every_precision(dtype):
    laws = laws_of(load_model("minilm", device="cpu", dtype=dtype))
    assert list(laws) == NAMES and all(law.holds for law in laws.values()), laws
    assert laws["forgotten padding mask"].deviation > laws["padding"].deviation


def test_a_model_that_ignores_its_masks_breaks_them(small, monkeypatch):
    monkeypatch.setattr(encoder, "layer_masks", lambda real, config, name: [None] * config.layers)
    laws = laws_of(small)
    assert laws["padding"].holds is False
    assert laws["causal"].holds is False


@pytest.mark.parametrize("added", [True, False])
def test_the_laws_of_order_tell_whether_positions_are_added(small, monkeypatch, added):
    """Added all the same, they break the law; left out all the same, the control sees no order."""
    rows_of = encoder.as_rows
    monkeypatch.setattr(encoder, "as_rows", lambda *asked: rows_of(*asked[:4], added))
    laws = laws_of(small)
    assert laws["permutation"].holds is not added and laws["padding"].holds is True
    assert laws["permutation with positions"].holds is (True if added else None)
    words = laws["permutation with positions"].note.removeprefix("read as: ").removesuffix(" ...").split()
    text = [*small.tokenizer.encode("The cat sat on the mat, and it was flat.").text]
    assert len(words) == 12 and words != text[:12] and all(words.count(word) <= text.count(word) for word in words)


def test_tokens_touch_in_self_attention_and_nowhere_else(small, monkeypatch):
    laws = laws_of(small)
    assert laws["alone"].holds is True and laws["alone"].deviation < 1e-4 < 0.1 < laws["together"].deviation
    layers = re.findall(r"(\d+): ([^,\s]+)", laws["together"].note)
    assert [int(layer) for layer, _ in layers] == list(range(small.layers))
    assert all(float(change) > 0.1 for _, change in layers)
    monkeypatch.setattr(feature._Alone, "begin", lambda self, block: block)
    laws = laws_of(small)
    assert laws["alone"].holds is False and laws["alone"].deviation == pytest.approx(laws["together"].deviation)


def test_a_token_alone_has_the_vectors_that_transformers_gives_under_such_a_mask(tiny):
    """The mask of transformers hides all other keys in every layer."""
    from transformers import AutoModel

    path = str(tiny("bert"))
    model, theirs = load_model(path, "cpu"), AutoModel.from_pretrained(path).eval()
    tokens = model.tokenizer.encode("a b c a d")
    model.need(model.layers)
    ids = torch.tensor([tokens.ids])
    with torch.inference_mode():
        ours = list(model.walk(model.rows([tokens], None), [feature._Alone()]))
        mask = torch.eye(len(tokens), dtype=torch.bool)[None, None]
        expected = theirs(ids, attention_mask=mask, output_hidden_states=True).hidden_states
    for some, more in zip(ours, expected, strict=True):
        torch.testing.assert_close(some, more[0], atol=1e-5, rtol=0)


def test_a_full_text_leaves_no_room_for_padding(small):
    laws = laws_of(small, "cat " * 38)
    assert laws["padding"].holds is None and "no room" in laws["padding"].note and laws["causal"].holds is True


def test_of_a_decoder_the_causal_law_is_tested_and_holds(foreign):
    for family in DECODERS:
        laws = laws_of(foreign(family), "the cat sat on a mat")
        assert laws["causal"].holds is True and laws["causal"].deviation > 0
        assert laws.pop("permutation with positions").holds is True
        assert {name: law.holds for name, law in laws.items() if name != "causal"} == dict.fromkeys(
            laws.keys() - {"causal"}
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
        assert [law.holds for law in laws.values()] == [True, True, True, None, True, None, None]


def test_what_rounding_explains_grows_with_the_vectors(foreign):
    some = [torch.full((2, 3), size) for size in (1.0, 5000.0)]
    model = foreign("gpt2")
    near, far = ([state * (1 + change) for state in some] for change in (3e-7, 3e-6))
    for more, same in ((near, True), (far, False)):
        found = difference(model, some, more)
        assert (found.deviation <= found.tolerance) is same
    assert difference(model, some[:1], some[:1]).tolerance == 1e-4


# --- windows ------------------------------------------------------------------------------------------------


LONG = "the cat sat on the big cat, too, it sat"


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
    tokens = made.tokenizer.encode(LONG)
    found = measure_windows(made, tokens)
    assert found.law.holds is (None if max(map(abs, filter(None, own)), default=0) == 0 else True)
    assert found.law.deviation == 0 and found.shortest == min(one for one in own if one is not None) + 2
    for one in found.layers:
        assert (one.within is None) == (one.reach is None or one.together == 0)
        if one.beyond is not None:
            assert one.beyond == 0 and one.together + 1 < len(tokens)
        if one.within is not None:
            assert one.within > 1e-6


def test_a_window_that_is_one_too_wide_breaks_the_law(model):
    made = model(None, REACH, None, REACH)

    def wider(*asked):
        batch = Model.rows(made, *asked)
        runs = []
        for run in batch.runs:
            masks = [one and replace(one, window=one.window and Window(one.window.reach + 1)) for one in run.masks]
            runs.append(replace(run, masks=masks))
        return replace(batch, runs=runs)

    made.rows = wider
    assert measure_windows(made, made.tokenizer.encode(LONG)).law.holds is False


def test_a_text_that_is_too_short_says_how_long_it_must_be(model):
    made = model(None, 2, None, 2)
    found = measure_windows(made, made.tokenizer.encode("a"))
    assert found.document()["hides"] is False and found.document()["shortest"] == 4
    assert (
        found.law.holds is None
        and found.law.note == "windows hide nothing in a text of 3 tokens: use at least 4 tokens"
    )
    assert measure_windows(made, made.tokenizer.encode("a c")).law.holds is True


def test_a_look_has_it_and_one_without_windows_has_not(model, minilm):
    found = compare_masks(model(None, 2, None, 2), Input(LONG))
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert len(document["window"]["layers"]) == LAYERS and document["laws"][-1]["name"] == "window" and found.lawful
    plain = compare_masks(minilm, Input(LONG)).document()
    assert "window" not in plain and "window" not in [law["name"] for law in plain["laws"]]


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_of_a_decoder_of_ours_a_text_read_token_by_token_has_the_vectors_of_one_pass(tiny, family, monkeypatch):
    model = load_model(str(tiny(family)), "cpu")
    law = laws_of(model, "the cat sat on a mat")["key-value cache"]
    assert law.holds is True and law.deviation > 0
    monkeypatch.setattr("attncli.models.generation.KeysAndValues.begin", lambda self, block: block)  # forgets them
    assert laws_of(model, "the cat sat on a mat")["key-value cache"].holds is False


def test_a_law_that_rounding_hides_is_measured_again_in_float64(tiny, monkeypatch):
    model = load_model(str(tiny("llama")), "cpu")
    tokens = model.tokenizer.encode("the cat sat on a mat")
    monkeypatch.setattr(feature, "tolerance", lambda engine, largest: 1e-12 if engine is model else 1e-9)
    found = measure_exactly(measure_permutation, model, tokens)
    assert 0 < found.deviation <= found.tolerance and "in float64; " in found.note
