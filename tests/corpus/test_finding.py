"""Check which files a folder, a pattern, an address or a dataset names, and which are refused."""

import io
import json
import os
import sys
import threading
import warnings
from dataclasses import replace
from itertools import count

import fsspec
import pytest
from corpora import FORMS, as_arrow, as_parquet, pieces, save_dataset

from attncli import Notice, RequestError
from attncli.corpus import files as corpus_files
from attncli.corpus.files import TREEBANKS, BadFile, Input, digested, whole_files
from attncli.corpus.finding import find_inputs
from attncli.corpus.shards import Plan
from attncli.corpus.texts import TextFormat

NAMES = [
    "b.txt",
    "a/z.jsonl.gz",
    "a.txt",
    "a/a.parquet",
    "a/b/c.ndjson",
    ".hidden.txt",
    ".git/x.txt",
    "notes.md",
    "_SUCCESS",
]
READ = ["a/a.parquet", "a/b/c.ndjson", "a/z.jsonl.gz", "a.txt", "b.txt"]
TEXTS = [f"text number {number}" for number in range(7)]
numbers = count()


@pytest.fixture
def folder(tmp_path):
    for name in NAMES:
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(FORMS["a.parquet"](TEXTS) if path.suffix == ".parquet" else b"")
    return tmp_path / "corpus"


@pytest.fixture
def memory():
    """`memory(files)` -> the address of a folder with them, which no other test has."""
    made = []

    def make(files):
        made.append(f"memory://test{next(numbers)}")
        for name, content in files.items():
            fsspec.filesystem("memory").pipe_file(f"{made[-1]}/{name}", content)
        return made[-1]

    yield make
    for address in made:
        fsspec.filesystem("memory").rm(address, recursive=True)


