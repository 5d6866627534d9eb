"""Store the numbers of a page: weights as bytes that compress well, in named chunks. levels.js reads the weights.

A weight w lies in level floor(steps * log2(1 / w)): `steps` levels are a factor of two. Small weights are stored as
exactly as large ones, and of two weights the larger is not stored as the smaller one. Of the strongest weights of each
row the place within their level is stored too.

All heads of minilm take 0.06, 1.1 and 8.8 million characters for 16, 128 and 512 tokens. Plain uint8 would take 0.02,
0.4 and 2.9 million, but read 0 for most weights, and be off by up to 4 % for those above 0.05; float16 would take 38
million for 512 tokens.
"""

import base64
import math
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from attncli.base.arrays import Bools, Floats

# --- threads ------------------------------------------------------------------------------------------

LARGE = 2**17  # numbers of a layer, from which on it is

Layer = TypeVar("Layer")
Made = TypeVar("Made")


def of_each(make: Callable[[Layer], Made], layers: Sequence[Layer], size: int) -> list[Made]:
    """Return `make(layer)` of each layer, in several threads where layers are large. size: the numbers of a layer."""
    if size < LARGE:
        return list(map(make, layers))
    with ThreadPoolExecutor() as threads:
        return list(threads.map(make, layers))


# --- levels of weights --------------------------------------------------------------------------------

BELOW = 255  # the level of what is not stored

Levels = npt.NDArray[np.uint8]
Places = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class Scale:
    """The precision in which weights are stored.

    steps: levels for a factor of two. parts: places in a level, at most 65536. strongest: the number of weights of each
    row whose place is stored, however small they are; so are others in the level of the weakest of them. floor: the
    other weights are stored above about this share of 1 / keys; 0 stores all.
    """

    steps: float
    parts: int
    strongest: int
    floor: float

    def depth(self, keys: int) -> int:
        """Return the level from which on only the strongest weights of a row are stored."""
        if not self.floor:
            return BELOW
        return min(BELOW, int(np.ceil(self.steps * np.log2(keys / self.floor))))

    def least(self, keys: int) -> float:
        """Return an upper bound of the weights that are not stored."""
        return 2.0 ** ((0.5 / self.parts - self.depth(keys)) / self.steps)

    @property
    def error(self) -> float:
        """The largest error of the strongest weights of a row, as a share of the weight."""
        return 2.0 ** (1 / (self.steps * self.parts)) - 1

    @property
    def rest(self) -> float:
        """The largest error of the other weights that are stored, as a share of the weight."""
        return 2.0 ** (0.5 / self.steps) - 1

    @property
    def middle(self) -> float:
        """The place in the middle of a level, which no stored place is."""
        return 0.5 - 0.5 / self.parts


def layer_bytes(layer: Floats, scale: Scale) -> list[bytes]:
    """Return a layer's weights `[head, query, key]` in parts of similar bytes.

    First the number of places of each head, uint32; then the levels, uint8 `[head, key, query]`, as the weights of a
    key are similar; then the places, uint16, in the order `[head, query, key]`. The low bytes of all numbers come
    before the high ones, which are mostly 0.
    """
    levels, places = levels_of(layer, scale)
    refined = is_refined(levels, scale)
    counts = np.count_nonzero(refined, axis=(1, 2)).astype("<u4")
    return [*planes(counts), levels.swapaxes(1, 2).tobytes(), *planes(places[refined])]


def planes(numbers: npt.NDArray[np.uint16 | np.uint32]) -> list[bytes]:
    return [plane.tobytes() for plane in numbers.ravel().view(np.uint8).reshape(-1, numbers.itemsize).T]


def levels_of(layer: Floats, scale: Scale) -> tuple[Levels, Places]:
    """Return the level of each weight, BELOW where it is not stored, and its place in the level."""
    levels, places = np.empty(layer.shape, dtype=np.uint8), np.empty(layer.shape, dtype="<u2")
    for head, weights in enumerate(layer):  # one at a time: the numbers on the way take ten times the room
        with np.errstate(divide="ignore"):  # of nothing
            exact = -scale.steps * scale.parts * np.log2(np.minimum(weights, 1), dtype=np.float64)
        whole = np.rint(np.minimum(exact, BELOW * scale.parts)).astype(np.int32)
        levels[head], places[head] = np.divmod(whole, scale.parts)
    levels[~is_refined(levels, scale) & (levels >= scale.depth(layer.shape[-1]))] = BELOW
    return levels, places


def is_refined(levels: Levels, scale: Scale) -> Bools:
    """Return which weights are in the levels of the strongest of their row, so that their place is stored."""
    last = min(scale.strongest, levels.shape[-1]) - 1
    weakest = np.partition(levels, last, axis=-1)[..., last : last + 1]
    refined: Bools = (levels <= weakest) & (levels < BELOW)
    return refined


