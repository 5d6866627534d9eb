"""A family of networks as data: its configuration, its positions, its heads, and where its tensors lie.

`Values` reads a config.json under BERT's keys, with transformers' defaults for missing ones.
"""

import math
import reprlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from attncli.base.choices import OutputName
from attncli.base.errors import RequestError
from attncli.models.own_code import own_code, own_code_error


@dataclass(frozen=True)
class RotaryPositions:
    """Rotary positions, with the fields of `attncli.attention.Rotary`."""

    rotated: int
    base: float
    interleaved: bool = False
    values: bool = False
    exact: bool = False
    stretch: float | tuple[float, ...] = 1.0


@dataclass(frozen=True)
class RelativeBiasPositions:
    """A bias for each bucket of distances, which all layers share (`attncli.attention.RelativeBias`).

    furthest: the distance from which all larger ones share a bucket.
    """

    buckets: int
    furthest: int


@dataclass(frozen=True)
class Disentangling:
    """Terms between content and positions (`attncli.attention.Disentangled`).

    kinds: the terms. span: the number of offsets to either side with a vector. near, furthest: of the logarithmic
    buckets. normed: the vectors are normalised. shared: they use the content's projections.
    """

    kinds: tuple[str, ...]
    span: int
    near: int
    furthest: int
    normed: bool
    shared: bool


Positions = RotaryPositions | RelativeBiasPositions | Disentangling


class Biases(NamedTuple):
    """The parts with biases: the attention's projections, the feed-forward part, the norms.

    bare_keys: key projections have none in any case. output: for the attention's output projection, and down: for the
    second projection of the feed-forward part, if they differ from the first.
    """

    attention: bool = True
    feed_forward: bool = True
    norms: bool = True
    bare_keys: bool = False
    down: bool | None = None
    output: bool | None = None


class Conv(NamedTuple):
    """A convolution over an odd number of neighbouring tokens, in groups of elements."""

    tokens: int
    groups: int
    activation: str


FIRST, MEAN, LATE, LAST, EACH = "first", "mean", "late", "last", "each"
FULL, SLIDING = "full_attention", "sliding_attention"  # kinds of layers: without and with a window


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


class NoOwnNetwork(RequestError):  # noqa: N818  (a state)
    """Raised for a valid configuration of a network that attncli has no network for.

    why: only the reason. message: the complete line, by default the reason.
    """

    def __init__(self, why: str, message: str | None = None) -> None:
        self.why = why
        super().__init__(why if message is None else message)


class NoNetwork(RequestError):  # noqa: N818
    """Raised for a network that transformers does not have either: it would run a different one."""


