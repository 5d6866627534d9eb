"""The cache folder: where it is, what is kept in it, and that it is never needed."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.base import cache
from attncli.base.cache import MOST_ENTRIES, MOST_FILES, cache_directory, keep, keep_newest, keep_table, read_table


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({}, "home/.cache/attncli"),
        ({"XDG_CACHE_HOME": ""}, "home/.cache/attncli"),
        ({"XDG_CACHE_HOME": "xdg"}, "xdg/attncli"),
        ({"XDG_CACHE_HOME": "xdg", "ATTNCLI_CACHE": ""}, "xdg/attncli"),
        ({"XDG_CACHE_HOME": "xdg", "ATTNCLI_CACHE": "mine"}, "mine"),
        ({"ATTNCLI_CACHE": "mine"}, "mine"),
    ],
)
def test_the_folder_is_the_named_one(settings, place, monkeypatch):
    for name in ("XDG_CACHE_HOME", "ATTNCLI_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "home")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert cache_directory() == Path(place)


def hello(path: Path) -> None:
    path.write_text("hello")


def test_a_link_is_replaced_and_not_what_it_leads_to(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    path = tmp_path / "file"
    path.symlink_to(mine)
    keep(path, hello)
    assert path.read_text() == "hello" and not path.is_symlink() and mine.read_text() == "mine"


def test_a_pipe_is_replaced_and_a_directory_is_not(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    keep(tmp_path / "pipe", hello)
    assert (tmp_path / "pipe").read_text() == "hello"
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    keep(tmp_path / "folder", hello)
    assert (tmp_path / "folder" / "inside").is_dir()


def test_a_folder_that_can_not_be_written_is_no_error(tmp_path):
    (tmp_path / "a file").write_text("mine")
    (tmp_path / "read-only").mkdir(mode=0o500)  # root may write there nevertheless
    for folder in (
        Path(os.devnull),
        tmp_path / "a file",
        tmp_path / "read-only",
        Path("/proc"),
        tmp_path / ("x" * 300),
    ):
        keep(folder / "file", hello)
        keep_newest(folder / "usual" / "file", hello)
        keep_table(folder / "table.json", {"a": "b"})
        assert read_table(folder / "nothing.json") == {}
    assert (tmp_path / "a file").read_text() == "mine"


def test_what_fails_leaves_the_file_as_it_was(tmp_path):
    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError("the disk is full")

    keep(tmp_path / "file", hello)
    keep(tmp_path / "file", fail)
    assert [one.read_text() for one in tmp_path.iterdir()] == ["hello"]


def test_the_newest_files_are_kept_and_files_of_others_stay(tmp_path):
    (tmp_path / "mine.npz").write_text("mine")
    (tmp_path / "thesis.txt").write_text("mine")
    names = [f"{number:064x}.npz" for number in range(MOST_FILES + 5)]
    for number, name in enumerate(names):
        keep_newest(tmp_path / name, hello)
        os.utime(tmp_path / name, ns=(0, number + 1))
    keep_newest(tmp_path / names[-1], hello)
    assert {one.name for one in tmp_path.iterdir()} == {"mine.npz", "thesis.txt", *names[5:]}


@given(table=st.dictionaries(st.text(), st.text(), max_size=5))
def test_a_table_comes_back(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "table.json"
    keep_table(path, table)
    assert read_table(path) == table


def test_a_table_stays_small(tmp_path, monkeypatch):
    path, table = tmp_path / "table.json", {str(number): "" for number in range(MOST_ENTRIES + 20)}
    keep_table(path, table)
    assert list(read_table(path)) == list(table)[20:]
    monkeypatch.setattr(cache, "LONGEST_TABLE", 100)
    assert read_table(path) == {}


@given(content=st.binary(max_size=60) | st.sampled_from([b"[]", b'{"a": 1}', b'{"a": ["b"]}', b"[" * 10**5, b"null"]))
def test_a_garbled_table_is_empty(content, tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "table.json"
    path.write_bytes(content)
    assert all(type(key) is type(value) is str for key, value in read_table(path).items())
    keep_table(path, {"a": "b"})
    assert read_table(path) == {"a": "b"}
