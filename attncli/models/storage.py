"""Memory for what is kept of a walk, used again as soon as nobody has what was kept there before.

The price of keeping maps is not their arithmetic. It is that the system hands out memory in pages of 4 kB and clears
each of them first. So large pieces are asked for as numpy does, which gets large pages where the system has them, and
a piece that comes back, because the record on it was dropped, goes to the next record.
"""

import math
import weakref
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from torch import Tensor, from_numpy

LARGE = 2**22  # bytes: smaller pieces come from where all memory does, and are used again there
WAITING = 2**29  # bytes that wait to be used again, at most
SPARE = 2  # a piece is at most so many times as large as what is put there
LINE = 64  # bytes of a line of the processor's cache: where a piece begins


class Piece:
    """So many bytes."""

    def __init__(self, size: int) -> None:
        room = np.empty(size + LINE, dtype=np.uint8)
        self.bytes = room[-room.ctypes.data % LINE :][:size]

    def __len__(self) -> int:
        return len(self.bytes)


class Lease:
    """A piece that somebody has: what numpy makes of this keeps it alive, and so does every view of that."""

    def __init__(self, piece: Piece) -> None:
        self.__array_interface__ = piece.bytes.__array_interface__


class Storage:
    """Memory on the CPU. Several threads may ask for some.

    waiting: the pieces that nobody has, in the order in which they came back.
    """

    def __init__(self) -> None:
        self.waiting: list[Piece] = []

    def empty(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """A tensor of this shape with the dtype and the device of `like`; what stands in it is anything.

        Raises MemoryError where there is none left.
        """
        size = math.prod(shape) * like.element_size()
        if like.device.type != "cpu" or size < LARGE:
            return like.new_empty(*shape)
        piece = self.take(size)
        lease = Lease(piece)
        weakref.finalize(lease, self.back, piece).atexit = False
        return from_numpy(np.asarray(lease)[:size]).view(like.dtype).view(*shape)

    def take(self, size: int) -> Piece:
        """One of at least so many bytes: the last that came back and is not much too large, or a fresh one."""
        for piece in reversed(self.waiting.copy()):
            if size <= len(piece) <= SPARE * size:
                with suppress(ValueError):  # another thread has it
                    self.waiting.remove(piece)
                    return piece
        return Piece(size)

    def back(self, piece: Piece) -> None:
        """Let others have it. Where that makes too much, those go that have waited longest."""
        self.waiting.append(piece)
        while sum(map(len, self.waiting)) > WAITING:
            with suppress(IndexError):  # another thread has it
                self.waiting.pop(0)

    def forget(self) -> None:
        """Give what waits back to the system."""
        self.waiting.clear()


STORAGE = Storage()
