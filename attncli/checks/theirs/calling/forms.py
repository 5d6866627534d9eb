"""How somebody's attention is called, and how its answer is read: layouts of arrays, and what masks look like."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncli.attention.mistakes import Inputs, Result
from attncli.base.errors import RequestError
from attncli.checks.code.subject import PAST, Answer, Call
from attncli.checks.theirs.calling.roles import Roles


class Layout(NamedTuple):
    """`put`: ours as theirs, `take`: theirs as ours. heads, batch: whether it has a dimension for them."""

    name: str
    put: Callable[[Tensor], Tensor]
    take: Callable[[Tensor], Tensor]
    batch: bool = True
    heads: bool = True


# Ours is [batch, token, d_model] for what has projections, [batch, head, token, d] for what has none.
PROJECTED = (
    Layout("batch token d_model", lambda x: x, lambda x: x, heads=False),
    Layout("token batch d_model", lambda x: x.transpose(0, 1), lambda x: x.transpose(0, 1), heads=False),
    Layout("token d_model", lambda x: x[0], lambda x: x[None], batch=False, heads=False),
)
BY_HEADS = (
    Layout("batch head token d", lambda x: x, lambda x: x),
    Layout("batch token head d", lambda x: x.transpose(1, 2), lambda x: x.transpose(1, 2)),
    Layout("batch token d", lambda x: x[:, 0], lambda x: x[:, None], heads=False),
    Layout("head token d", lambda x: x[0], lambda x: x[None], batch=False),
    Layout("token head d", lambda x: x[0].transpose(0, 1), lambda x: x.transpose(0, 1)[None], batch=False),
    Layout("token d", lambda x: x[0, 0], lambda x: x[None, None], batch=False, heads=False),
)


def layouts_of(known: Sequence[Layout], wanted: str | None) -> list[Layout]:
    """All of these, or the one that is wanted. Raises RequestError when that is none of them."""
    layouts = [layout for layout in known if wanted in (None, layout.name)]
    if not layouts:
        raise RequestError(f"--layout {wanted!r} is none of: {', '.join(layout.name for layout in known)}")
    return layouts


class Encoding(NamedTuple):
    """What a mask looks like. means: what True, 1 or 0 stand for: "allowed", "forbidden", or a number that is "added".

    shape: the dimensions that it has: "query key", "batch 1 1 key", ... dtype: bool, float or int.
    """

    shape: str
    means: str
    dtype: str = "bool"

    def __str__(self) -> str:
        return f"{self.dimensions}, {self.meaning}"

    @property
    def meaning(self) -> str:
        """In words."""
        if self.shape == LENGTHS:
            return "so many keys are allowed"
        one = {"bool": "True", "float": "1.0", "int": "1"}[self.dtype]
        return f"{one} = {self.means}" if self.means != "added" else "-inf is added where it is forbidden"

    @property
    def dimensions(self) -> str:
        return "[batch]" if self.shape == LENGTHS else f"[{', '.join(self.shape.split())}]"


LENGTHS = "lengths"
TOLD = 3  # shapes of a mask
MEANINGS = (
    ("allowed", "bool"),
    ("forbidden", "bool"),
    ("added", "float"),
    ("allowed", "int"),
    ("allowed", "float"),
    ("forbidden", "int"),
    ("forbidden", "float"),
)
USUAL = MEANINGS[:3]
SHAPES: dict[str, Callable[[Tensor, int], Tensor]] = {  # of [batch, 1, query, key] and the number of heads
    "query key": lambda mask, heads: mask[0, 0],
    "batch 1 query key": lambda mask, heads: mask,
    "batch query key": lambda mask, heads: mask[:, 0],
    "batch 1 1 key": lambda mask, heads: mask[:, :, :1],
    "batch key": lambda mask, heads: mask[:, 0, 0],
    "batch 1 key": lambda mask, heads: mask[:, 0, :1],
    "1 1 query key": lambda mask, heads: mask[:1],
    "1 query key": lambda mask, heads: mask[0],
    "batch head query key": lambda mask, heads: mask.expand(-1, heads, -1, -1),
    "batch·head query key": lambda mask, heads: mask.expand(-1, heads, -1, -1).flatten(0, 1),
    "query key 1": lambda mask, heads: mask[0, 0, :, :, None],
    "key": lambda mask, heads: mask[0, 0, 0],
}
OF_PADDING = ("batch key", "batch 1 1 key", "batch 1 key", "key")
SHAPES_OF = {"mask": tuple(SHAPES), "padding": OF_PADDING, "memory_padding": OF_PADDING}


class Form(NamedTuple):
    """How it is called. encodings: of the parameters that take masks, by their role."""

    roles: Roles
    layout: Layout
    encodings: dict[str, Encoding] = {}  # noqa: RUF012  (never changed)

    def can(self, inputs: Inputs) -> bool:
        """Whether these inputs can be given so."""
        if not self.layout.batch and inputs.query.shape[0] > 1:
            return False
        if inputs.projections is None and not self.layout.heads and inputs.query.shape[1] > 1:
            return False
        if not self.roles.crosses and inputs.query.shape != inputs.key.shape:
            return False
        masks = self.masks(inputs)
        return masks is not None

    def masks(self, inputs: Inputs) -> dict[str, Tensor] | None:
        """By role, as they are given; None where what is to be hidden can't be said so."""
        padding, pairs = inputs.seen.padding, inputs.seen.pairs
        batch, keys, queries = inputs.query.shape[0], inputs.key.shape[-2], inputs.query.shape[-2]
        parts: dict[str, Tensor] = {
            role: torch.ones(batch, 1, queries, keys, dtype=torch.bool)
            for role in self.roles.needed
            if role in self.encodings
        }
        if padding is not None:
            ways = ("memory_padding", "padding", "lengths", "mask")
            role = next((role for role in ways if role in self.encodings), None)
            if role is None:
                return None
            parts[role] = padding[:, None, None, :].expand(batch, 1, queries, keys)
        if pairs is not None and not bool(pairs.all()):
            if "mask" not in self.encodings:
                return None
            pairs = pairs.expand(*(1,) * (4 - pairs.dim()), *pairs.shape).expand(batch, 1, queries, keys)
            parts["mask"] = parts["mask"] & pairs if "mask" in parts else pairs
        made = {role: encoded(mask, self.encodings[role], inputs.heads) for role, mask in parts.items()}
        return None if any(one is None for one in made.values()) else made  # type: ignore[return-value]

    def gives_numbers(self, role: str) -> bool:
        """Whether a mask of this role is given, even where it hides nothing, and is of real numbers."""
        return role in self.roles.needed and role in self.encodings and self.encodings[role].dtype == "float"

    def call(
        self, inputs: Inputs, dtype: str, step: int | None = None, pairs: Tensor | None = None, **how: Any
    ) -> Call:
        """These inputs, as it takes them. step: which of several calls with a cache this is; None without one.

        pairs: of a step, what its queries may attend to among all keys so far, `[batch, 1, query, key]`.
        """
        masks: dict[str, Any] = self.masks(inputs) or {}
        if pairs is not None and "mask" in self.encodings:
            masks["mask"] = encoded(pairs, self.encodings["mask"], inputs.heads)
        arguments: list[Any] = []
        keywords: dict[str, Any] = {}
        by = by_role(inputs)
        for name, role in self.roles.places:
            if role in by:
                value: Any = self.layout.put(by[role])
            elif role in ("causal", "average"):
                value = role == "causal" and inputs.seen.causal
            elif role == "returns":
                value = True
            elif role in ("cache", "keeps") and step is not None:
                value = PAST if role == "cache" and step else role == "keeps" or None
            elif role in masks or role in self.roles.needed:
                value = masks.get(role)
            else:
                continue
            if name in self.roles.by_place and len(arguments) == self.roles.by_place.index(name):
                arguments.append(value)
            else:
                keywords[name] = value
        return Call(tuple(arguments), keywords, dtype, **how)

    def read(self, answer: Answer, inputs: Inputs) -> Result | None:
        """Output and weights, in our layout; None where there is no output of the shape that it should have.

        Weights that are a mean over heads have one head; where there are none, they are empty.
        """
        output = self.output(answer, inputs, expected_shape(inputs))
        if output is None:
            return None
        weights = next((one for raw in answer.outputs for one in as_weights(raw, inputs)), None)
        return Result(output, torch.empty(0) if weights is None else weights)

    def output(self, answer: Answer, inputs: Inputs, shape: tuple[int, ...]) -> Tensor | None:
        """What has this shape, in our layout; of no dimensions is whatever was given."""
        if not shape and answer.outputs:
            return answer.outputs[0]
        return next((one for raw in answer.outputs for one in self.as_output(raw, shape)), None)

    def as_output(self, raw: Tensor, expected: tuple[int, ...]) -> Iterator[Tensor]:
        try:
            made = self.layout.take(raw)
        except (IndexError, RuntimeError):
            return
        if made.shape == expected:
            yield made
        elif len(expected) == 4 and raw.shape == (expected[0], expected[2], expected[1] * expected[3]):
            yield raw.unflatten(-1, (expected[1], -1)).transpose(1, 2)  # heads joined


