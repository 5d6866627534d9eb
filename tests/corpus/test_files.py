"""Check which files a folder, a pattern or an address names, and which are refused."""

import os
import sys
import threading
from itertools import count

import fsspec
import pytest
from corpora import FORMS, texts

from attncli import Notice, RequestError
from attncli.corpus.files import TREEBANKS, BadFile, file_errors, find_inputs

NAMES = [
    "b.txt", "a/z.jsonl.gz", "a.txt", "a/a.parquet", "a/b/c.ndjson", ".hidden.txt",
    ".git/x.txt", "notes.md", "_SUCCESS", "a/cache-1f.arrow",
]  # fmt: skip
READ = ["a/a.parquet", "a/b/c.ndjson", "a/z.jsonl.gz", "a.txt", "b.txt"]
TEXTS = [f"text number {number}" for number in range(7)]
numbers = count()


@pytest.fixture
def folder(tmp_path):
    for name in NAMES:
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "corpus"


def find_names(*names):
    return [one.name for one in find_inputs([str(name) for name in names])]


@pytest.mark.filterwarnings("ignore::attncli.Notice")
def test_a_folder_stands_for_its_files_of_known_kinds_and_a_notice_counts_the_rest(folder, monkeypatch):
    with pytest.warns(Notice, match=r"skipped 3 files of other kinds \(\.arrow, \.md, _SUCCESS\)$"):
        assert find_names(folder) == [f"{folder}/{name}" for name in READ]
    (folder / "bank.conllu.gz").touch()
    assert [one.name for one in find_inputs([str(folder)], TREEBANKS)] == [f"{folder}/bank.conllu.gz"]
    with pytest.raises(RequestError, match=r"/a contains no files ending in \.conllu "):
        find_inputs([str(folder / "a")], TREEBANKS)
    monkeypatch.chdir(folder.parent)
    assert find_names("corpus/") == [f"corpus/{name}" for name in READ]
    [one] = find_inputs(["corpus/a.txt"])
    assert (one.name, one.path) == ("corpus/a.txt", str(folder / "a.txt"))


def test_patterns_are_sorted_and_the_name_of_a_file_is_none(folder):
    assert find_names(folder / "*.txt") == [f"{folder}/{name}" for name in ("a.txt", "b.txt")]
    found = find_names(folder / "**/*.*", folder / "a.txt")
    assert found[-3:] == [f"{folder}/{name}" for name in ("b.txt", "notes.md", "a.txt")]
    (folder / "c*.txt").write_text("a star in its name")
    (folder / "cat.txt").write_text("none in this one's")
    assert texts(folder / "c*.txt", f"file://{folder}/cat.txt") == ["a star in its name", "none in this one's"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("x*", "no file matches .*/x\\*"),
        ("none.txt", r"can't read .*none\.txt: No such file or directory$"),
        ("nonsense://a/b", "Protocol not known"),
    ],
)
def test_a_name_that_leads_to_nothing_is_refused(folder, name, says):
    with pytest.raises(RequestError, match=says):
        find_names(name if "://" in name else folder / name)


def test_links_in_circles_are_not_followed_and_pipes_not_waited_for(folder):
    (folder / "a" / "round").symlink_to(folder, target_is_directory=True)
    (folder / "link.txt").symlink_to(folder / "a.txt")
    (folder / "lost.txt").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "pipe.txt")
    with pytest.warns(Notice):
        assert find_names(folder) == [f"{folder}/{name}" for name in [*READ, "link.txt"]]


def test_a_pipe_that_is_named_is_read(tmp_path):
    os.mkfifo(path := tmp_path / "pipe")
    writer = threading.Thread(target=path.write_bytes, args=(b"one\n\ntwo",))
    writer.start()
    assert texts(path) == ["one", "two"]
    writer.join()


def test_by_address_all_is_as_here():
    address = f"memory://test{next(numbers)}"
    files = {name: write(TEXTS) for name, write in FORMS.items()}
    for name, content in {**files, ".hidden.txt": b"", "sub/x.csv": b"", "sub/.git/y.txt": b""}.items():
        fsspec.filesystem("memory").pipe_file(f"{address}/{name}", content)
    with pytest.warns(Notice, match=r"skipped 1 file of other kinds \(\.csv\)"):
        names = find_names(address)
    assert [name.rsplit("/", 1)[1] for name in names] == sorted(FORMS)
    assert texts(*names) == TEXTS * len(FORMS)
    assert texts(f"{address}/*.txt") == texts(f"{address}/a.txt") == TEXTS
    assert len(find_names(f"{address}/**/*.parquet")) == 3
    with pytest.raises(RequestError, match=r"No such file"):
        find_names(f"{address}/none.txt")


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    from fsspec.registry import _registry

    monkeypatch.delitem(_registry, "s3", raising=False)
    with pytest.raises(RequestError, match=r"^can't read s3://bucket/name: Install s3fs to access S3"):
        find_names("s3://bucket/name")


def test_whatever_goes_wrong_is_one_line():
    with pytest.raises(BadFile) as refusal, file_errors("can't read", "s3://" + "x" * 999):
        raise RuntimeError("one\ntwo" * 999)
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) <= 400
