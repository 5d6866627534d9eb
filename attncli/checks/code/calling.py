"""Draw inputs, call a subject with them in its own form, and compare what it returns with a formula."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncli.attention.mistakes import RIGHT, Formula, FormulaResult, Inputs, Projections
from attncli.attention.mistakes.steps import keep
from attncli.checks.code.names import Roles
from attncli.checks.code.subject import PAST, CodeCall, Returned
from attncli.checks.code.weights import WeightLayout

VECTORS = ("query", "key", "value")
NO_FORMULA = (RuntimeError, ValueError, IndexError)  # a variant can't be computed for inputs of these shapes

# --- inputs -----------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """The sizes of inputs, all different, so that none can be mistaken for another."""

    batch: int = 3
    heads: int = 4
    queries: int = 5
    keys: int = 7
    d_k: int = 8
    d_v: int = 8
    key_heads: int | None = None


def draw(shape: Shape, projections: Projections | None, roles: Roles, crosses: bool = True, seed: int = 0) -> Inputs:
    """Draw vectors of variance 1. crosses: the queries belong to another text than keys and values.

    If one parameter serves as several of them, they are one tensor.
    """
    generator = torch.Generator().manual_seed(seed)
    tokens = (shape.queries if crosses else shape.keys, shape.keys, shape.keys)
    shapes: list[tuple[int, ...]]
    if projections is None:
        key_heads = shape.key_heads or shape.heads
        sizes = [(shape.heads, shape.d_k), (key_heads, shape.d_k), (key_heads, shape.d_v)]
        shapes = [(shape.batch, heads, n, d) for n, (heads, d) in zip(tokens, sizes, strict=True)]
    else:
        shapes = [(shape.batch, n, by.weight.shape[1]) for n, by in zip(tokens, projections, strict=False) if by]
    query, key, value = (torch.randn(one, generator=generator, dtype=torch.float64) for one in shapes[:3])
    if roles.has("x") and not roles.crosses:
        key = value = query
    elif not roles.has("value"):
        value = key
    elif not roles.has("key", "memory"):
        key = value
    return Inputs(query, key, value, shape.heads, projections)


def random_pairs(batch: int, queries: int, keys: int, seed: int = 0, diagonal: bool = False) -> Tensor:
    """Draw a mask `[batch, 1, query, key]` that allows half of the pairs, and at least one key for each query.

    diagonal: let each query see itself, so that a causal mask leaves it something.
    """
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(batch, 1, queries, keys, generator=generator) < 0.5
    first = torch.randint(keys, (batch, 1, queries, 1), generator=generator)
    return mask.scatter(-1, first, True) | (torch.eye(queries, keys, dtype=torch.bool) & diagonal)


def some_padding(batch: int, keys: int, left: bool) -> Tensor:
    """Return the real tokens of texts of several lengths, bool `[batch, key]`. The first text has [PAD].

    left: put [PAD] on the left, since causal queries never see [PAD] on the right.
    """
    lengths = keys - torch.arange(1, batch + 1) * 2 % (keys - 1)
    real = torch.arange(keys) < lengths[:, None]
    return real.flip(1) if left else real


def with_vectors(inputs: Inputs, change: Callable[[Tensor], Tensor], names: Sequence[str] = VECTORS) -> Inputs:
    """Change these vectors. Names that share a tensor share its changed copy."""
    made = {id(x): change(x) for x in (getattr(inputs, name) for name in names)}
    return inputs._replace(**{name: made.get(id(x), x) for name in VECTORS for x in [getattr(inputs, name)]})


def select_tokens(inputs: Inputs, tokens: Sequence[int] | Tensor) -> Inputs:
    """Select tokens of self-attention, in this order."""
    place, real = torch.as_tensor(tokens), inputs.seen.padding
    if real is not None:
        inputs = inputs._replace(seen=inputs.seen._replace(padding=real[:, place]))
    return with_vectors(inputs, lambda x: x[..., place, :])


# --- layouts and masks ------------------------------------------------------------------------------------


class ArrayLayout(NamedTuple):
    """The order of an array's dimensions, in words. ours: attncli's order.

    Dimensions that are missing in `name` have size 1 in ours. Without a token dimension, each text has one query, and
    keys and values keep our order.
    """

    name: str
    ours: tuple[str, ...]

    def has(self, dimension: str) -> bool:
        return dimension in self.name.split()

    @property
    def columns(self) -> bool:
        """Return whether tokens are columns. Queries are then the columns of masks and weights."""
        return self.name.endswith("token")

    def put(self, x: Tensor, is_query: bool = False) -> Tensor:
        """Convert an array from our layout to this one."""
        if not self.has("token"):
            return x[:, 0] if is_query and not self.has("1") else x
        names = self.name.split()
        kept = [name for name in self.ours if name in names]
        kept_only = x[tuple(slice(None) if name in names else 0 for name in self.ours)]
        return kept_only.permute([kept.index(name) for name in names])

    def take(self, x: Tensor, is_query: bool = True) -> Tensor:
        """Convert an array from this layout to ours. Raises RuntimeError for another number of dimensions."""
        if not self.has("token"):
            return x[:, None] if is_query and not self.has("1") else x
        names = self.name.split()
        ordered = x.permute([names.index(name) for name in self.ours if name in names])
        return ordered[tuple(slice(None) if name in names else None for name in self.ours)]


PROJECTED = [
    ArrayLayout(name, ("batch", "token", "d_model"))
    for name in (
        *("batch token d_model", "batch d_model", "batch 1 d_model", "token batch d_model", "token d_model"),
        *("batch d_model token", "d_model token"),
    )
]
BY_HEADS = [
    ArrayLayout(name, ("batch", "head", "token", "d"))
    for name in (
        *("batch head token d", "batch token head d", "batch token d", "head token d", "token d"),
        *("batch head d token", "d token"),
    )
]


class Encoding(NamedTuple):
    """The form of a mask. shape: its dimensions, as in "query key". dtype: bool, float or int.

    means: the meaning of True or 1: "allowed", "forbidden", or "added" for a number that is added to the scores.
    """

    shape: str
    means: str
    dtype: str = "bool"

    @property
    def meaning(self) -> str:
        if self.shape == LENGTHS:
            return "the number of allowed keys"
        one = {"bool": "True", "float": "1.0", "int": "1"}[self.dtype]
        return f"{one} = {self.means}" if self.means != "added" else "0 = allowed, -inf = forbidden (added)"

    @property
    def dimensions(self) -> str:
        return "[batch]" if self.shape == LENGTHS else f"[{', '.join(self.shape.split())}]"


LENGTHS = "lengths"
LISTED = 3  # shapes of a mask that a description names
MEANINGS = (
    ("allowed", "bool"),
    ("forbidden", "bool"),
    ("allowed", "int"),
    ("allowed", "float"),
    ("forbidden", "int"),
    ("forbidden", "float"),
    ("added", "float"),
)
SHAPES: dict[str, Callable[[Tensor, int], Tensor]] = {  # from [batch, 1, query, key] and the number of heads
    "query key": lambda mask, heads: mask[0, 0],
    "batch 1 query key": lambda mask, heads: mask,
    "batch query key": lambda mask, heads: mask[:, 0],
    "batch 1 1 key": lambda mask, heads: mask[:, :, :1],
    "batch key": lambda mask, heads: mask[:, 0, 0],
    "batch 1 key": lambda mask, heads: mask[:, 0, :1],
    "1 1 query key": lambda mask, heads: mask[:1],
    "batch head query key": lambda mask, heads: mask.expand(-1, heads, -1, -1),
    "batch·head query key": lambda mask, heads: mask.expand(-1, heads, -1, -1).flatten(0, 1),
}
OF_PADDING = ("batch key", "batch 1 1 key", "batch 1 key")
OF_TEXTS = ("batch 1 query key", "batch query key")


def encodings(role: str, declared: str | None) -> Iterator[Encoding]:
    """Yield the encodings of a mask, the likeliest first. declared: only those with this meaning."""
    if role == LENGTHS:
        yield Encoding(LENGTHS, "allowed", "int")
        return
    for meaning, dtype in MEANINGS:
        for shape in SHAPES if role == "mask" else OF_PADDING:
            if declared in (None, meaning):
                yield Encoding(shape, meaning, dtype)


def encode(mask: Tensor, encoding: Encoding, heads: int) -> Tensor | None:
    """Encode a mask `[batch, 1, query, key]`, True = may attend. Return None if the encoding can't express it."""
    if encoding.shape == LENGTHS:
        lengths = mask[:, 0, 0].sum(-1)
        prefix = torch.arange(mask.shape[-1]) < lengths[:, None]
        return lengths if bool((mask == prefix[:, None, None]).all()) else None
    if "batch" not in encoding.shape and not bool((mask == mask[:1]).all()):
        return None
    if "query" not in encoding.shape and not bool((mask == mask[:, :, :1]).all()):
        return None
    shaped = SHAPES[encoding.shape](mask, heads)
    if encoding.means == "added":
        return torch.zeros(shaped.shape, dtype=torch.float64).masked_fill(~shaped, -torch.inf)
    shaped = shaped.clone() if encoding.means == "allowed" else ~shaped
    return shaped if encoding.dtype == "bool" else shaped.double() if encoding.dtype == "float" else shaped.long()


