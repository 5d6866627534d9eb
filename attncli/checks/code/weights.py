"""Read the weights of somebody's attention as W_Q, W_K, W_V and W_O.

Names say which is which (`W_q`, `q_proj`, `to_q`, ...). A matrix may have several meanings: three projections in one,
or a matrix that is used as x W or as W x. Each meaning is a `WeightLayout`. The right one is the one with which the
formula gives the subject's output.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations, product
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.attention.mistakes import Affine, Projections
from attncli.base.errors import RequestError
from attncli.base.printable import shorten
from attncli.checks.code.names import PARTS, NeedsAdapterError, part_of
from attncli.checks.code.subject import Weight

LISTED = 100  # characters of the names that a message offers
BIAS = re.compile(r"b(_|$|[qkvo]|ias)|.*bias", re.IGNORECASE)
ORDERS = {
    "three": "",
    "heads of three": "in the fused matrix each head has its query, key and value together",
    "heads in turns": "in the fused matrix query, key and value take turns",
}
COLUMNS = {  # orders in one matrix of additive attention: W [q; k] = W_Q q + W_K k
    "query, key": "one matrix for the query and the key, one behind the other",
    "key, query": "one matrix for the key and the query, one behind the other",
}
HEADS = (1, 2, 4, 8, 16)  # tried if the number of heads is unknown


class Slot(NamedTuple):
    """The names of a part's weights and biases: several if each head has its own."""

    weights: tuple[str, ...] = ()
    biases: tuple[str, ...] = ()