def by_role(inputs: Inputs) -> dict[str, Tensor]:
    """What a parameter of each role is given, of those that take vectors."""
    query, key, value = inputs.query, inputs.key, inputs.value
    return {"query": query, "x": query, "key": key, "memory": key, "value": value}


def expected_shape(inputs: Inputs) -> tuple[int, ...]:
    if inputs.projections is None:
        return (*inputs.query.shape[:-1], inputs.value.shape[-1])
    by = inputs.projections
    if by.output is not None:
        return (*inputs.query.shape[:-1], by.output.weight.shape[0])
    heads_per_key = by.query.weight.shape[0] // by.key.weight.shape[0]
    return (*inputs.query.shape[:-1], by.value.weight.shape[0] * heads_per_key)


def as_weights(raw: Tensor, inputs: Inputs) -> Iterator[Tensor]:
    """As `[batch, head, query, key]`, whatever the order of its dimensions."""
    batch, heads, queries, keys = inputs.query.shape[0], inputs.heads, inputs.query.shape[-2], inputs.key.shape[-2]
    shape = tuple(raw.shape)
    if shape == (batch, heads, queries, keys):
        yield raw
    elif shape == (batch, queries, keys, heads):
        yield raw.permute(0, 3, 1, 2)
    elif shape == (batch * heads, queries, keys):
        yield raw.unflatten(0, (batch, heads))
    elif shape == (batch, queries, keys):
        yield raw[:, None]
    elif batch == 1 and shape == (heads, queries, keys):
        yield raw[None]
    elif batch == 1 and shape == (queries, keys):
        yield raw[None, None]


