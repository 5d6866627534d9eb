"""Check the description and the packed numbers of a page, read back like data.js reads them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packed import unpack_layer, unpacked
from records import attention_records, layered_records, record_of

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


@given(st.lists(attention_records(padding=2), min_size=1, max_size=1))
def test_stored_weights_are_the_records_within_the_error_that_is_told(records):
    description, chunks = payload(records, {})
    entry = description["texts"][0]["masks"][0]
    assert entry["levels"] == LEVELS[0]
    np.testing.assert_allclose(maps_of(description, chunks, 0, 0), records[0].weights, atol=2 * error_of(LEVELS[0]))


@given(attention_records(padding=1))
def test_the_description_says_what_the_record_says(record):
    description, _ = payload([record], {"view": "heads"})
    text = description["texts"][0]
    assert (description["layers"], description["heads"]) == (record.layers, record.heads)
    assert description["model"]["name"] == record.model.name and description["start"] == {"view": "heads"}
    assert text["tokens"] == record.tokens.text
    assert (text["segments"], text["special"]) == (record.tokens.segments, record.tokens.special)
    assert [word for word, _ in text["words"]] == merge_words(record).tokens.text
    assert [piece for _, pieces in text["words"] for piece in pieces] == list(range(len(record.tokens)))
    assert json.loads(json.dumps(description, allow_nan=False))["texts"][0]["title"] == text["title"]


@given(attention_records(padding=1))
def test_what_heads_do_is_what_the_analysis_says(record):
    description, _ = payload([record], {})
    kinds = description["texts"][0]["masks"][0]["kinds"]
    for (layer, head), summary in summarise(record).items():
        kind = kinds[record.layers.index(layer)][record.heads.index(head)]
        assert kind["label"] == summary.label.replace("_", " ")
        assert kind["share"] == pytest.approx(summary.strength, abs=1e-4)
        assert kind["entropy"] == pytest.approx(summary.entropy, abs=1e-4)


@given(st.integers(0, 2**32 - 1), st.integers(3, 9))
def test_the_mask_is_a_bit_a_cell(seed, length):
    mask = np.random.default_rng(seed).random((length, length)) < 0.5
    description, chunks = payload([record_of(np.eye(length), mask=mask)], {})
    packed = unpacked(chunks[description["texts"][0]["masks"][0]["allowed"]])
    bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8), count=length * length)
    assert np.array_equal(bits.reshape(length, length), mask)


@given(layered_records())
def test_masks_that_differ_are_kept_layer_by_layer(record):
    description, chunks = payload([record], {})
    cells = record.masks[0].size
    found = [
        np.unpackbits(np.frombuffer(unpacked(chunks[name]), dtype=np.uint8), count=cells)
        for name in description["texts"][0]["masks"][0]["allowed"]
    ]
    assert np.array_equal(np.reshape(found, record.masks.shape), record.masks)


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


def test_the_title_of_a_text_is_how_it_begins():
    assert payload([record_of(np.eye(5))], {})[0]["texts"][0]["title"] == "cat##s中"  # nothing stands between them
    title = payload([record_of(np.eye(40))], {})[0]["texts"][0]["title"]
    assert len(title) == 60 and title.startswith("cat##s中[x]") and title.endswith("…")
    made = record_of(np.eye(3))
    nothing = replace(made, tokens=replace(made.tokens, special=[True] * 3))
    assert payload([nothing], {})[0]["texts"][0]["title"] == "(no words)"


def test_a_title_is_the_text_as_it_was_written_with_or_without_a_file_between(minilm, tmp_path):
    record = minilm.attend("The Café\nof unfathomable 🐈 cats!", pair="SHE  slept", layers=0, heads=0, pad_to=20)
    record.save(tmp_path / "r.safetensors")
    for one in (record, load_record(tmp_path / "r.safetensors"), merge_words(record)):
        title = payload([one], {})[0]["texts"][0]["title"]
        assert title == "The Café of unfathomable 🐈 cats! SHE slept"


def test_a_title_has_spaces_where_the_text_has_them(minilm):
    record = minilm.attend("Don't  panic, honeypots.", layers=0, heads=0)
    assert payload([record], {})[0]["texts"][0]["title"] == "Don't panic, honeypots."
    words = replace(record.tokens, written=[""] * len(record.tokens))  # as in files of before
    assert payload([replace(record, tokens=words)], {})[0]["texts"][0]["title"] == "don't panic, honeypots."
    spaced = replace(
        record_of(np.eye(3)).tokens,
        text=["the", "Ġcat", "s"],
        shown=[],
        words=[0, 1, 2],
        offsets=[(0, 3), (3, 7), (7, 8)],
        special=[False] * 3,
    )
    assert payload([replace(record_of(np.eye(3)), tokens=spaced)], {})[0]["texts"][0]["title"] == "the cats"


def test_tokens_are_as_a_reader_sees_them_with_their_spaces_to_be_seen():
    made = record_of(np.eye(3))
    pieces = replace(made.tokens, text=["BÃ¤r", "ĠgrÃ¼ÃŁt", "Ġ"], shown=[], special=[False] * 3, words=[0, 1, 2])
    text = payload([replace(made, tokens=pieces)], {})[0]["texts"][0]
    assert text["tokens"] == ["Bär", "␣grüßt", "␣"]
    assert text["words"] == [["Bär", [0]], ["grüßt", [1]], ["␣", [2]]]


def test_what_could_command_or_turn_the_text_is_escaped():
    made = record_of(np.eye(3))
    hostile = replace(made, tokens=replace(made.tokens, shown=[], text=["\x1b[1m", "\u202ex", "\ud800"]))
    text = payload([hostile], {})[0]["texts"][0]
    assert text["tokens"] == [r"\x1b[1m", r"\u202ex", r"\ud800"]


def test_there_must_be_a_record():
    with pytest.raises(RequestError, match="no record"):
        payload([], {})


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda one: replace(one, model=replace(one.model, name="other")), "the same models .* not made-up and other"),
        (lambda one: one.select(layers=[1]), r"the same layers .* not \[0, 1\] and \[1\]"),
        (lambda one: one.select(heads=[1]), r"the same heads .* not \[0, 1\] and \[1\]"),
    ],
)
def test_records_that_are_not_alike_are_refused(change, says):
    record = record_of(np.full((2, 2, 3, 3), 1 / 3))
    with pytest.raises(RequestError, match=says):
        payload([record, change(record)], {})
