"""What a family of encoders is: data. The network is built by it, and its checkpoints are read by it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from attncli.models.families.heads import Heads, no_heads
from attncli.models.families.values import Values

if TYPE_CHECKING:
    from torch import Tensor

EVERY_HEAD = 0


class Source(NamedTuple):
    """Where a module's tensors lie in a checkpoint: modules there, {n} for the layer.

    Of each tensor, cut into `parts` equal parts of its rows, the parts `taken` are put under each other, in this order,
    and so are those of several `names`. `transposed`: there a matrix is `[in, out]`, and not torch's `[out, in]`, whose
    rows are meant. heads: so many heads' rows lie under each other, and those of each are cut by themselves; EVERY_HEAD
    for as many as the network has, which `ModelConfig.source` fills in. bias: the tensor that is the bias, where that
    does not lie beside the matrix.
    """

    names: tuple[str, ...]
    taken: tuple[int, ...] = (0,)
    parts: int = 1
    transposed: bool = False
    heads: int = 1
    bias: str | None = None

    def shape(self, own: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of each of the names' tensors, for one of ours of this shape."""
        there = (own[0] * self.parts // (len(self.names) * len(self.taken)), *own[1:])
        return there[::-1] if self.transposed else there

    def cut(self, whole: "Tensor", dim: int = 0) -> "Tensor":
        """Its parts of the rows that lie along this dimension; a view where it is one."""
        parts = whole.unflatten(dim, (self.heads, self.parts, -1))
        if len(self.taken) == 1:
            return parts.select(dim + 1, self.taken[0]).flatten(dim, dim + 1)
        return parts.movedim(dim + 1, 0)[list(self.taken)].movedim(0, dim + 1).flatten(dim, dim + 2)


def whole(name: str) -> Source:
    """The tensors of a module as they are."""
    return Source((name,))


def split(name: str, part: int, parts: int) -> Source:
    """Some of the rows: split("Wqkv", 1, 3) is the key of a fused query, key and value."""
    return Source((name,), (part,), parts)


def query_key_value(name: str) -> dict[str, Source]:
    """The attention's queries, keys and values, as the rows of one matrix in this order."""
    return {f"layers.{{n}}.attention.{part}": split(name, at, 3) for at, part in enumerate(("query", "key", "value"))}


def swap(name: str) -> Source:
    """Two halves, the second first."""
    return Source((name,), (1, 0), 2)


def split_by_head(name: str, part: int, parts: int, bias: str | None = None) -> Source:
    """Some of each head's rows: of a matrix with the first head's query, key and value, then the second head's, ...,
    split_by_head("in_proj", 1, 3) is the key.
    """
    return Source((name,), (part,), parts, heads=EVERY_HEAD, bias=bias)


def fuse(*names: str) -> Source:
    """Several modules as one, in this order."""
    return Source(names)


def transpose(name: str) -> Source:
    """A module whose matrix is `[in, out]`."""
    return Source((name,), transposed=True)


def as_it_is(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A config.json in transformers' words."""
    return data


class Published(NamedTuple):
    """What files of a family are that were published before transformers had its network: data as `Family` has it.

    tensors, prefix: by the names that they have there; transformers still writes these names. native: what such a
    config.json says -> the same in transformers' words, and nothing of what it said lost.
    """

    tensors: Mapping[str, Source]
    prefix: str
    native: Callable[[Mapping[str, Any]], Mapping[str, Any]] = as_it_is


def nothing_else(values: Values) -> dict[str, Any]:
    """A family whose config.json says what BERT's says."""
    return {}


@dataclass(frozen=True)
class Family:
    """What tells a family of encoders from BERT.

    types: the model types of config.json that are of this family, and for each what transformers takes for keys that a
    config.json leaves out, where that is not what it takes for BERT.
    tensors: our modules, and where their tensors lie in transformers' network, and in a checkpoint. What all layers
    share has no {n} in its name. published: what is otherwise in other checkpoints.
    prefix: before every name, where the encoder is a part of a larger model; body: how names within the encoder begin.
    keys: BERT's words in config.json, and the family's for the same; None for what it can't be told.
    settings: fields of `ModelConfig` that are not what BERT's keys make of them: where the norms stand, positions, the
    mask of each layer, the kind of the feed-forward part. It raises NoEncoder for what our network can't do, NoNetwork
    for what transformers' can't do either.
    tokenizer: the class of its tokenizer in transformers, where a checkpoint's files don't make one (`CUTTERS` in
    `attncli.text.tokenizer`).
    heads: by the names of outputs, what reads them off the last hidden states (`attncli.models.families.heads`).
    """

    name: str
    types: Mapping[str, Mapping[str, Any]]
    tensors: Mapping[str, Source]
    prefix: str
    body: tuple[str, ...]
    keys: Mapping[str, str | None] = field(default_factory=dict)
    settings: Callable[[Values], dict[str, Any]] = nothing_else
    tokenizer: str | None = None
    heads: Callable[[Values], Heads] = no_heads
    published: Published | None = None

    def stored(self, names: Collection[str]) -> "Family":
        """The family with its tensors where they lie in a checkpoint that has these names: as published, or not."""
        if self.published is None:
            return self
        modules = {name.rpartition(".")[0] for name in names}

        def found(tensors: Mapping[str, Source]) -> int:
            return sum(name.format(n=0) in modules for source in tensors.values() for name in source.names)

        other = self.published.tensors
        return replace(self, tensors=other) if found(other) > found(self.tensors) else self
