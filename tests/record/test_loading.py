"""Every file that is no record is refused."""

import dataclasses
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from irregular import TouchedByPickle
from records import record_of, tokens_of
from safetensors.numpy import load_file, save_file
from saved_records import NATIVE, any_records, same, with_vectors

from attncli import RequestError, load_record, load_records
from attncli import record_of as record_of_maps
from attncli.record.grouping import merge_words

READ = (*NATIVE, ".json")
GOOD = with_vectors(record_of(np.full((2, 3, 6, 6), 1 / 6)), [(1, 2), (0, 0)])


def refused(path: Path) -> str:
    with pytest.raises(RequestError) as caught:
        load_records(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("suffix", READ)
@given(share=st.floats(0, 1, exclude_max=True))
def test_cut_short_anywhere(suffix, share, folder):
    path = folder / f"cut{suffix}"
    GOOD.save(path)
    whole = path.read_bytes().rstrip(b"\n")  # a document is whole without it
    path.write_bytes(whole[: int(share * len(whole))])
    refused(path)


@pytest.mark.parametrize("suffix", READ)
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY", b"{}", b"[" * 100_000, b"\xff\xfe" * 500])
def test_something_else_under_its_suffix(suffix, content, folder):
    path = folder / f"else{suffix}"
    path.write_bytes(content)
    assert "not a complete attncli record" in refused(path)


@pytest.mark.parametrize("where", ["whole", "weights", "labels"])
def test_a_pickle_is_never_read(where, folder):
    path, witness = folder / "evil.npz", folder / "witness"
    if where == "whole":
        path.write_bytes(pickle.dumps(TouchedByPickle(witness)))
    else:
        rewrite(path, **{where: np.array([TouchedByPickle(witness)], dtype=object)})
    refused(path)
    assert not witness.exists()


def rewrite(path: Path, labels: object = None, **arrays: object) -> None:
    """A .npz like GOOD's with some of its parts put in other's places; None takes one away."""
    GOOD.save(path)
    with np.load(path, allow_pickle=False) as file:
        parts = dict(file)
    if labels is not None:
        parts["labels"] = labels if isinstance(labels, np.ndarray) else np.array(json.dumps(labels))
    parts = {name: array for name, array in {**parts, **arrays}.items() if array is not None}
    with path.open("wb") as file:
        np.savez(file, **parts)


def changed(array: np.ndarray, place: tuple[int, ...], value: float) -> np.ndarray:
    array = array.copy()
    array[place] = value
    return array


NEURONS, QUERY, KEY = np.array(GOOD.vectors.heads), GOOD.vectors.query, GOOD.vectors.key


@pytest.mark.parametrize(
    "arrays",
    [
        {"weights": GOOD.weights.astype(np.float64)},
        {"weights": None},
        {"layers": np.array([0, 0])},
        {"mask": np.ones((6, 6), dtype=np.int64)},
        {"neurons": np.array([[1, 2], [1, 2]])},
        {"query": QUERY.astype(np.float64)},
        {"key": changed(KEY, (0, 0, 0), -np.inf)},
    ],
)
def test_arrays_that_do_not_fit_together(arrays, folder):
    rewrite(folder / "unfit.npz", **arrays)
    refused(folder / "unfit.npz")


LABELS = {
    "tokens": dataclasses.asdict(tokens_of(6)),
    "mask_name": "padding",
    "model": GOOD.model.document(),
}


def labels(part: str, **changes: object) -> dict:
    return {**LABELS, part: {**LABELS[part], **changes}}


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {**LABELS, "mask_name": 3},
        labels("tokens", segments=[0] * 5),
        labels("tokens", offsets=[[0, 1, 2]] * 6),
        {**LABELS, "kind": "hybrid"},
        {**LABELS, "key_tokens": {name: part[:5] for name, part in LABELS["tokens"].items()}},
    ],
)
def test_labels_that_do_not_fit(wrong, folder):
    rewrite(folder / "labels.npz", labels=LABELS)
    same(load_record(folder / "labels.npz"), GOOD)
    rewrite(folder / "labels.npz", labels=wrong)
    refused(folder / "labels.npz")


def test_what_a_reader_sees_is_made_of_the_pieces_where_a_file_does_not_say(folder):
    """Read a file like those of 0.2."""
    pieces = ["<s>", "BÃ¤r", "ĠgrÃ¼ÃŁt", "Ġ", "ðŁ", "</s>"]
    old = {name: part for name, part in labels("tokens", text=pieces)["tokens"].items() if name != "shown"}
    rewrite(folder / "old.npz", labels={**LABELS, "tokens": old}, tokens=np.array(pieces))
    found = load_record(folder / "old.npz").tokens
    assert found.text == pieces
    assert found.shown == ["<s>", "Bär", " grüßt", " ", "<0xF0><0x9F>", "</s>"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"format": "attncli-1"},
        {"format": "attncli-1", "records": "["},
        {"format": "attncli-2", "records": json.dumps([LABELS])},
        {"format": "attncli-1", "records": json.dumps([LABELS, LABELS])},
    ],
)
def test_safetensors_of_another_kind(metadata, folder):
    GOOD.save(folder / "good.safetensors")
    tensors = load_file(folder / "good.safetensors")
    save_file(tensors, folder / "other.safetensors", metadata={"format": "attncli-1", "records": json.dumps([LABELS])})
    same(load_record(folder / "other.safetensors"), GOOD)
    save_file(tensors, folder / "other.safetensors", metadata=metadata)
    refused(folder / "other.safetensors")