def encoded(mask: Tensor, how: Encoding, heads: int) -> Tensor | None:
    """`[batch, 1, query, key]`, True = may attend, as it is taken; None where that shape can't say it."""
    if how.shape == LENGTHS:
        row = mask[:, 0, 0]
        lengths = row.sum(-1)
        prefix = torch.arange(mask.shape[-1]) < lengths[:, None]
        return lengths if bool((mask == prefix[:, None, None]).all()) else None
    if "batch" not in how.shape and not bool((mask == mask[:1]).all()):
        return None
    if "query" not in how.shape and not bool((mask == mask[:, :, :1]).all()):
        return None
    shaped = SHAPES[how.shape](mask, heads)
    if how.means == "added":
        return torch.zeros(shaped.shape, dtype=torch.float64).masked_fill(~shaped, -torch.inf)
    said = shaped if how.means == "allowed" else ~shaped
    return said.clone() if how.dtype == "bool" else said.double() if how.dtype == "float" else said.long()


def encodings(role: str, means: str | None) -> Iterator[Encoding]:
    """All ways to say it, the likeliest first; with `means` those alone that mean this."""
    if role == LENGTHS:
        yield Encoding(LENGTHS, "allowed", "int")
        return
    for meaning, dtype in MEANINGS:
        for shape in SHAPES_OF[role]:
            if means in (None, meaning):
                yield Encoding(shape, meaning, dtype)


def in_words(role: str, understood: Sequence[Encoding]) -> list[str]:
    """Of each meaning that a mask may have, some of the shapes in which it is understood."""
    shapes: dict[str, list[str]] = {}
    for one in understood:
        shapes.setdefault(one.meaning, []).append(one.dimensions)
    told = []
    for meaning, ways in shapes.items():
        more = len(ways) - TOLD
        others = f" or {more} other way{'s' if more > 1 else ''}" if more > 0 else ""
        told.append(f"{role}: {meaning}, as {' or '.join(ways[:TOLD])}{others}")
    return told
