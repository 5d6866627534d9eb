"""Files from outside are read, or refused with a ValueError: nothing else."""

import io
import json
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from attncli.base import untrusted
from attncli.base.untrusted import Tensors, listed, parse_json, read_json, read_npz

BAD_JSON = [
    "",
    "{",
    "NaN",
    "[Infinity]",
    "-Infinity",
    "[" * 100_000,
    '{"a":' * 100_000,
    b"\xff",
]
ARRAYS = {
    "weights": np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7,
    "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "swapped": np.arange(3, dtype=">i4"),
    "empty": np.zeros((0, 3)),
    "text": np.array("größer"),
    "mask": np.array([True, False]),
}


@pytest.mark.parametrize("text", BAD_JSON, ids=lambda text: str(text[:12]))
def test_what_is_no_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    )
)  # fmt: skip
def test_what_is_json_is_what_the_standard_library_reads(value: object) -> None:
    assert parse_json(json.dumps(value)) == value


def test_no_more_of_a_file_is_read_than_a_document_may_have(tmp_path: Path) -> None:
    (tmp_path / "long.json").write_text("[" + "1," * 1000 + "1]")
    assert len(read_json(tmp_path / "long.json")) == 1001
    with pytest.raises(ValueError, match="longer than 100 bytes"):
        read_json(tmp_path / "long.json", longest=100)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_those_that_numpy_reads(tmp_path: Path, save: object) -> None:
    save(tmp_path / "some.npz", **ARRAYS)  # type: ignore[operator]
    found = read_npz(tmp_path / "some.npz")
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)


def npz_of(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(array: np.ndarray, **how: bool) -> bytes:
    written = io.BytesIO()
    np.lib.format.write_array(written, array, **how)
    return written.getvalue()


def test_a_shape_is_not_believed(tmp_path: Path) -> None:
    content = npy(np.zeros(3))
    for shape in ("(9,)", "(2,)", "(-3,)", "(1e9,)", "(3,3)"):
        with pytest.raises(ValueError):
            read_npz(npz_of(tmp_path / "a.npz", a=content.replace(b"(3,),", f"{shape},".encode()[:5].ljust(5))))


def test_objects_and_records_are_refused(tmp_path: Path) -> None:
    for array in (np.array([{}], dtype=object), np.zeros(2, dtype=[("a", "f4")]), np.zeros(2, dtype="M8[s]")):
        with pytest.raises(ValueError):
            read_npz(npz_of(tmp_path / "a.npz", a=npy(array, allow_pickle=True)))


def test_a_bomb_is_not_inflated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = npz_of(tmp_path / "a.npz", a=npy(np.zeros(10**6)))
    assert len(read_npz(path)["a"]) == 10**6  # small enough to be whatever it is
    monkeypatch.setattr(untrusted, "SMALL", 10**6)
    with pytest.raises(ValueError, match="it would inflate"):
        read_npz(path)


def test_a_member_can_not_begin_before_the_file(tmp_path: Path) -> None:
    path = npz_of(tmp_path / "a.npz", a=npy(np.zeros(4)))
    content = bytearray(path.read_bytes())
    directory = len(content) - 22 + 16  # of the record at the end, where it says where the list of members begins
    content[directory : directory + 4] = (int.from_bytes(content[directory : directory + 4], "little") + 5000).to_bytes(
        4, "little"
    )
    path.write_bytes(content)
    with pytest.raises(ValueError):
        read_npz(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(st.data())
def test_a_garbled_npz_is_a_value_error_or_arrays(tmp_path: Path, data: st.DataObject) -> None:
    garbled(tmp_path / "some.npz", lambda path: np.savez_compressed(path, **ARRAYS), data, read_npz)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(st.data())
def test_a_garbled_safetensors_is_a_value_error_or_arrays(tmp_path: Path, data: st.DataObject) -> None:
    def write(path: Path) -> None:
        save_file({"a": ARRAYS["weights"], "b": np.arange(4)}, path, metadata={"what": "numbers"})

    def read(path: Path) -> None:
        opened = Tensors(path, "numpy")
        for name in opened.shapes:
            assert opened.read(name).shape == opened.shapes[name]

    garbled(tmp_path / "some.safetensors", write, data, read)


def garbled(path: Path, write: object, data: st.DataObject, read: object) -> None:
    """A file with some bytes changed, or its end cut off, read: a ValueError, or none."""
    write(path)  # type: ignore[operator]
    content = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=5)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with suppress(ValueError):
        read(path)  # type: ignore[operator]


def test_an_array_that_is_too_long_makes_no_list() -> None:
    assert listed("layers", np.arange(3)) == [0, 1, 2] and listed("kind", np.array("encoder")) == "encoder"
    with pytest.raises(ValueError, match="tokens has 2,000,000 entries"):
        listed("tokens", np.zeros(2_000_000, dtype="U1"))


def test_what_is_needed_and_not_there_is_told_before_anything_is_inflated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = npz_of(tmp_path / "a.npz", a=npy(np.zeros(3)))
    assert read_npz(path, needed=("a",)).keys() == {"a"}
    monkeypatch.setattr(untrusted, "read_array", lambda *_: pytest.fail("it was inflated"))
    with pytest.raises(ValueError, match="it has no b"):
        read_npz(path, needed=("a", "b"))
