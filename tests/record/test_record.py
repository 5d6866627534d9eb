"""Records: saved and loaded again, and every file that is not one."""

import csv
import dataclasses
import json
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import attention_records, cross_records, record_of, tokens_of
from safetensors.numpy import load_file, save_file

from attncli import RequestError, load_record, load_records, save_records
from attncli.record import AttentionRecord, Vectors
from attncli.record.selection import number_list

NATIVE = (".npz", ".safetensors")


@st.composite
def records(draw) -> AttentionRecord:
    """Any numbers of layers and heads in any order, words and characters of every kind, all masks."""
    record = draw(cross_records() | attention_records(padding=draw(st.integers(0, 3))))
    layers, heads, length, keys = record.weights.shape
    head_dim = draw(st.integers(1, 5))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    words = draw(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), min_size=1, max_size=4))
    record = dataclasses.replace(
        record,
        layers=numbers.permutation(30)[:layers].tolist(),
        heads=numbers.permutation(30)[:heads].tolist(),
        model=dataclasses.replace(record.model, layers=30, heads=30),
        tokens=dataclasses.replace(record.tokens, text=[words[place % len(words)] for place in range(length)]),
        mask=numbers.random(keys) < 0.5,
        mask_name=draw(st.sampled_from(["padding", "causal", "none"])),
        kind=draw(st.sampled_from(["encoder", "decoder", "cross"])),
        measure=draw(st.sampled_from(["weight", "norm", "share of norm"])),
    )
    pairs = [(layer, head) for layer in record.layers for head in record.heads]
    neurons = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=4))
    return with_vectors(record, neurons, head_dim) if neurons else record


def with_vectors(record: AttentionRecord, neurons: list[tuple[int, int]], head_dim: int = 4) -> AttentionRecord:
    """With queries and keys of these heads, every number another's."""
    sizes = [(len(neurons), len(tokens), head_dim) for tokens in (record.tokens, record.keys)]
    query, key = (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 7 for shape in sizes)
    key += query.size
    return dataclasses.replace(record, vectors=Vectors(neurons, query, key))


def with_whole_mask(record: AttentionRecord) -> AttentionRecord:
    """As a model makes it: a mask that says the same of every query is stored once, in no memory of its own."""
    shape = len(record.tokens), len(record.keys)
    return dataclasses.replace(record, mask=np.broadcast_to(record.mask, shape))


records_of_models = records().map(with_whole_mask)


def same(found: AttentionRecord, expected: AttentionRecord) -> None:
    same_fields(found, expected)
    assert all(type(number) is int for number in [*found.layers, *found.heads])
    if found.vectors is not None:
        assert all(type(number) is int for pair in found.vectors.heads for number in pair)


def same_fields(found: object, expected: object) -> None:
    for field in dataclasses.fields(expected):
        here, there = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(there, np.ndarray):
            assert here.dtype == there.dtype and np.array_equal(here, there), field.name
        elif isinstance(there, Vectors):
            same_fields(here, there)
        else:
            assert here == there, field.name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("records")


# --- there and back -------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", NATIVE)
@given(record=records_of_models)
@settings(max_examples=30)
def test_one_text_comes_back_as_it_was(suffix, record, folder):
    path = folder / f"one{suffix}"
    record.save(path)
    same(load_record(path), record)
    [again] = load_records(str(path))
    same(again, record)


@given(several=st.lists(records_of_models, min_size=1, max_size=13))
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


def test_safetensors_has_the_same_tensors(folder):
    record = record_of(np.full((1, 2, 4, 4), 0.25))
    record.save(folder / "r.safetensors")
    tensors = load_file(folder / "r.safetensors")
    assert set(tensors) == {"weights", "layers", "heads", "segments", "mask"}
    assert np.array_equal(tensors["weights"], record.weights)


def test_vectors_are_three_more_arrays_where_there_are_any(folder):
    record = with_vectors(record_of(np.full((2, 3, 4, 4), 0.25)), [(1, 2), (0, 0)], head_dim=5)
    record.save(folder / "v.safetensors")
    record.save(folder / "v.npz")
    with np.load(folder / "v.npz", allow_pickle=False) as file:
        for tensors in (load_file(folder / "v.safetensors"), file):
            assert tensors["neurons"].tolist() == [[1, 2], [0, 0]] and tensors["neurons"].dtype == np.int64
            for name in ("query", "key"):
                assert tensors[name].dtype == np.float32 and tensors[name].shape == (2, 4, 5)
                assert np.array_equal(tensors[name], getattr(record.vectors, name))


