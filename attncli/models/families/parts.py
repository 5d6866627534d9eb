"""Parts of a `ModelConfig` that a family may state: plain data.

How its attention is told where tokens stand, beside a table of positions, means what `attncli.attention` says, and
becomes that in `attncli.models.scoring`.
"""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Turned:
    """Rotary positions; the words are those of `attncli.attention.Rotary`."""

    rotated: int
    base: float
    interleaved: bool = False
    values: bool = False
    exact: bool = False
    stretch: float = 1.0


@dataclass(frozen=True)
class Biased:
    """A bias for each bucket of distances, which all layers share (`attncli.attention.RelativeBias`).

    furthest: from where on distances are alike.
    """

    buckets: int
    furthest: int


@dataclass(frozen=True)
class Disentangling:
    """Terms between content and positions (`attncli.attention.Disentangled`).

    kinds: the terms; span: offsets to either side that have a vector; near, furthest: of the logarithmic buckets.
    normed: whether the vectors are normalised; shared: whether the content's projections are theirs too.
    """

    kinds: tuple[str, ...]
    span: int
    near: int
    furthest: int
    normed: bool
    shared: bool


Positions = Turned | Biased | Disentangling


class Biases(NamedTuple):
    """Whether there is one: in the attention's projections, in the feed-forward part, in the norms.

    bare_keys: whether the projections that make keys have none all the same. down: in the feed-forward part's second
    projection, where that is not as in its first.
    """

    attention: bool = True
    feed_forward: bool = True
    norms: bool = True
    bare_keys: bool = False
    down: bool | None = None


class Conv(NamedTuple):
    """A convolution over neighbouring tokens: how many of them, an odd number, and in how many groups of elements."""

    tokens: int
    groups: int
    activation: str
