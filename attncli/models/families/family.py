"""A family of encoders as data: its configuration, its positions, its heads, and where its tensors lie.

`Values` reads a config.json in BERT's words, with transformers' defaults for what it leaves out."""

import reprlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from attncli.base.choices import Output
from attncli.base.errors import RequestError
from attncli.models.hub import needs_its_code, own_code

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Turned:
    """Rotary positions; the words are those of `attncli.attention.Rotary`."""

    rotated: int
    base: float
    interleaved: bool = False
    values: bool = False
    exact: bool = False
    stretch: float = 1.0


@dataclass(frozen=True)
class Biased:
    """A bias for each bucket of distances, which all layers share (`attncli.attention.RelativeBias`).

    furthest: from where on distances are alike.
    """

    buckets: int
    furthest: int


@dataclass(frozen=True)
class Disentangling:
    """Terms between content and positions (`attncli.attention.Disentangled`).

    kinds: the terms; span: offsets to either side that have a vector; near, furthest: of the logarithmic buckets.
    normed: whether the vectors are normalised; shared: whether the content's projections are theirs too.
    """

    kinds: tuple[str, ...]
    span: int
    near: int
    furthest: int
    normed: bool
    shared: bool


Positions = Turned | Biased | Disentangling


class Biases(NamedTuple):
    """Whether there is one: in the attention's projections, in the feed-forward part, in the norms.

    bare_keys: whether the projections that make keys have none all the same. down: in the feed-forward part's second
    projection, where that is not as in its first.
    """

    attention: bool = True
    feed_forward: bool = True
    norms: bool = True
    bare_keys: bool = False
    down: bool | None = None


class Conv(NamedTuple):
    """A convolution over neighbouring tokens: how many of them, an odd number, and in how many groups of elements."""

    tokens: int
    groups: int
    activation: str


FIRST, MEAN, LATE, EACH = "first", "mean", "late", "each"


DEFAULTS: dict[str, Any] = {
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}

ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish", "tanh")


class NoEncoder(RequestError):  # noqa: N818  (it says what is the case)
    """A good configuration of a network that attncli has no encoder for.

    why: the reason alone; message: the whole line, by default the reason.
    """

    def __init__(self, why: str, message: str | None = None) -> None:
        self.why = why
        super().__init__(why if message is None else message)


class NoNetwork(RequestError):  # noqa: N818
    """A configuration of a network that transformers has none for either: what it would run is another one."""


class Values:
    """data: what a config.json holds; keys: the family's own words for BERT's; defaults: of its model type."""

    def __init__(self, data: Mapping[str, Any], keys: Mapping[str, str | None], defaults: Mapping[str, Any]) -> None:
        self.data = data
        self.keys = keys
        self.defaults = {**DEFAULTS, **defaults}

    def value(self, key: str) -> Any:
        """Whatever stands there."""
        name = self.keys.get(key, key)
        default = self.defaults.get(key)
        return default if name is None else self.data.get(name, default)

    def count(self, key: str, least: int = 1, most: int = 10_000_000) -> int:
        """Raises RequestError when it is no whole number in this range."""
        number = self.value(key)
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            raise RequestError(f"{key} is {reprlib.repr(number)}, not a whole number from {least} to {most}")
        return number

    def activation(self, key: str) -> str:
        """Raises RequestError when it is none of ACTIVATIONS."""
        name = self.value(key)
        if name not in ACTIVATIONS:
            raise RequestError(f"activation {reprlib.repr(name)} is not one of {', '.join(ACTIVATIONS)}")
        return str(name)

    def flag(self, key: str) -> bool:
        """Raises RequestError when it is not true or false."""
        stated = self.value(key)
        if not isinstance(stated, bool):
            raise RequestError(f"{key} is {reprlib.repr(stated)}, not true or false")
        return stated

    def small(self, key: str) -> float:
        """Raises RequestError when it is no number in [0, 1)."""
        number = self.value(key)
        if not isinstance(number, float | int) or isinstance(number, bool) or not 0 <= number < 1:
            raise RequestError(f"{key} is {reprlib.repr(number)}, not a small number")
        return float(number)

    def check_positions(self) -> None:
        """Raises NoNetwork where positions are told otherwise than by a table: jina-v2 (ALiBi), jina-v3 (rotary).

        For families that call this the key means something; ModernBERT's says "absolute" and mmBERT's "sans_pos", and
        neither means it.
        """
        self.check_only("position_embedding_type", "absolute")

    def check_only(self, key: str, *known: Any) -> None:
        """For what changes the network, and is passed over by transformers 5, whose network is that of these values.

        Raises NoNetwork where config.json says another one.
        """
        stated = self.data.get(key, known[0])
        if stated in known:
            return
        why, code = f"{key} {reprlib.repr(stated)} is not {reprlib.repr(known[0])}", own_code(self.data)
        if code is not None:
            raise NoNetwork(needs_its_code(code, why))
        raise NoNetwork(f"{why}, and nothing here runs it: take another model, attncli models lists some")

    @property
    def pad_id(self) -> int:
        """[PAD]'s number in the vocabulary. Raises RequestError when it can't be one."""
        return 0 if self.value("pad_token_id") is None else self.count("pad_token_id", least=0)


