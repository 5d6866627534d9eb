"""Make records of maps from anywhere: the `attentions` of transformers, numpy arrays, torch tensors.

Imports none of these libraries: a tensor is anything that numpy can convert to an array.
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
NO_ATTENTIONS = (
    'there are no attentions: load the model with attn_implementation="eager", call it with '
    "output_attentions=True, and take outputs.attentions"
)


class _Maps(NamedTuple):
    """weights: float32 `[layer, head, query, key]`; dtype: their original dtype."""

    weights: Floats
    dtype: str


def as_maps(weights: Any, batch: int | None = None) -> _Maps:
    """Return the maps of one text.

    weights: a sequence of layers, each `[batch, head, query, key]` or `[head, query, key]`; or one array `[layer,
    batch, head, query, key]`, `[layer, head, query, key]`, `[head, query, key]` (one layer) or `[query, key]` (one
    map); or a sequence of steps (`joined_steps`). batch: the text's place in a batch of several.

    Raises RequestError with the shape found and the shape expected for anything else.
    """
    if weights is None or (isinstance(weights, Sequence) and all(layer is None for layer in weights)):
        raise RequestError(NO_ATTENTIONS)
    if isinstance(weights, list | tuple) and not is_numbers(weights[0]):
        if isinstance(weights[0], list | tuple) and not is_numbers(weights[0]):
            weights = joined_steps(weights)
        arrays = [layer_array(number, one, batch) for number, one in enumerate(weights)]
        for number, one in enumerate(arrays):
            if one.shape != arrays[0].shape:
                raise RequestError(
                    f"layer {number} has {list(one.shape)} and layer 0 {list(arrays[0].shape)} "
                    "for [head, query, key]: all layers of a record need the same shape"
                )
        return _Maps(np.stack([as_floats(one) for one in arrays]), max(map(dtype_of, weights), key=room))
    array = as_array(weights, "weights")
    if array.ndim == 5:  # [layer, batch, head, query, key]
        array = array[:, select_text(array.shape[1], batch)]
    elif batch:
        raise RequestError(f"{list(array.shape)} has no batch axis: omit batch")
    if not 2 <= array.ndim <= 4:
        raise RequestError(f"weights are {list(array.shape)}, not {SHAPES}")
    return _Maps(as_floats(array[(None,) * (4 - array.ndim)]), dtype_of(weights))


def joined_steps(steps: Sequence[Sequence[Any]]) -> list[npt.NDArray[Any]]:
    """Join the steps of generation, first of the prompt and then of each token, to one map per layer.

    steps: the result of transformers' `generate(output_attentions=True, return_dict_in_generate=True)`: for each step
    and layer the rows of its queries, `[batch, head, query, key]`. Keys grow by the queries, or are those of another
    text. The last generated token has no row, since nothing was generated after it. Returns `[batch, head, query, key]`
    for each layer. Raises RequestError if the steps are inconsistent.
    """
    joined = []
    for number in range(len(steps[0])):
        rows = [as_array(step[number] if number < len(step) else None, f"layer {number}") for step in steps]
        shapes = [list(one.shape) for one in rows]
        if any(one.ndim != 4 or one.shape[:2] != rows[0].shape[:2] for one in rows):
            raise RequestError(
                f"layer {number} has shapes {shapes} in its steps: all must be [batch, head, query, key]"
            )
        ends = np.cumsum([one.shape[2] for one in rows])
        keys = [one.shape[3] for one in rows]
        if len(set(keys)) > 1 and keys != ends.tolist():
            raise RequestError(
                f"layer {number} has {keys} keys in its steps, which must include all earlier tokens: call the model "
                "once on all tokens, with output_attentions=True"
            )
        whole = np.zeros((*rows[0].shape[:2], ends[-1], keys[-1]), rows[0].dtype)
        for one, end in zip(rows, ends, strict=True):
            whole[:, :, end - one.shape[2] : end, : one.shape[3]] = one
        joined.append(whole)
    return joined


def as_floats(array: npt.NDArray[Any]) -> Floats:
    """Return a copy in float32, without numpy's warning about infinity, which a later check reports."""
    with np.errstate(over="ignore"):
        return np.array(array, dtype=np.float32, order="C")


def layer_array(number: int, layer: Any, batch: int | None) -> npt.NDArray[Any]:
    """Return one of several layers as `[head, query, key]`. Raises RequestError as `as_maps` does."""
    if layer is None:
        raise RequestError(
            f"layer {number} has no attention (None): omit such layers, and number the others with layers=[...]"
        )
    array = as_array(layer, f"layer {number}")
    if array.ndim == 4:
        return array[select_text(array.shape[0], batch)]
    if array.ndim == 3:
        return array
    raise RequestError(f"layer {number} is {list(array.shape)}, but must be {SHAPES}")


def is_numbers(values: Any) -> bool:
    """Return True for a list of numbers, nested or not; False for a sequence of arrays."""
    while isinstance(values, list | tuple) and len(values):
        values = values[0]
    return isinstance(values, int | float)


