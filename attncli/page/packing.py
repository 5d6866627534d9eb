"""Store the numbers of a page: weights as bytes that compress well, in named chunks. levels.js reads the weights.

A weight w lies in level floor(steps * log2(1 / w)): `steps` levels are a factor of two. Small weights are stored as
exactly as large ones, and of two weights the larger is not stored as the smaller one. Of the strongest weights of each
row the place within their level is stored too.

The level of a weight can be guessed from the weights of the same key above it. So levels are written into one stream
per guess, in which they are similar: their mean entropy is a quarter below that of levels in the order of the map. The
guess is the context of arithmetic coders, which deflate, that every browser can undo, lacks.
"""

import base64
import math
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from attncli.base.arrays import Bools, Floats

# --- threads ------------------------------------------------------------------------------------------

LARGE = 2**17  # numbers of a layer, from which on it is

Layer = TypeVar("Layer")
Made = TypeVar("Made")


def of_each(make: Callable[[Layer], Made], layers: Sequence[Layer], size: int) -> list[Made]:
    """`make(layer)` of each, in their order. size: the numbers of a layer."""
    if size < LARGE:
        return list(map(make, layers))
    with ThreadPoolExecutor() as threads:
        return list(threads.map(make, layers))


# --- levels of weights --------------------------------------------------------------------------------

BELOW = 255  # the level of what is not stored
CONTEXTS = 32
FADE = 2  # in the mean of the levels above a row counts 1 - 1 / 2 ** FADE as much as the one below it

Levels = npt.NDArray[np.uint8]
Places = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class Scale:
    """How weights are stored.

    steps: levels for a factor of two; parts: places in a level, at most 65536.
    strongest: of so many weights of each row, and of those in the same level as the weakest of them, the place is
    stored; they are stored however small they are.
    floor: of the others those are stored that are above about this share of 1 / keys; 0: all.
    """

    steps: float
    parts: int
    strongest: int
    floor: float

    def depth(self, keys: int) -> int:
        """The level from which on weights are stored only if they are among the strongest of their row."""
        if not self.floor:
            return BELOW
        return min(BELOW, int(np.ceil(self.steps * np.log2(keys / self.floor))))

    def least(self, keys: int) -> float:
        """Weights that are not stored are below this."""
        return 2.0 ** ((0.5 / self.parts - self.depth(keys)) / self.steps)

    @property
    def error(self) -> float:
        """The strongest weights of a row differ from what is stored of them by less than this share of themselves; so
        do two of them that are stored alike from each other.
        """
        return 2.0 ** (1 / (self.steps * self.parts)) - 1

    @property
    def rest(self) -> float:
        """The others that are stored differ by at most this share of themselves."""
        return 2.0 ** (0.5 / self.steps) - 1

    @property
    def middle(self) -> float:
        """The place in a level that is between all that can be there: none that is stored."""
        return 0.5 - 0.5 / self.parts


def layer_bytes(layer: Floats, scale: Scale) -> list[bytes]:
    """A layer's weights `[head, query, key]`, in parts of which the bytes are alike: how much there is of each head, in
    each stream and of places, uint32 `[head, CONTEXTS + 1]`; the streams, each `[head, query, key]`; the places,
    uint16. Of numbers of several bytes the lowest come first, then the next ones: the high ones are mostly 0.
    """
    levels, places = levels_of(layer, scale)
    refined = is_refined(levels, scale)
    guesses = contexts(levels, scale.depth(layer.shape[-1])).reshape(len(layer), np.prod(layer.shape[1:]))
    sizes, streams = [], []
    for guess, level, there in zip(guesses, levels, refined, strict=True):
        count = np.bincount(guess, minlength=CONTEXTS).tolist()
        inside = level.ravel()[np.argsort(guess, kind="stable")].tobytes()
        ends = list(accumulate(count))
        streams.append([inside[end - size : end] for size, end in zip(count, ends, strict=True)])
        sizes.append([*count, np.count_nonzero(there)])
    each = [b"".join(stream) for stream in zip(*streams, strict=True)]
    return [*planes(np.array(sizes, dtype="<u4")), *each, *planes(places[refined])]


def planes(numbers: npt.NDArray[np.uint16 | np.uint32]) -> list[bytes]:
    return [plane.tobytes() for plane in numbers.ravel().view(np.uint8).reshape(-1, numbers.itemsize).T]


