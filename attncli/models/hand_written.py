"""Find attention that a network's own code computes by hand, while it runs, and build a block from it.

    scores = query @ key.mT / scale + bias + mask      a product of two activations, which is followed
    weights = softmax(scores)                          to a softmax over its keys
    output = weights @ value                           and on to the values

Scores are followed through scales, terms, masks, and changes of shape and dtype. Any other change becomes a term: the
difference from the scaled product.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from attncli.models.block import Block
from attncli.models.calls import block_of

PRODUCTS = {"matmul", "__matmul__", "bmm", "baddbmm", "einsum"}
_SOFTMAXES = {"softmax", "_safe_softmax"}
_SAME = {
    "view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "contiguous", "clone", "dropout",
    "to", "type", "type_as", "float", "double", "half", "bfloat16",
}  # fmt: skip
_MASKING = {"masked_fill", "masked_fill_", "where"}
_HIDDEN = -9e3  # masks add less than this: -1e4 in old networks, in others the lowest number of the dtype

_ROUNDED = 1e-5  # differences of scores below this share of the largest are rounding


class Product(NamedTuple):
    """A product of matrices, `left @ right`, of `[..., row, inner]` and `[..., inner, column]`.

    scale: its factor. added: the tensor added to it. restore: converts `[..., row, column]` to the layout of the call's
    result.
    """

    left: Tensor
    right: Tensor
    scale: float = 1.0
    added: Tensor | None = None
    restore: Callable[[Tensor], Tensor] = lambda result: result

    def result(self, output: Tensor) -> Tensor:
        """Return outputs `[text, head, row, column]` in the layout of the call's result."""
        return self.restore(output.reshape(*self.left.shape[:-1], output.shape[-1]).to(self.left.dtype))


class WrittenScores(NamedTuple):
    """Scores of queries and keys: scale · query @ key + terms, if `exact` and not masked.

    query `[..., query, size]`, key `[..., size, key]`.
    """

    query: Tensor
    key: Tensor
    scale: float
    terms: tuple[Tensor, ...]
    exact: bool


class WrittenWeights(NamedTuple):
    """Weights `[..., query, key]`: the softmax of `final`, masked scores. changed: they were changed afterwards."""

    scores: WrittenScores
    final: Tensor
    weights: Tensor
    changed: bool = False

    def block(self, value: Tensor, texts: int) -> Block:
        """Return the block of these weights. value `[..., key, size]`.

        Raises RuntimeError if the shapes of queries, keys and weights don't match.
        """
        lead = self.final.shape[:-2]

        def heads(x: Tensor) -> Tensor:
            """Return `[text, head, ...]`, with size 1 if x is the same for all."""
            if len(lead) > 2:
                return x.expand(*lead, *x.shape[-2:]).flatten(1, -3)
            if x.dim() == 3 and len(x) == lead.numel():
                return x.reshape(texts if len(lead) < 2 else lead[0], -1, *x.shape[1:])
            return x[(None,) * (4 - x.dim())]

        final, query, key, value = map(heads, (self.final, self.scores.query, self.scores.key.mT, value))
        key, value = (one.expand(len(query), -1, -1, -1) for one in (key, value))
        if key.shape[1] != value.shape[1]:
            key, value = (one.expand(-1, query.shape[1], -1, -1) for one in (key, value))
        dtype = torch.promote_types(query.dtype, value.dtype)  # GPT-Neo's scores are in float32
        query, key, value = (one.to(dtype) for one in (query, key, value))
        shown = final > _HIDDEN
        terms = list(map(heads, self.scores.terms))
        if not self.scores.exact:
            rest = (final - sum(terms, self.scores.scale * (query @ key.mT))).masked_fill(~shown, 0.0)
            terms += [rest] if rest.abs().max() > _ROUNDED * final.masked_fill(~shown, 0.0).abs().max() else []
        more = {"position_bias": sum(terms[1:], terms[0])} if terms else {}
        return block_of(None, query, key, value, shown.any(dim=1, keepdim=True), self.scores.scale, more)


