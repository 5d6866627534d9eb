"""Make records of maps from anywhere: transformers' `attentions`, numpy, torch.

No other library is imported: a tensor is anything that numpy can make an array of.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attncli.base import choices
from attncli.base.arrays import Bools, Floats
from attncli.base.errors import RequestError
from attncli.base.printable import first_line, quoted
from attncli.record.masks import HALVES, MEASURES, check_maps, find_masks, room
from attncli.record.parts import ModelInfo, Vectors, build_vectors
from attncli.record.record import AttentionRecord
from attncli.text.tokens import Tokens, encoded, named_pieces

SHAPES = "[layer, head, query, key], or as transformers gives it: for every layer [batch, head, query, key]"
NONE_THERE = (
    'there are no attentions: load the model with attn_implementation="eager", call it with output_attentions=True, '
    "and take outputs.attentions"
)


class Maps(NamedTuple):
    """weights: float32 `[layer, head, query, key]`; dtype: what they came in."""

    weights: Floats
    dtype: str


def as_maps(weights: Any, batch: int | None = None) -> Maps:
    """The maps of one text.

    weights: of every layer, in a sequence, `[batch, head, query, key]` or `[head, query, key]`; or in one array
    `[layer, batch, head, query, key]`, `[layer, head, query, key]`, `[head, query, key]` (one layer) or
    `[query, key]` (one map).
    batch: which text is meant, where there are several.

    Raises RequestError, which says what was found and what is wanted, for anything else.
    """
    if weights is None or (isinstance(weights, Sequence) and not len(weights)):
        raise RequestError(NONE_THERE)
    if isinstance(weights, list | tuple) and not is_numbers(weights[0]):
        arrays = [layer_array(number, one, batch) for number, one in enumerate(weights)]
        for number, one in enumerate(arrays):
            if one.shape != arrays[0].shape:
                raise RequestError(
                    f"layer {number} has {shown(one)} and layer 0 {shown(arrays[0])} for [head, query, key]: maps of "
                    "one record have one shape"
                )
        return Maps(np.stack([as_floats(one) for one in arrays]), max(map(dtype_of, weights), key=room))
    array = as_array(weights, "weights")
    if array.ndim == 5:  # [layer, batch, head, query, key]
        array = array[:, chosen(array.shape[1], batch)]
    elif batch:
        raise RequestError(f"there is no batch to choose from in {shown(array)}: leave batch out")
    if not 2 <= array.ndim <= 4:
        raise RequestError(f"weights are {shown(array)}: what is wanted is {SHAPES}")
    return Maps(as_floats(array[(None,) * (4 - array.ndim)]), dtype_of(weights))


def as_floats(array: npt.NDArray[Any]) -> Floats:
    """A copy in float32, without a word about what is infinite there: it is refused with a word of its own."""
    with np.errstate(over="ignore"):
        return np.array(array, dtype=np.float32, order="C")


def layer_array(number: int, layer: Any, batch: int | None) -> npt.NDArray[Any]:
    """One of several layers as `[head, query, key]`. Raises RequestError as `as_maps` does."""
    if layer is None:
        raise RequestError(
            f"layer {number} has no attention (None): leave such layers out, and say with layers=[...] which are there"
        )
    if isinstance(layer, list | tuple) and not is_numbers(layer):
        raise RequestError(
            f"layer {number} is a {type(layer).__name__} of others, as generate() gives: call the model once on all "
            "tokens, with output_attentions=True"
        )
    array = as_array(layer, f"layer {number}")
    if array.ndim == 4:
        return array[chosen(array.shape[0], batch)]
    if array.ndim == 3:
        return array
    raise RequestError(f"layer {number} is {shown(array)}: what is wanted is {SHAPES}")


def is_numbers(values: Any) -> bool:
    """Whether this is a list of numbers, or of lists of them, and no sequence of arrays."""
    while isinstance(values, list | tuple) and len(values):
        values = values[0]
    return isinstance(values, int | float)


def chosen(count: int, batch: int | None) -> int:
    """Which text of a batch is meant. Raises RequestError where nobody says it, and for one that is not there."""
    if batch is None and count != 1:
        raise RequestError(f"there is a batch of {count} texts: say which with batch=0, and give its tokens")
    if not 0 <= (batch or 0) < count:
        raise RequestError(f"batch {batch} is out of range: there are {count} texts, from 0")
    return batch or 0


def as_array(values: Any, what: str) -> npt.NDArray[Any]:
    """Numbers as numpy's, in their own dtype if it has that: of any device, with or without a gradient.

    Raises RequestError for what is no array of real numbers.
    """
    try:
        if hasattr(values, "detach"):  # torch
            values = values.detach().cpu()
            values = values.float().numpy() if "bfloat16" in str(values.dtype) else values.numpy()
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists; tensors that are sparse or quantised
        raise RequestError(
            f"{what}: no array can be made of this {type(values).__name__}: {first_line(error)}"
        ) from error
    if array.dtype.name == "bfloat16":  # as jax has it
        array = array.astype(np.float32)
    if array.dtype.kind not in "fiub":
        raise RequestError(f"{what}: {array.dtype} are no weights: what is wanted is {SHAPES}")
    return array


def dtype_of(values: Any) -> str:
    """Name the half precision that an array of any library has; any other is as good as float32."""
    name = str(getattr(values, "dtype", "")).rpartition(".")[2]
    return name if name in HALVES else "float32"


def shown(array: npt.NDArray[Any]) -> str:
    return str(list(array.shape))


def as_tokens(tokens: Any, what: str, segments: Sequence[int] | int | None = None, batch: int | None = None) -> Tokens:
    """Raises RequestError for what is neither strings nor a tokenizer's output."""
    if hasattr(tokens, "encodings"):  # transformers' BatchEncoding
        if tokens.encodings is None:
            raise RequestError(
                f"{what}: this tokenizer says too little: give tokenizer.convert_ids_to_tokens(input_ids[0])"
            )
        tokens = tokens.encodings[chosen(len(tokens.encodings), batch)]
    if hasattr(tokens, "special_tokens_mask"):  # an Encoding of `tokenizers`
        tokens = encoded(tokens)
    if isinstance(tokens, Tokens):
        return tokens if segments is None else replace(tokens, segments=segments_of(segments, len(tokens)))
    pieces = [] if isinstance(tokens, str | bytes | Mapping) or not isinstance(tokens, Iterable) else list(tokens)
    if not pieces or not all(isinstance(one, str) for one in pieces):
        raise RequestError(f"{what}: a list of strings is wanted, one a token, as convert_ids_to_tokens gives it")
    return named_pieces(list(map(str, pieces)), None if segments is None else segments_of(segments, len(pieces)))