def test_files_that_are_not_there_or_not_meant(folder, tmp_path):
    assert "No such file" in refused(folder / "missing.npz")
    (tmp_path / "folder.npz").mkdir()
    assert "directory" in refused(tmp_path / "folder.npz")
    GOOD.save(tmp_path / "r.csv")
    assert "can't be loaded from .csv" in refused(tmp_path / "r.csv")
    assert "no suffix" in refused(tmp_path)


# --- another program's .npz -------------------------------------------------------------------------------

PLAIN = {"attentions": np.full((2, 3, 4, 4), 0.25), "tokens": np.array(["[CLS]", "a", "##b", "[SEP]"])}


def plain(folder: Path, **changes: object) -> Path:
    parts = {name: array for name, array in {**PLAIN, **changes}.items() if array is not None}
    np.savez(folder / "plain.npz", **parts)
    return folder / "plain.npz"


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, {}),
        ({"attentions": PLAIN["attentions"].astype(np.float16)[:, None]}, {}),
        ({"layers": np.array([4, 7]), "heads": np.array([0, 5, 2])}, {"layers": [4, 7], "heads": [0, 5, 2]}),
        ({"mask": np.ones((4, 4), bool), "segments": np.array([0, 0, 1, 1])}, {"segments": [0, 0, 1, 1]}),
        ({"mask": np.array("none"), "model": np.array("mine")}, {"mask": "none", "model": "mine"}),
        ({"key_tokens": np.array(["c", "d", "e", "f"])}, {"key_tokens": ["c", "d", "e", "f"]}),
        ({"kind": np.array("decoder"), "measure": np.array("norm")}, {"kind": "decoder", "measure": "norm"}),
    ],
)
def test_a_plain_npz_is_what_record_of_takes(changes, options, folder):
    attentions = changes.get("attentions", PLAIN["attentions"])
    same(load_record(plain(folder, **changes)), record_of_maps(attentions, PLAIN["tokens"].tolist(), **options))


def test_a_plain_npz_with_vectors_of_some_heads(folder):
    query, key = np.random.default_rng(1).normal(size=(2, 3, 4, 5)).astype(np.float32)
    vectors = load_record(plain(folder, query=query, key=key, neurons=np.array([[1, 0], [1, 1], [1, 2]]))).vectors
    np.testing.assert_array_equal(vectors.of(1, 2), [query[2], key[2]])
    assert vectors.heads == [(1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tokens": None}, "tokens"),
        ({"tokens": np.array(["a", "b"])}, "the tokens are 2 and 2"),
        ({"tokens": np.array([b"a"] * 4)}, "a list of strings"),
        ({"tokens": np.array(["a", Path()] * 2, dtype=object)}, "neither numbers nor text"),
        ({"attentions": np.array(["a"] * 16).reshape(4, 4)}, "weights can't be"),
        ({"attentions": PLAIN["attentions"] / 2}, "sums to 0.5"),
        ({"layers": np.array([0])}, "2 distinct numbers"),
        ({"layers": np.array([0.5, 1.5])}, "layers 0 is 0.5, not a whole number"),
        ({"mask": np.ones((4, 3))}, "the mask is"),
        ({"query": np.ones((2, 3, 4, 5))}, "key"),
        ({"kind": np.array(["a"])}, "kind is ['a'], not one of encoder"),
        ({"segments": np.array([0, 0, 0.5, 1])}, "give 0 or 1 for each token"),
    ],
)
def test_a_plain_npz_that_does_not_fit(changes, said, folder):
    assert said in refused(plain(folder, **changes))


# --- .json -------------------------------------------------------------------------------------------------


@given(record=any_records().filter(lambda record: record.weights.shape[-2:] > (1, 1)), words=st.booleans())
def test_any_record_comes_back_from_json_as_far_as_it_holds_it(record, words, folder):
    record = merge_words(record) if words else record
    record.save(folder / "any.json")
    found = load_record(folder / "any.json")
    again, document = found.document(), record.document()
    if document.pop("masks", None) is not None:  # where the tokens' texts do not say which are [PAD]
        again.pop("masks", None)  # the mask's name may say all that there is to it
        assert np.array_equal(found.masks, record.masks)
    assert json.dumps(again) == json.dumps(document) and found.model == record.model
