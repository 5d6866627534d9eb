"""Saved records, read and checked: what does not fit together is refused."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import check_suffix
from attncli.base.printable import first_line
from attncli.record.files import LOADED, SUFFIXES, VECTOR_ARRAYS, read_npz, read_safetensors
from attncli.record.parts import ModelInfo, Vectors
from attncli.record.record import AttentionRecord
from attncli.record.selection import number_list
from attncli.text.tokens import Tokens

TOKEN_KINDS = {
    "text": str,
    "ids": int,
    "segments": int,
    "words": int | None,
    "offsets": list | tuple,
    "special": bool,
    "padding": bool,
    "shown": str,
}
MEASURES = (*choices.names(choices.Measure), "share of norm")


def load_record(path: str | Path) -> AttentionRecord:
    """Load a saved record (.safetensors or .npz) that holds one text.

    Raises RequestError when the file is missing, cut short, not a record, or holds several texts.
    """
    records = load_records(path)
    if len(records) != 1:
        raise RequestError(f"{path} holds {len(records)} texts; load_records reads them all")
    return records[0]


def load_records(path: str | Path) -> list[AttentionRecord]:
    """Load all texts of a saved record (.safetensors or .npz).

    Raises RequestError when the file is missing, cut short, or not a record.
    """
    path = Path(path)
    suffix = check_suffix(path, SUFFIXES, "a record")
    if suffix not in LOADED:
        raise RequestError(f"{path}: {suffix} is for other programs; a record is read from {' or '.join(LOADED)}")
    try:
        with path.open("rb"):
            pass
        read = read_npz if suffix == ".npz" else read_safetensors
        records = [build(*contents) for contents in read(path)]
        if not records:
            raise ValueError("it holds no text")
        return records
    except OSError as error:
        raise RequestError(f"can't read {path}: {error.strerror or first_line(error)}") from error
    except Exception as error:  # a garbled file can end in nearly any of them
        raise RequestError(f"{path} is not a whole attncli record: {first_line(error)}") from error


def build(numbers: dict[str, Any], rest: dict[str, Any]) -> AttentionRecord:
    """A record from a file's contents. Raises ValueError, TypeError or KeyError where they don't fit together."""
    tokens = build_tokens(rest["tokens"])
    key_tokens = None if rest.get("key_tokens") is None else build_tokens(rest["key_tokens"])
    queries, keys = len(tokens), len(tokens if key_tokens is None else key_tokens)
    weights, mask = numbers["weights"], numbers["mask"]
    layers, heads = numbers["layers"].tolist(), numbers["heads"].tolist()
    if weights.dtype != np.float32 or weights.shape != (len(layers), len(heads), queries, keys):
        raise ValueError(f"weights are {weights.dtype} {list(weights.shape)} for {queries} queries and {keys} keys")
    if 0 in weights.shape:
        raise ValueError("it holds no weights")
    if mask.dtype != np.bool_ or mask.shape not in ((queries, keys), (len(layers), queries, keys)):
        wanted = f"{len(layers)} layers, {queries} queries and {keys} keys"
        raise ValueError(f"the mask is {mask.dtype} {list(mask.shape)} for {wanted}")
    if not np.isfinite(weights).all() or weights.min() < 0:
        raise ValueError("a weight is negative or not a number")
    model = ModelInfo(**rest["model"])
    kind = rest.get("kind", "encoder")
    if kind not in choices.names(choices.Kind):
        raise ValueError(f"no attention of the kind {kind!r}")
    measure = rest.get("measure", "weight")
    if measure not in MEASURES:
        raise ValueError(f"no measure {measure!r}")
    check_kind("mask_name", [rest["mask_name"]], str)
    check_kind("model", [model.name, model.path, model.sha256], str)
    check_kind("model", [model.layers, model.heads, model.hidden_size], int)
    check_numbers("layers", layers, model.layers)
    check_numbers("heads", heads, model.heads)
    whose = numbers, layers, heads, queries, keys
    vectors = build_vectors(*whose) if numbers.keys() & set(VECTOR_ARRAYS) else None
    return AttentionRecord(
        weights, layers, heads, tokens, mask, rest["mask_name"], model, vectors, key_tokens, kind, measure
    )


def build_tokens(parts: dict[str, Any]) -> Tokens:
    """Tokens from a file's contents. Raises ValueError, TypeError or KeyError where they don't fit together."""
    names = [name for name in TOKEN_KINDS if name in parts or name != "shown"]  # which older files don't have
    lists = {name: parts[name] for name in names}
    if any(not isinstance(part, list) or len(part) != len(lists["text"]) for part in lists.values()):
        raise ValueError("not every token has an id, a segment, a word and an offset")
    for name in names:
        check_kind(name, lists[name], TOKEN_KINDS[name])
    return Tokens(**{**lists, "offsets": [(int(a), int(b)) for a, b in lists["offsets"]]})


def build_vectors(numbers: dict[str, Any], layers: list[int], heads: list[int], queries: int, keys: int) -> Vectors:
    """The vectors in a file's contents. Raises ValueError or KeyError where they don't fit the rest."""
    neurons, query, key = (numbers[name] for name in VECTOR_ARRAYS)
    if neurons.dtype != np.int64 or neurons.ndim != 2 or neurons.shape[1] != 2:
        raise ValueError(f"neurons are {neurons.dtype} {list(neurons.shape)}, not pairs of layer and head")
    pairs = [(layer, head) for layer, head in neurons.tolist()]
    if len(set(pairs)) != len(pairs) or not all(layer in layers and head in heads for layer, head in pairs):
        raise ValueError("neurons are not some of its heads, each once")
    for name, array, length in (("query", query, queries), ("key", key, keys)):
        if array.dtype != np.float32 or array.ndim != 3 or array.shape != (len(pairs), length, query.shape[2]):
            raise ValueError(f"{name} is {array.dtype} {list(array.shape)} for {len(pairs)} heads, {length} tokens")
        if array.size == 0 or not np.isfinite(array).all():
            raise ValueError(f"{name} is empty or holds what is not a number")
    return Vectors(pairs, query, key)


def check_numbers(what: str, numbers: Sequence[int], count: int) -> None:
    """Raises ValueError when these are not some of `count` layers or heads, each once."""
    if len(set(numbers)) < len(numbers) or not all(type(number) is int and 0 <= number < count for number in numbers):
        raise ValueError(f"{what} {number_list(sorted(numbers))} are not some of the model's {count}")


def check_kind(what: str, values: Iterable[Any], kind: Any) -> None:
    """Raises ValueError when a value is of another type than `kind`."""
    if not all(isinstance(value, kind) for value in values):
        raise ValueError(f"{what}: a value is of a wrong type")
