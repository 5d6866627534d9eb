"""The weights of somebody's layer, read as its attention, its feed-forward network and its norms."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations, product
from typing import NamedTuple

from attncli.attention.mistakes import Linear, Projections
from attncli.attention.mistakes.layer_formula import Norm, Parts
from attncli.base.errors import RequestError
from attncli.checks.theirs.calling.readings import Reading, Weights, part_of, readings
from attncli.checks.theirs.subjects.subject import Made, Weight

IS_NORM = re.compile(r"norm|(?:^|[._])ln(?:[._\d]|$)|layer_?n", re.IGNORECASE)
IS_ATTENTION = re.compile(r"att|mha|heads?(?:[._]|$)", re.IGNORECASE)
IS_SELF = re.compile(r"self|mask|causal|dec|tgt|trg", re.IGNORECASE)
IS_CROSS = re.compile(r"cross|enc|mem|src|source|context|inter", re.IGNORECASE)
IS_TABLE = re.compile(r"pos|pe(?:[._]|$)", re.IGNORECASE)
OF_ONE = re.compile(rf"(?:{IS_SELF.pattern}|{IS_CROSS.pattern})[a-z]*_(?:att(?:ention|n)?_)?", re.IGNORECASE)
DEEP = 3  # how far in the names it is looked for what tells two attentions apart


class Matrix(NamedTuple):
    """The names of a weight and its bias; transposed: it is used as x W."""

    weight: str
    bias: str | None
    transposed: bool = False

    def read(self, weights: Weights, rows: slice = slice(None)) -> Linear:
        weight = weights[self.weight]
        weight = weight[..., 0] if weight.dim() == 3 else weight  # a convolution of width 1
        matrix = weight.mT if self.transposed else weight
        return Linear(matrix[rows], None if self.bias is None else weights[self.bias].flatten()[rows])


class FeedForward(NamedTuple):
    """note: which half of a gated one is which, in words."""

    up: Matrix
    down: Matrix
    gate: Matrix | None = None
    up_rows: slice = slice(None)
    gate_rows: slice = slice(None)


class LayerReading(NamedTuple):
    """One way to read the weights. note: what it takes for granted; mistakes: made by what is not there.

    outside: the same number where all but attention is read alike. owners: of the norms, their class and name. inside:
    the names of attention's weights; scored: of those that make scores. table: of positions, or None.
    """

    read: Callable[[Weights], Parts]
    heads: int
    outside: int
    note: str
    mistakes: tuple[str, ...]
    owners: tuple[str, ...]
    inside: tuple[str, ...]
    scored: tuple[str, ...]
    table: str | None


def layer_readings(made: Made, heads: int | None, said: Mapping[str, str]) -> list[LayerReading]:
    """The likeliest first. Raises RequestError when a part can't be found."""
    weights = dict(made.weights)
    norms = norms_of(weights)
    d_model = weights[norms[0].weight].shape[0] if norms else most_common(weights)
    taken = {name for norm in norms for name in norm if isinstance(name, str)}
    rest = {name: weight for name, weight in weights.items() if name not in taken}
    table = next((name for name, one in rest.items() if IS_TABLE.search(name) and d_model in one.shape), None)
    rest.pop(table or "", None)
    networks = feed_forwards(rest, d_model)
    of_network = {name for network in networks for one in network[:3] if one for name in one[:2]}
    attentions = attentions_of({name: one for name, one in rest.items() if name not in of_network}, heads, said)
    sublayers = 3 if attentions[0][1] is not None else 2
    if len(norms) > sublayers:
        raise RequestError(f"{len(norms)} norms are among the weights; of {sublayers} sublayers each has one")
    found = []
    inside = tuple(name for name in rest if name not in of_network)
    scored = tuple(name for name in inside if part_of(name, said) in ("query", "key", "fused"))
    owners = tuple(f"{weights[norm.weight].owner} {norm.weight}" for norm in norms)
    for outside, (order, network) in enumerate(product(norm_orders(norms, sublayers), networks)):
        implied = ("norm forgotten",) * (None in order) + ("one norm used for both",) * (
            len(set(filter(None, order))) < sublayers - order.count(None)
        )
        for own, cross in attentions:
            read = partial(read_parts, own=own, cross=cross, network=network, norms=order)
            mistakes = own.mistakes + implied
            found.append(LayerReading(read, own.heads, outside, own.note, mistakes, owners, inside, scored, table))
    return found