@dataclass(frozen=True)
class WeightLayout:
    """A way to read the weights.

    slots: by part. order: of the projections in one matrix. transposed: a matrix that is not in a layer is used as x W.
    shared: one projection of one head's part of the vectors serves all heads. vector: the name of the vector of
    additive attention.
    """

    shapes: Mapping[str, Weight]
    slots: Mapping[str, Slot]
    heads: int
    order: str = "three"
    transposed: bool = False
    shared: bool = False
    vector: str | None = None

    @property
    def note(self) -> str:
        """Return what it assumes, or ""."""
        assumed = {
            (ORDERS | COLUMNS)[self.order]: True,
            "all heads share one projection": self.shared,
            "W is used as x W": self.transposed,
            "there is no W_O": "output" not in self.slots and self.heads > 1,
        }
        return "; ".join(words for words, holds in assumed.items() if words and holds)

    @property
    def has_values(self) -> bool:
        return self.vector is not None or bool({"value", "fused", "pair"} & self.slots.keys())

    def read(self, weights: Mapping[str, Tensor]) -> Projections:
        """Raises RuntimeError if the shapes don't fit together."""
        made = {part: self.linear(part, weights) for part in self.slots}
        for fused, inside in (("fused", PARTS[:3]), ("pair", PARTS[1:3])):
            if fused in made:
                width = made.get("output", made[fused]).weight.shape[1] if fused == "fused" else 0
                if any("kqv" in name.lower() for name in self.slots[fused].weights):  # in the order of its name
                    inside = ("key", "query", "value")
                several = [None if x is None else self.take(x, len(inside), width) for x in made[fused]]
                made |= {part: Affine(*(x and x[at] for x in several)) for at, part in enumerate(inside)}  # type: ignore[arg-type]
        key = made["key"].weight
        identity = torch.eye(key.shape[0] if self.vector is None else key.shape[1], key.shape[1], dtype=key.dtype)
        return Projections(made["query"], made["key"], made.get("value", Affine(identity)), made.get("output"))

    def linear(self, part: str, weights: Mapping[str, Tensor]) -> Affine:
        """Return the layer of a part. Three dimensions are `[head, in, d]`, for the output `[head, d, out]`."""
        matrices = []
        for name in self.slots[part].weights:
            weight, owner = weights[name], self.shapes[name].owner
            if weight.dim() == 3:
                weight = weight.flatten(0, 1).mT if part == "output" else weight.mT.flatten(0, 1)
            elif owner == "conv1d" or (owner == "" and self.transposed):
                weight = weight.mT
            matrices.append(weight)
        biases = [weights[name].flatten() for name in self.slots[part].biases]
        if self.shared and part != "output":
            matrices = [torch.kron(torch.eye(self.heads, dtype=one.dtype), one) for one in matrices]
            biases = [one.repeat(self.heads) for one in biases]
        weight, bias = torch.cat(matrices), torch.cat(biases) if biases else None
        if self.order in COLUMNS:
            weight = weight.chunk(2, dim=1)[self.order.split(", ").index(part)]
            bias = bias if part == "query" else None
        return Affine(weight, bias)

    def take(self, fused: Tensor, count: int, queries: int) -> list[Tensor]:
        """Take several projections out of one matrix or bias. queries: rows of the first, if keys have fewer."""
        if self.order == "three" and 0 < len(fused) - queries < 2 * queries and (len(fused) - queries) % 2 == 0:
            return list(fused.split([queries, *[(len(fused) - queries) // 2] * 2]))
        if self.order == "three":
            return list(fused.chunk(count))
        if self.order == "heads of three":
            return [one.flatten(0, 1) for one in fused.unflatten(0, (self.heads, count, -1)).unbind(1)]
        return [one.flatten(0, 1) for one in fused.unflatten(0, (self.heads, -1, count)).unbind(2)]

    def is_possible(self) -> bool:
        """Return whether the shapes of its matrices fit together."""
        try:
            by = self.read({name: torch.zeros(weight.shape) for name, weight in self.shapes.items()})
        except RuntimeError:
            return False
        queries, keys = by.query.weight.shape[0], by.key.weight.shape[0]
        if not keys or queries % self.heads or keys % (queries // self.heads) or keys > queries:
            return False
        values = by.value.weight.shape[0] * queries // keys
        same_input = by.value.weight.shape[1] == by.key.weight.shape[1]
        return same_input and (by.output is None or by.output.weight.shape[1] == values)

    def write(self, projections: Projections) -> dict[str, Tensor]:
        """Return weights that are read as these projections. Weights that no projection reads are 0.

        Reading selects and orders numbers, so its transpose, a vector-Jacobian product, puts them back.

        Raises RequestError if they don't fit.
        """
        zeros = {name: torch.zeros(weight.shape, dtype=torch.float64) for name, weight in self.shapes.items()}
        given: list[Tensor] = []
        for part, inside, outside in zip(PARTS, self.read(zeros), projections, strict=True):
            if (inside is None) != (outside is None):
                raise RequestError(f"only one of the two modules has a projection of the {part}")
            if inside is None or outside is None:
                continue
            if inside.weight.shape != outside.weight.shape:
                theirs, ours = list(inside.weight.shape), list(outside.weight.shape)
                raise RequestError(f"the projection of the {part} is {ours} in the model, but {theirs} in this code")
            bias = torch.zeros(len(outside.weight)).double() if outside.bias is None else outside.bias
            if inside.bias is None and bool(bias.any()):
                raise RequestError(f"the projection of the {part} has a bias in the model, but none in this code")
            given += [outside.weight] if inside.bias is None else [outside.weight, bias]

        def read(weights: Mapping[str, Tensor]) -> list[Tensor]:
            return [x for part in self.read(weights) if part is not None for x in part if x is not None]

        _, transposed = torch.func.vjp(read, zeros)  # type: ignore[misc]
        return dict(transposed(given)[0])


def readings(shapes: Mapping[str, Weight], heads: int | None) -> list[WeightLayout]:
    """Return the ways to read these weights, the likeliest first. heads: None if unknown.

    Raises NeedsAdapterError without a projection of the query or the key.
    """
    if (vector := additive_vector(shapes)) is not None:
        return additive_readings(shapes, vector)
    slots = find_slots(shapes)
    for part in PARTS[:2]:
        if not {part, "fused", *({"pair"} if part == "key" else ())} & slots.keys():
            names = shorten(", ".join(shapes) or "none", LISTED)
            for name, (shape, _) in shapes.items():
                if len(shape) > 3 and part_of(name) in (part, "fused"):
                    raise RequestError(f"{name} is the weight of a convolution, {list(shape)}, which can't be checked")
            reason = f"no name among the weights ({names}) shows the projection of the {part}"
            raise NeedsAdapterError(reason, of_weights=True)
    raw = any(shapes[name].owner == "" for slot in slots.values() for name in slot.weights)
    several = len(slots["query"].weights) if "query" in slots else 1  # a matrix for each head
    counts = (heads,) if heads else (several,) if several > 1 else HEADS
    orders = list(ORDERS) if {"fused", "pair"} & slots.keys() else ["three"]
    every = product((False, True), orders, (True, False) if raw else (False,), counts)
    made = [WeightLayout(shapes, slots, count, order, turned, shared) for shared, order, turned, count in every]
    return [one for one in made if one.is_possible() and not (one.shared and one.heads == 1)]


def additive_vector(shapes: Mapping[str, Weight]) -> str | None:
    """Return the name of the vector that turns tanh(W q + U k) into a score: the only matrix with one row."""
    matrices = {weight.shape[0] for weight in shapes.values() if len(weight.shape) == 2}
    found = [
        name
        for name, (shape, owner) in shapes.items()
        if (len(shape) == 2 and shape[0] == 1)
        or (owner == "" and len(shape) == 1 and shape[0] in matrices and not BIAS.match(name))
    ]
    return found[0] if len(found) == 1 else None


def additive_readings(shapes: Mapping[str, Weight], vector: str) -> list[WeightLayout]:
    """Read score(q, k) = vᵀ tanh(W q + U k). Names tell W from U; without them, there is a reading for each order."""
    layer = vector.rpartition(".")[0]
    others = {name: shapes[name] for name in shapes if name != vector and (name.rpartition(".")[0] or "-") != layer}
    slots = find_slots(others)
    orders = [tuple(slots[part] for part in PARTS[:2] if part in slots)]
    if len(orders[0]) < 2:
        matrices = [name for name, weight in others.items() if len(weight.shape) == 2]
        biases = [[bias for bias in others if bias == re.sub("weight$", "bias", x) != x] for x in matrices]
        pair = [Slot((x,), tuple(b)) for x, b in zip(matrices, biases, strict=True)]
        if len(pair) == 1:
            both = {"query": pair[0], "key": pair[0]}
            return [WeightLayout(shapes, both, 1, order, vector=vector) for order in COLUMNS]
        orders = list(permutations(pair)) if len(pair) == 2 else []
    return [WeightLayout(shapes, dict(zip(PARTS, both, strict=False)), 1, vector=vector) for both in orders]


def find_slots(shapes: Mapping[str, Weight]) -> dict[str, Slot]:
    """Find the tensors of every part by their names. Four layers with numbers only are query, key, value and output."""
    parts = {name: part_of(name) for name in shapes}
    certain = {name: part_of(name, certain=True) for name in shapes}
    if "output" in certain.values():  # then fc1 and linear2 belong to a feed-forward network
        parts = certain
    if not {"query", "fused"} & {*parts.values()}:  # layers such as linears.0 to linears.3
        unnamed = [name for name, part in parts.items() if part in (None, "output")]
        found = {name: match for name in unnamed if (match := re.fullmatch(r"(.*?)(\d+)(\.weight|\.bias)?", name))}
        for name, match in found.items():
            numbers = sorted({int(other[2]) for other in found.values() if other[1] == match[1]})
            if len(numbers) in (3, 4):
                parts[name] = PARTS[numbers.index(int(match[2]))]
    slots: dict[str, Slot] = {}
    for name in sorted(shapes, key=lambda name: ([int(number) for number in re.findall(r"\d+", name)], name)):
        part, shape = parts[name], shapes[name].shape
        if part is None or len(shape) not in (1, 2, 3):
            continue
        weights, biases = slots.get(part, Slot())
        is_bias = len(shape) == 1 or BIAS.match(name.rpartition(".")[2]) is not None
        slots[part] = Slot(weights, (*biases, name)) if is_bias else Slot((*weights, name), biases)
    return {part: slot for part, slot in slots.items() if slot.weights}


def unread_weights(shapes: Mapping[str, Weight]) -> list[str]:
    """Return the names of the weights that no projection reads."""
    read = {name for slot in find_slots(shapes).values() for name in (*slot.weights, *slot.biases)}
    return [name for name in shapes if name not in read]
