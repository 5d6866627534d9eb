"""Scores that depend on the positions of queries and keys, as an alternative to position vectors added to the input.

    s(q_i, k_j) = scale · turn(q_i, i) · turn(k_j, j) + Σ terms(i, j)

Either the vectors are rotated by an angle proportional to the position (`rotary`), or terms that depend on the distance
are added (`relative`). A `PositionalScore` is a scoring function like those of `scores`, with access to its parts.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

Turning = Callable[[Tensor], Tensor]


class Where(NamedTuple):
    """Some heads, queries and keys of a text, counted from 0."""

    heads: Sequence[int]
    queries: slice
    keys: slice

    def offsets(self, device: torch.device | None = None) -> Tensor:
        """Return the distance of each key after each query: j - i, `[query, key]`."""
        queries = torch.arange(self.queries.start, self.queries.stop, device=device)
        keys = torch.arange(self.keys.start, self.keys.stop, device=device)
        return keys - queries[:, None]


class PositionalScore(nn.Module):
    """The scaled dot product. Subclasses rotate the vectors or add terms.

    names: of the terms. by_offset: the terms depend only on the distance of query and key. turned: the vectors that
    positions rotate, if any.
    """

    names: tuple[str, ...] = ()
    turned: tuple[str, ...] = ("query", "key")
    by_offset = False

    @property
    def has_terms(self) -> bool:
        return bool(self.names)

    def scale(self, d_k: int) -> float:
        """Return the factor of the dot product: 1 / sqrt(d_k)."""
        return float(d_k**-0.5)

    def turning(self, positions: Tensor, dtype: torch.dtype) -> Turning:
        """Return the function that rotates `[..., head, token, head_dim]` vectors at these positions `[token]`."""
        return lambda x: x

    def turn(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotate queries or keys at these positions."""
        return self.turning(positions, x.dtype)(x)

    def terms(self, query: Tensor, key: Tensor, where: Where) -> dict[str, Tensor]:
        """Return the terms added to the scaled dot product, by name. Each broadcasts to `[..., head, query, key]`."""
        return {}

    def forward(self, query: Tensor, key: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """Return the scores of complete texts, `[..., head, query, head_dim]` and `[..., head, key, head_dim]` ->
        `[..., head, query, key]`. heads: the numbers of these heads, by default all.
        """
        where = Where(
            range(query.shape[-3]) if heads is None else heads, slice(0, query.shape[-2]), slice(0, key.shape[-2])
        )
        turned, met = (self.turn(x, torch.arange(x.shape[-2], device=x.device)) for x in (query, key))
        scores = turned * self.scale(query.shape[-1]) @ met.mT
        for term in self.terms(query, key, where).values():
            scores = scores + term
        return scores
