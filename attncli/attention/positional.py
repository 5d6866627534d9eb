"""Scores that know where queries and keys stand, beside vectors of positions that are added to the input.

    s(q_i, k_j) = scale · turn(q_i, i) · turn(k_j, j) + Σ terms(i, j)

Either the vectors are turned by an angle that grows with the position (`rotary`), or terms are added that depend on the
distance (`relative`). A `PositionalScore` is a scoring function like those of `scores`; its parts can be had by
themselves.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

Turning = Callable[[Tensor], Tensor]


class Where(NamedTuple):
    """Which heads, which queries and which keys of a text these are, counted from 0."""

    heads: Sequence[int]
    queries: slice
    keys: slice

    def offsets(self, device: torch.device | None = None) -> Tensor:
        """Of every query and key, how far behind the query the key stands: j - i, `[query, key]`."""
        queries = torch.arange(self.queries.start, self.queries.stop, device=device)
        keys = torch.arange(self.keys.start, self.keys.stop, device=device)
        return keys - queries[:, None]


class PositionalScore(nn.Module):
    """The scaled dot product. What knows of positions turns the vectors, or adds terms.

    names: of the terms; by_offset: whether these say the same of all queries and keys that stand as far apart.
    turned: what positions turn, where they turn anything.
    """

    names: tuple[str, ...] = ()
    turned: tuple[str, ...] = ("query", "key")
    by_offset = False

    @property
    def has_terms(self) -> bool:
        return bool(self.names)

    def scale(self, d_k: int) -> float:
        """What the dot product is multiplied with: 1 / sqrt(d_k)."""
        return float(d_k**-0.5)

    def turning(self, positions: Tensor, dtype: torch.dtype) -> Turning:
        """What turns queries or keys `[..., head, token, head_dim]` at these positions `[token]`, so that they meet."""
        return lambda x: x

    def turn(self, x: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys at these positions, as they meet."""
        return self.turning(positions, x.dtype)(x)

    def terms(self, query: Tensor, key: Tensor, where: Where) -> dict[str, Tensor]:
        """What is added to the scaled dot product, by name; each broadcasts to `[..., head, query, key]`."""
        return {}

    def forward(self, query: Tensor, key: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """The scores of whole texts, `[..., head, query, head_dim]` and `[..., head, key, head_dim]` -> `[..., head,
        query, key]`. heads: which ones these are, by default all.
        """
        where = Where(
            range(query.shape[-3]) if heads is None else heads, slice(0, query.shape[-2]), slice(0, key.shape[-2])
        )
        turned, met = (self.turn(x, torch.arange(x.shape[-2], device=x.device)) for x in (query, key))
        scores = turned * self.scale(query.shape[-1]) @ met.mT
        for term in self.terms(query, key, where).values():
            scores = scores + term
        return scores