def segments_of(segments: Sequence[int] | int, count: int) -> list[int]:
    """For each of so many tokens 0 or 1. Raises RequestError where that is not what they say."""
    if isinstance(segments, int):
        if not 0 < segments < count:
            raise RequestError(f"segments {segments}: the second text begins at one of the tokens 1 to {count - 1}")
        return [0] * segments + [1] * (count - segments)
    numbers = [int(one) for one in segments]
    if numbers != list(segments) or len(numbers) != count or not set(numbers) <= {0, 1}:
        raise RequestError(f"segments: {len(numbers)} of them for {count} tokens, each 0 or 1, are wanted")
    return numbers


UNNAMED = "maps"  # the model's name where none is given
PARTS = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")


@dataclass(frozen=True)
class Known:
    """What is known of maps besides their weights and tokens, and can't be seen in them.

    layers, heads: their numbers in the model; by default from 0.
    kind: "encoder", "decoder" or "cross"; by default "cross" where there are key tokens, "decoder" where nothing looks
    ahead, else "encoder".
    measure: "weight", whose rows sum to 1 or to 0; "norm" for what else is at least 0; "share of norm".
    vectors: queries and keys, for `attncli explain` and the page's neuron view: two arrays
    `[layer, head, token, head_dim]`, not divided by the root of head_dim yet, or `attncli.record.Vectors`.
    model: its name.
    sinks: whether heads have a sink score, as gpt-oss's have: then a row may sum to any number up to 1.
    """

    layers: Sequence[int] | None = None
    heads: Sequence[int] | None = None
    kind: str | None = None
    measure: str = "weight"
    vectors: Vectors | tuple[Any, Any] | None = None
    model: str | ModelInfo = UNNAMED
    sinks: bool = False

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise RequestError(f"no measure {quoted(self.measure)}: it is one of {', '.join(MEASURES)}")
        if self.kind is not None:
            choices.check("part", self.kind, choices.Kind)