def test_a_record_of_a_model_comes_back(minilm, folder):
    for number, record in enumerate(minilm.attend_many(["The cat sat.", "它很大"], ["It is big.", None], pad_to=20)):
        for suffix in NATIVE:
            record.save(folder / f"model{number}{suffix}")
            same(load_record(folder / f"model{number}{suffix}"), record)


def test_reading_a_record_needs_no_torch(folder):
    import subprocess
    import sys

    for suffix in NATIVE:
        record_of(np.full((4, 4), 0.25)).save(folder / f"light{suffix}")
    code = (
        "import attncli, sys\n"
        f"for suffix in {NATIVE}: attncli.load_record({str(folder / 'light')!r} + suffix)\n"
        "assert 'torch' not in sys.modules, 'torch was imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- for other programs ---------------------------------------------------------------------------------


@given(several=st.lists(records_of_models, min_size=1, max_size=3))
@settings(max_examples=15)
def test_json_is_the_document_of_run(several, folder):
    save_records(several, folder / "r.json")
    document = json.loads((folder / "r.json").read_text(encoding="utf-8"))
    assert set(document) == {"model", "records"}
    assert document["model"] == dataclasses.asdict(several[0].model)
    assert set(document["model"]) == {"name", "path", "sha256", "layers", "heads", "hidden_size"}
    for found, record in zip(document["records"], several, strict=True):
        more = {"kind"} if record.kind != "encoder" else set()
        more |= {"key_tokens"} if record.key_tokens else set()
        more |= {"measure"} if record.measure != "weight" else set()
        assert set(found) == {"tokens", "segments", "mask", "attention"} | more
        assert found.get("key_tokens", record.tokens.text) == record.keys.text
        assert found.get("kind", "encoder") == record.kind
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


@given(several=st.lists(records_of_models.filter(csv_can_hold), min_size=1, max_size=2))
@settings(max_examples=10)
def test_csv_has_a_row_a_cell(several, folder):
    save_records(several, folder / "r.csv")
    with (folder / "r.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["text", "layer", "head", "query", "key", "query_token", "key_token", "weight"]
    assert len(rows) == sum(record.weights.size for record in several)
    rows = iter(rows)
    for text, record in enumerate(several):
        for (layer, head, query, key), weight in np.ndenumerate(record.weights):
            *numbers, query_token, key_token, found = next(rows)
            assert list(map(int, numbers)) == [text, record.layers[layer], record.heads[head], query, key]
            assert (query_token, key_token) == (record.tokens.text[query], record.keys.text[key])
            assert np.float32(found) == weight


# --- parts ----------------------------------------------------------------------------------------------


@given(record=records_of_models, data=st.data())
def test_a_part_of_a_record(record, data):
    layers = data.draw(st.none() | st.lists(st.sampled_from(record.layers), min_size=1, unique=True))
    heads = data.draw(st.none() | st.lists(st.sampled_from(record.heads), min_size=1, unique=True))
    part = record.select(layers, heads)
    assert part.layers == (layers or record.layers) and part.heads == (heads or record.heads)
    assert part.tokens == record.tokens and part.mask_name == record.mask_name
    for layer in part.layers:
        for head in part.heads:
            assert np.array_equal(part.map(layer, head), record.map(layer, head))
    every = record.vectors.heads if record.vectors else []
    staying = [(layer, head) for layer, head in every if layer in part.layers and head in part.heads]
    assert (part.vectors.heads if part.vectors else []) == staying
    for layer, head in staying:
        for found, expected in zip(part.vectors.of(layer, head), record.vectors.of(layer, head), strict=True):
            assert np.array_equal(found, expected)


def test_what_is_not_in_a_record():
    made = record_of(np.full((2, 3, 4, 4), 0.25))
    of = dataclasses.replace(made.model, layers=6, heads=8)
    record = dataclasses.replace(made, layers=[2, 5], heads=[0, 1, 7], model=of)
    assert np.array_equal(record.map(5, 7), record.weights[1, 2])
    with pytest.raises(RequestError, match=r"layer 3 is not in the record: it holds 2,5"):
        record.select([2, 3])
    with pytest.raises(RequestError, match=r"head 2 is not in the record: it holds 0-1,7"):
        record.select(None, [2])
    with pytest.raises(RequestError, match=r"layer 6 is out of range: layers are 0 to 5"):
        record.select("6")
    with pytest.raises(KeyError, match="layer 2, head 5"):
        record.map(2, 5)
    with pytest.raises(KeyError, match="layer 5, head 1"):
        with_vectors(record, [(5, 7), (2, 1)]).vectors.of(5, 1)


def test_the_vectors_of_a_head_are_its_own():
    vectors = with_vectors(record_of(np.full((2, 3, 4, 4), 0.25)), [(1, 2), (0, 0)]).vectors
    for place, (layer, head) in enumerate([(1, 2), (0, 0)]):
        query, key = vectors.of(layer, head)
        assert np.array_equal(query, vectors.query[place]) and np.array_equal(key, vectors.key[place])


@given(numbers=st.lists(st.integers(0, 30), unique=True))
def test_a_list_of_numbers_says_these_numbers(numbers):
    from attncli.record.selection import select

    if numbers:
        assert select(number_list(numbers), 31, "layer") == numbers


# --- what can't be saved --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["maps", "maps.txt", "maps.npy", "maps.pt", ".npz", "npz"])
def test_an_unknown_suffix_names_those_that_are_known(name, folder):
    with pytest.raises(RequestError, match=r"\.safetensors, \.npz, \.json, \.csv") as caught:
        record_of(np.eye(3)).save(folder / name)
    assert name in str(caught.value) and not (folder / name).exists()


def test_a_suffix_may_be_in_capitals(folder):
    for suffix in NATIVE:
        path = folder / f"CAPITALS{suffix.upper()}"
        record_of(np.eye(3)).save(path)
        same(load_record(path), record_of(np.eye(3)))


def test_several_texts_in_npz_and_none_at_all(folder):
    one = record_of(np.eye(3))
    with pytest.raises(RequestError, match=r"\.npz holds one text and there are 2; \.safetensors"):
        save_records([one, one], folder / "two.npz")
    for suffix in (".npz", ".safetensors", ".json", ".csv"):
        with pytest.raises(RequestError, match="no record"):
            save_records([], folder / f"none{suffix}")
    assert not list(folder.glob("two*")) + list(folder.glob("none*"))


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".json", ".csv"])
def test_a_full_disk_leaves_nothing_behind(suffix, folder):
    """A limit on the size of files stands in for the disk's end: writing fails in the middle."""
    import subprocess
    import sys

    place = Path(tempfile.mkdtemp(dir=folder))
    code = (
        "import resource, signal, sys; sys.path.insert(0, sys.argv[1])\n"
        "import numpy as np\nfrom records import record_of\nfrom attncli import RequestError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
        "weights = np.random.default_rng(0).random((2, 3, 30, 30))\n"
        "try: record_of(weights).save(sys.argv[2])\n"
        'except RequestError as error: assert "can\'t write" in str(error), error\n'
        "else: raise SystemExit('it was written')"
    )
    pytest.importorskip("resource")
    arguments = [sys.executable, "-c", code, str(Path(__file__).parents[1]), str(place / f"r{suffix}")]
    subprocess.run(arguments, check=True, timeout=60)
    assert list(place.iterdir()) == []


