"""Maps and tokens as other programs hold them: tensors of any library and device, what a tokenizer gave.

No other library is imported: a tensor is whatever can say what numpy makes of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attncli.base.arrays import Floats
from attncli.base.errors import RequestError
from attncli.base.printable import first_line
from attncli.record.measures import HALVES, room
from attncli.text.pieces import encoded, named_pieces
from attncli.text.tokens import Tokens

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