LINEAR = "linear"
LARGEST = 1e12


def turned(values: Values) -> Turned:
    """In all layers alike; without a word of it with the base that stands under "rope_theta" in the defaults.

    Raises as `turned_by` does.
    """
    stated = values.data.get("rope_scaling") or values.data.get("rope_parameters")
    return turned_by(values, stated, values.value("rope_theta"))


def turned_by(values: Values, stated: Any, base: Any, where: str = "") -> Turned:
    """What one object of `rope_parameters` says, with this base where it says none. where: of which layers, if not all.

    Raises NoEncoder for angles that depend on more than the position, and for a part of a head; RequestError for what
    makes no sense.
    """
    stated = {} if stated is None else stated
    if not isinstance(stated, dict):
        raise RequestError(f"rope_parameters is not one object{' for each kind of layer' if where else ''}")
    if stated.get("partial_rotary_factor", values.data.get("partial_rotary_factor", 1)) not in (None, 1):
        raise NoEncoder("it turns a part of each head (partial_rotary_factor), which attncli does not")
    kind = stated.get("rope_type", stated.get("type", "default"))
    if kind not in ("default", LINEAR):
        raise NoEncoder(f"it stretches its rotary positions (rope_type {reprlib.repr(kind)}), which attncli does not")
    of = f" of {where}" if where else ""
    theta = more_than_one(f"rope_theta{of}", stated.get("rope_theta", base))
    stretch = more_than_one(f"factor{of}", stated.get("factor"), least=1.0) if kind == LINEAR else 1.0
    return Turned(turned_size(values), theta, stretch=stretch)


def turned_size(values: Values) -> int:
    """How many elements a head's vectors have, which are turned in pairs.

    Raises RequestError for an odd number, and NoEncoder where those of all heads are not hidden_size.
    """
    size = values.count("hidden_size") // values.count("num_attention_heads")
    if values.value("head_dim") not in (None, size):
        raise NoEncoder(f"head_dim is {reprlib.repr(values.value('head_dim'))}, not hidden_size / num_attention_heads")
    if size % 2:
        raise RequestError(f"heads of {size} elements can't be turned in pairs")
    return size


def more_than_one(name: str, number: Any, least: float = 1 + 1e-9) -> float:
    """Raises RequestError when it is no such number."""
    if not isinstance(number, float | int) or isinstance(number, bool) or not least <= number < LARGEST:
        raise RequestError(f"{name} is {reprlib.repr(number)}, not a number between 1 and 1e12")
    return float(number)


class Dense(NamedTuple):
    """f(x W + b). activation: by its name in config.json; size: of what comes out, a field of `ModelConfig`."""

    name: str
    activation: str
    size: str = "hidden_size"
    bias: bool = True


class Norm(NamedTuple):
    """LayerNorm, with the network's own epsilon. published: its name in other checkpoints (`Family.published`)."""

    name: str
    bias: bool = True
    published: str | None = None


class Scores(NamedTuple):
    """x W + b, the last step: a number for each label.

    biases: where b lies, by the names of tensors of which the first that is there is taken; by default beside W. Empty
    where there is none. tied: whether W is the table of the tokens' vectors, where it has no tensor of its own.
    """

    name: str
    biases: tuple[str, ...] | None = None
    tied: bool = False


@dataclass(frozen=True)
class Head:
    """What reads a task's answer off the last hidden states.

    reads: of which vector, the FIRST token's, the MEAN of all but [PAD], or EACH token's; LATE: the mean is taken of
    what becomes of all but [PAD]. parts: what happens to it before its scores. architecture: how the class ends that
    config.json names under `architectures` where these tensors are for the task; alone: whether their names say so too.
    labels: where the task has its own.
    """

    kind: Output
    reads: str
    parts: tuple[Dense | Norm, ...]
    scores: Scores
    architecture: str
    alone: bool = False
    labels: tuple[str, ...] | None = None


Heads = Mapping[str, Head]


def no_heads(values: Values) -> Heads:
    """A family of which nothing is known but its encoder."""
    return {}


def classes(*parts: Dense | Norm, scores: str = "classifier", reads: str = FIRST) -> Head:
    """Of a text, or of a pair of texts."""
    return Head("classes", reads, parts, Scores(scores), "ForSequenceClassification")


def tokens(*parts: Dense | Norm) -> Head:
    """Labels of each token."""
    return Head("tokens", EACH, parts, Scores("classifier"), "ForTokenClassification")


def span(*parts: Dense | Norm, scores: str = "qa_outputs") -> Head:
    """Where in the second text the answer to the first begins and ends."""
    return Head("span", EACH, parts, Scores(scores), "ForQuestionAnswering", labels=("start", "end"))


def words(*parts: Dense | Norm, scores: Scores) -> Head:
    """Which token of the vocabulary stands behind [MASK]."""
    return Head("words", EACH, parts, scores, "ForMaskedLM", alone=True)


def tied(name: str, *biases: str) -> Scores:
    """Scores of the vocabulary, from the tokens' own vectors where there are no others."""
    return Scores(name, (f"{name}.bias", *biases), tied=True)


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
    heads: by the names of outputs, what reads them off the last hidden states (`attncli.models.families.family`).
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


# What transformers takes for a key of BERT's that config.json leaves out.
