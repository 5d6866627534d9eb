"""The weights of somebody's attention, read as W_Q, W_K, W_V and W_O.

Names say which is which (`W_q`, `q_proj`, `to_q`, ...). Where a layout can be meant in several ways - three
projections in one matrix, a matrix that is used as x W or as W x - each is a reading of its own, and the one under
which the formula gives what the subject gave is what it means.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.attention.mistakes import Linear, Projections
from attncli.base.errors import RequestError
from attncli.base.printable import shorten
from attncli.checks.code.failing import OR_ADAPTER
from attncli.checks.code.subject import Made, Weight

Weights = Mapping[str, Tensor]
LISTED = 100  # characters of the names that are told
PARTS = ("query", "key", "value", "output")
STEMS = {
    "query": "q query queries qry",
    "key": "k key keys",
    "value": "v value values val vals",
    "output": "o out output outputs final unifyheads unify combine combined concat merge last mix heads joined attnout",
    "fused": "qkv kqv cattn attn querykeyvalue in packed pack all",
    "pair": "kv keyvalue keysvalues",
}
PART_OF = {stem: part for part, stems in STEMS.items() for stem in stems.split()}
PART_ROLES = tuple(STEMS)
NOISE = r"weights?|bias|kernel|linear|lin|projection|project|proj|layer|fc|net|matrix|mat|map|dense|to|w|b|c"
BIAS = re.compile(r"b(_|$|[qkvo]|ias)|.*bias", re.IGNORECASE)
FRAME = re.compile(rf"^(?:{NOISE})|(?:{NOISE}|s)$")  # what names have around the part
NOTES = {
    "three": "",
    "heads of three": "in the fused matrix each head has its query, key and value together",
    "heads in turns": "in the fused matrix query, key and value take turns",
}
ORDERS = tuple(NOTES)


class Slot(NamedTuple):
    """Where a part's weight and bias are: names of tensors, one a head where heads have their own."""

    weights: tuple[str, ...]
    biases: tuple[str, ...]


class Reading(NamedTuple):
    """One way to read the weights; note: what it takes for granted, in words, or ''. heads: of the queries.

    mistakes: those that are made by what is not there. vector: the name of the vector of additive attention.
    """

    read: Callable[[Weights], Projections]
    heads: int
    note: str = ""
    mistakes: tuple[str, ...] = ()
    vector: str | None = None

    def write(self, projections: Projections, shapes: Mapping[str, Weight]) -> dict[str, Tensor]:
        """Weights of which this reading gives these projections; what none of them needs is 0.

        Raises RequestError where they don't fit.
        """
        sizes = {name: torch.Size(weight.shape).numel() for name, weight in shapes.items()}
        starts, total = {}, 1  # 0 is no element of any: where a bias is made up
        for name, size in sizes.items():
            starts[name], total = total, total + size
        numbered = {
            name: torch.arange(starts[name], starts[name] + sizes[name], dtype=torch.float64).reshape(weight.shape)
            for name, weight in shapes.items()
        }
        flat = torch.zeros(total, dtype=torch.float64)
        for place, one, part in zip(self.read(numbered), projections, PARTS, strict=True):
            if place is None or one is None:
                if (place is None) != (one is None):
                    raise RequestError(f"one of both has no projection of the {part}")
                continue
            for where, what in zip(place, one, strict=True):
                if where is not None and what is not None and where.shape != what.shape:
                    raise RequestError(
                        f"the {part} is projected by {list(what.shape)} in the model, by {list(where.shape)} here"
                    )
                if where is not None:
                    flat[where.long()] = torch.zeros_like(where) if what is None else what.double()
                elif what is not None and bool(what.any()):
                    raise RequestError(f"the model has a bias of the {part}, and there is none here")
        return {
            name: flat[starts[name] : starts[name] + sizes[name]].reshape(weight.shape)
            for name, weight in shapes.items()
        }


