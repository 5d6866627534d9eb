"""Read a .gguf file: its metadata, and its tensors one at a time.

The format is described at https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The `gguf` package knows the
quantizations. Its reader believes every number of a file; this one checks each against the file's size first.
"""

import math
import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from attncli.base.errors import RequestError, install_hint
from attncli.base.printable import first_line, quoted
from attncli.base.untrusted import open_regular

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32  # bytes, unless general.alignment says otherwise
MOST_KEYS = 10_000
MOST_TENSORS = 100_000
MOST_DIMENSIONS = 4
LONGEST_NAME = 1000  # bytes of a key or of a tensor's name
LONGEST_STRING = 2**22  # bytes
MOST_ENTRIES = 2**22  # of all lists: the largest vocabularies have 300,000 tokens and twice as many merges
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class GGUFTensor(NamedTuple):
    """The place of a tensor in the file. shape: rows first, as in torch. kind: its number in GGMLQuantizationType."""

    name: str
    shape: tuple[int, ...]
    kind: int
    start: int
    size: int


class GGUFFile:
    """A .gguf file mapped into memory.

    metadata: its entries. tensors: by name, in the order of the file.

    Raises RequestError if it is damaged, or not of a version that is read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open_regular(path) as file:
                self.content: bytes | mmap.mmap = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise RequestError(f"can't read {path}: {error.strerror or error}") from error
        except ValueError:  # nothing can be mapped of an empty file
            self.content = b""
        try:
            self.metadata, self.tensors = _read_header(self.content)
        except (ValueError, struct.error) as error:
            raise RequestError(f"{path} is not a .gguf file, or is damaged: {first_line(error)}") from error

    def types(self) -> list[str]:
        """Return the types of the tensors, the one with the most bytes first: ["Q4_1", "Q8_0", "F32"]."""
        sizes: dict[int, int] = {}
        for tensor in self.tensors.values():
            sizes[tensor.kind] = sizes.get(tensor.kind, 0) + tensor.size
        kinds = _package().GGMLQuantizationType
        return [kinds(kind).name for kind in sorted(sizes, key=lambda kind: -sizes[kind])]

    def values(self, name: str) -> "npt.NDArray[np.float32]":
        """Return a tensor in float32. Raises RequestError for a type that the `gguf` package can't convert."""
        import numpy as np
        from gguf.quants import dequantize

        tensor = self.tensors[name]
        kind = _package().GGMLQuantizationType(tensor.kind)
        content = np.frombuffer(self.content, np.uint8, tensor.size, tensor.start)
        rows = content.reshape(math.prod(tensor.shape[:-1]), -1)
        try:
            with np.errstate(all="ignore"):  # damaged scales; who reads the tensors refuses what is not finite
                return dequantize(rows, kind).astype(np.float32, copy=False).reshape(tensor.shape)
        except NotImplementedError as error:
            raise RequestError(
                f"{self.path}: {quoted(name)} is of the type {kind.name}, which can't be read"
            ) from error


def _package() -> Any:
    """Return the package's table of types and their sizes. Raises RequestError if it is not installed."""
    try:
        import gguf.constants
    except ImportError as error:
        raise RequestError(f"reading a .gguf file needs gguf: {install_hint('gguf')}") from error
    return gguf.constants


def _read_header(content: "bytes | mmap.mmap") -> tuple[dict[str, Any], dict[str, GGUFTensor]]:
    """Return the metadata and the tensors. Raises ValueError or struct.error for whatever does not fit the file."""
    cursor = _Cursor(content)
    if cursor.take(4) != MAGIC:
        raise ValueError(f"it does not begin with {MAGIC.decode()}")
    version, tensors, keys = cursor.numbers("IQQ")
    if version not in VERSIONS:
        raise ValueError(f"it is of version {version}, not {' or '.join(map(str, VERSIONS))}")
    if keys > MOST_KEYS or tensors > MOST_TENSORS:
        raise ValueError(f"it claims {keys:,} entries and {tensors:,} tensors")
    metadata: dict[str, Any] = {}
    for _ in range(keys):
        name = cursor.text(LONGEST_NAME)
        if name in metadata:
            raise ValueError(f"it has {quoted(name)} twice")
        metadata[name] = cursor.value(*cursor.numbers("I"))
    infos: list[tuple[str, tuple[int, ...], int, int]] = []
    for _ in range(tensors):
        name = cursor.text(LONGEST_NAME)
        (dimensions,) = cursor.numbers("I")
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise ValueError(f"{quoted(name)} has {dimensions} dimensions")
        *sizes, kind, offset = cursor.numbers("Q" * dimensions + "IQ")
        infos.append((name, tuple(reversed(sizes)), kind, offset))
    return metadata, _place(infos, cursor.at, len(content), metadata.get("general.alignment", ALIGNMENT))


