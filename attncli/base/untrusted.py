"""Read untrusted files (JSON, .npz and .safetensors) safely.

No pickle is ever read, and no size is trusted before it is checked. Garbled content raises a ValueError that says what
is wrong. OSError passes through if a file is missing or not readable. Callers interpret the content.
"""

import errno
import json
import lzma
import math
import os
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from attncli.base.printable import first_line

if TYPE_CHECKING:  # reading a configuration does not need numpy
    import numpy as np
    import numpy.typing as npt

LONGEST_JSON = 2**30  # bytes: fits the output of `run --json` for all heads and 1,024 tokens
SMALL = 2**29  # bytes: any .npz may inflate to this size
INFLATED = 200  # the limit for a larger one, as a multiple of its size. Zeros compress well, and zip bombs better
MOST_ARRAYS = 1000  # in a .npz
LONGEST_LIST = 2**20  # entries

# Exceptions of zipfile, numpy's header parser and the decompressors on a garbled file. (RuntimeError: a password.)
GARBLED = (
    ValueError, SyntaxError, TypeError, EOFError, RecursionError, OverflowError, RuntimeError, NotImplementedError,
    struct.error, zipfile.BadZipFile, zlib.error, lzma.LZMAError, tokenize.TokenError,
    IndexError, KeyError,
)  # fmt: skip

# --- regular files --------------------------------------------------------------------------------------

READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, or a link to one, for reading, without ever waiting for a pipe.

    Raises OSError for a missing file, a directory, a pipe, a socket or a device.
    """
    try:
        handle = os.open(path, READING)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.EOPNOTSUPP):  # a socket; a device without a driver
            check_kind(path, path.stat().st_mode)
        raise
    try:
        check_kind(path, os.fstat(handle).st_mode)
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def check_regular(path: Path) -> None:
    """Check a file before a library opens it by its path. Raises OSError as `open_regular` does."""
    open_regular(path).close()


def read_regular(path: Path) -> bytes:
    """Read a regular file. Raises OSError as `open_regular` does."""
    with open_regular(path) as file:
        return file.read()


def check_kind(path: Path, mode: int) -> None:
    """Raises OSError unless the mode is that of a regular file."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.ENXIO, f"it is {kind_of(mode)}, not a regular file", str(path))


def kind_of(mode: int) -> str:
    """Name the kind of a path that is neither a regular file nor a directory: "a pipe"."""
    return KINDS.get(stat.S_IFMT(mode), "something else")


# --- JSON -----------------------------------------------------------------------------------------------


def parse_json(text: str | bytes, infinite: bool = False) -> Any:
    """Parse a JSON document. Numbers such as 1e400 become infinite; `attncli.base.schema.real` rejects them later,
    which is cheaper than checking every number here.

    infinite: accept NaN and Infinity, as in configurations that Python wrote.

    Raises ValueError if it is not JSON or is nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=None if infinite else refuse_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def read_json(path: Path, longest: int = LONGEST_JSON, infinite: bool = False) -> Any:
    """Read a file that holds one JSON document. Raises ValueError as `parse_json` does, or if it exceeds `longest`
    bytes.
    """
    with open_regular(path) as file:
        content = file.read(longest + 1)
    if len(content) > longest:
        raise ValueError(f"it is longer than {longest:,} bytes")
    return parse_json(content, infinite)


# --- .npz -----------------------------------------------------------------------------------------------


def read_npz(path: Path, needed: Collection[str] = (), most: int | None = None) -> dict[str, "npt.NDArray[Any]"]:
    """Read all arrays of a .npz by name. Arrays that are `needed` but missing are reported before anything is inflated.

    most: the maximum bytes of the file, and of its arrays together. By default the arrays must not be implausibly large
    for the file's size.

    Raises ValueError if it is not a .npz, a needed array is missing, a header contradicts its size, or an array holds
    objects. Also if it is too large.
    """
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if most is not None and size > most:
                raise ValueError(f"it has {size:,} bytes")
            return _arrays(file, needed, max(SMALL, INFLATED * size) if most is None else most)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise ValueError("a member starts before the beginning of the file") from error
    except GARBLED as error:
        raise ValueError(first_line(error)) from error


def _arrays(file: BinaryIO, needed: Collection[str], most: int) -> dict[str, "npt.NDArray[Any]"]:
    """Read the arrays of an open .npz, of at most `most` bytes together. Raises any of GARBLED if it is garbled."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        names = [member.filename.removesuffix(".npy") for member in members]
        if len(set(names)) < len(names) or len(names) > MOST_ARRAYS:
            raise ValueError("it has too many members, or two of the same name")
        for name in needed:
            if name not in names:
                raise ValueError(f"it has no {name}")
        total = sum(member.file_size for member in members)
        if total > most:
            raise ValueError(f"it would inflate to {total:,} bytes")
        return {name: read_array(archive, member) for name, member in zip(names, members, strict=True)}