# --- what is no record ----------------------------------------------------------------------------------

GOOD = with_vectors(record_of(np.full((2, 3, 6, 6), 1 / 6)), [(1, 2), (0, 0)])


def refused(path: Path) -> str:
    with pytest.raises(RequestError) as caught:
        load_records(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("suffix", NATIVE)
@given(share=st.floats(0, 1, exclude_max=True))
def test_cut_short_anywhere(suffix, share, folder):
    path = folder / f"cut{suffix}"
    GOOD.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    refused(path)


@pytest.mark.parametrize("suffix", NATIVE)
@given(spots=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=5))
@settings(max_examples=200)
def test_garbled_bytes_end_in_a_record_or_a_refusal(suffix, spots, folder):
    """Never in another exception, and never in a record that can't be used."""
    path = folder / f"garbled{suffix}"
    GOOD.save(path)
    garbled = bytearray(path.read_bytes())
    for place, byte in spots:
        garbled[int(place * len(garbled))] = byte
    path.write_bytes(garbled)
    try:
        record = load_record(path)
    except RequestError as error:
        assert "\n" not in str(error)
    else:
        record.select(record.layers[:1]).save(folder / "again.npz")


@pytest.mark.parametrize("suffix", NATIVE)
@pytest.mark.parametrize("content", [b"", b"x", b"PK\x03\x04", b"\x93NUMPY", b"{}", b"\0" * 100, b"\xff" * 1000])
def test_something_else_under_its_suffix(suffix, content, folder):
    path = folder / f"else{suffix}"
    path.write_bytes(content)
    assert "not a whole attncli record" in refused(path)