def read_layer(data: bytes, shape: tuple[int, int, int], scale: Scale) -> Floats:
    """Return the weights `[head, query, key]` that a page reads from a layer's bytes."""
    heads, queries, keys = shape
    rest = np.frombuffer(data, np.uint8)
    ends = 4 * heads, 4 * heads + heads * queries * keys
    levels = rest[ends[0] : ends[1]].reshape(heads, keys, queries).swapaxes(1, 2)
    low, high = rest[ends[1] :].reshape(2, -1)
    places = np.full(shape, scale.middle)
    places[is_refined(levels, scale)] = (low + 256.0 * high) / scale.parts
    return np.where(levels == BELOW, 0, 2 ** (-(levels + places) / scale.steps)).astype(np.float32)


# --- weights as text ----------------------------------------------------------------------------------

# From fine to coarse, and how many characters a weight may take so that a page of so many weights can be mailed.
# Twelve are ten and the two special tokens of a text, which a filter may leave out.
SCALES = (Scale(2, 16384, 65536, 0), Scale(4, 1024, 12, 0.02), Scale(3, 512, 12, 0.1), Scale(2, 512, 12, 0.15))
ROOM = ((200_000, math.inf), (2_000_000, 1.0), (8_000_000, 0.75), (1_000_000_000_000, 0.43))
ROWS = 64  # of a head, which are packed to find out how much its weights take
TRIED = 64  # layers, from the first text to the last


def pick_scale(maps: Sequence[Floats]) -> Scale:
    """Return the finest scale for all these maps `[layer, head, query, key]` that keeps a page small."""
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
    """Return ROWS neighbouring queries of each head, `[head, ROWS, key]`; each head has others, from first to last."""
    heads, queries = layer.shape[:2]
    rows = min(ROWS, queries)
    starts = ((np.arange(heads) + 0.5) / heads * (queries - rows)).astype(int)
    return np.stack([head[start : start + rows] for head, start in zip(layer, starts, strict=True)])


def pack_layers(layers: Sequence[Floats], scale: Scale) -> list[str]:
    """Return each layer's weights `[head, query, key]` as text, as levels.js reads them."""
    return of_each(lambda layer: pack_layer(layer, scale), layers, largest(layers))


def largest(layers: Sequence[Floats]) -> int:
    """Return the number of weights of the largest layer."""
    return max((layer.size for layer in layers), default=0)


def pack_layer(layer: Floats, scale: Scale) -> str:
    return packed(*layer_bytes(layer, scale), strategy=zlib.Z_FILTERED)  # levels repeat little


def unpack_layer(text: str, shape: tuple[int, int, int], scale: Scale) -> Floats:
    """Return the weights `[head, query, key]` that a page reads from a layer's text."""
    return read_layer(zlib.decompress(base64.b64decode(text)), shape, scale)


def packed(*parts: bytes, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> str:
    """Return bytes as base64 of a zlib stream, each part with a code of its own. strategy: one of zlib's."""
    stream = zlib.compressobj(6, strategy=strategy)
    blocks = [stream.compress(part) + stream.flush(zlib.Z_BLOCK) for part in parts if part]
    return base64.b64encode(b"".join(blocks) + stream.flush()).decode("ascii")


# --- chunks -------------------------------------------------------------------------------------------

Packed = TypeVar("Packed", str, bytes)


@dataclass(frozen=True)
class Form(Generic[Packed]):
    """The form in which numbers are written.

    layers: writes the weights `[head, query, key]` of each layer. one: writes anything else. small: whether room is
    short.
    """

    layers: Callable[[Sequence[Floats], Scale], list[Packed]]
    one: Callable[[bytes], Packed]
    small: bool


def plain_layers(layers: Sequence[Floats], scale: Scale) -> list[bytes]:
    """Return each layer's weights as bytes, as levels.js reads them."""
    return of_each(lambda layer: b"".join(layer_bytes(layer, scale)), layers, largest(layers))


TEXTS: Form[str] = Form(pack_layers, packed, small=True)
PLAIN: Form[bytes] = Form(plain_layers, bytes, small=False)


class Chunks(Generic[Packed]):
    """Chunks of numbers by name, which in a page is the id of their element. prefix: how the names begin."""

    def __init__(self, form: Form[Packed], prefix: str = "") -> None:
        self.form: Form[Packed] = form
        self.prefix = prefix
        self.there: dict[str, Packed] = {}

    def add(self, one: Packed, kind: str = "chunk") -> str:
        """Add a chunk and return its name."""
        name = f"{self.prefix}{kind}{len(self.there)}"
        self.there[name] = one
        return name

    def add_layers(self, layers: Sequence[Floats], scale: Scale) -> list[str]:
        """Add the weights of each layer and return their names."""
        return [self.add(one) for one in self.form.layers(layers, scale)]

    @property
    def room(self) -> float:
        """The room for q and k beside the chunks that are there."""
        return sum(map(len, self.there.values())) if self.form.small else math.inf