def select_text(count: int, batch: int | None) -> int:
    """Return the place of the text in a batch. Raises RequestError if it is out of range, or needed but not given."""
    if batch is None and count != 1:
        raise RequestError(f"the batch has {count} texts: choose one with batch=0, and give its tokens")
    if not 0 <= (batch or 0) < count:
        raise RequestError(f"batch {batch} is out of range: there are {count} texts, from 0")
    return batch or 0


def as_array(values: Any, what: str) -> npt.NDArray[Any]:
    """Return numbers as a numpy array, from any device, with or without a gradient; the dtype is kept if numpy has it.

    Raises RequestError for anything but an array of real numbers.
    """
    try:
        if hasattr(values, "detach"):  # torch
            values = values.detach().cpu()
            values = values.float().numpy() if "bfloat16" in str(values.dtype) else values.numpy()
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists; tensors that are sparse or quantised
        raise RequestError(
            f"{what}: can't convert this {type(values).__name__} to an array: {first_line(error)}"
        ) from error
    if array.dtype.name == "bfloat16":  # from jax
        array = array.astype(np.float32)
    if array.dtype.kind not in "fiub":
        raise RequestError(f"{what}: weights can't be {array.dtype}; expected {SHAPES}")
    return array


def dtype_of(values: Any) -> str:
    """Name the half-precision dtype of an array of any library; "float32" for every other dtype."""
    name = str(getattr(values, "dtype", "")).rpartition(".")[2]
    return name if name in HALVES else "float32"


def as_tokens(tokens: Any, what: str, segments: Sequence[int] | int | None = None, batch: int | None = None) -> Tokens:
    """Convert strings or a tokenizer's output to Tokens. Raises RequestError for anything else."""
    if hasattr(tokens, "encodings"):  # transformers' BatchEncoding
        if tokens.encodings is None:
            raise RequestError(
                f"{what}: this tokenizer returns no encodings: give tokenizer.convert_ids_to_tokens(input_ids[0])"
            )
        tokens = tokens.encodings[select_text(len(tokens.encodings), batch)]
    if hasattr(tokens, "special_tokens_mask"):  # an Encoding of `tokenizers`
        tokens = encoded(tokens)
    if isinstance(tokens, Tokens):
        return tokens if segments is None else replace(tokens, segments=segments_of(segments, len(tokens)))
    pieces = [] if isinstance(tokens, str | bytes | Mapping) or not isinstance(tokens, Iterable) else list(tokens)
    if not pieces or not all(isinstance(one, str) for one in pieces):
        raise RequestError(f"{what}: give a list of strings, one per token, as from convert_ids_to_tokens")
    return named_pieces(list(map(str, pieces)), None if segments is None else segments_of(segments, len(pieces)))


def segments_of(segments: Sequence[int] | int, count: int) -> list[int]:
    """Return 0 or 1 for each token. Raises RequestError for anything else."""
    if isinstance(segments, int):
        if not 0 < segments < count:
            raise RequestError(f"segments {segments}: the second text must begin at one of the tokens 1 to {count - 1}")
        return [0] * segments + [1] * (count - segments)
    numbers = [int(one) for one in segments]
    if numbers != list(segments) or len(numbers) != count or not set(numbers) <= {0, 1}:
        raise RequestError(f"segments: {len(numbers)} values for {count} tokens; give 0 or 1 for each token")
    return numbers


UNNAMED = "maps"  # the model's name by default
PARTS = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")


