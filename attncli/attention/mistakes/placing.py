"""Positions, added or as rotations, with every step a field of its own; and steps as they should not be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.attention.mistakes.formula import same


class Placed(NamedTuple):
    """What positions are given to.

    x `[batch, token, d]`; to be turned `[which, batch, head, token, d]`, which: queries and keys, or one of them.
    positions: int `[token]`. table: learned vectors `[position, d]`, or None.
    """

    x: Tensor
    positions: Tensor
    table: Tensor | None = None


# --- the steps, as they should be -----------------------------------------------------------------------


def count(positions: Tensor, shape: Sequence[int]) -> Tensor:
    """The number of every token, broadcasts to `shape`, `[.., token]`."""
    return positions


@cache
def rates(d: int, base: float = 10_000.0) -> Tensor:
    """base^(-2i / d), one for every two elements, `[d]`."""
    element = torch.arange(d, dtype=torch.float64)
    return base ** -((element - element % 2) / d)


def angles(positions: Tensor, rates: Tensor) -> Tensor:
    """`[.., token, d]`, in radians."""
    return positions[..., None] * rates


def waves(angles: Tensor) -> Tensor:
    """Sines where the element is even, cosines where it is odd."""
    return torch.where(torch.arange(angles.shape[-1]) % 2 == 0, angles.sin(), angles.cos())


def join(x: Tensor, vectors: Tensor) -> Tensor:
    return x + vectors


@dataclass(frozen=True)
class Added:
    """x + PE, with PE(pos, 2i) = sin(pos / 10000^(2i / d)), PE(pos, 2i + 1) = cos(the same), or of a learned table.

    Vaswani et al. 2017, section 3.5. Every field is a step; the defaults are the formula.
    """

    count: Callable[[Tensor, Sequence[int]], Tensor] = count
    rates: Callable[[int], Tensor] = rates
    angles: Callable[[Tensor, Tensor], Tensor] = angles
    waves: Callable[[Tensor], Tensor] = waves
    arrange: Callable[[Tensor], Tensor] = same
    embed: Callable[[Tensor], Tensor] = same
    join: Callable[[Tensor, Tensor], Tensor] = join

    def __call__(self, given: Placed) -> Tensor:
        """Raises IndexError where a variant asks for a position that the table doesn't have."""
        places = self.count(given.positions, given.x.shape[:-1])
        if given.table is None:
            vectors = self.arrange(self.waves(self.angles(places.double(), self.rates(given.x.shape[-1]))))
        else:
            vectors = given.table[places]
        return self.join(self.embed(given.x), vectors)


def whole(d: int) -> int:
    return d


def turn(x: Tensor, angles: Tensor) -> Tensor:
    """Elements 2i and 2i + 1 by the angle of both, which stands at each of them."""
    return x * angles.cos() + quarter(x) * angles.sin()


def quarter(x: Tensor) -> Tensor:
    """Every pair of neighbours turned by a quarter: (a, b) -> (-b, a)."""
    return torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)


def every(turned: Tensor, x: Tensor) -> Tensor:
    return turned


@dataclass(frozen=True)
class Turned:
    """Pair i of a vector at position p is turned by the angle p · 10000^(-2i / d)   (Su et al. 2021, equation 34).

    Every field is a step; the defaults are the formula. which: of queries and keys, what is turned.
    """

    count: Callable[[Tensor, Sequence[int]], Tensor] = count
    rotated: Callable[[int], int] = whole
    rates: Callable[[int], Tensor] = rates
    angles: Callable[[Tensor, Tensor], Tensor] = angles
    turn: Callable[[Tensor, Tensor], Tensor] = turn
    which: Callable[[Tensor, Tensor], Tensor] = every

    def __call__(self, given: Placed) -> Tensor:
        rotated = self.rotated(given.x.shape[-1])
        places = self.count(given.positions, given.x.shape[:-1]).double()
        x = given.x[..., :rotated]
        made = self.turn(x, self.angles(places, self.rates(rotated)))
        return torch.cat([self.which(made, x), given.x[..., rotated:]], dim=-1)


# --- the steps, as they should not be, or as others have them ---------------------------------------------


def from_(first: int, positions: Tensor, shape: Sequence[int]) -> Tensor:
    return positions + first


def over(dim: int, positions: Tensor, shape: Sequence[int]) -> Tensor:
    """Counted along another dimension: 0 for the first text, 1 for the second."""
    return torch.arange(shape[dim]).reshape(-1, *(1,) * (-dim - 1))


def rates_of(exponent: Callable[[Tensor, int], Tensor], d: int) -> Tensor:
    return 10_000.0 ** -exponent(torch.arange(d, dtype=torch.float64), d)


def inclusive(d: int) -> Tensor:
    """From 1 to 1/10000, both among them."""
    pair = torch.arange(d) // 2
    return 10_000.0 ** -(pair.double() / max(d // 2 - 1, 1))


def halves(vectors: Tensor) -> Tensor:
    """Elements that are even before those that are odd."""
    return torch.cat([vectors[..., 0::2], vectors[..., 1::2]], dim=-1)


def neighbours(x: Tensor) -> Tensor:
    """What `halves` took apart."""
    return torch.stack(x.chunk(2, dim=-1), dim=-1).flatten(-2)


def turn_halves(x: Tensor, angles: Tensor, pairs: Callable[[Tensor, Tensor], Tensor] = turn) -> Tensor:
    """Elements i and i + d / 2."""
    return halves(pairs(neighbours(x), angles))


def turn_back(x: Tensor, angles: Tensor) -> Tensor:
    return turn(x, -angles)


def turn_without_sign(x: Tensor, angles: Tensor) -> Tensor:
    swapped = torch.stack([x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)
    return x * angles.cos() + swapped * angles.sin()


def turn_half_as_neighbours(x: Tensor, angles: Tensor) -> Tensor:
    return x * angles.cos() + halves(quarter(neighbours(x))) * angles.sin()


def turn_neighbours_as_half(x: Tensor, angles: Tensor) -> Tensor:
    return x * halves(angles.cos()) + quarter(x) * halves(angles.sin())


def first_only(turned: Tensor, x: Tensor) -> Tensor:
    return torch.cat([turned[:1], x[1:]])
