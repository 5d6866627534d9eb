"""Open a .gguf file with the `gguf` package: its metadata, and its tensors one at a time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from attncli.base.arrays import Floats
from attncli.base.errors import RequestError, install_hint
from attncli.base.printable import first_line, quoted
from attncli.base.untrusted import check_regular


class GGUFFile:
    """A .gguf file mapped into memory.

    metadata: its entries. tensors: by name, in the order of the file.

    Raises RequestError if it is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        reader = _reader()
        try:
            check_regular(path)
            with np.errstate(all="ignore"):
                file = reader(path)
                header = list(file.fields.items())[3:]  # after the version and two counts
                self.metadata = {name: field.contents() for name, field in header}
        except OSError as error:
            raise RequestError(f"can't read {path}: {error.strerror or error}") from error
        except Exception as error:  # a damaged file can make the reader raise anything
            raise RequestError(f"{path} is not a .gguf file, or is damaged: {first_line(error)}") from error
        self.tensors: dict[str, Any] = {tensor.name: tensor for tensor in file.tensors}

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor, rows first as in torch."""
        return tuple(self.tensors[name].shape.tolist()[::-1])

    def types(self) -> list[str]:
        """Return the types of the tensors, the one with the most bytes first: ["Q4_1", "Q8_0", "F32"]."""
        sizes: dict[str, int] = {}
        for tensor in self.tensors.values():
            sizes[tensor.tensor_type.name] = sizes.get(tensor.tensor_type.name, 0) + tensor.n_bytes
        return sorted(sizes, key=lambda name: -sizes[name])

    def values(self, name: str) -> Floats:
        """Return a tensor in float32. Raises RequestError for a type that the `gguf` package can't convert."""
        from gguf.quants import dequantize

        kind = self.tensors[name].tensor_type
        try:
            with np.errstate(all="ignore"):  # damaged scales; the readers of tensors refuse numbers that are not finite
                found = dequantize(self.tensors[name].data, kind)
        except NotImplementedError as error:
            raise RequestError(f"{self.path}: {quoted(name)} has the type {kind.name}, which can't be read") from error
        values: Floats = found.astype(np.float32, copy=False).reshape(self.shape(name))
        return values


def _reader() -> Any:
    """Return the package's reader, which stops at the end of a file. Raises RequestError if it is not installed."""
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise RequestError(f"reading a .gguf file needs gguf: {install_hint('gguf')}") from error

    class Reader(GGUFReader):  # type: ignore[misc]
        def _get(self, offset: int, dtype: Any, count: int = 1, *order: Any, **more: Any) -> Any:
            found = super()._get(offset, dtype, count, *order, **more)
            if len(found) < count:  # it would continue for as many entries as a damaged file claims
                raise ValueError("it is truncated")
            return found

    return Reader


def shortest(number: float) -> float:
    """Return the shortest decimal fraction with the same float32: 1e-05 for 9.999999747378752e-06."""
    return float(str(np.float32(number)))


def settings(metadata: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the entries whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in metadata.items() if name.startswith(prefix)}