class Values:
    """A config.json. data: its content. keys: the family's names of BERT's keys. defaults: of its model type."""

    def __init__(self, data: Mapping[str, Any], keys: Mapping[str, str | None], defaults: Mapping[str, Any]) -> None:
        self.data = data
        self.keys = keys
        self.defaults = {**DEFAULTS, **defaults}

    def value(self, key: str) -> Any:
        """Return the value of a key, or its default."""
        name = self.keys.get(key, key)
        default = self.defaults.get(key)
        return default if name is None else self.data.get(name, default)

    def count(self, key: str, least: int = 1, most: int = 10_000_000) -> int:
        """Return a whole number. Raises RequestError unless it is in this range."""
        number = self.value(key)
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            raise RequestError(f"{key} is {reprlib.repr(number)}, not a whole number from {least} to {most}")
        return number

    def activation(self, key: str) -> str:
        """Return an activation. Raises NoOwnNetwork for a name not in ACTIVATIONS, RequestError for no name."""
        name = self.value(key)
        if name not in ACTIVATIONS:
            refused = NoOwnNetwork if isinstance(name, str) else RequestError
            raise refused(f"activation {reprlib.repr(name)} is not one of {', '.join(ACTIVATIONS)}")
        return str(name)

    def flag(self, key: str) -> bool:
        """Return a flag. Raises RequestError unless it is true or false."""
        stated = self.value(key)
        if not isinstance(stated, bool):
            raise RequestError(f"{key} is {reprlib.repr(stated)}, not true or false")
        return stated

    def small(self, key: str) -> float:
        """Return a number. Raises RequestError unless it is in [0, 1)."""
        return number_from(0.0, key, self.value(key), 1.0)

    def check_positions(self) -> None:
        """Raises NoNetwork unless positions are a table; jina-v2 has ALiBi instead, and jina-v3 rotary positions.

        Only for families in which the key has a meaning. ModernBERT has "absolute" and mmBERT "sans_pos", without
        effect.
        """
        self.check_only("position_embedding_type", "absolute")

    def check_only(self, key: str, *known: Any) -> None:
        """Raises NoNetwork if a key that changes the network has none of the known values.

        transformers 5 ignores these keys and always runs the network of the known values.
        """
        stated = self.data.get(key, known[0])
        if stated in known:
            return
        why, code = f"{key} {reprlib.repr(stated)} is not {reprlib.repr(known[0])}", own_code(self.data)
        if code is not None:
            raise NoNetwork(own_code_error(code, why))
        raise NoNetwork(f"{why}, which is not supported: use another model, such as those that attncli models lists")

    @property
    def pad_id(self) -> int | None:
        """Return the id of [PAD]; None if there is none, or it is outside the vocabulary, such as -1.

        Raises RequestError if it is not a whole number.
        """
        if self.value("pad_token_id") is None:
            return None if self.defaults["pad_token_id"] is None else 0
        number = self.count("pad_token_id", least=-10_000_000)
        return number if 0 <= number < self.count("vocab_size") else None

    @property
    def layers(self) -> int:
        """Return the number of layers. Raises RequestError if it is not valid."""
        return self.count("num_hidden_layers", most=1000)

    @property
    def layer_types(self) -> Sequence[str] | None:
        """Return the stated kinds of the layers, if any. Raises RequestError for other kinds than FULL and SLIDING."""
        stated, layers = self.value("layer_types"), self.layers
        if stated is not None and (
            not isinstance(stated, list) or len(stated) != layers or not all(kind in (FULL, SLIDING) for kind in stated)
        ):
            raise RequestError(f"layer_types is {reprlib.repr(stated)}: {layers} layers must be {FULL} or {SLIDING}")
        return stated

    @property
    def head_dim(self) -> int:
        """Return the size of a head's vectors: hidden_size / heads, unless the family has a key for it.

        Raises RequestError if it is not valid.
        """
        if "head_dim" in self.defaults and self.value("head_dim") is not None:
            return self.count("head_dim", most=100_000)
        return self.count("hidden_size") // self.count("num_attention_heads")

    @property
    def key_heads(self) -> int:
        """Return the number of key heads, by default that of the heads. Raises RequestError if it doesn't divide it."""
        heads = self.count("num_attention_heads")
        key_heads = heads if self.value("num_key_value_heads") is None else self.count("num_key_value_heads")
        if heads % key_heads:
            raise RequestError(f"num_key_value_heads is {key_heads}, which does not divide {heads} heads")
        return key_heads

    def positive(self, key: str) -> float | None:
        """Return a number above 0, or None if there is none. Raises RequestError for another value."""
        number = self.value(key)
        return None if number is None else number_from(SMALLEST, key, number)


LINEAR, LLAMA_3 = "linear", "llama3"
SMALLEST, LARGEST = 1e-9, 1e12
ABOVE_ONE = 1 + 1e-9


def rotary_positions(values: Values) -> RotaryPositions:
    """Return the rotary positions of all layers, whose base is "rope_theta". Raises as `read_rotation` does."""
    stated = values.data.get("rope_scaling") or values.data.get("rope_parameters")
    return read_rotation(values, stated, values.value("rope_theta"))


