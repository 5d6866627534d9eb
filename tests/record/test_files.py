"""Records are saved and loaded again, in the formats of attncli and of other programs."""

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import record_of
from safetensors.numpy import load_file
from saved_records import NATIVE, any_records, same
from slow import slow_except

from attncli import RequestError, load_record, load_records, save_records
from attncli.record import AttentionRecord
from attncli.record.masks import named_masks

# --- there and back -------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", NATIVE)
@given(record=any_records())
@settings(max_examples=30)
def test_one_text_comes_back_as_it_was(suffix, record, folder):
    path = folder / f"one{suffix}"
    record.save(path)
    same(load_record(path), record)
    [again] = load_records(str(path))
    same(again, record)


@given(several=st.lists(any_records(), min_size=1, max_size=13))
@settings(max_examples=15)
def test_many_texts_come_back_in_their_order(several, folder):
    path = folder / "many.safetensors"
    save_records(several, path)
    found = load_records(path)
    assert len(found) == len(several)
    for one, expected in zip(found, several, strict=True):
        same(one, expected)
    if len(several) > 1:
        with pytest.raises(RequestError, match=f"holds {len(several)} texts"):
            load_record(path)


def test_npz_has_what_the_contract_says(folder):
    """And numpy alone reads it, without pickle."""
    record = record_of(np.full((2, 3, 5, 5), 0.2))
    record.save(folder / "r.npz")
    with np.load(folder / "r.npz", allow_pickle=False) as file:
        assert file["weights"].shape == (2, 3, 5, 5) and file["weights"].dtype == np.float32
        assert file["layers"].tolist() == [0, 1] and file["heads"].tolist() == [0, 1, 2]
        assert file["tokens"].tolist() == record.tokens.text
        assert file["segments"].tolist() == [0] * 5
        assert file["mask"].shape == (5, 5) and file["mask"].dtype == np.bool_


@pytest.mark.parametrize("suffix", NATIVE)
def test_a_mask_is_written_once_where_the_layers_agree(suffix, folder):
    window = np.tri(5, k=1, dtype=bool)
    agreeing, differing = np.stack([window, window]), np.stack([window, window.T])
    for masks, expected in ((window, window), (agreeing, window), (differing, differing)):
        record_of(np.full((2, 3, 5, 5), 0.2), mask=masks).save(folder / f"mask{suffix}")
        file = load_file(folder / "mask.safetensors") if suffix == ".safetensors" else np.load(folder / "mask.npz")
        assert file["mask"].dtype == bool and np.array_equal(file["mask"], expected)


# --- for other programs ---------------------------------------------------------------------------------


@given(several=st.lists(any_records(), min_size=1, max_size=3))
@settings(max_examples=15)
def test_json_is_the_document_of_run(several, folder):
    save_records(several, folder / "r.json")
    document = json.loads((folder / "r.json").read_text(encoding="utf-8"))
    assert set(document) == {"model", "records"}
    assert document["model"] == several[0].model.document()
    assert set(document["model"]) == {"name", "path", "sha256", "layers", "heads", "hidden_size"}
    for found, record in zip(document["records"], several, strict=True):
        named = named_masks(record.tokens, record.key_tokens).get(record.mask_name)
        more = {
            "kind": record.kind != "encoder",
            "key_tokens": record.key_tokens,
            "rows": record.rows is not None,
            "measure": record.measure != "weight",
            "shown": record.tokens.shown != record.tokens.text,
            "key_shown": record.key_tokens and record.keys.shown != record.keys.text,
            "masks": not all(np.array_equal(mask, named) for mask in record.masks),
        }
        assert set(found) == {"tokens", "segments", "mask", "attention", *filter(more.get, more)}
        assert found.get("key_tokens", record.tokens.text) == record.keys.text
        assert found.get("kind", "encoder") == record.kind
        assert found.get("rows") == record.rows
        assert found.get("measure", "weight") == record.measure
        assert (found["tokens"], found["segments"]) == (record.tokens.text, record.tokens.segments)
        assert found["mask"] == record.mask_name
        order = [(layer, head) for layer in record.layers for head in record.heads]
        assert [(one["layer"], one["head"]) for one in found["attention"]] == order
        for one in found["attention"]:
            assert np.array_equal(np.float32(one["weights"]), record.map(one["layer"], one["head"]))