def describe_encodings(role: str, understood: Sequence[Encoding]) -> str:
    """Return "mask: True = allowed, as [query, key] or [batch, key] or 2 other shapes"."""
    shapes, more = [one.dimensions for one in understood[:LISTED]], len(understood) - LISTED
    others = f" or {more} other shape{'s' if more > 1 else ''}" if more > 0 else ""
    return f"{role}: {understood[0].meaning}, as {' or '.join(shapes)}{others}"


# --- calls ------------------------------------------------------------------------------------------------


class CallForm(NamedTuple):
    """The roles of the parameters, the layout of the arrays, and the encodings of masks, by role.

    flags: unusual values of other parameters, by name. training: call in training mode.
    """

    roles: Roles
    layout: ArrayLayout
    encodings: dict[str, Encoding] = {}  # noqa: RUF012  (never changed)
    flags: dict[str, Any] = {}  # noqa: RUF012  (never changed)
    training: bool = False

    def can_express(self, inputs: Inputs) -> bool:
        if not self.layout.has("batch") and inputs.query.shape[0] > 1:
            return False
        if not self.layout.has("token") and inputs.query.shape[-2] > 1:
            return False
        if inputs.projections is None and not self.layout.has("head") and inputs.query.shape[1] > 1:
            return False
        if not self.roles.crosses and inputs.query.shape != inputs.key.shape:
            return False
        return self.masks(inputs) is not None

    def masks(self, inputs: Inputs) -> dict[str, Tensor] | None:
        """Return the masks by role, or None if no encoding can express them."""
        padding, pairs = inputs.seen.padding, inputs.seen.pairs
        shape = (inputs.query.shape[0], 1, inputs.query.shape[-2], inputs.key.shape[-2])
        needed = [role for role in self.roles.needed if role in self.encodings]
        masks = {role: torch.ones(shape, dtype=torch.bool) for role in needed}
        if padding is not None:
            known = [role for role in ("memory_padding", "padding", "lengths", "mask") if role in self.encodings]
            if not known:
                return None
            masks[known[0]] = padding[:, None, None, :].expand(shape)
        if pairs is not None and not bool(pairs.all()):
            if "mask" not in self.encodings:
                return None
            masks["mask"] = masks.get("mask", torch.tensor(True)) & pairs.expand(shape)
        encoded = {role: self.encode(role, mask, inputs.heads) for role, mask in masks.items()}
        return None if any(one is None for one in encoded.values()) else encoded  # type: ignore[return-value]

    def encode(self, role: str, mask: Tensor, heads: int) -> Tensor | None:
        encoded = encode(mask, self.encodings[role], heads)
        turned = self.layout.columns and "query key" in self.encodings[role].shape
        return encoded.mT if encoded is not None and turned else encoded

    def call(
        self, inputs: Inputs, dtype: str, step: int | None = None, pairs: Tensor | None = None, **how: Any
    ) -> CodeCall:
        """Return a call with these inputs. step: its number among calls with a cache.

        pairs: the keys so far that the queries of a step may attend to, `[batch, 1, query, key]`.
        """
        masks: dict[str, Any] = self.masks(inputs) or {}
        if pairs is not None and "mask" in self.encodings:
            masks["mask"] = self.encode("mask", pairs, inputs.heads)
        arguments: list[Any] = []
        keywords: dict[str, Any] = {}
        vectors = vectors_by_role(inputs)
        for name, role in self.roles.places:
            if role in vectors:
                value: Any = self.layout.put(vectors[role], is_query=role in ("query", "x"))
            elif name in self.flags:
                value = self.flags[name]
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
            if self.roles.positional[len(arguments) : len(arguments) + 1] == (name,):
                arguments.append(value)
            else:
                keywords[name] = value
        return CodeCall(tuple(arguments), keywords, dtype, training=self.training, **how)


