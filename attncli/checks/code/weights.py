"""Read the weights of somebody's attention as W_Q, W_K, W_V and W_O.

Names say which is which (`W_q`, `q_proj`, `to_q`, ...). A layout may have several meanings: three projections in one
matrix, or a matrix that is used as x W or as W x. Each meaning is a reading of its own. The right one is the reading
with which the formula gives the subject's output.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.attention.mistakes import Affine, Projections
from attncli.base.errors import RequestError
from attncli.base.printable import shorten
from attncli.checks.code.names import PARTS, NeedsAdapterError, part_of
from attncli.checks.code.subject import Weight

_Weights = Mapping[str, Tensor]
_Shapes = Mapping[str, Weight]
LISTED = 100  # characters of the names that a message offers
BIAS = re.compile(r"b(_|$|[qkvo]|ias)|.*bias", re.IGNORECASE)
NOTES = {
    "three": "",
    "heads of three": "in the fused matrix each head has its query, key and value together",
    "heads in turns": "in the fused matrix query, key and value take turns",
}


class Slot(NamedTuple):
    """The names of a part's weights and biases: several if each head has its own."""

    weights: tuple[str, ...] = ()
    biases: tuple[str, ...] = ()


class WeightLayout(NamedTuple):
    """A way to read the weights. note: what it assumes, or "". vector: the name of the vector of additive attention."""

    read: Callable[[_Weights], Projections]
    heads: int
    note: str = ""
    has_values: bool = True
    vector: str | None = None

    def write(self, projections: Projections, shapes: _Shapes) -> dict[str, Tensor]:
        """Return weights that are read as these projections. Weights that no projection reads are 0.

        Reading selects and orders numbers, so its transpose, a vector-Jacobian product, puts them back.

        Raises RequestError if they don't fit.
        """
        zeros = {name: torch.zeros(weight.shape, dtype=torch.float64) for name, weight in shapes.items()}
        read, transposed = torch.func.vjp(self.read, zeros)  # type: ignore[misc]
        given: list[Affine | None] = []
        for part, inside, outside in zip(PARTS, read, projections, strict=True):
            if inside is None or outside is None:
                if inside is not outside:
                    raise RequestError(f"only one of the two modules has a projection of the {part}")
                given.append(None)
                continue
            if inside.weight.shape != outside.weight.shape:
                theirs, ours = list(inside.weight.shape), list(outside.weight.shape)
                raise RequestError(f"the {part} is projected by {ours} in the model, by {theirs} here")
            bias = outside.bias
            if inside.bias is None and bias is not None and bool(bias.any()):
                raise RequestError(f"the model has a bias of the {part}, and there is none here")
            if inside.bias is not None and bias is None:
                bias = torch.zeros_like(inside.bias)
            given.append(Affine(outside.weight, None if inside.bias is None else bias))
        [weights] = transposed(Projections(*given))  # type: ignore[arg-type]
        return dict(weights)


def readings(shapes: _Shapes, heads: int | None, mapped: Mapping[str, str]) -> list[WeightLayout]:
    """Return the ways to read these weights, the likeliest first. heads: None if unknown.

    mapped: the part that a weight is, by its name or that of its layer. Raises NeedsAdapterError without a projection.
    """
    vector = additive_vector(shapes)
    if vector is not None:
        return additive_readings(shapes, vector, mapped)
    slots = find_slots(shapes, mapped)
    for part in PARTS[:2]:
        if not {part, "fused", *({"pair"} if part == "key" else ())} & slots.keys():
            names = shorten(", ".join(shapes) or "none", LISTED)
            raise NeedsAdapterError(
                f"the projection of the {part} is not among the weights ({names}): --map NAME={part} says which it is"
            )
    raw = any(shapes[name].owner == "" for slot in slots.values() for name in slot.weights)
    orders = list(NOTES) if {"fused", "pair"} & slots.keys() else ["three"]
    several = len(slots["query"].weights) if "query" in slots else 1  # a matrix for each head
    counts = [heads] if heads else [several] if several > 1 else [1, 2, 4, 8, 16]
    found = []
    for order, transposed, count in product(orders, (True, False) if raw else (False,), counts):
        no_output = "there is no W_O" if "output" not in slots and count > 1 else ""
        note = "; ".join(filter(None, (NOTES[order], "W is used as x W" if transposed else "", no_output)))
        read = partial(read_projections, shapes=shapes, slots=slots, heads=count, order=order, transposed=transposed)
        found.append(WeightLayout(read, count, note, bool({"value", "fused", "pair"} & slots.keys())))
    return [one for one in found if is_possible(one, shapes)]


