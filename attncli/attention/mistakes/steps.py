"""Wrong steps, to replace those of the formula."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from attncli.attention.mistakes.formula import Affine, Projections, Sizes, causal, scale


def softmax_over(*dims: int, maximum: bool = True, of_rows: bool = False) -> Callable[[Tensor, Sizes], Tensor]:
    """Return softmax over these dimensions of `[batch, head, query, key]` together.

    maximum: subtract it first; it is taken over the same dimensions or, with of_rows, over the keys.
    """

    def normalise(scores: Tensor, sizes: Sizes) -> Tensor:
        most = scores.amax(-1 if of_rows else dims, keepdim=True)
        powers = (scores - most.masked_fill(most == -torch.inf, 0.0)).exp() if maximum else scores.exp()
        return powers / powers.sum(dims, keepdim=True)

    return normalise


def softmax_without_keepdims(most: str, total: str) -> Callable[[Tensor, Sizes], Tensor]:
    """Subtract a maximum, take exp and divide by a sum.

    "row": one for each query; "column": for each key; "turned": for each query, but applied to the key
    of the same number; "all": one for all; "none": none.
    """
    axes = {"row": (-1,), "column": (-2,), "turned": (-1,), "all": (-2, -1)}

    def normalise(scores: Tensor, sizes: Sizes) -> Tensor:
        def turn(x: Tensor, kind: str) -> Tensor:
            return x.mT if kind == "turned" else x

        if most != "none":
            maxima = scores.amax(axes[most], keepdim=True)
            scores = scores - turn(maxima.masked_fill(maxima == -torch.inf, 0.0), most)
        powers = scores.exp()
        return powers / turn(powers.sum(axes[total], keepdim=True), total)

    return normalise


def with_temperature(scores: Tensor, sizes: Sizes, temperature: float) -> Tensor:
    return scale(scores, sizes) / temperature


def without_biases(by: Projections, names: Sequence[str]) -> Projections:
    made = {name: getattr(by, name) for name in names}
    return by._replace(**{name: Affine(one.weight) for name, one in made.items() if one and one.bias is not None})


def transposed(by: Projections, names: Sequence[str]) -> Projections:
    """Use x W instead of x Wᵀ. The formula then raises RuntimeError if a matrix is not square."""
    made = {name: Affine(linear.weight.mT, linear.bias) for name in names if (linear := getattr(by, name)) is not None}
    return by._replace(**made)


def swapped(by: Projections) -> Projections:
    return by._replace(query=by.key, key=by.query)


def split_by_view(x: Tensor, heads: int) -> Tensor:
    return x.reshape(x.shape[0], heads, x.shape[1], -1)


def split_interleaved(x: Tensor, heads: int) -> Tensor:
    """Give element i to head i mod heads: einops' "b t (d h) -> b h t d"."""
    return x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)


def join_interleaved(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).flatten(-2)


def join_by_view(x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], x.shape[2], -1)


def join_with_texts(*axes: int) -> Callable[[Tensor], Tensor]:
    """Read `[batch · head, token, d]` back as `[head, batch, token, d]`. axes: their order after that."""

    def join(x: Tensor) -> Tensor:
        texts, heads, tokens, size = x.shape
        return x.reshape(heads, texts, tokens, size).permute(axes).reshape(texts, tokens, heads * size)

    return join


def of_another_text(
    heads_first: bool, change: Callable[[Tensor, Tensor], Tensor]
) -> Callable[[Tensor, Tensor], Tensor]:
    """Repeat the texts' masks for the heads in the wrong order. heads_first: in the scores, heads come first.

    change: hides or forbids with the mask.
    """

    def changed(scores: Tensor, mask: Tensor) -> Tensor:
        texts, heads = scores.shape[:2]
        if mask.dim() < 4 or mask.shape[0] == 1:
            return change(scores, mask)
        text, head = torch.arange(texts)[:, None], torch.arange(heads)
        place = (head * texts + text) // heads if heads_first else (text * heads + head) % texts
        return change(scores, mask.expand(texts, 1, *mask.shape[2:])[place, 0])

    return changed


def padding_of_queries(real: Tensor) -> Tensor:
    """Put a padding mask `[batch, token]` on the axis of the queries, `[batch, 1, query, 1]`."""
    return real[:, None, :, None]


def filled_with(number: float | None, most: bool = False) -> Callable[[Tensor, Tensor], Tensor]:
    """Fill hidden scores with a number; None: the lowest of the dtype. most: no lower than that of the dtype."""
    return partial(fill, number=number, most=most)


def fill(scores: Tensor, mask: Tensor, number: float | None, most: bool = False) -> Tensor:
    least = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, least if number is None else max(number, least) if most else number)


def added(number: float | None) -> Callable[[Tensor, Tensor], Tensor]:
    return partial(add, number=number)


def add(scores: Tensor, mask: Tensor, number: float | None) -> Tensor:
    return scores + fill(torch.zeros_like(scores), mask, number)


def hide_some_weakly(scores: Tensor, mask: Tensor, number: float, which: str, adds: bool) -> Tensor:
    """Fill a number into some of the hidden scores, or add it to them, and hide the others.

    which: the keys that are hidden from all queries ("padding"), the others ("pairs"), or those up to the query, where
    queries are the last tokens ("past") or the first ("start").
    """
    hidden = (~mask).expand(scores.shape)
    of_all = hidden.all(-2, keepdim=True) & hidden
    queries, keys = scores.shape[-2:]
    past = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries if which == "past" else 0)
    weak = {"padding": of_all, "pairs": hidden & ~of_all}.get(which, hidden & past)
    return torch.where(weak, scores + number if adds else number, scores.masked_fill(hidden, -torch.inf))


def keep_scores(scores: Tensor, sizes: Sizes) -> Tensor:
    return scores


def keep(first: Tensor, mask: Tensor) -> Tensor:
    return first


def shifted(tokens: int) -> Callable[[int, int, int], Tensor]:
    return lambda queries, keys, first: causal(queries, keys, first + tokens)


def from_the_start(queries: int, keys: int) -> int:
    """Treat the queries as the first tokens, as torch's fused kernel does."""
    return 0