def readings(made: Made, heads: int | None, said: Mapping[str, str]) -> list[Reading]:
    """The ways to read these weights, the likeliest first. said: the part that a weight is, by its name or its layer's.

    heads: None where that is not known. Raises RequestError when a projection can't be found.
    """
    vector = additive_vector(made.weights)
    if vector is not None:
        return additive_readings(made, vector, said)
    slots = slots_of(made.weights, said)
    missing = [
        part
        for part in PARTS[:2]
        if part not in slots and "fused" not in slots and (part != "key" or "pair" not in slots)
    ]
    if missing:
        names = shorten(", ".join(made.weights) or "none", LISTED)
        raise RequestError(
            f"the projection of the {missing[0]} is not among the weights ({names}): "
            f"--map NAME={missing[0]} says which it is{OR_ADAPTER}"
        )
    raw = any(made.weights[name].owner == "" for slot in slots.values() for name in slot.weights)
    found = []
    for order, transposed in product(
        ORDERS if {"fused", "pair"} & set(slots) else ORDERS[:1], (True, False) if raw else (False,)
    ):
        for number in [heads] if heads else heads_of(made, slots):
            no_output = "there is no W_O" if "output" not in slots and number > 1 else ""
            note = "; ".join(filter(None, (NOTES[order], "W is used as x W" if transposed else "", no_output)))
            read = partial(read_projections, made=made, slots=slots, heads=number, order=order, transposed=transposed)
            found.append(Reading(read, number, note, missing_of(slots)))
    return [one for one in found if is_possible(one, made)]


def additive_vector(weights: Mapping[str, Weight]) -> str | None:
    """Return the name of the vector that turns tanh(W q + U k) into a score: the only matrix with one row."""
    rows = [name for name, weight in weights.items() if len(weight.shape) == 2 and weight.shape[0] == 1]
    matrices = {weight.shape[0] for weight in weights.values() if len(weight.shape) == 2}
    rows += [
        name
        for name, weight in weights.items()
        if weight.owner == "" and len(weight.shape) == 1 and weight.shape[0] in matrices and not BIAS.match(name)
    ]
    return rows[0] if len(rows) == 1 else None


def additive_readings(made: Made, vector: str, said: Mapping[str, str]) -> list[Reading]:
    """score(q, k) = vᵀ tanh(W q + U k): which of the two matrices is W is told by their names, else by their order."""
    layer = vector.rpartition(".")[0]
    of_vector = {name for name in made.weights if name == vector or (layer and name.rpartition(".")[0] == layer)}
    others = {name: weight for name, weight in made.weights.items() if name not in of_vector}
    slots = slots_of(others, said)
    if not {"query", "key"} <= set(slots):
        names = [name for name in others if len(others[name].shape) == 2]
        layers = [
            (name, [bias for bias in others if bias == re.sub("weight$", "bias", name) != name]) for name in names
        ]
        if len(layers) != 2:
            return []
        slots = {part: Slot((name,), tuple(biases)) for part, (name, biases) in zip(PARTS[:2], layers, strict=True)}

    both = [slots[part] for part in PARTS[:2]]

    def read(weights: Weights) -> Projections:
        query, key = (Linear(*(weights[name] for name in (*slot.weights, *slot.biases))) for slot in both)
        return Projections(query, key, Linear(torch.eye(key.weight.shape[1], dtype=torch.float64)), None)

    if len(made.weights[slots["query"].weights[0]].shape) != 2:
        return []
    return [Reading(read, 1, vector=vector)]


def unread(made: Made, said: Mapping[str, str]) -> list[str]:
    """Return the names of the weights that no projection reads."""
    read = {name for slot in slots_of(made.weights, said).values() for name in (*slot.weights, *slot.biases)}
    return [name for name in made.weights if name not in read]


def heads_of(made: Made, slots: Mapping[str, Slot]) -> list[int]:
    """How many heads there may be, where nobody says: as many as have their own matrices, or any."""
    several = len(slots["query"].weights) if "query" in slots else 1
    return [several] if several > 1 else [1, 2, 4, 8, 16]


def missing_of(slots: Mapping[str, Slot]) -> tuple[str, ...]:
    """The mistakes that follow from what is not there."""
    return () if {"value", "fused", "pair"} & set(slots) else ("values not projected",)


