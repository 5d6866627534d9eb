"""Store the numbers of a page in named chunks, which data.js reads. Weights become integers that compress well.

A weight w of a head whose largest weight is `top` is stored as the level round(levels * w / top), in as few bytes as
`levels` needs. A page with few weights has many levels, and a page with many weights has few.

All heads of minilm take 0.06, 1.1 and 8.3 million characters for 16, 128 and 512 tokens. One byte per weight would take
0.02, 0.5 and 4.4 million, but be off by up to 4 % for weights above 0.05.
"""

import base64
import math
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from attncli.base.arrays import Floats

# --- threads ------------------------------------------------------------------------------------------

LARGE = 2**17  # layers with at least this many numbers are packed in threads

L = TypeVar("L")
R = TypeVar("R")


def map_layers(make: Callable[[L], R], layers: Sequence[L], size: int) -> list[R]:
    """Return `make(layer)` for each layer, in several threads if layers are large. size: the numbers of a layer."""
    if size < LARGE:
        return list(map(make, layers))
    with ThreadPoolExecutor() as threads:
        return list(threads.map(make, layers))


# --- weights ------------------------------------------------------------------------------------------

# From fine to coarse. ROOM: in a page with up to this many weights, each may take this many characters. Then the page
# is small enough to be mailed.
LEVELS = (2**24 - 1, 4095, 1023, 255)
ROOM = ((200_000, math.inf), (2_000_000, 1.0), (8_000_000, 0.75), (1_000_000_000_000, 0.45))
ROWS = 64  # rows per head, packed to estimate the size
TRIED = 64  # layers to pack for the estimate, at most, spread over all texts


def error_of(levels: int) -> float:
    """Return the largest error of a stored weight, as a share of its head's largest weight."""
    return 0.5 / levels


def layer_bytes(layer: Floats, levels: int) -> list[bytes]:
    """Return the bytes of a layer's weights `[head, query, key]`, in parts that compress well.

    The first part has the largest weight of each head, float32. The others have the levels in the order `[head, key,
    query]`, because the weights of a key are similar: their low bytes, then their next bytes.
    """
    tops = layer.max(axis=(1, 2), initial=0).astype("<f4")
    steps = np.where(tops > 0, tops, 1)[:, None, None] / np.float64(levels)
    numbers = np.rint(layer / steps).astype("<u4").swapaxes(1, 2).ravel()
    planes = numbers.view(np.uint8).reshape(-1, 4).T
    return [tops.tobytes(), *(plane.tobytes() for plane in planes[: -(-levels.bit_length() // 8)])]


def pick_levels(maps: Sequence[Floats]) -> int:
    """Return the largest of LEVELS that fits into ROOM for maps `[layer, head, query, key]`, or else the least."""
    count = sum(one.size for one in maps)
    room = next(room for most, room in ROOM if count <= most)
    if math.isinf(room):
        return LEVELS[0]
    ends = [layer for one in maps for layer in (one[0], one[-1])]
    samples = [some_rows(layer) for layer in ends[:: -(-len(ends) // TRIED)]]
    for levels in LEVELS[1:-1]:
        taken = sum(len(text) for text in pack_layers(samples, levels))
        if taken <= room * sum(layer.size for layer in samples):
            return levels
    return LEVELS[-1]


def some_rows(layer: Floats) -> Floats:
    """Return ROWS consecutive rows of each head, `[head, ROWS, key]`, from a later place for each head."""
    heads, queries = layer.shape[:2]
    rows = min(ROWS, queries)
    starts = ((np.arange(heads) + 0.5) / heads * (queries - rows)).astype(int)
    return np.stack([head[start : start + rows] for head, start in zip(layer, starts, strict=True)])


def pack_layers(layers: Sequence[Floats], levels: int) -> list[str]:
    """Return each layer's weights `[head, query, key]` as text."""
    return map_layers(lambda layer: pack_layer(layer, levels), layers, _largest(layers))


def _largest(layers: Sequence[Floats]) -> int:
    """Return the number of weights of the largest layer."""
    return max((layer.size for layer in layers), default=0)


def pack_layer(layer: Floats, levels: int) -> str:
    return compress(*layer_bytes(layer, levels), strategy=zlib.Z_FILTERED)  # for numbers that seldom repeat


def compress(*parts: bytes, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> str:
    """Return bytes as a zlib stream in base64, each part with its own Huffman code. strategy: one of zlib's."""
    stream = zlib.compressobj(6, strategy=strategy)
    blocks = [stream.compress(part) + stream.flush(zlib.Z_BLOCK) for part in parts if part]
    return base64.b64encode(b"".join(blocks) + stream.flush()).decode("ascii")


# --- chunks -------------------------------------------------------------------------------------------

Packed = TypeVar("Packed", str, bytes)


@dataclass(frozen=True)
class ChunkForm(Generic[Packed]):
    """The form in which numbers are written.

    layers: writes the weights `[head, query, key]` of each layer. one: writes anything else. small: whether the size of
    q and k is limited.
    """

    layers: Callable[[Sequence[Floats], int], list[Packed]]
    one: Callable[[bytes], Packed]
    small: bool


def plain_layers(layers: Sequence[Floats], levels: int) -> list[bytes]:
    """Return each layer's weights as bytes."""
    return map_layers(lambda layer: b"".join(layer_bytes(layer, levels)), layers, _largest(layers))


TEXTS: ChunkForm[str] = ChunkForm(pack_layers, compress, small=True)
PLAIN: ChunkForm[bytes] = ChunkForm(plain_layers, bytes, small=False)


class Chunks(Generic[Packed]):
    """Chunks of numbers by name. In a page, the name is the id of the chunk's element. prefix: of all names."""

    def __init__(self, form: ChunkForm[Packed], prefix: str = "") -> None:
        self.form: ChunkForm[Packed] = form
        self.prefix = prefix
        self.by_name: dict[str, Packed] = {}

    def add(self, one: Packed, kind: str = "chunk") -> str:
        """Add a chunk and return its name."""
        name = f"{self.prefix}{kind}{len(self.by_name)}"
        self.by_name[name] = one
        return name

    def add_layers(self, layers: Sequence[Floats], levels: int) -> list[str]:
        """Add the weights of each layer and return their names."""
        return [self.add(one) for one in self.form.layers(layers, levels)]

    @property
    def room(self) -> float:
        """The number of characters that q and k may take: as many as all chunks so far."""
        return sum(map(len, self.by_name.values())) if self.form.small else math.inf