def levels_of(layer: Floats, scale: Scale) -> tuple[Levels, Places]:
    """The level of each weight, BELOW where it is not stored, and its place in it."""
    levels, places = np.empty(layer.shape, dtype=np.uint8), np.empty(layer.shape, dtype="<u2")
    for head, weights in enumerate(layer):  # one at a time: the numbers on the way take ten times the room
        with np.errstate(divide="ignore"):  # of nothing
            exact = -scale.steps * scale.parts * np.log2(np.minimum(weights, 1), dtype=np.float64)
        whole = np.rint(np.minimum(exact, BELOW * scale.parts)).astype(np.int32)
        levels[head], places[head] = np.divmod(whole, scale.parts)
    levels[~is_refined(levels, scale) & (levels >= scale.depth(layer.shape[-1]))] = BELOW
    return levels, places


def is_refined(levels: Levels, scale: Scale) -> Bools:
    """Which are in the levels of the strongest of their row, so that their place is stored."""
    last = min(scale.strongest, levels.shape[-1]) - 1
    weakest = np.partition(levels, last, axis=-1)[..., last : last + 1]
    refined: Bools = (levels <= weakest) & (levels < BELOW)
    return refined


def contexts(levels: Levels, depth: int) -> Levels:
    """What each level is guessed to be: how far those of the same key above it are from `depth` in the mean."""
    guesses = np.empty_like(levels)
    mean = np.zeros((len(levels), levels.shape[-1]), dtype=np.int32)  # 4 * 2 ** FADE times as much
    for query in range(levels.shape[1]):
        guesses[:, query] = context(mean, depth)
        mean = after(mean, levels[:, query], depth)
    return guesses


def context(mean: npt.NDArray[np.int32], depth: int) -> npt.NDArray[np.int32]:
    return mean * CONTEXTS // ((4 << FADE) * (depth + 1))


def after(mean: npt.NDArray[np.int32], levels: Levels, depth: int) -> npt.NDArray[np.int32]:
    """The mean one row further; in whole numbers, so that a page comes to the same."""
    return mean - (mean >> FADE) + 4 * np.maximum(depth - levels.astype(np.int32), 0)


def read_layer(data: bytes, shape: tuple[int, int, int], scale: Scale) -> Floats:
    """What a page reads from a layer's bytes: weights `[head, query, key]`, of this shape."""
    heads, _, keys = shape
    rest = np.frombuffer(data, np.uint8)
    count = heads * (CONTEXTS + 1)
    sizes = rest[: 4 * count].reshape(4, count).T.copy().view("<u4").reshape(heads, CONTEXTS + 1).astype(np.int64)
    begins = 4 * sizes.size + np.cumsum([0, *sizes.T.ravel()])  # of each head in each stream, then of its places
    total = sizes[:, -1].sum()
    layer = np.empty(shape, dtype=np.float32)
    for head, weights in enumerate(layer):
        levels = read_levels(rest, begins[head::heads][:CONTEXTS].copy(), shape[1:], scale.depth(keys))
        places = np.full(levels.shape, scale.middle)
        start = begins[CONTEXTS * heads + head]
        low, high = (rest[first : first + sizes[head, -1]] for first in (start, start + total))
        places[is_refined(levels, scale)] = (low + 256.0 * high) / scale.parts
        weights[:] = np.where(levels == BELOW, 0, 2 ** (-(levels + places) / scale.steps))
    return layer


def read_levels(data: Levels, begins: npt.NDArray[np.int64], shape: tuple[int, int], depth: int) -> Levels:
    """The levels of one head `[query, key]`, of each of whose streams the next is at `begins`."""
    levels = np.empty(shape, dtype=np.uint8)
    mean = np.zeros(shape[1], dtype=np.int32)
    for row in levels:
        guesses = context(mean, depth)
        order = np.argsort(guesses, kind="stable")
        count = np.bincount(guesses, minlength=CONTEXTS)
        within = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
        row[order] = data[begins[guesses[order]] + within]
        begins += count
        mean = after(mean, row, depth)
    return levels


# --- weights as text ----------------------------------------------------------------------------------