def record_of(
    weights: Any,
    tokens: Any,
    key_tokens: Any = None,
    *,
    segments: Sequence[int] | int | None = None,
    mask: Any = None,
    batch: int | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    kind: str | None = None,
    measure: str = "weight",
    vectors: Vectors | tuple[Any, Any] | None = None,
    model: str | ModelInfo = UNNAMED,
    sinks: bool = False,
) -> AttentionRecord:
    """A record of one text's maps, wherever they were made: all that `attend` gives records for works on it.

    weights: transformers' `outputs.attentions`, a tensor or array of every layer `[batch, head, query, key]`; or one
    array `[layer, head, query, key]`, `[layer, batch, head, query, key]`, `[head, query, key]`, `[query, key]`. Tensors
    of any library, device and floating-point dtype.
    tokens: a string for every query: `tokenizer.convert_ids_to_tokens(ids)`; or what the tokenizer gave, which also
    knows words, segments and padding; or `record.tokens`. key_tokens: the same for the keys, of another text.
    segments: 0 for each token of the first text and 1 for the second, or where the second begins.
    mask: "padding", "causal", "none", or bool `[query, key]` or `[layer, query, key]`, True = may attend. Where it is
    not given it is what has no weight in any head of any layer: what comes after a query, and [PAD].
    batch: which text of a batch is meant.
    layers, heads, kind, measure, vectors, model, sinks: what else is known of them (`attncli.record.making.Known`).

    Raises RequestError, which says what was found and what is wanted, where these do not fit together, a weight is
    negative or no number, or a row does not sum to 1 or 0.
    """
    told = Known(layers, heads, kind, measure, vectors, model, sinks)
    maps = as_maps(weights, batch)
    queries = as_tokens(tokens, "tokens", segments, batch)
    keys = None if key_tokens is None else as_tokens(key_tokens, "key tokens", None, batch)
    given = mask if mask is None or isinstance(mask, str) else as_array(mask, "the mask")
    return replace(assembled(maps.weights, queries, keys, given, told, room(maps.dtype)), dtype=maps.dtype)


def assembled(
    weights: Floats, tokens: Tokens, key_tokens: Tokens | None, mask: str | Bools | None, known: Known, missing: float
) -> AttentionRecord:
    """A record of maps `[layer, head, query, key]`; missing: how much the sum of a row may miss. Raises as `record_of`
    does.
    """
    check_lengths(weights, tokens, key_tokens)
    check_maps(weights, known.measure, missing, known.sinks)
    tokens = with_start(weights, tokens, key_tokens)
    masks, mask_name = find_masks(weights, tokens, key_tokens, mask)
    layers = numbers("layer", known.layers, weights.shape[0])
    heads = numbers("head", known.heads, weights.shape[1])
    model = known.model
    if isinstance(model, str):
        model = ModelInfo(model, "", "", max(layers) + 1, max(heads) + 1, 0)
    return AttentionRecord(
        weights=weights,
        layers=layers,
        heads=heads,
        tokens=tokens,
        masks=masks,
        mask_name=mask_name,
        model=model,
        vectors=vectors_of(known.vectors, layers, heads, weights.shape[2:]),
        key_tokens=key_tokens,
        kind=known.kind or ("cross" if key_tokens else "decoder" if mask_name == "causal" else "encoder"),
        measure=known.measure,
        sinks=known.sinks,
    )