def read_parts(
    weights: Weights, own: Reading, cross: Reading | None, network: FeedForward, norms: Sequence[Matrix | None]
) -> Parts:
    gate = None if network.gate is None else network.gate.read(weights, network.gate_rows)
    made = [
        None if norm is None else Norm(weights[norm.weight], None if norm.bias is None else weights[norm.bias])
        for norm in norms
    ]
    return Parts(
        own.read(weights),
        network.up.read(weights, network.up_rows),
        network.down.read(weights),
        tuple(made),
        None if cross is None else cross.read(weights),
        gate,
    )


# --- norms ----------------------------------------------------------------------------------------------


def norms_of(weights: Mapping[str, Weight]) -> list[Matrix]:
    """In the order of their numbers, else in that in which they were made."""
    layers: dict[str, list[str]] = {}
    for name, weight in weights.items():
        path = name.rpartition(".")[0]
        if len(weight.shape) == 1 and ("norm" in weight.owner or IS_NORM.search(path)) and weight.owner != "linear":
            layers.setdefault(path, []).append(name)
    found = []
    for names in layers.values():
        bias = next((name for name in names if re.match(r"b|shift", name.rpartition(".")[2])), None)
        found.append(Matrix(next(name for name in names if name != bias), bias))
    most = max((weights[norm.weight].shape[0] for norm in found), default=0)
    return [norm for norm in found if weights[norm.weight].shape[0] == most]  # others are a head's


def norm_orders(norms: Sequence[Matrix], sublayers: int) -> Iterator[tuple[Matrix | None, ...]]:
    """Of every sublayer its norm: each has its own; or, where there are too few, one has another's, or none."""
    if len(norms) == sublayers:
        yield from permutations(norms)
    else:
        yield from product([*norms, None], repeat=sublayers)


def most_common(weights: Mapping[str, Weight]) -> int:
    sizes = [size for weight in weights.values() for size in weight.shape]
    return max(set(sizes), key=sizes.count) if sizes else 0


# --- the feed-forward network ---------------------------------------------------------------------------


def feed_forwards(weights: Mapping[str, Weight], d_model: int) -> list[FeedForward]:
    """The ways to read it. Its matrices are those that lead out of d_model and back, and are no attention's.

    Raises RequestError when there are none, or too many.
    """
    shapes = {
        name: tuple(weight.shape[:2])
        for name, weight in weights.items()
        if (len(weight.shape) == 2 or weight.shape[2:] == (1,)) and not IS_ATTENTION.search(name)
    }
    hidden = [h for shape in shapes.values() for h in shape if shape.count(d_model) == 1 and h != d_model]
    for h in sorted(set(hidden), key=hidden.count, reverse=True):
        there = [name for name, shape in shapes.items() if sorted(shape) == sorted((h, d_model))]
        double = [name for name, shape in shapes.items() if sorted(shape) == sorted((2 * h, d_model))]
        down = [name for name in there if out_of(weights, name, shapes) == d_model]
        raw = [name for name in there if weights[name].owner == "" and name not in down[-1:]]
        if len(down) == 2 and len(raw) == 2:  # two parameters that are used as x W: the last leads back
            down = there[-1:]
        last = next((name for name in reversed(there) if name in down or weights[name].owner == ""), None)
        ups = [name for name in there if name != last]
        if last is None or len(ups) + len(double) not in (1, 2):
            continue
        behind = matrix_of(weights, last, (d_model, h))
        firsts = [matrix_of(weights, name, (h, d_model)) for name in ups]
        if len(firsts) == 1 and not double:
            return [FeedForward(firsts[0], behind)]
        if len(firsts) == 2:
            return [FeedForward(firsts[1], behind, firsts[0]), FeedForward(firsts[0], behind, firsts[1])]
        if len(double) == 1 and not firsts:
            both, halves = matrix_of(weights, double[0], (2 * h, d_model)), (slice(0, h), slice(h, None))
            return [FeedForward(both, behind, both, up, gate) for gate, up in (halves, halves[::-1])]
    raise RequestError(
        f"the feed-forward network is not among the weights: two matrices, of {d_model} and of another size, are "
        f"looked for in {', '.join(weights) or 'none'}"[:290]
    )