# From fine to coarse, and how many characters a weight may take so that a page of so many weights can be mailed.
# Twelve are ten and the two special tokens of a text, which a filter may leave out.
SCALES = (Scale(2, 16384, 65536, 0), Scale(4, 1024, 12, 0.02), Scale(3, 512, 12, 0.1), Scale(2, 512, 12, 0.15))
ROOM = ((200_000, math.inf), (2_000_000, 1.0), (8_000_000, 0.75), (1_000_000_000_000, 0.43))
ROWS = 64  # of a head, which are packed to find out how much its weights take
TRIED = 64  # layers, from the first text to the last


def pick_scale(maps: Sequence[Floats]) -> Scale:
    """The finest scale for all these maps `[layer, head, query, key]` that keeps a page small."""
    count = sum(one.size for one in maps)
    room = next(room for most, room in ROOM if count <= most)
    if math.isinf(room):
        return SCALES[0]
    ends = [layer for one in maps for layer in (one[0], one[-1])]
    samples = [some_rows(layer) for layer in ends[:: -(-len(ends) // TRIED)]]
    for scale in SCALES[:-1]:
        taken = sum(len(text) for text in pack_layers(samples, scale))
        if taken <= room * sum(layer.size for layer in samples):
            return scale
    return SCALES[-1]


def some_rows(layer: Floats) -> Floats:
    """ROWS neighbouring queries of each head, in each others, from the first to the last: `[head, ROWS, key]`."""
    heads, queries = layer.shape[:2]
    rows = min(ROWS, queries)
    starts = ((np.arange(heads) + 0.5) / heads * (queries - rows)).astype(int)
    return np.stack([head[start : start + rows] for head, start in zip(layer, starts, strict=True)])


def pack_layers(layers: Sequence[Floats], scale: Scale) -> list[str]:
    """Each layer's weights `[head, query, key]` as text, as levels.js reads them."""
    return of_each(lambda layer: pack_layer(layer, scale), layers, largest(layers))


def largest(layers: Sequence[Floats]) -> int:
    """How many weights it has."""
    return max((layer.size for layer in layers), default=0)


def pack_layer(layer: Floats, scale: Scale) -> str:
    return packed(*layer_bytes(layer, scale), strategy=zlib.Z_RLE)  # in levels nothing comes again but runs


def unpack_layer(text: str, shape: tuple[int, int, int], scale: Scale) -> Floats:
    """What a page reads from a layer's text: weights `[head, query, key]`, of this shape."""
    return read_layer(zlib.decompress(base64.b64decode(text)), shape, scale)


def packed(*parts: bytes, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> str:
    """Bytes as base64 of a zlib stream, compressed by one of zlib's strategies, each part with a code of its own."""
    stream = zlib.compressobj(6, strategy=strategy)
    blocks = [stream.compress(part) + stream.flush(zlib.Z_BLOCK) for part in parts if part]
    return base64.b64encode(b"".join(blocks) + stream.flush()).decode("ascii")


# --- chunks -------------------------------------------------------------------------------------------

Packed = TypeVar("Packed", str, bytes)


@dataclass(frozen=True)
class Form(Generic[Packed]):
    """How numbers are written.

    layers: the weights `[head, query, key]` of each layer; one: anything else; small: whether there is little room.
    """

    layers: Callable[[Sequence[Floats], Scale], list[Packed]]
    one: Callable[[bytes], Packed]
    small: bool


def plain_layers(layers: Sequence[Floats], scale: Scale) -> list[bytes]:
    """Each layer's weights as bytes, as levels.js reads them."""
    return of_each(lambda layer: b"".join(layer_bytes(layer, scale)), layers, largest(layers))


TEXTS: Form[str] = Form(pack_layers, packed, small=True)
PLAIN: Form[bytes] = Form(plain_layers, bytes, small=False)


class Chunks(Generic[Packed]):
    """Numbers by name; of those that stand in a page a name is the id of their element. prefix: how names begin."""

    def __init__(self, form: Form[Packed], prefix: str = "") -> None:
        self.form: Form[Packed] = form
        self.prefix = prefix
        self.there: dict[str, Packed] = {}

    def add(self, one: Packed, kind: str = "chunk") -> str:
        """Gives its name."""
        name = f"{self.prefix}{kind}{len(self.there)}"
        self.there[name] = one
        return name

    def add_layers(self, layers: Sequence[Floats], scale: Scale) -> list[str]:
        """Gives the name of each layer's."""
        return [self.add(one) for one in self.form.layers(layers, scale)]

    @property
    def room(self) -> float:
        """What q and k may take beside what is there."""
        return sum(map(len, self.there.values())) if self.form.small else math.inf