def csv_can_hold(record: AttentionRecord) -> bool:
    """A carriage return or a NUL in a token, which no tokenizer gives, is what csv's own reader stumbles over."""
    return not set("\r\0") & set("".join(record.tokens.text + record.keys.text))


@given(several=st.lists(any_records().filter(csv_can_hold), min_size=1, max_size=2))
@settings(max_examples=10)
def test_csv_and_a_data_frame_have_a_row_a_cell(several, folder):
    save_records(several, folder / "r.csv")
    with (folder / "r.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    frame = several[0].to_dataframe().astype({"hidden": int})
    assert list(frame) == header
    expected = zip(*rows[: len(frame)], strict=True)
    assert [list(map(str, frame[name].to_numpy())) for name in frame] == list(map(list, expected))
    assert header == ["text", "layer", "head", "query", "key", "query_token", "key_token", "weight", "hidden"]
    assert len(rows) == sum(record.weights.size for record in several)
    rows = iter(rows)
    for text, record in enumerate(several):
        for (layer, head, query, key), weight in np.ndenumerate(record.weights):
            *numbers, query_token, key_token, found, hidden = next(rows)
            assert hidden == str(int(not record.mask_of(record.layers[layer])[query, key]))
            assert list(map(int, numbers)) == [text, record.layers[layer], record.heads[head], query, key]
            assert (query_token, key_token) == (record.tokens.text[query], record.keys.text[key])
            assert np.float32(found) == weight


# --- what can't be saved --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["maps", "maps.pt", ".npz"])
def test_an_unknown_suffix_names_those_that_are_known(name, folder):
    with pytest.raises(RequestError, match=r"\.safetensors, \.npz, \.json, \.csv") as caught:
        record_of(np.eye(3)).save(folder / name)
    assert name in str(caught.value) and not (folder / name).exists()


def test_several_texts_in_npz_and_none_at_all(folder):
    one = record_of(np.eye(3))
    with pytest.raises(RequestError, match=r"\.npz holds one text, but there are 2: use \.safetensors"):
        save_records([one, one], folder / "two.npz")
    for suffix in (".npz", ".safetensors", ".json", ".csv"):
        with pytest.raises(RequestError, match="no record"):
            save_records([], folder / f"none{suffix}")
    assert not list(folder.glob("two*")) + list(folder.glob("none*"))


@pytest.mark.parametrize("suffix", slow_except([".npz", ".safetensors", ".json", ".csv"], [".npz", ".json"]))
def test_a_full_disk_leaves_nothing_behind(suffix, folder):
    """A limit on the size of files stands in for the disk's end: writing fails in the middle."""
    place = Path(tempfile.mkdtemp(dir=folder))
    code = (
        "import resource, signal, sys; sys.path.insert(0, sys.argv[1])\nimport numpy as np\nfrom records import "
        "record_of\nfrom attncli import RequestError\nsignal.signal(signal.SIGXFSZ, "
        "signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\nweights = "
        "np.random.default_rng(0).random((2, 3, 30, 30))\ntry: record_of(weights).save(sys.argv[2])\n"
        'except RequestError as error: assert "can\'t write" in str(error), error\n'
        "else: raise SystemExit('it was written')"
    )
    pytest.importorskip("resource")
    arguments = [sys.executable, "-c", code, str(Path(__file__).parents[1]), str(place / f"r{suffix}")]
    subprocess.run(arguments, check=True, timeout=300)
    assert list(place.iterdir()) == []


# --- data frames -------------------------------------------------------------------------------------


def test_without_pandas_it_says_what_to_install(minilm, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RequestError, match="pip install pandas"):
        minilm.attend("The cat sat.", layers=0).to_dataframe()