def read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> "npt.NDArray[Any]":
    """Read one array of a .npz. Raises any of GARBLED if it is garbled."""
    import numpy as np

    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, _, dtype = read_header(file)
        if dtype.kind not in "biufcUS":
            raise ValueError(f"{member.filename} holds {dtype}, which is neither numbers nor text")
        size = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or size != member.file_size - file.tell():
            raise ValueError(f"{member.filename} does not have the length that its shape {list(shape)} requires")
    with archive.open(member) as file:
        array: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        file.read(1)  # reading to the end verifies the checksum
    check_bools(member.filename, array)
    return array


def listed(name: str, array: "npt.NDArray[Any]") -> Any:
    """Return an array as a list, or as a number if it has no axes. Raises ValueError for more than LONGEST_LIST
    entries, since a list takes many times the memory.
    """
    if array.size > LONGEST_LIST:
        raise ValueError(f"{name} has {array.size:,} entries")
    return array.tolist()


def check_bools(name: str, array: "npt.NDArray[Any]") -> None:
    """Raises ValueError for bools stored as neither 0 nor 1: numpy treats both them and their negation as True."""
    import numpy as np

    if array.dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
        raise ValueError(f"{name} has a bool that is neither true nor false")


# --- .safetensors ---------------------------------------------------------------------------------------

FLOATS = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}


class Tensors:
    """A .safetensors file mapped into memory. Tensors are read one at a time.

    framework: the library of the tensors, "numpy" or "pt", or "mapped": NumPy arrays of floats that are not copied from
    the file. metadata: the file's metadata. shapes: of its tensors, by name.

    Raises ValueError if it is damaged, and OSError as `open_regular` does.
    """

    def __init__(self, path: Path, framework: str) -> None:
        from safetensors import SafetensorError, safe_open

        check_regular(path)

        self.path, self.framework = path, framework
        self.damage = (SafetensorError, *GARBLED, AttributeError)  # AttributeError: a dtype that numpy lacks
        try:
            self.file = safe_open(str(path), framework="numpy" if framework == "mapped" else framework)
            self.metadata: Mapping[str, str] = self.file.metadata() or {}
            self.shapes: Mapping[str, tuple[int, ...]] = {
                name: tuple(self.file.get_slice(name).get_shape())
                for name in self.file.keys()  # noqa: SIM118
            }
        except self.damage as error:
            raise ValueError(first_line(error)) from error

    def read(self, name: str) -> Any:
        """Read one tensor. Raises ValueError if it is missing or damaged."""
        if name not in self.shapes:
            raise ValueError(f"it has no {name}")
        try:
            if self.framework == "mapped":
                return self._map(name)
            tensor = self.file.get_tensor(name)
            if self.framework == "numpy":
                check_bools(name, tensor)
            return tensor
        except self.damage as error:
            raise ValueError(f"{name}: {first_line(error)}") from error

    @cached_property
    def _mapped(self) -> "tuple[npt.NDArray[np.uint8], dict[str, Any]]":
        """The file's bytes after its header, and the header."""
        import numpy as np

        whole = np.memmap(self.path, np.uint8, "r")
        start = 8 + int.from_bytes(whole[:8].tobytes(), "little")
        return whole[start:], json.loads(whole[8:start].tobytes())

    def _map(self, name: str) -> "npt.NDArray[Any]":
        """Return a view of a tensor in the file, whose header safetensors has checked. bfloat16 becomes float32."""
        import numpy as np

        content, header = self._mapped
        kind, (start, stop) = header[name]["dtype"], header[name]["data_offsets"]
        stored = content[start:stop]
        if kind == "BF16":  # the upper half of a float32
            return (stored.view("<u2").astype("<u4") << 16).view("<f4").reshape(self.shapes[name])
        if kind not in FLOATS:
            raise ValueError(f"it is {kind}, not a float of 16 to 64 bits")
        return np.asarray(stored).view(FLOATS[kind]).reshape(self.shapes[name])