def out_of(weights: Mapping[str, Weight], name: str, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """To which size it leads, if it is as torch's layers have it."""
    return shapes[name][1 if weights[name].owner == "conv1d" and len(weights[name].shape) == 2 else 0]


def matrix_of(weights: Mapping[str, Weight], name: str, shape: tuple[int, int]) -> Matrix:
    bias = re.sub(r"weight$", "bias", name) if name.endswith("weight") else re.sub(r"[wW]([^.]*)$", r"b\1", name)
    there = bias if bias != name and bias in weights else None
    return Matrix(name, there, transposed=tuple(weights[name].shape[:2]) != shape)


# --- attention ------------------------------------------------------------------------------------------


def attentions_of(
    weights: dict[str, Weight], heads: int | None, said: Mapping[str, str]
) -> list[tuple[Reading, Reading | None]]:
    """The ways to read self-attention, and cross-attention where there is one.

    Raises RequestError when there is none.
    """
    for groups in divisions(weights):
        try:
            first, second = (named(group, weights, heads, said) for group in groups)
        except RequestError:
            continue
        if first and second:
            return [(own, cross) for own in first for cross in second if own[1:3] == cross[1:3]]  # heads and note
    found = readings(Made(weights, {}), heads, said)
    if not found:
        raise RequestError("the matrices that are read as its attention's don't fit together")
    return [(own, None) for own in found]


def named(
    names: dict[str, str], weights: Mapping[str, Weight], heads: int | None, said: Mapping[str, str]
) -> list[Reading]:
    """Of these weights, by other names. Raises RequestError when a projection can't be found."""

    def read(all_weights: Weights, reading: Reading) -> Projections:
        return reading.read({short: all_weights[name] for name, short in names.items()})

    said = {names.get(name, name): part for name, part in said.items()}
    found = readings(Made({short: weights[name] for name, short in names.items()}, {}), heads, said)
    return [one._replace(read=partial(read, reading=one)) for one in found]


def divisions(weights: Mapping[str, Weight]) -> Iterator[list[dict[str, str]]]:
    """Into the names of self-attention's weights and of cross-attention's, each with what is left without its head."""
    for deep in range(1, DEEP + 1):
        keys = list(dict.fromkeys(".".join(name.split(".")[:deep]) for name in weights if name.count(".") >= deep))
        if len(keys) == 2:
            yield [{name: name for name in weights if name.startswith(f"{key}.")} for key in in_order(keys)]
    crossing = {name: OF_ONE.sub("", name) for name in weights if IS_CROSS.search(name)}
    if crossing:
        yield [{name: OF_ONE.sub("", name) for name in weights if name not in crossing}, crossing]


def in_order(keys: list[str]) -> list[str]:
    """Self-attention's first: by their names, else by the order in which they were made."""
    for pattern, place in ((IS_CROSS, 1), (IS_SELF, 0)):
        named = [key for key in keys if pattern.search(key)]
        if len(named) == 1:
            other = next(key for key in keys if key != named[0])
            return [other, named[0]] if place else [named[0], other]
    return keys