def read_rotation(values: Values, stated: Any, base: Any, where: str = "") -> RotaryPositions:
    """Read one object of `rope_parameters`, with `base` as the default base. where: the kind of layers, if not all.

    Raises NoOwnNetwork for angles that depend on more than the position. Raises RequestError for invalid values.
    """
    stated = {} if stated is None else stated
    if not isinstance(stated, dict):
        raise RequestError(f"rope_parameters is not one object{' for each kind of layer' if where else ''}")
    usual = values.defaults.get("partial_rotary_factor")  # None in networks that rotate all of each head
    share = stated.get("partial_rotary_factor", values.value("partial_rotary_factor"))
    if usual is None and share not in (None, 1):
        raise NoOwnNetwork(
            "it rotates only a part of each head (partial_rotary_factor), which attncli does not support"
        )
    kind = stated.get("rope_type", stated.get("type", "default"))
    if kind not in ("default", LINEAR, LLAMA_3):
        raise NoOwnNetwork(
            f"it scales its rotary positions (rope_type {reprlib.repr(kind)}), which attncli does not support"
        )
    of = f" of {where}" if where else ""
    theta = number_from(ABOVE_ONE, f"rope_theta{of}", stated.get("rope_theta", base))
    size = rotated_size(values, 1 if share is None else share)
    if kind == "default":
        return RotaryPositions(size, theta)
    factor = number_from(1.0, f"factor{of}", stated.get("factor"))
    if kind == LINEAR:
        return RotaryPositions(size, theta, stretch=factor)
    least, most = (
        number_from(SMALLEST, f"{name}{of}", stated.get(name)) for name in ("low_freq_factor", "high_freq_factor")
    )
    length = stated.get("original_max_position_embeddings", values.count("max_position_embeddings"))
    length = number_from(1.0, f"original_max_position_embeddings{of}", length)
    if least >= most:
        raise RequestError(f"low_freq_factor{of} is {least:g}, which is not below high_freq_factor {most:g}")
    return RotaryPositions(size, theta, stretch=stretch_slow_pairs(size, theta, factor, least, most, length))