def vectors_by_role(inputs: Inputs) -> dict[str, Tensor]:
    query, key, value = inputs.query, inputs.key, inputs.value
    return {"query": query, "x": query, "key": key, "memory": key, "value": value}


@dataclass(frozen=True)
class Trial:
    """A call and what it returned.

    dtype: of the inputs and weights. precision: the dtype in which the subject computes, if that is coarser.
    """

    form: CallForm
    reading: WeightLayout | None
    inputs: Inputs
    returned: Returned
    dtype: str
    precision: str = "float64"

    @cached_property
    def result(self) -> FormulaResult | None:
        """Return output and weights in our layout; None if nothing has the shape of the output.

        Weights that are a mean over heads have one head. Without weights they are empty.
        """
        by, size = self.inputs.projections, self.inputs.value.shape[-1]
        if by is not None and by.output is not None:
            size = by.output.weight.shape[0]
        elif by is not None:
            size = by.value.weight.shape[0] * (by.query.weight.shape[0] // by.key.weight.shape[0])
        output = self.output((*self.inputs.query.shape[:-1], size))
        return None if output is None else FormulaResult(output, next(self.weights(), torch.empty(0)))

    def output(self, shape: tuple[int, ...]) -> Tensor | None:
        """Return the first array of this shape, in our layout."""
        for array in self.returned.arrays:
            try:
                made = self.form.layout.take(array)
            except (IndexError, RuntimeError):
                continue
            if made.shape == shape:
                return made
        return None

    def weights(self) -> Iterator[Tensor]:
        """Yield the arrays that have the shape of weights, as `[batch, head, query, key]`."""
        inputs = self.inputs
        batch, heads, pair = inputs.query.shape[0], inputs.heads, (inputs.query.shape[-2], inputs.key.shape[-2])
        for array in self.returned.arrays:
            array = array.mT if self.form.layout.columns and array.dim() > 1 else array
            if not self.form.layout.has("token") and array.shape in ((batch, pair[1]), (batch, pair[1], 1)):
                array = array.reshape(batch, *pair)
            if array.shape == (batch, heads, *pair):
                yield array
            elif array.shape == (batch, *pair):
                yield array[:, None]
            elif batch == 1 and array.shape in ((heads, *pair), pair):
                yield array.reshape(1, -1, *pair)

    @property
    def crosses(self) -> bool:
        return self.inputs.query.shape[-2] != self.inputs.key.shape[-2]

    @cached_property
    def tolerance(self) -> float:
        """Return the difference that rounding explains: more for large scores or outputs."""
        dtype = self.precision if self.dtype == "float64" else self.dtype
        ours, epsilon = RIGHT(self.inputs).output, torch.finfo(getattr(torch, dtype)).eps
        largest = max(1.0, float(ours.nan_to_num(posinf=0.0, neginf=0.0).abs().max()))
        if dtype in STEPS:
            query, key, _ = RIGHT.heads(self.inputs)
            scores = float((query @ key.mT).abs().max()) / query.shape[-1] ** 0.5
            return STEPS[dtype] * epsilon * largest * max(1.0, scores)
        rounded = RIGHT(as_dtype(self.inputs, getattr(torch, dtype))).output
        return 4 * difference(rounded, ours) + HALF_STEPS * epsilon * largest

    @cached_property
    def rounded_inputs(self) -> Inputs:
        return as_dtype(self.inputs, getattr(torch, self.dtype))

    def fits(self, formula: Formula, padded: bool = True, nowhere: bool = True) -> bool:
        """Return whether the formula gives the same output, or both fail.

        padded: compare queries that are [PAD] too. nowhere: compare fully masked rows too.
        """
        inputs = self.rounded_inputs
        try:
            ours = formula(inputs)
        except NO_FORMULA:
            return not self.returned.arrays
        output = self.output(ours.output.shape)
        if output is None:
            return False
        ignored = None if padded else padded_queries(self.inputs)
        if not nowhere and ours.nowhere is not None:
            ignored = ours.nowhere.any(1) if ignored is None else ignored | ours.nowhere.any(1)
        sizes = ours.output.nan_to_num(posinf=0.0, neginf=0.0).abs().amax(-1, keepdim=True) / HUGE
        theirs, expected = (x / sizes.clamp(min=1.0) for x in (output, ours.output))
        gap, allowed = difference(theirs, expected, ours.nowhere, ignored), self.tolerance
        if gap > allowed and self.dtype not in STEPS:  # a mistake that enlarges scores enlarges their rounding too
            largest = [float(one.scores(inputs)[0].abs().max()) for one in (formula, RIGHT)]
            allowed *= max(1.0, largest[0] / max(largest[1], 1e-9))
        if gap <= allowed:
            return True
        # NaN in a fully masked row can spread to other rows.
        if not output.isnan().any():
            return False
        return difference(output, replace(formula, forbid=keep)(inputs).output, None, ignored) <= self.tolerance


# --- comparing --------------------------------------------------------------------------------------------

# For scores and outputs of about 1, the order of sums and the exp of fused kernels explain differences of so many eps.
STEPS = {"float64": 2**18, "float32": 32}
HALF_STEPS = 8
HUGE = 10.0  # larger outputs, which some mistakes give, are compared relative to their size


def as_dtype(values: Any, dtype: torch.dtype) -> Any:
    """Convert all real tensors of a named tuple."""
    if isinstance(values, Tensor):
        return values.to(dtype) if values.is_floating_point() else values
    return type(values)(*(as_dtype(value, dtype) for value in values)) if isinstance(values, tuple) else values


def padded_queries(inputs: Inputs) -> Tensor:
    """Return the queries that are [PAD], bool `[batch, query]`: nothing reads their outputs."""
    padding, (texts, queries) = inputs.seen.padding, (inputs.query.shape[0], inputs.query.shape[-2])
    known = padding is not None and queries == padding.shape[-1]
    return ~padding if padding is not None and known else torch.zeros(texts, queries, dtype=torch.bool)


def difference(theirs: Tensor, ours: Tensor, nowhere: Tensor | None = None, ignored: Tensor | None = None) -> float:
    """Return the largest absolute difference. It is infinite if only one of the two is NaN.

    nowhere: fully masked rows, whose output may be NaN. ignored: bool `[batch, query]`.
    """
    theirs, ours = theirs.double(), ours.double()
    if ignored is not None:
        theirs = torch.where(ignored[:, None, :, None] if ours.dim() == 4 else ignored[..., None], ours, theirs)
    if nowhere is not None:
        rows = nowhere if ours.dim() == 4 else nowhere.any(1)  # W_O adds up all heads
        theirs = torch.where(rows[..., None] & theirs.isnan(), ours, theirs)
    same = theirs.isnan() & ours.isnan() | (theirs == ours)
    gap = (theirs - ours).abs().masked_fill(same, 0.0).nan_to_num(nan=torch.inf, posinf=torch.inf)
    return float(gap.max()) if gap.numel() else 0.0
