"""Wrong steps, to replace those of the formula."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attncli.attention.mistakes.formula import Affine, Projections, Sizes, causal, scale


def softmax_over(*dims: int, maximum: bool = True) -> Callable[[Tensor, Sizes], Tensor]:
    """Return softmax over these dimensions of `[batch, head, query, key]` together. maximum: subtract it first."""

    def normalise(scores: Tensor, sizes: Sizes) -> Tensor:
        most = scores.amax(dims, keepdim=True)
        powers = (scores - most.masked_fill(most == -torch.inf, 0.0)).exp() if maximum else scores.exp()
        return powers / powers.sum(dims, keepdim=True)

    return normalise


def with_temperature(scores: Tensor, sizes: Sizes, temperature: float) -> Tensor:
    return scale(scores, sizes) / temperature


def without_biases(by: Projections, names: Sequence[str]) -> Projections:
    return by._replace(**{name: Affine(linear.weight) for name in names if (linear := getattr(by, name)) is not None})


def transposed(by: Projections, names: Sequence[str]) -> Projections:
    """Use x W instead of x Wᵀ. The formula then raises RuntimeError if a matrix is not square."""
    made = {name: Affine(linear.weight.mT, linear.bias) for name in names if (linear := getattr(by, name)) is not None}
    return by._replace(**made)


def swapped(by: Projections) -> Projections:
    return by._replace(query=by.key, key=by.query)


def unprojected(linear: Affine) -> Affine:
    return Affine(torch.eye(*linear.weight.shape, dtype=linear.weight.dtype))


def split_by_view(x: Tensor, heads: int) -> Tensor:
    return x.reshape(x.shape[0], heads, x.shape[1], -1)


def split_interleaved(x: Tensor, heads: int) -> Tensor:
    """Give element i to head i mod heads: einops' "b t (d h) -> b h t d"."""
    return x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)


def join_interleaved(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).flatten(-2)


def join_by_view(x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], x.shape[2], -1)


def filled_with(number: float | None, most: bool = False) -> Callable[[Tensor, Tensor], Tensor]:
    """Fill hidden scores with a number; None: the least of the dtype. most: at least that of the dtype."""

    def hide(scores: Tensor, mask: Tensor) -> Tensor:
        least = torch.finfo(scores.dtype).min
        return scores.masked_fill(~mask, least if number is None else max(number, least) if most else number)

    return hide


def added(number: float | None) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, mask: scores + filled_with(number)(torch.zeros_like(scores), mask)


def multiplied_and_added(number: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Add hidden · number, which is 0 · -inf if half precision turns the number into -inf."""
    return lambda scores, mask: scores + (~mask).to(scores.dtype) * scores.new_tensor(number)


def keep_scores(scores: Tensor, sizes: Sizes) -> Tensor:
    return scores


def keep(first: Tensor, mask: Tensor) -> Tensor:
    return first


def shifted(tokens: int) -> Callable[[int, int, int], Tensor]:
    return lambda queries, keys, first: causal(queries, keys, first + tokens)


def from_the_start(queries: int, keys: int) -> int:
    """Take the queries for the first tokens, as torch's fused kernel does."""
    return 0