def records_of(outputs: Any, tokens: Any, decoder_tokens: Any = None, **options: Any) -> list[AttentionRecord]:
    """A record of each attention that a model's outputs hold: of an encoder-decoder encoder, decoder and cross.

    outputs: what a model of transformers gives, or a dictionary with some of `attentions`, `encoder_attentions`,
    `decoder_attentions`, `cross_attentions`. tokens: what the model (its encoder) reads; decoder_tokens: what its
    decoder is fed. options: as for `record_of`.

    Raises RequestError as `record_of` does, where there are no attentions, and where decoder_tokens are missing.
    """
    get = outputs.get if isinstance(outputs, Mapping) else lambda name: getattr(outputs, name, None)
    there = {name: get(name) for name in PARTS}
    there = {name: maps for name, maps in there.items() if maps is not None and len(maps)}
    if decoder_tokens is None and there.keys() & set(PARTS[2:]):
        raise RequestError("an encoder-decoder has two texts: give decoder_tokens too, what its decoder is fed")
    made = {
        "attentions": lambda maps: record_of(maps, tokens, **options),
        "encoder_attentions": lambda maps: record_of(maps, tokens, kind="encoder", **options),
        "decoder_attentions": lambda maps: record_of(maps, decoder_tokens, kind="decoder", **options),
        "cross_attentions": lambda maps: record_of(maps, decoder_tokens, tokens, kind="cross", **options),
    }
    found = [made[name](maps) for name, maps in there.items()]
    return found or [record_of(None, tokens)]  # which says how to get them


def check_lengths(weights: Floats, tokens: Tokens, key_tokens: Tokens | None) -> None:
    """Raises RequestError where there are not as many queries and keys as tokens."""
    queries, keys = weights.shape[2:]
    wanted = len(tokens), len(tokens if key_tokens is None else key_tokens)
    if 0 in weights.shape:
        raise RequestError(f"weights are {list(weights.shape)} for [layer, head, query, key]: there are none")
    if (queries, keys) != wanted:
        cross = "" if key_tokens is not None or queries == keys else "; of another text's, give key_tokens too"
        raise RequestError(
            f"weights have {queries} queries and {keys} keys, and there are tokens for {wanted[0]} and {wanted[1]}: "
            f"every token has one, [CLS], [SEP] and [PAD] too{cross}"
        )


def with_start(weights: Floats, tokens: Tokens, key_tokens: Tokens | None) -> Tokens:
    """One padding token before a text, to which there is weight, is what a decoder starts with (T5, Marian)."""
    if tokens.padding[:2] != [True, False] or (key_tokens is None and not weights[:, :, 1:, 0].any()):
        return tokens
    return replace(tokens, padding=[False, *tokens.padding[1:]])


def numbers(what: str, given: Sequence[int] | None, count: int) -> list[int]:
    """The numbers of layers or heads. Raises RequestError where they are not as many, or not each once."""
    if given is None:
        return list(range(count))
    found = [int(number) for number in given]
    if found != list(given) or len(found) != count or len(set(found)) != count or min(found) < 0:
        raise RequestError(
            f"{what}s {found}: {count} numbers from 0 are wanted, each once, for there are {count} {what}s"
        )
    return found


def vectors_of(
    given: Vectors | tuple[Any, Any] | None, layers: list[int], heads: list[int], lengths: tuple[int, ...]
) -> Vectors | None:
    """The queries and keys of heads. Raises RequestError where they do not fit the rest."""
    if given is None:
        return None
    more: dict[str, Any] = {}
    names: list[str] = []
    if isinstance(given, Vectors):
        of, arrays = given.heads, [given.query, given.key]
        more, names = given.arrays(), list(given.terms)
    else:
        of = [(layer, head) for layer in layers for head in heads]
        wanted = [len(layers), len(heads)]
        arrays = [as_array(one, f"{name} vectors") for one, name in zip(given, ("query", "key"), strict=True)]
        for array in arrays:
            if array.ndim != 4 or list(array.shape[:2]) != wanted:
                raise RequestError(
                    f"vectors are {list(array.shape)}: [layer, head, token, head_dim] is wanted, of {wanted[0]} layers "
                    f"and {wanted[1]} heads"
                )
    query, key = (array.reshape(-1, *array.shape[-2:]).astype(np.float32) for array in arrays)
    numbers = {**more, "neurons": np.array(of), "query": query, "key": key}
    try:
        return build_vectors(numbers, names, layers, heads, *lengths)
    except ValueError as error:
        raise RequestError(f"vectors: {error}") from error
