"""Numbers as text that a page can hold: as exact as there is room for, compressed, in base64."""

import base64
import math
import zlib
from collections.abc import Sequence

import numpy as np

from attncli.base.arrays import Floats
from attncli.render.page.levels import Scale, layer_bytes, read_layer
from attncli.render.page.threads import of_each

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
