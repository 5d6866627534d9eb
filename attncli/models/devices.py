"""Torch's devices and dtypes by their names, and a model's arrays there.

`Storage` reuses memory that is no longer referenced. Keeping maps costs less for arithmetic than for memory: the system
provides memory in pages of 4 kB and clears each first. So large pieces are allocated as NumPy does, which gets large
pages if the system supports them. The memory of a dropped record goes to the next record.
"""

import math
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, from_numpy

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.models.engine import Engine
from attncli.models.weighing import map_dtype

DTYPES = {name: getattr(torch, name) for name in choices.names(choices.DtypeName)}


def pick_dtype(name: str) -> torch.dtype:
    """Return the dtype of this name. Raises RequestError for an unknown name."""
    choices.check("dtype", name, choices.DtypeName)
    return DTYPES[name]


def pick_device(name: str) -> torch.device:
    """Return the device of this name; "auto" is a GPU if there is one. Raises RequestError if it is not available."""
    counts: dict[str, Callable[[], int]] = {
        "cuda": torch.cuda.device_count,
        "mps": lambda: int(torch.backends.mps.is_available()),
        "cpu": lambda: 1,
    }
    if name == "auto":
        name = next(kind for kind, count in counts.items() if count())
    kind = name.partition(":")[0]
    try:
        device = torch.device(name)
        count = counts[kind]()
    except (RuntimeError, KeyError) as error:
        raise RequestError(
            f"no device {quoted(name)}: use one of {', '.join(choices.names(choices.DeviceName))}"
        ) from error
    if (device.index or 0) >= count:
        raise RequestError(f"device {quoted(name)} is not on this machine; --device auto selects an available one")
    return device


# --- arrays ---------------------------------------------------------------------------------------------


LARGE = 2**22  # bytes: smaller pieces come from torch's allocator, which reuses them
WAITING = 2**29  # maximum bytes of free pieces that wait for reuse
_SPARE = 2  # a reused piece is at most this many times larger than needed
_LINE = 64  # bytes of a cache line, to which pieces are aligned


class _Memory:
    """A block of memory."""

    def __init__(self, size: int) -> None:
        room = np.empty(size + _LINE, dtype=np.uint8)
        self.bytes = room[-room.ctypes.data % _LINE :][:size]

    def __len__(self) -> int:
        return len(self.bytes)


class _Lease:
    """A borrowed piece. NumPy arrays made from it keep it alive, and so does every view of them."""

    def __init__(self, piece: _Memory) -> None:
        self.__array_interface__ = piece.bytes.__array_interface__


class Storage:
    """Reusable CPU memory, safe for several threads. waiting: the free pieces, in the order of their return."""

    def __init__(self) -> None:
        self.waiting: list[_Memory] = []

    def empty(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """Return an uninitialised tensor of this shape, like `like`. Raises MemoryError if no memory is left."""
        size = math.prod(shape) * like.element_size()
        if like.device.type != "cpu" or size < LARGE:
            return like.new_empty(*shape)
        piece = self.take(size)
        lease = _Lease(piece)
        weakref.finalize(lease, self.release, piece).atexit = False
        return from_numpy(np.asarray(lease)[:size]).view(like.dtype).view(*shape)

    def take(self, size: int) -> _Memory:
        """Return a piece of at least this size: the one returned last that is not much too large, or a new one."""
        for piece in reversed(self.waiting.copy()):
            if size <= len(piece) <= _SPARE * size:
                with suppress(ValueError):  # another thread took it
                    self.waiting.remove(piece)
                    return piece
        return _Memory(size)

    def release(self, piece: _Memory) -> None:
        """Return a piece for reuse. If too much is free, drop the pieces that have waited longest."""
        self.waiting.append(piece)
        while sum(map(len, self.waiting)) > WAITING:
            with suppress(IndexError):  # another thread took it
                self.waiting.pop(0)


STORAGE = Storage()


# Tokens in a batch. On a CPU more are not faster, since the vectors between two layers should fit the cache. With half
# as many, short texts take 7% longer (Xeon, 33 MB of cache).
BATCH_TOKENS = {"cpu": 2048, "cuda": 16384, "mps": 8192}


def as_tensor(array: npt.NDArray[Any], device: torch.device | None = None) -> Tensor:
    """Copy a NumPy array to a device."""
    return torch.tensor(array, device=device)


class InTorch(Engine):
    """An engine whose network computes in torch."""

    device: torch.device
    dtype: torch.dtype

    @property
    def map_dtype(self) -> torch.dtype:
        """Return the dtype of maps."""
        return map_dtype(torch.empty(0, dtype=self.dtype, device=self.device))

    @property
    def batch_tokens(self) -> int:
        return BATCH_TOKENS.get(self.device.type, BATCH_TOKENS["cpu"])

    def array(self, shape: Sequence[int], zeros: bool = False, maps: bool = False) -> Tensor:
        like = torch.empty(0, dtype=self.map_dtype if maps else self.dtype, device=self.device)
        if zeros:
            return like.new_zeros(shape)
        return STORAGE.empty(shape, like) if maps else like.new_empty(shape)

    def inference(self) -> AbstractContextManager[Any]:
        return torch.inference_mode()
