"""Damaged and hostile files: converted, or refused in one line, and nothing else."""

import struct
import tempfile
from pathlib import Path

import pytest
from gguf_files import write_file
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli import RequestError, load_model
from attncli.models.gguf.conversion import convert, is_whole
from attncli.models.gguf.file import GGUFFile

NUMBERS = [0, 1, 2, 3, 7, 8, 9, 12, 31, 255, 256, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "model.gguf"
    write_file(path, "llama")
    return path.read_bytes()


@pytest.fixture(scope="module")
def whole(content, tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "model.gguf"
    path.write_bytes(content)
    return GGUFFile(path)


@pytest.fixture(scope="module")
def begins(whole):
    """Return the first byte of the tensors."""
    return min(tensor.data_offset for tensor in whole.tensors.values())


@pytest.fixture(scope="module")
def names(whole):
    return sorted(whole.metadata)


def attempt(content):
    """Convert what has this content; return the text of the refusal, or None."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        path.write_bytes(content)
        try:
            convert(path, Path(folder) / "out")
        except RequestError as error:
            text = str(error)
            assert "\n" not in text and text.isprintable() and len(text.replace(folder, "")) < 400
            return text
        assert is_whole(Path(folder) / "out")
        assert not {file.name for file in Path(folder).iterdir()} - {"model.gguf", "out"}
    return None


VALUES = (
    None, 0, 1, 3, 2**31, -1, 2**63, 0.0, 1e30, float("nan"), float("inf"), True, "", "x", "gpt2", [1, 2], ["a"],
    [0.5],
)  # fmt: skip


@st.composite
def damaged(draw, content, begins, names):
    """The content with changed bytes, or with an entry that is missing or of another kind."""
    if draw(st.booleans()):
        entry = {draw(st.sampled_from(names)).replace(".", "__"): draw(st.sampled_from(VALUES))}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            write_file(path, "llama", **entry)
            return path.read_bytes()
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at, kind = draw(st.integers(0, begins)), draw(st.sampled_from("BIQ"))
        number = draw(st.sampled_from(NUMBERS)) % 2 ** (8 * struct.calcsize(kind))
        changed[at : at + struct.calcsize(kind)] = struct.pack(f"<{kind}", number)
    return bytes(changed)


@given(st.data())
@settings(max_examples=45)
def test_whatever_is_damaged_is_converted_or_refused(content, begins, names, data):
    attempt(data.draw(damaged(content, begins, names)))


@given(st.floats(0, 1))
@settings(max_examples=15)
def test_a_file_that_is_cut_short_is_refused(content, share):
    assert attempt(content[: int(share * (len(content) - 33))]) is not None  # it ends in 32 bytes or fewer


def header(keys=0, tensors=0, version=3):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys)


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(value)) + value


def tensor(name, shape, kind, offset):
    return text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}QIQ", *shape, kind, offset)


ENTRY = header(keys=1) + text("a")
PADDED = bytes(4096)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty file"),
        (b"PK\3\4" + PADDED, "magic"),
        (header(version=1) + PADDED, "version 1"),
        (header(tensors=2**64 - 1, keys=2**64 - 1), "it is truncated"),
        (header(keys=1) + struct.pack("<Q", 2**63), "it is truncated"),
        (header(keys=1) + text(b"\xc3") + PADDED, "utf-8"),
        (ENTRY + struct.pack("<IIQ", 9, 8, 2**62) + PADDED, "it is truncated"),
        (header(tensors=1) + tensor("a", (2**63, 2**63), 0, 0) + PADDED, ""),
        (header(tensors=1) + tensor("a", (8,), 99, 0) + PADDED, "99"),
        (header(tensors=1) + tensor("a", (8,), 0, 2**64 - 32) + PADDED, ""),
        (header(tensors=2) + tensor("a", (8,), 0, 0) * 2 + PADDED, "duplicated"),
        (
            header(keys=1) + text("general.architecture") + struct.pack("<I", 8) + text("\x1b[2J" + "x" * 999),
            "which attncli does not read",
        ),
    ],
)
def test_absurd_claims_are_refused(content, words):
    assert words in attempt(content)


@pytest.mark.parametrize("name", [
    "../../x.weight", "blk.0.../x.weight", "blk.00.attn_q.weight", "", "blk.-1.attn_q.weight", "\x1b[2J",
])  # fmt: skip
def test_names_of_tensors_that_are_not_known_are_refused(content, name):
    """No name of the file becomes a path, and none reaches the terminal raw."""
    more = tensor(name, (8,), 0, 0)
    at = content.index(text("token_embd.weight"))
    (count,) = struct.unpack_from("<Q", content, 8)
    changed = content[:8] + struct.pack("<Q", count + 1) + content[16:at] + more + content[at:]
    assert attempt(changed) is not None


@pytest.mark.filterwarnings("ignore::attncli.base.errors.Notice")
def test_numbers_that_are_not_finite_are_refused_when_the_model_is_opened(content, begins, tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNCLI_CACHE", str(tmp_path / "cache"))
    (tmp_path / "model.gguf").write_bytes(content[:begins] + b"\xff" * (len(content) - begins))
    with pytest.raises(RequestError):
        load_model(str(tmp_path / "model.gguf"), "cpu").attend("the cat")
