"""A file appears whole or not at all; documents in files."""

import csv
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.base.errors import RequestError
from attncli.base.files import as_text, check_suffix, flat, save_document, write_whole

posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions and links of POSIX")


def writing(text: str):
    return lambda path: path.write_text(text)


def failing(error: BaseException):
    def write(path: Path) -> None:
        path.write_text("half of")
        raise error

    return write


def test_it_is_written_in_one_step(tmp_path):
    path = tmp_path / "out.txt"

    def write(temporary: Path) -> None:
        assert temporary.parent.parent == tmp_path and temporary.name == path.name
        assert not path.exists()
        temporary.write_text("whole")
        assert not path.exists()

    write_whole(path, write)
    assert path.read_text() == "whole" and list(tmp_path.iterdir()) == [path]


ERRORS = [OSError(28, "No space left on device"), ValueError("x"), KeyboardInterrupt(), MemoryError(), SystemExit(3)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("there", [True, False])
def test_whatever_goes_wrong_nothing_changes(error, there, tmp_path):
    path = tmp_path / "out.txt"
    if there:
        path.write_text("before")
    with pytest.raises(RequestError if isinstance(error, OSError) else type(error)):
        write_whole(path, failing(error))
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == ({"out.txt": "before"} if there else {})


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_device_is_written_to_as_it_is(tmp_path):
    link = tmp_path / "full.txt"
    link.symlink_to("/dev/full")
    with pytest.raises(RequestError, match="No space left"):
        write_whole(link, writing("anything"))
    write_whole(Path(os.devnull), writing("anything"))
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode) and stat.S_ISCHR(Path("/dev/full").stat().st_mode)


@posix
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664])
def test_a_file_keeps_its_permissions(mode, tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("before")
    path.chmod(mode)
    write_whole(path, writing("after"))
    assert path.read_text() == "after" and stat.S_IMODE(path.stat().st_mode) == mode


@posix
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_permissions_of_any_new_file(umask, tmp_path):
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "out.txt", writing("x"))
        (tmp_path / "plain.txt").write_text("x")
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert (tmp_path / "out.txt").stat().st_mode == (tmp_path / "plain.txt").stat().st_mode


@posix
def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link.txt", tmp_path / "there" / "target.txt"
    link.symlink_to(target)
    for text in ("made", "changed"):  # the first time, the link leads nowhere yet
        write_whole(link, writing(text))
        assert link.is_symlink() and target.read_text() == text
    assert [file.name for file in target.parent.iterdir()] == ["target.txt"]


@posix
def test_links_in_a_circle_stay_as_they_are(tmp_path):
    one, other = tmp_path / "a.txt", tmp_path / "b.txt"
    one.symlink_to(other)
    other.symlink_to(one)
    with pytest.raises(RequestError, match=r"can't write .*a\.txt: Too many levels of symbolic links"):
        write_whole(one, writing("x"))
    assert one.is_symlink() and other.is_symlink()


def replacing(path: Path) -> None:
    """Replace the path by another file that only its owner may read, like the safetensors library."""
    path.with_name("other").write_bytes(b"x" * 100_000)
    path.with_name("other").chmod(0o600)
    path.with_name("other").replace(path)


def searching(path: Path) -> None:
    """Seek back to the beginning at the end, like zipfile."""
    with path.open("wb") as file:
        file.write(b"-" * 100_000)
        file.seek(0)
        file.write(b"x" * 100_000)


@posix
@pytest.mark.parametrize("write", [replacing, searching], ids=lambda write: write.__name__)
def test_a_pipe_gets_the_bytes_and_stays_a_pipe(write, tmp_path):
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    (tmp_path / "link.txt").symlink_to(pipe)
    for path in (pipe, tmp_path / "link.txt"):
        reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
        write_whole(path, write)
        try:
            assert reader.communicate(timeout=300)[0] == b"x" * 100_000
        finally:
            reader.kill()
    assert stat.S_ISFIFO(pipe.stat().st_mode) and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.png.txt", ".png", "png"])
def test_suffixes_that_are_not(name):
    with pytest.raises(RequestError, match=r"a picture is saved as \.png, \.svg"):
        check_suffix(Path(name), (".png", ".svg"), "a picture")


# --- documents -------------------------------------------------------------------------------------------


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.sampled_from('\r\n,";')
CELLS = TEXTS | st.integers() | st.booleans() | st.none()


def test_json_is_the_document_in_ascii(tmp_path):
    document = {"tokens": ["ß", "\x1b[31m", "東"], "weight": 0.1, "none": None}
    save_document(document, (), tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_bytes().decode("ascii")) == document
    assert (tmp_path / "a.json").read_text() == as_text(document)


def test_what_json_has_not_is_an_error_and_no_file(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        save_document({"weight": float("nan")}, (), tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


def test_a_row_has_fields_of_fields_and_no_lists(tmp_path):
    entries = [
        {"layer": 0, "weights": [[1.0]], "causal": {"moved": 0.5, "all": [1]}, "note": None},
        {"layer": 1, "more": "=1+1"},
    ]
    save_document({}, entries, tmp_path / "a.csv")
    lines = ["layer,causal_moved,note,more", "0,0.5,,", "1,,,=1+1"]
    assert (tmp_path / "a.csv").read_text().splitlines() == lines


@given(st.lists(st.fixed_dictionaries({"token": CELLS, "of": st.fixed_dictionaries({"key": CELLS})}), min_size=1))
def test_a_table_is_read_as_it_was_written(tmp_path_factory, entries):
    """Whatever stands in a text: commas, quotes, ends of lines."""
    path = tmp_path_factory.mktemp("tables") / "a.csv"
    save_document({}, entries, path)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = [{key: "" if cell is None else str(cell) for key, cell in flat(entry).items()} for entry in entries]
    assert rows == expected