def stretch_slow_pairs(
    rotated: int, base: float, factor: float, least: float, most: float, length: float
) -> tuple[float, ...]:
    """Return the divisor of each pair's angles in Llama 3.1.

    A pair that turns at most `least` times in `length` tokens is slowed down by `factor`, one that turns at least
    `most` times is not, and between them 1 / divisor grows linearly.

    Source: Grattafiori et al. 2024, "The Llama 3 Herd of Models", section 3.4.2, and the published code.
    """
    turns = [length / (2 * math.pi * base ** (2 * pair / rotated)) for pair in range(rotated // 2)]
    shares = [min(1.0, max(0.0, (count - least) / (most - least))) for count in turns]
    return tuple(1 / ((1 - share) / factor + share) for share in shares)


def rotated_size(values: Values, share: Any = 1) -> int:
    """Return the number of a head's elements that are rotated in pairs. share: the rotated part of each head.

    Raises RequestError for an odd number or a share outside (0, 1], and NoOwnNetwork for a size of heads that the
    family doesn't know.
    """
    if not isinstance(share, float | int) or isinstance(share, bool) or not 0 < share <= 1:
        raise RequestError(f"partial_rotary_factor is {reprlib.repr(share)}, not a number from 0 to 1")
    if "head_dim" not in values.defaults and values.data.get("head_dim") not in (None, values.head_dim):
        raise NoOwnNetwork(
            f"head_dim is {reprlib.repr(values.data['head_dim'])}, not hidden_size / num_attention_heads"
        )
    size = int(values.head_dim * share)
    if size % 2 or not size:
        raise RequestError(f"heads of {size} elements can't be rotated in pairs")
    return size


def number_from(least: float, name: str, number: Any, most: float = LARGEST) -> float:
    """Return the number. Raises RequestError unless it is at least `least` and less than `most`."""
    if not isinstance(number, float | int) or isinstance(number, bool) or not least <= number < most:
        raise RequestError(f"{name} is {reprlib.repr(number)}, not a number from {least:g} to {most:g}")
    return float(number)


class Dense(NamedTuple):
    """f(x W + b). activation: its name in config.json. size: of the output, a field of `ModelConfig`."""

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
    """x W + b, the last step: one number per label.

    biases: possible names of the tensor b; the first existing one is used; by default the one beside W. Empty if there
    is no bias. tied: W is the token table unless it has a separate tensor. softcap: bounds the scores s to
    c tanh(s / c).
    """

    name: str
    biases: tuple[str, ...] | None = None
    tied: bool = False
    softcap: float | None = None


@dataclass(frozen=True)
class TaskHead:
    """A head: it computes a task's answer from the last hidden states.

    reads: its input, the vector of the FIRST or LAST token, the MEAN of all but [PAD], or EACH token's. LATE: the mean
    is taken after the head. parts: the layers before its scores. architecture: the ending (or endings) of the class
    name in config.json's `architectures` for the task. alone: its tensors identify the task without
    `architectures`. labels: the task's own, if any.
    """

    kind: OutputName
    reads: str
    parts: tuple[Dense | Norm, ...]
    scores: Scores
    architecture: str | tuple[str, ...]
    alone: bool = False
    labels: tuple[str, ...] | None = None

    def of(self, name: str) -> "TaskHead":
        """Return the head whose scores have this name in the checkpoint."""
        return replace(self, scores=self.scores._replace(name=name))


TaskHeads = Mapping[str, TaskHead]


def classes(*parts: Dense | Norm, scores: str = "classifier", reads: str = FIRST) -> TaskHead:
    """Return a head with classes of a text or a pair of texts."""
    return TaskHead("classes", reads, parts, Scores(scores), "ForSequenceClassification")


def tokens(*parts: Dense | Norm) -> TaskHead:
    """Return a head with labels of each token."""
    return TaskHead("tokens", EACH, parts, Scores("classifier"), "ForTokenClassification")


def span(*parts: Dense | Norm, scores: str = "qa_outputs") -> TaskHead:
    """Return a head for the start and end of an answer in the second text to a question in the first."""
    return TaskHead("span", EACH, parts, Scores(scores), "ForQuestionAnswering", labels=("start", "end"))


def words(*parts: Dense | Norm, scores: Scores) -> TaskHead:
    """Return a head for the token of the vocabulary at [MASK]."""
    return TaskHead("words", EACH, parts, scores, "ForMaskedLM", alone=True)


def decoder_heads(softcap: float | None = None, tied: bool = True) -> TaskHeads:
    """Return the heads that transformers has for decoders. "next" is the token after each token."""
    scores = Scores("lm_head", (), tied, softcap)
    return {
        "classes": TaskHead("classes", LAST, (), Scores("score", ()), "ForSequenceClassification"),
        "tokens": TaskHead("tokens", EACH, (), Scores("score"), "ForTokenClassification"),
        "span": span(),
        "next": TaskHead("next", EACH, (), scores, ("ForCausalLM", "LMHeadModel"), alone=True),
    }


def tied(name: str, *biases: str) -> Scores:
    """Return scores of the vocabulary, tied to the token table if they have no tensor."""
    return Scores(name, (f"{name}.bias", *biases), tied=True)


EVERY_HEAD = 0


class Source(NamedTuple):
    """The tensors of a module in a checkpoint: names of modules there, {n} for the layer.

    Each tensor is divided into `parts` equal groups of rows. The parts `taken` are stacked in this order, and so are
    those of several `names`. `transposed`: the matrix is `[in, out]` there, not torch's `[out, in]`, to which rows
    refer.
    heads: the number of heads whose rows are divided separately; EVERY_HEAD means the network's number of heads, which
    `ModelConfig.source` fills in. bias: the tensor of the bias, if it is not beside the matrix. grouped: which one of
    query, key and value it is, if they are stacked and there are fewer key heads; `ModelConfig.source` then fills in
    `taken` and `parts`. plus: is added to every number.
    """

    names: tuple[str, ...]
    taken: tuple[int, ...] = (0,)
    parts: int = 1
    transposed: bool = False
    heads: int = 1
    bias: str | None = None
    grouped: str | None = None
    plus: float = 0.0

    def shape(self, own: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of each named tensor for a parameter of ours of this shape."""
        there = (own[0] * self.parts // (len(self.names) * len(self.taken)), *own[1:])
        return there[::-1] if self.transposed else there

    def cut(self, whole: Any, dim: int = 0) -> Any:
        """Return the selected parts of the rows of a tensor or array along a dimension; a view if it is one part."""
        before, after = whole.shape[:dim], whole.shape[dim + 1 :]
        parts = whole.reshape(*before, self.heads, self.parts, whole.shape[dim] // (self.heads * self.parts), *after)
        taken = self.taken[0] if len(self.taken) == 1 else list(self.taken)
        return parts[(slice(None),) * (dim + 1) + (taken,)].reshape(*before, -1, *after)


def tensors_of(name: str) -> Source:
    """Return the source of a module's unchanged tensors."""
    return Source((name,))


def split(name: str, part: int, parts: int) -> Source:
    """Return the source of some rows: split("Wqkv", 1, 3) is the key of a fused query, key and value."""
    return Source((name,), (part,), parts)


def query_key_value(name: str) -> dict[str, Source]:
    """Return the sources of query, key and value, stacked in this order in one matrix."""
    return {f"layers.{{n}}.attention.{part}": split(name, at, 3) for at, part in enumerate(("query", "key", "value"))}


def grouped_query_key_value(name: str) -> dict[str, Source]:
    """Return the sources of query, key and value, stacked in one matrix with fewer rows of key and value."""
    return {f"layers.{{n}}.attention.{part}": Source((name,), grouped=part) for part in ("query", "key", "value")}


def plus_one(name: str) -> Source:
    """Return the source of a norm whose weight is stored minus 1."""
    return Source((name,), plus=1.0)


def swap(name: str) -> Source:
    """Return the source of a tensor whose two halves are stored in reverse order."""
    return Source((name,), (1, 0), 2)


def split_by_head(name: str, part: int, parts: int, bias: str | None = None) -> Source:
    """Return the source of a part of each head's rows; they are the first head's query, key and value, the second's ...

    split_by_head("in_proj", 1, 3) is the key.
    """
    return Source((name,), (part,), parts, heads=EVERY_HEAD, bias=bias)


def fuse(*names: str) -> Source:
    """Return the source of several modules, to be stacked in this order."""
    return Source(names)


def transpose(name: str) -> Source:
    """Return the source of a module whose matrix is stored as `[in, out]`."""
    return Source((name,), transposed=True)


class Published(NamedTuple):
    """The files of a family published before transformers had its network, described as in `Family`.

    tensors, prefix: their names, which transformers still writes. native: translates such a config.json to
    transformers' keys without losing any.
    """

    tensors: Mapping[str, Source]
    prefix: str
    native: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda data: data


@dataclass(frozen=True)
class Family:
    """The differences of a family of networks from BERT.

    types: the family's model types in config.json, and for each transformers' defaults that differ from BERT's.
    tensors: our modules, and the places of their tensors in transformers' network and in a checkpoint. Names of tensors
    that all layers share have no {n}. published: the differences of other checkpoints.
    prefix: of every name, if the network is part of a larger model. other_prefix: of some larger models. body: the
    beginnings of names within the network.
    keys: BERT's keys in config.json, and the family's names for them; None if the family has no such key.
    settings: fields of `ModelConfig` that differ from BERT's: the place of norms, positions, the mask of each layer,
    the kind of the feed-forward part. It raises NoOwnNetwork for features that our network does not support, and
    NoNetwork if transformers' does not either.
    tokenizer: the class of its tokenizer in transformers, if a checkpoint's files do not define one (`CUTTERS` in
    `attncli.text.tokenizer`).
    heads: the task heads, by the names of their outputs.
    """

    name: str
    types: Mapping[str, Mapping[str, Any]]
    tensors: Mapping[str, Source]
    prefix: str
    body: tuple[str, ...] = ("embeddings.", "encoder.")
    keys: Mapping[str, str | None] = field(default_factory=dict)
    settings: Callable[[Values], dict[str, Any]] = lambda values: {}
    tokenizer: str | None = None
    heads: Callable[[Values], TaskHeads] = lambda values: {}
    published: Published | None = None
    other_prefix: str | None = None

    @property
    def prefixes(self) -> list[str]:
        """Return the prefixes of names in checkpoints of larger models."""
        published = None if self.published is None else self.published.prefix
        return [one for one in (self.prefix, published, self.other_prefix) if one is not None]

    def stored(self, names: Collection[str]) -> "Family":
        """Return the family with the tensor places of a checkpoint with these names: as published earlier, or not."""
        if self.published is None:
            return self
        modules = {name.rpartition(".")[0] for name in names}

        def count_matches(tensors: Mapping[str, Source]) -> int:
            return sum(name.format(n=0) in modules for source in tensors.values() for name in source.names)

        other = self.published.tensors
        return replace(self, tensors=other) if count_matches(other) > count_matches(self.tensors) else self
