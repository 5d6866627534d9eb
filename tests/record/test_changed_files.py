"""Files of records with one thing changed: refused in one line, or a record that can be."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import mutated, mutated_array
from records import record_of
from saved_records import same, some_rows, turned, with_vectors

from attncli import RequestError, load_record
from attncli.base import choices
from attncli.record import AttentionRecord
from attncli.record.masks import MEASURES
from attncli.record.record import document_text

WEIGHTS = np.tril(np.ones((2, 3, 5, 5))) / np.arange(1, 6)[:, None]
MADE = record_of(WEIGHTS, mask=np.tril(np.ones((5, 5), dtype=bool)), mask_name="causal")
GOOD = turned(with_vectors(MADE, [(1, 2)], terms=["position"]))

NUMBERS = {**GOOD.contents().numbers, "tokens": np.array(GOOD.tokens.text)}
LABELS = json.loads(json.dumps(GOOD.contents().labels))
DOCUMENT = json.loads("".join(document_text([GOOD])))


def holds(record: AttentionRecord) -> None:
    """Check what is true of every record."""
    sums = record.weights.sum(axis=-1)
    if record.measure != "norm":
        assert (np.minimum(abs(sums), abs(sums - 1)) < 0.07).all()
    assert np.isfinite(record.weights).all() and (record.weights >= 0).all()
    assert not (record.weights[~np.broadcast_to(record.masks[:, None], record.weights.shape)]).any()
    assert record.mask_name in choices.names(choices.MaskName) and record.measure in MEASURES
    assert len(record.tokens.text) == len(record.tokens.words) == record.weights.shape[2]
    assert record.places.max() < record.weights.shape[3] and len(record.places) == record.weights.shape[2]
    assert all(type(one) is int for one in (*record.layers, *record.heads, *record.tokens.ids))
    json.dumps(record.document())
    repr(record).encode()


def loaded(path: Path) -> None:
    try:
        record = load_record(path)
    except RequestError as error:
        assert "\n" not in str(error) and len(str(error)) < 300
    else:
        holds(record)
        again = path.with_name("again.safetensors")
        record.save(again)
        same(load_record(again), record)


def write_npz(path: Path, labels: object = LABELS, **arrays: np.ndarray) -> None:
    np.savez(path, **{**NUMBERS, **arrays}, labels=np.array(json.dumps(labels)))


@given(labels=mutated(LABELS))
@settings(max_examples=30)
def test_changed_labels(labels, folder):
    write_npz(folder / "labels.npz", labels)
    loaded(folder / "labels.npz")


@given(data=st.data(), name=st.sampled_from([*NUMBERS]))
@settings(max_examples=30)
def test_changed_arrays(data, name, folder):
    write_npz(folder / "arrays.npz", **{name: data.draw(mutated_array(NUMBERS[name]))})
    loaded(folder / "arrays.npz")


@given(rows=st.lists(st.integers(-1, 6), max_size=3))
@settings(max_examples=20)
def test_changed_places_of_rows(rows, folder):
    """Two rows of five tokens."""
    numbers, labels = some_rows(MADE).contents()
    labels = {**json.loads(json.dumps(labels)), "rows": rows}
    np.savez(folder / "rows.npz", **numbers, labels=np.array(json.dumps(labels)))
    loaded(folder / "rows.npz")
    (folder / "rows.json").write_text("".join(document_text([replace(some_rows(MADE), rows=rows)])))
    loaded(folder / "rows.json")
    if len(rows) != 2 or rows != sorted(rows) or not {*rows} <= {*range(5)}:
        with pytest.raises(RequestError, match="rows"):
            load_record(folder / "rows.npz")


@given(document=mutated(DOCUMENT))
@settings(max_examples=30)
def test_changed_documents(document, folder):
    (folder / "changed.json").write_text(json.dumps(document))
    loaded(folder / "changed.json")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"weights": GOOD.weights * 5}, "query 0 to key 0 in map 0, 0 is 5: it must be at least 0 and at most 1"),
        ({"weights": GOOD.weights * np.float32(0.9)}, "row 0 of map 0, 0 sums to 0.9 and not to 1"),
        ({"mask": np.eye(5, dtype=bool)}, "the mask hides key 0 from query 1 (cat), but layer 0 has"),
        ({"segments": np.ones(5, dtype=np.int64)}, "its segments differ from those of its tokens"),
        ({"tokens": np.array(["a"] * 5)}, "its tokens differ from those in its labels"),
    ],
)
def test_what_no_run_gives_is_refused_in_words(change, said, folder):
    write_npz(folder / "said.npz", **change)
    with pytest.raises(RequestError) as caught:
        load_record(folder / "said.npz")
    assert said in str(caught.value)