def is_possible(reading: Reading, made: Made) -> bool:
    """Whether its matrices can be applied one after the other."""
    try:
        by = reading.read({name: torch.zeros(weight.shape) for name, weight in made.weights.items()})
    except RuntimeError:
        return False
    query, key = by.query.weight, by.key.weight
    if not key.numel():
        return False
    if (
        query.shape[0] % reading.heads
        or key.shape[0] % (query.shape[0] // reading.heads)
        or key.shape[0] > query.shape[0]
    ):
        return False
    values = by.value.weight.shape[0] * query.shape[0] // key.shape[0]
    return by.value.weight.shape[1] == key.shape[1] and (by.output is None or by.output.weight.shape[1] == values)


# --- from tensors to projections ------------------------------------------------------------------------


def read_projections(
    weights: Weights, made: Made, slots: Mapping[str, Slot], heads: int, order: str, transposed: bool
) -> Projections:
    """Raises RuntimeError when shapes don't go together so."""

    def linear(part: str) -> Linear:
        slot = slots[part]
        matrices = [matrix(weights[name], made.weights[name].owner, transposed, part) for name in slot.weights]
        biases = [weights[name].flatten() for name in slot.biases]
        return Linear(torch.cat(matrices, dim=0), torch.cat(biases) if biases else None)

    parts: dict[str, Linear | None] = {}
    for whole, inside in (("fused", PARTS[:3]), ("pair", PARTS[1:3])):
        if whole in slots:
            both = linear(whole)
            for place, part in enumerate(inside):
                parts[part] = Linear(
                    taken(both.weight, place, len(inside), heads, order),
                    None if both.bias is None else taken(both.bias, place, len(inside), heads, order),
                )
    parts |= {part: linear(part) for part in PARTS if part in slots}
    key = parts["key"]
    if "value" not in parts and key is not None:
        parts["value"] = Linear(torch.eye(*key.weight.shape, dtype=key.weight.dtype))
    return Projections(parts["query"], key, parts["value"], parts.get("output"))  # type: ignore[arg-type]


def matrix(weight: Tensor, owner: str, transposed: bool, part: str) -> Tensor:
    """As `[out, in]`. Of three dimensions one is that of the heads: `[head, in, d]`, of the output `[head, d, out]`."""
    if weight.dim() == 3:
        return weight.flatten(0, 1).mT if part == "output" else weight.mT.flatten(0, 1)
    return weight.mT if owner == "conv1d" or (owner == "" and transposed) else weight


def taken(both: Tensor, place: int, of: int, heads: int, order: str) -> Tensor:
    """One of several projections that stand in one matrix."""
    if order == "three":
        return both.chunk(of)[place]
    if order == "heads of three":
        return both.unflatten(0, (heads, of, -1))[:, place].flatten(0, 1)
    return both.unflatten(0, (heads, -1, of))[:, :, place].flatten(0, 1)


# --- which tensor is which ------------------------------------------------------------------------------


def slots_of(weights: Mapping[str, Weight], said: Mapping[str, str]) -> dict[str, Slot]:
    """The tensors of every part, by their names, and by their places where several have one name and numbers."""
    parts = {name: part_of(name, said) for name in weights}
    parts |= by_number([name for name, part in parts.items() if part is None or part == "output"], parts)
    slots: dict[str, Slot] = {}
    for name in sorted(weights, key=natural):
        part, shape = parts[name], weights[name].shape
        if part is None or len(shape) not in (1, 2, 3):
            continue
        slot = slots.get(part, Slot((), ()))
        is_bias = len(shape) == 1 or BIAS.match(name.rpartition(".")[2]) is not None
        slots[part] = Slot(slot.weights + (name,) * (not is_bias), slot.biases + (name,) * is_bias)
    return {part: slot for part, slot in slots.items() if slot.weights}


def by_number(names: list[str], parts: Mapping[str, str | None]) -> dict[str, str]:
    """query, key, value and output of layers that only have numbers, as in linears.0 to linears.3."""
    found: dict[str, str] = {}
    numbered: dict[str, set[int]] = {}
    for name in names:
        if (match := re.fullmatch(r"(.*?)(\d+)((?:\.weight|\.bias)?)", name)) is not None:
            numbered.setdefault(match[1], set()).add(int(match[2]))
    if "query" in parts.values() or "fused" in parts.values():
        return found
    for stem, numbers in numbered.items():
        if len(numbers) in (3, 4):
            order = dict(zip(sorted(numbers), PARTS, strict=False))
            for name in names:
                match = re.fullmatch(re.escape(stem) + r"(\d+)((?:\.weight|\.bias)?)", name)
                if match is not None:
                    found[name] = order[int(match[1])]
    return found


def part_of(name: str, said: Mapping[str, str]) -> str | None:
    """Which part a tensor is of, by its name; None where that can't be told."""
    layer = re.sub(r"\.(weight|bias)$", "", name)
    for told in (name, layer, layer.rpartition(".")[2]):
        if told in said:
            return said[told]
    for word in reversed([re.sub(r"[^a-z]", "", word.lower()) for word in layer.split(".")]):
        bare = word
        while bare and bare not in PART_OF and (shorter := FRAME.sub("", bare, count=1)) != bare:
            bare = shorter
        if word and (not bare or bare in PART_OF):
            return PART_OF.get(bare, "output")  # "proj", "fc", "dense" alone are the last
    return None


def natural(name: str) -> tuple[list[int], str]:
    return [int(number) for number in re.findall(r"\d+", name)], name