class HandWritten:
    """Follows the scores and weights of a network's own code, from call to call of torch."""

    def __init__(self) -> None:
        self._known: WeakIdKeyDictionary = WeakIdKeyDictionary()  # Scores and Weights of tensors, while these live

    def find(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[WrittenWeights, Product] | None:
        """Return the weights and the product if this call of torch multiplies weights with values."""
        if name not in PRODUCTS or not self._known:
            return None
        first = next(tensors_of(args, kwargs), None)
        weights = self._known.get(first)
        product = _product(name, args, kwargs) if isinstance(weights, WrittenWeights) else None
        return None if product is None or product.added is not None else (weights, product)

    def follow(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """Remember the result of a call of torch, if it is scores or weights."""
        if not isinstance(result, Tensor) or result.is_nested:
            return
        if name in PRODUCTS:
            product = _product(name, args, kwargs)
            if product is not None and not is_parameter(product.left) and not is_parameter(product.right):
                terms = () if product.added is None else _without_mask(product.added)
                self._known[result] = WrittenScores(product.left, product.right, product.scale, terms, True)
            return
        tensors = list(tensors_of(args, kwargs)) if self._known else []
        given = next((one for one in tensors if one in self._known), None)
        if given is None:
            return
        known = self._known[given]
        if name in _SOFTMAXES and isinstance(known, WrittenScores):
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if dim in (-1, result.dim() - 1):
                self._known[result] = WrittenWeights(known, given, result.detach())
        elif result.dim() and given.shape[-1:] == result.shape[-1:] and given.numel() == result.numel():
            if isinstance(known, WrittenWeights):
                self._known[result] = known if name in _SAME else known._replace(changed=True)
            else:
                self._known[result] = known if name in _SAME | _MASKING else _changed(known, name, args, given)
        elif isinstance(known, WrittenScores) and name in ("add", "sub") and given.shape[-2:] == result.shape[-2:]:
            self._known[result] = _changed(known, name, args, given)  # the terms of each text


def _changed(scores: WrittenScores, name: str, args: Sequence[Any], given: Tensor) -> WrittenScores:
    """Return scores after a call of arithmetic."""
    name, other = name.removesuffix("_"), args[1] if len(args) == 2 else None
    if args and args[0] is not given and name in ("add", "mul"):
        other = args[0]
    elif args and args[0] is not given:
        other = None
    number = other if isinstance(other, int | float) else None
    if isinstance(other, Tensor) and other.numel() == 1:
        number = float(other)
    if name in ("add", "sub") and isinstance(other, Tensor):
        return scores._replace(terms=(*scores.terms, *_without_mask(other if name == "add" else -other)))
    if name in ("mul", "div") and number:
        factor = number if name == "mul" else 1 / number
        return scores._replace(scale=scores.scale * factor, terms=tuple(one * factor for one in scores.terms))
    return scores._replace(exact=False)


def _without_mask(added: Tensor) -> tuple[Tensor, ...]:
    """Return the part of an added tensor that does not hide scores; nothing if it is 0."""
    bias = added.masked_fill(added <= _HIDDEN, 0.0)
    return (bias,) if bool(bias.any()) else ()


def _product(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Product | None:
    """Return the product that a call of torch computes; None if it does not multiply two matrices."""
    tensors = list(tensors_of(args, kwargs))
    if name == "baddbmm":
        factors = dict(zip(("beta", "alpha"), args[3:], strict=False)) | dict(kwargs)
        added, left, right = tensors
        return Product(left, right, factors.get("alpha", 1.0), factors.get("beta", 1.0) * added)
    if len(tensors) != 2 or min(one.dim() for one in tensors) < 2:
        return None
    if name != "einsum":
        return Product(tensors[0], tensors[1])
    equation = str(args[0]).replace(" ", "")
    if "->" not in equation or "." in equation:
        return None
    first, second, out = equation.replace("->", ",").split(",")
    both = [letter for letter in first if letter in second]
    rows, columns = ([letter for letter in one if letter not in both] for one in (first, second))
    inner = [letter for letter in both if letter not in out]
    if not len(rows) == len(columns) == len(inner) == 1:
        return None
    lead = "".join(letter for letter in out if letter in both)
    made = f"{lead}{rows[0]}{columns[0]}"
    return Product(
        torch.einsum(f"{first}->{lead}{rows[0]}{inner[0]}", tensors[0]),
        torch.einsum(f"{second}->{lead}{inner[0]}{columns[0]}", tensors[1]),
        restore=lambda result: torch.einsum(f"{made}->{out}", result),
    )


def tensors_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Tensor]:
    """Yield the tensors of a call, including tensors in lists."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from (one for one in value if isinstance(one, Tensor))


def is_parameter(x: Tensor) -> bool:
    """Return True for a parameter, or a view of one."""
    return isinstance(x, nn.Parameter) or isinstance(x._base, nn.Parameter)