@dataclass(frozen=True)
class Known:
    """Properties of maps that their weights and tokens do not show.

    layers, heads: their numbers in the model; by default from 0.
    kind: "encoder", "decoder" or "cross"; by default "cross" if there are key tokens, "decoder" if no weight is on
    later tokens, else "encoder".
    measure: "weight", whose rows sum to 1 or to 0; "norm" for any values of at least 0; "share of norm".
    vectors: queries and keys, for `attncli explain` and the page's neuron view: two arrays
    `[layer, head, token, head_dim]`, not yet divided by the root of head_dim, or `attncli.record.Vectors`.
    model: its name.
    sinks: heads have a sink score, as in gpt-oss. A row may then sum to any number up to 1.
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
            raise RequestError(f"no measure {quoted(self.measure)}: use one of {', '.join(MEASURES)}")
        if self.kind is not None:
            choices.check("part", self.kind, choices.KindName)


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
    """Return a record of one text's maps from any source. Everything that works on records of `attend` works on it.

    weights: transformers' `outputs.attentions`, one tensor or array per layer `[batch, head, query, key]`, and of
    `generate` such a tuple for each step; or one array `[layer, head, query, key]`, `[layer, batch, head, query, key]`,
    `[head, query, key]`, `[query, key]`. Tensors of any library, device and floating-point dtype.
    tokens: one string per query (`tokenizer.convert_ids_to_tokens(ids)`); or the tokenizer's output, which also has
    words, segments and padding; or `record.tokens`. key_tokens: the same for the keys, if they are of another text.
    segments: 0 for each token of the first text and 1 for the second, or the number of the second's first token.
    mask: "padding", "causal", "none", or bool `[query, key]` or `[layer, query, key]`, True = may attend. By
    default it is inferred from later tokens and [PAD] that have no weight in any head of any layer.
    batch: the text's place in a batch of several.
    layers, heads, kind, measure, vectors, model, sinks: see `attncli.record.making.Known`.

    Raises RequestError with the values found and expected if these are inconsistent, a weight is negative or not a
    number, or a row does not sum to 1 or 0.
    """
    known = Known(layers, heads, kind, measure, vectors, model, sinks)
    maps = as_maps(weights, batch)
    queries = as_tokens(tokens, "tokens", segments, batch)
    keys = None if key_tokens is None else as_tokens(key_tokens, "key tokens", None, batch)
    given = mask if mask is None or isinstance(mask, str) else as_array(mask, "the mask")
    return replace(assembled(maps.weights, queries, keys, given, known, room(maps.dtype)), dtype=maps.dtype)


def assembled(
    weights: Floats, tokens: Tokens, key_tokens: Tokens | None, mask: str | Bools | None, known: Known, tolerance: float
) -> AttentionRecord:
    """Build a record of maps `[layer, head, query, key]`.

    tolerance: the tolerance of a row's sum. Raises as `record_of` does.
    """
    queries, keys = weights.shape[2:]
    wanted = len(tokens), len(tokens if key_tokens is None else key_tokens)
    if 0 in weights.shape:
        raise RequestError(f"weights are {list(weights.shape)} for [layer, head, query, key]: they are empty")
    if (queries, keys) != wanted:
        cross = "" if key_tokens is not None or queries == keys else "; for keys of another text, also give key_tokens"
        raise RequestError(
            f"weights have {queries} queries and {keys} keys, but the tokens are {wanted[0]} and {wanted[1]}: "
            f"include every token, also [CLS], [SEP] and [PAD]{cross}"
        )
    check_maps(weights, known.measure, tolerance, known.sinks)
    if tokens.padding[:2] == [True, False] and (key_tokens is not None or weights[:, :, 1:, 0].any()):
        # One [PAD] before a text that has weight is real: T5 and Marian start their decoder with it.
        tokens = replace(tokens, padding=[False, *tokens.padding[1:]])
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
    """Return a record of each attention in a model's outputs. For an encoder-decoder these are encoder, decoder and
    cross.

    outputs: the outputs of a transformers model, or a dictionary with some of `attentions`, `encoder_attentions`,
    `decoder_attentions`, `cross_attentions`. tokens: the input of the model (of its encoder). decoder_tokens: the input
    of its decoder. options: as for `record_of`.

    Raises RequestError as `record_of` does, if there are no attentions, and if decoder_tokens are missing.
    """
    get = outputs.get if isinstance(outputs, Mapping) else lambda name: getattr(outputs, name, None)
    there = {name: get(name) for name in PARTS}
    there = {name: maps for name, maps in there.items() if maps is not None and any(one is not None for one in maps)}
    if decoder_tokens is None and there.keys() & set(PARTS[2:]):
        raise RequestError("an encoder-decoder has two texts: also give decoder_tokens, the decoder's input")
    made = {
        "attentions": lambda maps: record_of(maps, tokens, **options),
        "encoder_attentions": lambda maps: record_of(maps, tokens, kind="encoder", **options),
        "decoder_attentions": lambda maps: record_of(maps, decoder_tokens, kind="decoder", **options),
        "cross_attentions": lambda maps: record_of(maps, decoder_tokens, tokens, kind="cross", **options),
    }
    found = [made[name](maps) for name, maps in there.items()]
    return found or [record_of(None, tokens)]  # raises an error that says how to get attentions


def numbers(what: str, given: Sequence[int] | None, count: int) -> list[int]:
    """Return the numbers of layers or heads. Raises RequestError unless they are distinct and of this count."""
    if given is None:
        return list(range(count))
    found = [int(number) for number in given]
    if found != list(given) or len(found) != count or len(set(found)) != count or min(found) < 0:
        raise RequestError(f"{what}s {found}: give {count} distinct numbers from 0, since there are {count} {what}s")
    return found


def vectors_of(
    given: Vectors | tuple[Any, Any] | None, layers: list[int], heads: list[int], lengths: tuple[int, ...]
) -> Vectors | None:
    """Return the queries and keys of heads. Raises RequestError if they do not fit the maps."""
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
                    f"vectors are {list(array.shape)}: give [layer, head, token, head_dim] with {wanted[0]} layers "
                    f"and {wanted[1]} heads"
                )
    query, key = (array.reshape(-1, *array.shape[-2:]).astype(np.float32) for array in arrays)
    numbers = {**more, "neurons": np.array(of), "query": query, "key": key}
    try:
        return build_vectors(numbers, names, layers, heads, *lengths)
    except ValueError as error:
        raise RequestError(f"vectors: {error}") from error