def _place(infos: list[tuple[str, tuple[int, ...], int, int]], end: int, size: int, unit: Any) -> dict[str, GGUFTensor]:
    """Return the tensors with their places in a file of `size` bytes. infos: name, shape, type and offset of each. end:
    of the header. unit: of the alignment.

    Raises ValueError if one lies outside the file, or two overlap.
    """
    if type(unit) is not int or unit <= 0 or unit & (unit - 1):
        raise ValueError(f"its alignment is {unit!r}, not a power of 2")
    sizes = _package().GGML_QUANT_SIZES
    begin = -(-end // unit) * unit
    tensors: dict[str, GGUFTensor] = {}
    for name, shape, kind, offset in infos:
        if name in tensors:
            raise ValueError(f"it has {quoted(name)} twice")
        if kind not in sizes:
            raise ValueError(f"{quoted(name)} is of an unknown type, {kind}")
        block, of_block = sizes[kind]
        if min(shape) < 1 or shape[-1] % block:
            raise ValueError(f"{quoted(name)} has the shape {list(shape)}, in blocks of {block}")
        tensors[name] = GGUFTensor(name, shape, kind, begin + offset, math.prod(shape) // block * of_block)
    last = begin
    for tensor in sorted(tensors.values(), key=lambda tensor: tensor.start):
        if tensor.start < last or tensor.start + tensor.size > size or tensor.start % unit:
            raise ValueError(f"{quoted(tensor.name)} does not lie in the file, or overlaps another tensor")
        last = tensor.start + tensor.size
    return tensors


class _Cursor:
    """A place in the bytes of a file. Every method reads what is next; raises ValueError if the file ends before.

    listed: the entries of the lists so far.
    """

    def __init__(self, content: "bytes | mmap.mmap") -> None:
        self.content = content
        self.at = 0
        self.listed = 0

    def take(self, count: int) -> bytes:
        if count > len(self.content) - self.at:
            raise ValueError("it is cut short")
        self.at += count
        return self.content[self.at - count : self.at]

    def numbers(self, kinds: str) -> tuple[Any, ...]:
        kinds = f"<{kinds}"
        return struct.unpack(kinds, self.take(struct.calcsize(kinds)))

    def text(self, longest: int = LONGEST_STRING) -> str:
        (length,) = self.numbers("Q")
        if length > longest:
            raise ValueError(f"it has a text of {length:,} bytes")
        try:
            return self.take(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError("it has a text that is not UTF-8") from error

    def value(self, kind: int) -> Any:
        """Return one value of the metadata: a number, a text, or a list of either."""
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            return self.entries(*self.numbers("IQ"))
        if kind not in NUMBERS:
            raise ValueError(f"it has metadata of an unknown type, {kind}")
        return self.numbers(NUMBERS[kind])[0]

    def entries(self, kind: int, count: int) -> list[Any]:
        self.listed += count
        if self.listed > MOST_ENTRIES:
            raise ValueError(f"it has lists of {self.listed:,} entries")
        if kind == STRING:
            return [self.text() for _ in range(count)]
        if kind not in NUMBERS:
            raise ValueError(f"it has a list of an unknown type, {kind}")
        return list(self.numbers(f"{count}{NUMBERS[kind]}"))


def shortest(number: float) -> float:
    """Return the shortest decimal fraction that a float32 stands for: 9.999999747378752e-06 is 1e-05."""
    import numpy as np

    return float(str(np.float32(number)))


def settings(metadata: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the entries whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in metadata.items() if name.startswith(prefix)}
