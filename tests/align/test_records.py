"""Alignments as records: the same numbers, and tokens that say what is looked at."""

import json

import numpy as np
import pytest

from attncli.align.records import document, records
from attncli.align.translate import load_aligner
from attncli.base import choices
from attncli.record import load_records, save_records

ATTENTIONS = choices.names(choices.Attention)
TEXT = "Wed 3 Mar 21"


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_records_hold_the_weights_of_the_alignment(attention, tmp_path):
    aligner = load_aligner(attention)
    alignment = aligner.translate(TEXT)
    found = records(aligner, alignment)
    kinds = ["cross", "encoder", "decoder"] if attention == "transformer" else ["cross"]
    assert [record.kind for record in found] == kinds
    for record in found:
        assert np.array_equal(record.weights, getattr(alignment, record.kind))
        np.testing.assert_allclose(record.weights.sum(axis=-1), 1, atol=1e-5)
        assert (record.weights[..., ~record.mask] == 0).all()
        assert record.weights.shape[2:] == (len(record.tokens), len(record.keys))
    save_records(found, tmp_path / "date.safetensors")
    again = load_records(tmp_path / "date.safetensors")
    assert [(one.kind, one.tokens, one.keys) for one in again] == [(one.kind, one.tokens, one.keys) for one in found]


def test_tokens_are_the_characters():
    aligner = load_aligner("transformer")
    cross, encoder, decoder = records(aligner, aligner.translate(TEXT))
    assert "".join(cross.keys.text) == "Wed␣3␣Mar␣21[END]"
    assert "".join(cross.tokens.text) == "2021-03-03[END]"
    assert "".join(decoder.tokens.text) == "[START]2021-03-03"
    assert encoder.tokens == cross.keys and decoder.mask_name == "causal"
    assert [TEXT[a:b] for a, b in cross.keys.offsets[:-1]] == list(TEXT)
    assert cross.keys.special == [False] * len(TEXT) + [True]


def test_an_answer_that_there_is_no_date_is_written_like_any_other(tmp_path):
    aligner = load_aligner("transformer")
    alignment = aligner.translate("hello world")
    found = records(aligner, alignment)
    assert "".join(found[0].tokens.text) == "none[END]"
    assert "".join(found[2].tokens.text) == "[START]none"
    save_records(found, tmp_path / "none.safetensors")
    assert [one.tokens for one in load_records(tmp_path / "none.safetensors")] == [one.tokens for one in found]
    [one] = document(aligner, [alignment])["alignments"]
    assert (one["output"], one["date"]) == ("none", None) and "no date" in one["doubt"]


def test_the_month_is_read_where_it_is_written():
    """Bahdanau's attention as an alignment: the day looks at the day, the last digit of the year at its last."""
    aligner = load_aligner("additive")
    [cross] = records(aligner, aligner.translate("3 March 2021"))
    strongest = [cross.keys.text[key] for key in cross.map(0, 0).argmax(axis=-1)]
    assert strongest[3] == "1" and strongest[9] == "3"
    assert {strongest[5], strongest[6]} <= set("March")


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_the_document_has_every_map_of_the_records(attention):
    aligner = load_aligner(attention)
    alignments = list(aligner.translate_many([TEXT, "3 March 2021"]))
    found = json.loads(json.dumps(document(aligner, alignments), allow_nan=False))
    every = [record for alignment in alignments for record in records(aligner, alignment)]
    assert found["records"] == json.loads(json.dumps([record.document() for record in every]))
    assert found["model"] == {
        **every[0].model.document(),
        "attention": attention,
        **{n: getattr(aligner.about, n) for n in ("seed", "steps", "sizes")},
    }
    for one, alignment in zip(found["alignments"], alignments, strict=True):
        assert (one["text"], one["output"], one["doubt"]) == (alignment.text, "2021-03-03", None)
        assert one["date"] == "2021-03-03"
        assert one["probability"] == pytest.approx(np.prod(one["probabilities"]))
        maps = iter(one["attention"])
        for record in records(aligner, alignment):
            for layer, head in np.ndindex(record.weights.shape[:2]):
                shown = next(maps)
                assert (shown["kind"], shown["layer"], shown["head"]) == (record.kind, layer, head)
                assert np.array_equal(np.float32(shown["weights"]), record.map(layer, head))
        assert next(maps, None) is None