def test_a_numpy_array_under_the_suffix_of_many(folder):
    with (folder / "array.npz").open("wb") as file:
        np.save(file, np.eye(3))
    refused(folder / "array.npz")


class Evil:
    """Unpickling this creates a file."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self):
        return Path.touch, (self.witness,)


@pytest.mark.parametrize("where", ["whole", "weights", "labels"])
def test_a_pickle_is_never_read(where, folder):
    path, witness = folder / "evil.npz", folder / "witness"
    if where == "whole":
        path.write_bytes(pickle.dumps(Evil(witness)))
    else:
        rewrite(path, **{where: np.array([Evil(witness)], dtype=object)})
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


def test_a_file_without_vectors_has_none(folder):
    """As all were before there were any."""
    rewrite(folder / "old.npz", neurons=None, query=None, key=None)
    same(load_record(folder / "old.npz"), dataclasses.replace(GOOD, vectors=None))


def changed(array: np.ndarray, place: tuple[int, ...], value: float) -> np.ndarray:
    array = array.copy()
    array[place] = value
    return array


NEURONS, QUERY, KEY = np.array(GOOD.vectors.heads), GOOD.vectors.query, GOOD.vectors.key


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("weights", changed(GOOD.weights, (1, 2, 3, 4), np.nan)),
        ("weights", changed(GOOD.weights, (1, 2, 3, 4), np.inf)),
        ("weights", changed(GOOD.weights, (1, 2, 3, 4), -1e-3)),
        ("weights", GOOD.weights.astype(np.float64)),
        ("weights", GOOD.weights[:, :, :5]),
        ("weights", GOOD.weights[0]),
        ("weights", GOOD.weights[:1]),
        ("weights", None),
        ("layers", np.array([0, 1, 2])),
        ("layers", np.array([0.0, 1.0])),
        ("layers", np.array(["0", "1"])),
        ("layers", np.array(2)),
        ("layers", np.array([0, 0])),
        ("layers", np.array([0, 2])),
        ("layers", np.array([-1, 0])),
        ("heads", None),
        ("mask", np.ones((6, 6), dtype=np.int64)),
        ("mask", np.ones((6, 5), dtype=bool)),
        ("labels", None),
        ("neurons", None),
        ("neurons", NEURONS.astype(np.float64)),
        ("neurons", NEURONS.astype(bool)),
        ("neurons", NEURONS.astype(str)),
        ("neurons", NEURONS[:1]),
        ("neurons", NEURONS[0]),
        ("neurons", NEURONS[:, :1]),
        ("neurons", np.array([[1, 2], [1, 2]])),
        ("neurons", np.array([[1, 2], [2, 0]])),
        ("neurons", np.array([[1, 2], [0, 3]])),
        ("neurons", np.array([[1, 2], [0, -1]])),
        ("query", None),
        ("query", QUERY.astype(np.float64)),
        ("query", QUERY.astype(str)),
        ("query", QUERY[:1]),
        ("query", QUERY[:, :5]),
        ("query", QUERY[..., :3]),
        ("query", QUERY[..., 0]),
        ("query", QUERY[..., None]),
        ("query", np.float32(1)),
        ("query", changed(QUERY, (1, 2, 3), np.nan)),
        ("key", None),
        ("key", KEY.astype(np.float16)),
        ("key", KEY[:, :5]),
        ("key", KEY[..., :3]),
        ("key", changed(KEY, (0, 0, 0), -np.inf)),
    ],
)
def test_arrays_that_do_not_fit_together(name, array, folder):
    rewrite(folder / "unfit.npz", **{name: array})
    if name == "labels":
        with np.load(folder / "unfit.npz") as file:
            parts = {part: file[part] for part in file.files if part != "labels"}
        np.savez(folder / "unfit.npz", **parts)
    refused(folder / "unfit.npz")


@pytest.mark.parametrize("shape", [(0, 6, 4), (2, 6, 0), (2, 6), (2, 6, 2, 2)])
def test_vectors_of_no_head_no_width_or_another_shape(shape, folder):
    vector = np.zeros(shape, np.float32)
    rewrite(folder / "empty.npz", neurons=NEURONS[: shape[0]], query=vector, key=vector)
    assert "query is " in refused(folder / "empty.npz")


def test_no_layer_and_no_token(folder):
    for shape in ((0, 3, 6, 6), (2, 0, 6, 6)):
        numbers = {"layers": np.arange(shape[0]), "heads": np.arange(shape[1])}
        rewrite(folder / "empty.npz", weights=np.zeros(shape, np.float32), **numbers)
        assert "no weights" in refused(folder / "empty.npz")


LABELS = {
    "tokens": dataclasses.asdict(tokens_of(6)),
    "mask_name": "padding",
    "model": dataclasses.asdict(GOOD.model),
}


def labels(part: str, **changes: object) -> dict:
    return {**LABELS, part: {**LABELS[part], **changes}}


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        "labels",
        3,
        {},
        {**LABELS, "tokens": None},
        {**LABELS, "tokens": ["a"] * 6},
        {**LABELS, "model": []},
        {**LABELS, "mask_name": 3},
        labels("tokens", text=[1] * 6),
        labels("tokens", text="abcdef", ids="abcdef"),
        labels("tokens", ids=["0"] * 6),
        labels("tokens", segments=[0] * 5),
        labels("tokens", segments=[0.5] * 6),
        labels("tokens", words=["a"] * 6),
        labels("tokens", offsets=[[0, 1, 2]] * 6),
        labels("tokens", offsets=3),
        labels("tokens", special=[None] * 6),
        labels("tokens", padding=None),
        labels("model", layers="6"),
        labels("model", name=None),
        labels("model", more=1),
        {**LABELS, "kind": "hybrid"},
        {**LABELS, "kind": None},
        {**LABELS, "measure": "length"},
        {**LABELS, "measure": None},
        {**LABELS, "key_tokens": 3},
        {**LABELS, "key_tokens": {**LABELS["tokens"], "text": ["a"] * 5}},
        {**LABELS, "key_tokens": {name: part[:5] for name, part in LABELS["tokens"].items()}},
    ],
)
def test_labels_that_do_not_fit(wrong, folder):
    rewrite(folder / "labels.npz", labels=LABELS)
    same(load_record(folder / "labels.npz"), GOOD)
    rewrite(folder / "labels.npz", labels=wrong)
    refused(folder / "labels.npz")


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"format": "pt"},
        {"format": "attncli-1"},
        {"format": "attncli-1", "records": "["},
        {"format": "attncli-1", "records": "[]"},
        {"format": "attncli-1", "records": "{}"},
        {"format": "attncli-1", "records": "3"},
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


def test_a_models_checkpoint_is_no_record():
    from attncli.models.hub import locate

    assert "not written by attncli" in refused(locate("minilm").path / "model.safetensors")


def test_files_that_are_not_there_or_not_meant(folder, tmp_path):
    assert "No such file" in refused(folder / "missing.npz")
    (tmp_path / "folder.npz").mkdir()
    assert "directory" in refused(tmp_path / "folder.npz")
    GOOD.save(tmp_path / "r.json")
    assert "other programs" in refused(tmp_path / "r.json")
    assert "no suffix" in refused(tmp_path)