def is_possible(reading: WeightLayout, shapes: _Shapes) -> bool:
    """Return whether the shapes of its matrices fit together."""
    try:
        by = reading.read({name: torch.zeros(weight.shape) for name, weight in shapes.items()})
    except RuntimeError:
        return False
    queries, keys = by.query.weight.shape[0], by.key.weight.shape[0]
    if not keys or queries % reading.heads or keys % (queries // reading.heads) or keys > queries:
        return False
    values = by.value.weight.shape[0] * queries // keys
    same_input = by.value.weight.shape[1] == by.key.weight.shape[1]
    return same_input and (by.output is None or by.output.weight.shape[1] == values)


def read_projections(
    weights: _Weights, shapes: _Shapes, slots: Mapping[str, Slot], heads: int, order: str, transposed: bool
) -> Projections:
    """Raises RuntimeError if the shapes don't fit together."""

    def linear(part: str) -> Affine:
        slot = slots[part]
        matrices = [as_matrix(weights[name], shapes[name].owner, transposed, part) for name in slot.weights]
        biases = [weights[name].flatten() for name in slot.biases]
        return Affine(torch.cat(matrices, dim=0), torch.cat(biases) if biases else None)

    parts: dict[str, Affine | None] = {}
    for fused, inside in (("fused", PARTS[:3]), ("pair", PARTS[1:3])):
        if fused in slots:
            weight, bias = linear(fused)
            for place, part in enumerate(inside):
                take = partial(take_projection, place=place, count=len(inside), heads=heads, order=order)
                parts[part] = Affine(take(weight), None if bias is None else take(bias))
    parts |= {part: linear(part) for part in PARTS if part in slots}
    key = parts["key"]
    if "value" not in parts and key is not None:
        parts["value"] = Affine(torch.eye(*key.weight.shape, dtype=key.weight.dtype))
    return Projections(parts["query"], key, parts["value"], parts.get("output"))  # type: ignore[arg-type]


def as_matrix(weight: Tensor, owner: str, transposed: bool, part: str) -> Tensor:
    """Return `[out, in]`. Three dimensions are `[head, in, d]`, for the output `[head, d, out]`."""
    if weight.dim() == 3:
        return weight.flatten(0, 1).mT if part == "output" else weight.mT.flatten(0, 1)
    return weight.mT if owner == "conv1d" or (owner == "" and transposed) else weight


def take_projection(fused: Tensor, place: int, count: int, heads: int, order: str) -> Tensor:
    """Take one of several projections out of one matrix."""
    if order == "three":
        return fused.chunk(count)[place]
    if order == "heads of three":
        return fused.unflatten(0, (heads, count, -1))[:, place].flatten(0, 1)
    return fused.unflatten(0, (heads, -1, count))[:, :, place].flatten(0, 1)


# --- additive attention -----------------------------------------------------------------------------------


def additive_vector(shapes: _Shapes) -> str | None:
    """Return the name of the vector that turns tanh(W q + U k) into a score: the only matrix with one row."""
    matrices = {weight.shape[0] for weight in shapes.values() if len(weight.shape) == 2}
    found = [
        name
        for name, (shape, owner) in shapes.items()
        if (len(shape) == 2 and shape[0] == 1)
        or (owner == "" and len(shape) == 1 and shape[0] in matrices and not BIAS.match(name))
    ]
    return found[0] if len(found) == 1 else None


def additive_readings(shapes: _Shapes, vector: str, mapped: Mapping[str, str]) -> list[WeightLayout]:
    """Read score(q, k) = vᵀ tanh(W q + U k). Names tell W from U; without them, there is a reading for each order."""
    layer = vector.rpartition(".")[0]
    others = {
        name: weight
        for name, weight in shapes.items()
        if name != vector and not (layer and name.rpartition(".")[0] == layer)
    }
    slots = find_slots(others, mapped)
    if not {"query", "key"} <= slots.keys():
        matrices = [name for name, weight in others.items() if len(weight.shape) == 2]
        if len(matrices) != 2:
            return []
        biases = [[bias for bias in others if bias == re.sub("weight$", "bias", x) != x] for x in matrices]
        pair = [Slot((x,), tuple(b)) for x, b in zip(matrices, biases, strict=True)]
        orders = [pair, pair[::-1]]
    else:
        orders = [[slots[part] for part in PARTS[:2]]]

    def read(weights: _Weights, both: list[Slot]) -> Projections:
        query, key = (Affine(*(weights[name] for name in (*slot.weights, *slot.biases))) for slot in both)
        return Projections(query, key, Affine(torch.eye(key.weight.shape[1], dtype=torch.float64)), None)

    if len(shapes[orders[0][0].weights[0]].shape) != 2:
        return []
    return [WeightLayout(partial(read, both=both), 1, vector=vector) for both in orders]


# --- names ------------------------------------------------------------------------------------------------


def find_slots(shapes: _Shapes, mapped: Mapping[str, str]) -> dict[str, Slot]:
    """Find the tensors of every part by their names. Four layers with numbers only are query, key, value and output."""
    parts = {name: part_of(name, mapped) for name in shapes}
    if not {"query", "fused"} & set(parts.values()):
        parts |= parts_by_number([name for name, part in parts.items() if part in (None, "output")])
    slots: dict[str, Slot] = {}
    for name in sorted(shapes, key=lambda name: ([int(number) for number in re.findall(r"\d+", name)], name)):
        part, shape = parts[name], shapes[name].shape
        if part is None or len(shape) not in (1, 2, 3):
            continue
        weights, biases = slots.get(part, Slot())
        is_bias = len(shape) == 1 or BIAS.match(name.rpartition(".")[2]) is not None
        slots[part] = Slot(weights, (*biases, name)) if is_bias else Slot((*weights, name), biases)
    return {part: slot for part, slot in slots.items() if slot.weights}


def parts_by_number(names: list[str]) -> dict[str, str]:
    """Return the parts of layers such as linears.0 to linears.3: query, key, value and output."""
    found = {name: match for name in names if (match := re.fullmatch(r"(.*?)(\d+)(\.weight|\.bias)?", name))}
    parts = {}
    for name, match in found.items():
        numbers = sorted({int(other[2]) for other in found.values() if other[1] == match[1]})
        if len(numbers) in (3, 4):
            parts[name] = PARTS[numbers.index(int(match[2]))]
    return parts


def unread_weights(shapes: _Shapes, mapped: Mapping[str, str]) -> list[str]:
    """Return the names of the weights that no projection reads."""
    read = {name for slot in find_slots(shapes, mapped).values() for name in (*slot.weights, *slot.biases)}
    return [name for name in shapes if name not in read]
