"""Numbers as text that a page can hold: fewer bits where there are many, compressed, in base64.

A weight w is stored as the level round(levels * w ** (1 / power)), and read as (level / levels) ** power, so that
small weights are stored more finely than large ones. Nowhere is the error above power / (2 * levels), half a step
where steps are widest, at w = 1.
"""

import base64
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attncli.base.arrays import Floats


@dataclass(frozen=True)
class Scale:
    """How weights are stored: level = round(levels * w ** (1 / power)); levels is at most 65535."""

    levels: int
    power: float

    @property
    def error(self) -> float:
        """The most by which a stored weight may differ from the true one."""
        return self.power / (2 * self.levels)


# From fine to coarse, and how many characters a weight may take so that a page of so many weights can be mailed.
SCALES = (Scale(65535, 2), Scale(512, 2), Scale(384, 1.5), Scale(256, 1))
ROOM = ((200_000, 4.0), (2_000_000, 1.03), (8_000_000, 0.93), (1_000_000_000_000, 0.61))
ROWS = 32  # of a head, which are packed to find out how much its weights take


def pick_scale(maps: Sequence[Floats]) -> Scale:
    """The finest scale for all these maps `[layer, head, query, key]` that keeps a page small."""
    count = sum(one.size for one in maps)
    room = next(room for most, room in ROOM if count <= most)
    samples = [some_rows(layer) for one in maps for layer in (one[0], one[-1])]
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
    """Each layer's weights `[head, query, key]` as text, as data.js reads them."""
    with ThreadPoolExecutor() as threads:  # compressing lets other threads run
        return list(threads.map(lambda layer: packed(level_bytes(layer, scale)), layers))


def level_bytes(layer: Floats, scale: Scale) -> bytes:
    """The low bytes of all levels, then the high ones (mostly 0), each `[head, query, key]`."""
    shares = np.minimum(layer, np.float32(1)) ** np.float32(1 / scale.power)
    levels: npt.NDArray[np.uint16] = np.rint(shares * np.float32(scale.levels)).astype("<u2")
    return levels.view(np.uint8).reshape(-1, 2).T.tobytes()


def unpack_layer(text: str, shape: tuple[int, int, int], scale: Scale) -> Floats:
    """What a page reads from a layer's text: weights `[head, query, key]`, of this shape."""
    numbers = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8).reshape(2, -1)
    levels = numbers[0] + 256.0 * numbers[1]
    weights: Floats = ((levels / scale.levels) ** scale.power).astype(np.float32)
    return weights.reshape(shape)


def packed(data: bytes) -> str:
    """Bytes as base64 of a zlib stream."""
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")
