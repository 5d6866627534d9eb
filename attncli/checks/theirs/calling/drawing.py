"""Inputs to try somebody's attention on, all drawn from a seed."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.attention.mistakes import Inputs, Projections
from attncli.checks.code.subject import Made
from attncli.checks.theirs.calling.forms import LENGTHS, Encoding
from attncli.checks.theirs.calling.roles import Roles

VECTORS = ("query", "key", "value")


class Shape(NamedTuple):
    """How many there are of what; no two alike, so that one can't be taken for another."""

    batch: int = 3
    heads: int = 4
    queries: int = 5
    keys: int = 7
    d_k: int = 8
    d_v: int = 8
    key_heads: int | None = None


def draw(shape: Shape, projections: Projections | None, roles: Roles, crosses: bool = True, seed: int = 0) -> Inputs:
    """Vectors of variance 1. crosses: keys and values are another text's; else the three are of one length.

    Where there is one parameter for two of them, or for all, these are one tensor.
    """
    generator = torch.Generator().manual_seed(seed)
    sizes = (shape.d_k, shape.d_k, shape.d_v) if projections is None else sizes_of(projections)
    tokens = (shape.queries if crosses else shape.keys, shape.keys, shape.keys)
    of_keys = shape.heads if shape.key_heads is None else shape.key_heads
    leading = (
        [(shape.batch,)] * 3 if projections is not None else [(shape.batch, n) for n in (shape.heads, of_keys, of_keys)]
    )
    drawn = [
        torch.randn(*first, *size, generator=generator, dtype=torch.float64)
        for first, *size in zip(leading, tokens, sizes, strict=True)
    ]
    query, key, value = drawn
    if roles.has("x") and not roles.crosses:
        key = value = query
    elif not roles.has("value"):
        value = key
    return Inputs(query, key, value, shape.heads, projections)


def sizes_of(projections: Projections) -> tuple[int, int, int]:
    """Of the vectors that are projected."""
    return tuple(linear.weight.shape[1] for linear in projections[:3])  # type: ignore[return-value]


def draw_weights(made: Made, seed: int = 0) -> dict[str, Tensor]:
    """For every weight numbers about 0, of a variance that keeps scores' about 1 and more; no bias is 0."""
    generator = torch.Generator().manual_seed(seed)
    drawn = {}
    for name, weight in made.weights.items():
        across = max(weight.shape[-2:], default=1) if len(weight.shape) > 1 else 4
        numbers = torch.randn(weight.shape, generator=generator) * 1.3 / across**0.5
        drawn[name] = numbers.double()  # which float32 has, so that a module that is made in it loses nothing
    return drawn


def some_pairs(batch: int, queries: int, keys: int, seed: int = 0, diagonal: bool = False) -> Tensor:
    """A mask `[batch, 1, query, key]` drawn with a half of it allowed; each query sees one key at least.

    diagonal: each sees itself, so that something is left to one that hides the future by itself.
    """
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(batch, 1, queries, keys, generator=generator) < 0.5
    first = torch.randint(keys, (batch, 1, queries, 1), generator=generator)
    return mask.scatter(-1, first, True) | (torch.eye(queries, keys, dtype=torch.bool) & diagonal)


def some_padding(batch: int, keys: int) -> Tensor:
    """Texts of several lengths, `[batch, key]`: the first has no [PAD]."""
    lengths = keys - torch.arange(batch) * 2 % (keys - 1)
    return torch.arange(keys) < lengths[:, None]


def mask_for(encoding: Encoding, batch: int, queries: int, keys: int, seed: int = 0) -> Tensor:
    """One that this encoding can say: `[1 or batch, 1, query, key]`, or `[batch, key]` where it says keys alone."""
    if "query" in encoding.shape:
        return some_pairs(batch if "batch" in encoding.shape else 1, queries, keys, seed)
    padding = some_padding(batch, keys)
    return padding if "batch" in encoding.shape or encoding.shape == LENGTHS else padding[-1:].expand(batch, -1)


def with_vectors(inputs: Inputs, change: Callable[[Tensor], Tensor], names: Sequence[str] = VECTORS) -> Inputs:
    """With these of its vectors changed; what is one tensor stays one."""
    made = {id(x): change(x) for x in (getattr(inputs, name) for name in names)}
    return inputs._replace(**{name: made.get(id(x), x) for name in VECTORS for x in [getattr(inputs, name)]})


def some_tokens(inputs: Inputs, tokens: Sequence[int] | Tensor) -> Inputs:
    """Some tokens, in this order, of a text to itself."""
    place = torch.as_tensor(tokens)
    return with_vectors(inputs, lambda x: x[..., place, :])
