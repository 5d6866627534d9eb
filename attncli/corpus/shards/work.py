"""What is done with each shard, and what comes out of it: whoever counts something hands it in."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from attncli.base.untrusted import parse_json
from attncli.corpus.shards.plan import SHARD_BYTES, Shard

VERSION = 1  # of sums in files
Arrays = dict[str, npt.NDArray[Any]]


class Adding(Protocol):
    """What adds up."""

    def __add__(self: "Total", other: "Total") -> "Total": ...


Total = TypeVar("Total", bound=Adding)


class Seen(NamedTuple):
    """How much something is the sum of."""

    texts: int
    tokens: int


# Makes the sums of a shard: yields what there is of them after every step, the last time all.
Counts = Callable[[Shard], Iterator[Total]]


class Work(ABC, Generic[Total]):
    """What is counted, of which model: a small thing, which is sent to the processes that count.

    asked: JSON of any kind, by the names that options have. Sums that were asked for otherwise are others.
    shard_bytes: of a shard, where nobody says how many: about a minute of a core.
    """

    asked: dict[str, Any]
    shard_bytes: ClassVar[int] = SHARD_BYTES

    @property
    @abstractmethod
    def fixed(self) -> Mapping[str, int]:
        """What the last bit depends on beside that: how much goes through the network at once."""

    @abstractmethod
    def begin(self, cores: int | None) -> Counts[Total]:
        """What counts a shard, on so many cores, by default all. Takes as long as opening a model does. What it gives
        depends on the shard alone: not on `cores`, nor on what was counted before.
        """

    @abstractmethod
    def nothing(self) -> Total:
        """The sums of no shard."""

    @abstractmethod
    def seen(self, total: Total) -> Seen: ...

    @abstractmethod
    def saved(self, total: Total) -> tuple[dict[str, Any], Arrays]:
        """What says all of some sums: JSON, and arrays by their names."""

    @abstractmethod
    def loaded(self, about: dict[str, Any], arrays: Arrays) -> Total:
        """The same sums. Raises ValueError where no texts have such."""

    def on(self, device: str) -> "Work[Total]":
        """The same on another device."""
        return self

    def at(self, fixed: Mapping[str, int] | None, size: int) -> "Work[Total]":
        """The same with what was `fixed` before, or, where that is None, fixed for inputs of so many bytes. Raises
        ValueError for what was never fixed.
        """
        return self

    def away(self) -> "Work[Total]":
        """The same without what only this process has."""
        return self

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps([VERSION, self.asked, dict(self.fixed)], sort_keys=True).encode()).hexdigest()

    def sealed(self, total: Total) -> bytes:
        """Some sums as the content of a file: a digest of what follows, then .safetensors."""
        from safetensors.numpy import save

        about, arrays = self.saved(total)
        content: bytes = save(
            {name: np.ascontiguousarray(array) for name, array in arrays.items()}, {"about": json.dumps(about)}
        )
        return hashlib.sha256(content).hexdigest().encode() + b"\n" + content

    def unsealed(self, content: bytes) -> Total:
        """The same sums. Raises ValueError for a content that is not all of what was written."""
        digest, _, inside = content.partition(b"\n")
        if hashlib.sha256(inside).hexdigest().encode() != digest:
            raise ValueError("it is not as it was written")
        return self.loaded(*unpacked(inside))


def unpacked(content: bytes) -> tuple[dict[str, Any], Arrays]:
    """What .safetensors say of themselves, and their arrays. Raises ValueError for what is none."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays: Arrays = load(content)
        length = int.from_bytes(content[:8], "little")
        about = parse_json(parse_json(content[8 : 8 + length])["__metadata__"]["about"])
    except (SafetensorError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"it is no .safetensors with sums ({error})") from error
    if not isinstance(about, dict):
        raise ValueError("it says nothing of itself")
    return about, arrays