def find_names(*names, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        return [one.name for one in find_inputs([str(name) for name in names], **options)]


def texts(*names, **options):
    return [line.text for line in TextFormat(**options).texts(pieces(*names))]


def test_of_a_folder_what_is_known_is_read_and_the_rest_told_of(folder):
    with pytest.warns(Notice, match=r"left out 2 files of other kinds \(\.md, _SUCCESS\)$"):
        inputs = find_inputs([str(folder)])
    assert [one.name for one in inputs] == [f"{folder}/{name}" for name in READ]
    assert [one.parts for one in inputs] == [(3, 3, 1), None, None, None, None]
    assert inputs[0].size == (folder / "a/a.parquet").stat().st_size
    (folder / "bank.conllu.gz").write_bytes(b"")
    assert find_names(folder, kinds=TREEBANKS) == [f"{folder}/bank.conllu.gz"]
    with pytest.raises(RequestError, match=r"/a has no treebanks in it: \.conllu"):
        find_inputs([str(folder / "a")], TREEBANKS)


def test_a_folder_by_a_relative_name_is_found_from_anywhere(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    [one] = find_inputs(["corpus/a.txt"])
    assert (one.name, one.at) == ("corpus/a.txt", str(folder / "a.txt"))
    assert find_names("corpus/") == [f"corpus/{name}" for name in READ]
    assert find_names(f"file://{folder}/a.txt") == [f"file://{folder}/a.txt"]


def test_patterns_are_sorted_and_what_is_there_is_none(folder):
    assert find_names(folder / "*.txt") == [f"{folder}/{name}" for name in ("a.txt", "b.txt")]
    assert find_names(folder / "**/*.*", folder / "a.txt")[-3:] == [
        f"{folder}/{name}" for name in ("b.txt", "notes.md", "a.txt")
    ]
    (folder / "c*.txt").write_text("a star in its name")
    (folder / "cat.txt").write_text("none in this one's")
    assert texts(folder / "c*.txt") == ["a star in its name"]
    with pytest.raises(RequestError, match=r"no file matches .*/x\*"):
        find_names(folder / "x*")
    with pytest.raises(RequestError, match=r"can't read .*none\.txt: No such file or directory$"):
        find_names(folder / "none.txt")


def test_links_in_circles_are_not_followed(folder):
    (folder / "a" / "round").symlink_to(folder, target_is_directory=True)
    (folder / "link.txt").symlink_to(folder / "a.txt")
    assert find_names(folder) == [f"{folder}/{name}" for name in [*READ, "link.txt"]]
    assert find_names(folder / "**/*.txt") == [f"{folder}/{name}" for name in ("a.txt", "b.txt", "link.txt")]
    (folder / "lost.txt").symlink_to(folder / "nowhere")
    with pytest.raises(RequestError, match=r"lost\.txt is a pipe, or a link"):
        find_names(folder)


def test_a_pipe_is_read_like_a_file_and_no_table_comes_out_of_one(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"one\n\ntwo",))
    writer.start()
    [one] = find_inputs([str(path)])
    assert one.is_stream and digested([one]) == [one]
    [shard] = Plan([one], 1).shards()
    assert [line.text for line in TextFormat().texts(shard.pieces)] == ["one", "two"]
    writer.join()
    os.mkfifo(tmp_path / "pipe.parquet")
    with pytest.raises(RequestError, match="not from a pipe"):
        find_inputs([str(tmp_path / "pipe.parquet")])


# --- datasets -------------------------------------------------------------------------------------------------


def test_a_dataset_is_read_in_its_order(tmp_path):
    folder = save_dataset(tmp_path / "dataset", TEXTS)
    state = json.loads((folder / "state.json").read_text())
    (folder / "data-00009-of-00009.arrow").write_bytes(as_arrow(["not of it"]))
    assert texts(folder) == TEXTS
    (folder / "state.json").write_text(json.dumps({**state, "_data_files": state["_data_files"][::-1]}))
    assert texts(folder) == [*TEXTS[4:], *TEXTS[:4]]


@pytest.mark.parametrize(
    "state, says",
    [
        ({"_data_files": [{"filename": "../other.arrow"}]}, "a file that is not there"),
        ({"_data_files": 3}, "of no dataset"),
        ({}, "of no dataset"),
        ({"_indices_data_files": [{"filename": "x"}], "_data_files": []}, "flatten_indices"),
    ],
)
def test_a_dataset_that_is_none(tmp_path, state, says):
    folder = save_dataset(tmp_path / "dataset", TEXTS)
    (folder / "state.json").write_text(json.dumps(state))
    with pytest.raises(BadFile, match=says):
        find_names(folder)


def test_of_several_datasets_one_is_named(tmp_path):
    save_dataset(tmp_path / "all" / "train", TEXTS)
    (tmp_path / "all" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    with pytest.raises(RequestError, match=r"several datasets: name one: .*/all/train"):
        find_names(tmp_path / "all")
    assert texts(tmp_path / "all" / "train") == TEXTS


def test_what_datasets_made_of_a_dataset_is_not_read_again(tmp_path):
    (tmp_path / "json-train.arrow").write_bytes(as_arrow(TEXTS))
    (tmp_path / "cache-4214f174b3a89b75.arrow").write_bytes(as_arrow(TEXTS))
    assert find_names(tmp_path) == [f"{tmp_path}/json-train.arrow"]


# --- by address -----------------------------------------------------------------------------------------------


def test_by_address_all_is_as_here(memory):
    files = {name: write(TEXTS) for name, write in FORMS.items()}
    address = memory({**files, ".hidden.txt": b"", "sub/x.csv": b"", "sub/.git/y.txt": b""})
    with pytest.warns(Notice, match=r"left out 1 file of other kinds \(\.csv\)"):
        inputs = find_inputs([address])
    assert [one.name.rsplit("/", 1)[1] for one in inputs] == sorted(FORMS)
    for size in (5, 10**6):
        shards = Plan(inputs, size).shards()
        assert [line.text for shard in shards for line in TextFormat().texts(shard.pieces)] == TEXTS * len(FORMS)
    assert texts(f"{address}/*.txt") == texts(f"{address}/a.txt") == TEXTS
    assert len(find_names(f"{address}/**/*.parquet")) == 3
    for name in (f"{address}/none.txt", f"{address}/x*"):
        with pytest.raises(RequestError, match=r"No such file|no file matches"):
            find_names(name)
    with pytest.raises(RequestError, match="Protocol not known"):
        find_names("nonsense://a/b")


def test_a_message_counts_lines_while_the_file_is_read(memory):
    address = memory({"a.txt": b"one\n\xff\nthree\n\xff\n" * 3})
    [one] = find_inputs([f"{address}/a.txt"])
    with pytest.warns(Notice) as notices:
        for shard in Plan([one], 5).shards():
            list(TextFormat(skip_bad=True).texts(shard.pieces))
    assert [str(notice.message).split(": ")[0] for notice in notices] == [
        f"skipped {address}/a.txt, line {number}" for number in range(2, 13, 2)
    ]


# --- tables that can't be read ----------------------------------------------------------------------------------


def test_a_garbled_table_is_refused_or_told_of(tmp_path):
    (tmp_path / "a.parquet").write_bytes(as_parquet(TEXTS)[:-9])
    (tmp_path / "b.arrow").write_bytes(as_arrow(TEXTS)[:-200])
    (tmp_path / "c.txt").write_text("one")
    for name in ("a.parquet", "b.arrow"):
        with pytest.raises(BadFile, match=f"can't read .*{name}: "):
            find_names(tmp_path / name)
    with pytest.warns(Notice, match="skipped: can't read") as notices:
        assert [one.name for one in find_inputs([str(tmp_path)], skip_bad=True)] == [f"{tmp_path}/c.txt"]
    assert len(notices) == 2


def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(as_parquet(TEXTS))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(RequestError, match=r'needs pyarrow: pip install "\.\[corpora\]" in '):
        find_names(tmp_path)


# --- digests --------------------------------------------------------------------------------------------------


def test_a_digest_is_of_the_content_and_not_made_where_it_is_known(tmp_path, memory, monkeypatch):
    (tmp_path / "a.txt").write_bytes(b"one")
    address = memory({"b.txt": b"one", "c.txt": b""})
    inputs = find_inputs([str(tmp_path / "a.txt"), f"{address}/b.txt", f"{address}/c.txt"])
    found = digested(inputs)
    one = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"  # what sha256sum prints
    assert [file.digest for file in found] == [
        one,
        one,
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ]
    assert [replace(file, digest="") for file in found] == inputs
    monkeypatch.setattr(corpus_files, "_content_digest", lambda one: "read")
    known = {(file.at, file.stamp): file.digest for file in found}
    assert [file.digest for file in digested(inputs, known)] == [one, "read", "read"]
    (tmp_path / "a.txt").write_bytes(b"two")
    assert [file.digest for file in digested(find_inputs([str(tmp_path / "a.txt")]), known)] == ["read"]


def test_a_store_that_has_a_tag_is_believed():
    tagged = Input("s3://a/b", "s3://a/b", 3, stamp="ETag x")
    assert digested([tagged]) == [replace(tagged, digest="ETag x")]


def test_a_file_that_changes_between_is_told_of(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\n")
    inputs = find_inputs([str(path)])
    path.write_bytes(b"1\n2\n")
    for read in (digested, lambda inputs: list(TextFormat().texts(whole_files(inputs)))):
        with pytest.raises(BadFile, match="has changed: it had 8 bytes and has 4 now"):
            read(inputs)
    path.write_bytes(b"two\none\n")
    os.utime(path, ns=(1, 1))
    with pytest.raises(BadFile, match="has changed since"):
        digested(inputs)
    reading = TextFormat().texts(whole_files(find_inputs([str(path)])))
    assert next(reading).text == "two"
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(BadFile, match="has changed"):
        list(reading)


def test_stdin_is_as_it_is(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one")))
    assert find_inputs(["-"]) == digested(find_inputs(["-"])) == [Input("-", "-", 0)]
