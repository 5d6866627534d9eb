"""Rotary positions: queries and keys are rotated, so that their dot product depends on their distance."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from attncli.attention.positional import PositionalScore, Turning


@dataclass(frozen=True)
class Rotary:
    """Pair i of a vector at position p is rotated by the angle p · base^(-2i / rotated)   (Su et al. 2021, equation
    34).

    The dot product of two vectors rotated by m θ and n θ equals that of rotations by (m - n) θ and 0. So it depends
    only on the difference of their positions (section 3.2).

    rotated: the number of rotated elements, from the first; even. interleaved: pairs are the elements 2i and 2i + 1, as
    in the paper; else i and i + rotated / 2 (GPT-NeoX, ModernBERT). values: values are rotated too, as in some of
    RoFormer's. exact: angles are computed in float64, whatever the dtype of sines and cosines, as in a precomputed
    table. stretch: a divisor of positions, so that longer texts have the angles of shorter ones (Chen et al. 2023,
    equation 2).
    """

    rotated: int
    base: float = 10_000.0
    interleaved: bool = False
    values: bool = False
    exact: bool = False
    stretch: float = 1.0

    def __post_init__(self) -> None:
        if self.rotated % 2 != 0:
            raise ValueError(f"elements are rotated in pairs: {self.rotated} is odd")

    def angles(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return cosine and sine for positions `[token]`, each `[token, rotated / 2]`.

        They are computed in float32, or in float64 for float64. At position 8,000 the two differ by about 1e-4.
        Networks were trained with float32, except those with a table.
        """
        if self.exact:  # on the CPU, since not every device supports float64
            exact = positions.cpu()[:, None] * self.rates(torch.float64)
            return exact.cos().to(positions.device, dtype), exact.sin().to(positions.device, dtype)
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        angles = positions[:, None].to(wide) * self.rates(wide, positions.device)
        return angles.cos().to(dtype), angles.sin().to(dtype)

    def rates(self, dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
        """Return the angle between neighbouring positions for each pair, `[rotated / 2]`, in radians."""
        pair = torch.arange(0, self.rotated, 2, dtype=dtype, device=device)
        return 1.0 / self.base ** (pair / self.rotated) / self.stretch

    def pairs(self) -> Tensor:
        """Return the two elements of every pair, int `[rotated / 2, 2]`."""
        elements = torch.arange(self.rotated)
        return elements.view(-1, 2) if self.interleaved else elements.view(2, -1).mT

    def turn(self, x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """Rotate x `[..., token, head_dim]` by the result of `angles`."""
        cos, sin = angles
        turned, rest = x[..., : self.rotated], x[..., self.rotated :]
        if self.interleaved:
            first, second = turned[..., 0::2], turned[..., 1::2]
        else:
            first, second = turned.chunk(2, dim=-1)
        pairs = (first * cos - second * sin, second * cos + first * sin)
        joined = torch.stack(pairs, dim=-1).flatten(-2) if self.interleaved else torch.cat(pairs, dim=-1)
        return torch.cat([joined, rest], dim=-1) if rest.shape[-1] else joined


class RotaryScore(PositionalScore):
    """s(q_i, k_j) = turn(q_i, i) · turn(k_j, j) / sqrt(d_k)   (Su et al. 2021, equation 16)."""

    def __init__(self, rotary: Rotary) -> None:
        super().__init__()
        self.rotary = rotary
        if rotary.values:
            self.turned = (*self.turned, "value")

    def turning(self, positions: Tensor, dtype: torch.dtype) -> Turning:
        return partial(self.rotary.turn, angles=self.rotary.angles(positions, dtype))
