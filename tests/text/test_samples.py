"""The texts that come with the program: known by their README, copied without harm to other files."""

from pathlib import Path

import pytest

from attncli.base.errors import RequestError
from attncli.text.samples import FOLDER, copy_files, where_to_find

SOURCE = Path(__file__).parents[2] / "sample_inputs"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_copies_are_the_same_and_can_be_made_again(tmp_path):
    names = [path.name for path in FOLDER.iterdir()]
    folder = tmp_path / "a" / "b"
    for _ in range(2):
        assert copy_files(names, folder) == [folder / name for name in names]
        assert contents(folder) == contents(SOURCE)


@pytest.mark.parametrize("make", [lambda path: path.write_text("mine"), Path.mkdir], ids=["file", "folder"])
def test_another_file_is_left_as_it_is_and_nothing_is_written(tmp_path, make):
    make(tmp_path / "pair.txt")
    with pytest.raises(RequestError, match=r"pair\.txt already exists .*--copy"):
        copy_files(["negation.txt", "pair.txt"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["pair.txt"]
    assert (tmp_path / "pair.txt").is_dir() or (tmp_path / "pair.txt").read_text() == "mine"


def test_who_misses_one_is_told_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert where_to_find("sample_inputs/pair.txt").endswith("attncli samples --copy sample_inputs")
    for other in ("pair.txt", "sample_inputs/poem.txt", "-", str(SOURCE / "pair.txt")):
        assert where_to_find(other) == ""
