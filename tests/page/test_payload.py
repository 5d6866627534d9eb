"""Check the description and the packed numbers of a page, read back like data.js reads them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from packed import unpack_layer, unpacked
from records import attention_records, layered_records, record_of, tokens

from attncli.analysis.patterns import summarise
from attncli.base.errors import RequestError
from attncli.page.packing import LEVELS, error_of
from attncli.page.payload import payload
from attncli.record import Vectors
from attncli.record.grouping import merge_words
from attncli.record.loading import load_record


def maps_of(description, chunks, text, mask):
    """Stored weights `[layer, head, query, key]`."""
    entry = description["texts"][text]["masks"][mask]
    tokens = len(description["texts"][text]["tokens"])
    shape = (len(description["heads"]), tokens, tokens)
    return np.stack([unpack_layer(chunks[name], shape, entry["levels"]) for name in entry["maps"]])


@given(attention_records(padding=2) | layered_records(padding=1))
def test_the_description_and_the_numbers_say_what_the_record_says(record):
    description, chunks = payload([record], {"view": "heads"})
    text = description["texts"][0]
    entry = text["masks"][0]
    assert json.loads(json.dumps(description, allow_nan=False))["texts"][0]["title"] == text["title"]
    assert (description["layers"], description["heads"]) == (record.layers, record.heads)
    assert description["model"]["name"] == record.model.name and description["start"] == {"view": "heads"}
    assert (text["tokens"], text["segments"]) == (record.tokens.text, record.tokens.segments)
    assert text["special"] == record.tokens.special
    assert [word for word, _ in text["words"]] == merge_words(record).tokens.text
    assert [piece for _, pieces in text["words"] for piece in pieces] == list(range(len(record.tokens)))

    assert entry["levels"] == LEVELS[0]
    np.testing.assert_allclose(maps_of(description, chunks, 0, 0), record.weights, atol=2 * error_of(LEVELS[0]))
    masks = entry["allowed"] if isinstance(entry["allowed"], list) else [entry["allowed"]]
    assert len(masks) in (1, len(record.layers))
    for place, layer in enumerate(record.layers):
        packed = np.frombuffer(unpacked(chunks[masks[place % len(masks)]]), dtype=np.uint8)
        bits = np.unpackbits(packed, count=record.masks[0].size)
        assert np.array_equal(bits.reshape(record.masks[0].shape), record.mask_of(layer))
    for (layer, head), summary in summarise(record).items():
        kind = entry["kinds"][record.layers.index(layer)][record.heads.index(head)]
        assert kind["label"] == summary.label.replace("_", " ")
        assert (kind["share"], kind["entropy"]) == pytest.approx((summary.strength, summary.entropy), abs=1e-4)


def test_q_and_k_are_told_of_layer_by_layer():
    numbers = np.random.default_rng(0).normal(size=(2, 2, 5, 3)).astype(np.float32)
    record = replace(record_of(np.full((2, 2, 5, 5), 0.2)), vectors=Vectors([(1, 0), (0, 1)], *numbers))
    description, chunks = payload([record], {})
    vectors = description["texts"][0]["masks"][0]["vectors"]
    assert (vectors["heads"], vectors["size"], vectors["terms"]) == ([(1, 0), (0, 1)], 3, [])
    assert list(vectors["chunks"]) == ["1", "0"] and {*vectors["chunks"].values()} < chunks.keys()
    assert all(len(unpacked(chunks[name])) == 2 * 2 * 5 * 3 for name in vectors["chunks"].values())
    without, _ = payload([replace(record, vectors=None)], {})
    assert without["texts"][0]["masks"][0]["vectors"] == {"heads": [], "size": 0, "terms": []}


@pytest.mark.parametrize(
    "masks, groups",
    [
        (["padding", "causal", "none"], [["padding", "causal", "none"]]),
        (["padding", "padding"], [["padding"], ["padding"]]),
        (["padding", "causal", "padding", "causal"], [["padding", "causal"]] * 2),
    ],
)
def test_neighbours_of_one_text_under_different_masks_are_one_text(masks, groups):
    maps = [np.random.default_rng(number).dirichlet(np.ones(4), (1, 1, 4)) for number in range(len(masks))]
    records = [record_of(one, mask_name=name) for one, name in zip(maps, masks, strict=True)]
    description, chunks = payload(records, {})
    assert [[mask["name"] for mask in text["masks"]] for text in description["texts"]] == groups
    order = [(text, mask) for text, names in enumerate(groups) for mask in range(len(names))]
    for record, (text, mask) in zip(records, order, strict=True):
        assert maps_of(description, chunks, text, mask) == pytest.approx(record.weights, abs=2e-5)


def title_of(record):
    return payload([record], {})[0]["texts"][0]["title"]


def test_the_title_of_a_text_is_how_it_begins_with_spaces_where_the_text_has_them():
    made = record_of(np.eye(3))
    assert title_of(record_of(np.eye(5))) == "cat##s中"  # nothing stands between them
    title = title_of(record_of(np.eye(40)))
    assert len(title) == 60 and title.startswith("cat##s中[x]") and title.endswith("…")
    assert title_of(replace(made, tokens=replace(made.tokens, special=[True] * 3))) == "(no words)"
    spaced = replace(tokens(["the", "Ġcat", "s"], range(3)), offsets=[(0, 3), (3, 7), (7, 8)])
    assert title_of(replace(made, tokens=spaced)) == "the cats"


def test_a_title_is_the_text_as_it_was_written_with_or_without_a_file_between(minilm, tmp_path):
    record = minilm.attend("Don't  panic\nin the Café!", pair="SHE  slept", layers=0, heads=0, pad_to=20)
    record.save(tmp_path / "r.safetensors")
    for one in (record, load_record(tmp_path / "r.safetensors"), merge_words(record)):
        assert title_of(one) == "Don't panic in the Café! SHE slept"
    old = replace(record.tokens, written=[""] * len(record.tokens))  # as in files of before
    assert title_of(replace(record, tokens=old)) == "don't panic in the cafe! she slept"


@pytest.mark.parametrize(
    ("pieces", "shown", "words"),
    [
        (["BÃ¤r", "ĠgrÃ¼ÃŁt", "Ġ"], ["Bär", "␣grüßt", "␣"], ["Bär", "grüßt", "␣"]),
        (["\x1b[1m", "\u202ex", "\ud800"], [r"\x1b[1m", r"\u202ex", r"\ud800"], None),
    ],
)
def test_tokens_are_as_a_reader_sees_them_and_can_not_command_or_turn_the_text(pieces, shown, words):
    made = record_of(np.eye(3))
    text = payload([replace(made, tokens=tokens(pieces, range(3)))], {})[0]["texts"][0]
    assert text["tokens"] == shown
    assert text["words"] == [[word, [place]] for place, word in enumerate(words or shown)]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda one: [], "at least one record"),
        (
            lambda one: [one, replace(one, model=replace(one.model, name="other"))],
            "the same models, but these have made-up and other",
        ),
        (lambda one: [one, one.select(layers=[1])], r"the same layers, but these have \[0, 1\] and \[1\]"),
        (lambda one: [one, one.select(heads=[1])], r"the same heads, but these have \[0, 1\] and \[1\]"),
    ],
)
def test_records_that_are_not_alike_are_refused(change, says):
    with pytest.raises(RequestError, match=says):
        payload(change(record_of(np.full((2, 2, 3, 3), 1 / 3))), {})
