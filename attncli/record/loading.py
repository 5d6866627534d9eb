"""Saved records, read and checked: what does not fit together is refused."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import check_suffix
from attncli.base.printable import first_line
from attncli.record.files import PLAIN, READ, SUFFIXES, Contents, read_json, read_npz, read_safetensors
from attncli.record.foreign import as_maps, as_tokens
from attncli.record.making import Known, assembled, record_of
from attncli.record.parts import MEASURES, VECTOR_ARRAYS, ModelInfo, Vectors, build_vectors
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


def load_record(path: str | Path) -> AttentionRecord:
    """Load a saved record (.safetensors, .npz or .json) that holds one text.

    Raises RequestError when the file is missing, cut short, not a record, or holds several texts.
    """
    records = load_records(path)
    if len(records) != 1:
        raise RequestError(f"{path} holds {len(records)} texts; load_records reads them all")
    return records[0]


def load_records(path: str | Path) -> list[AttentionRecord]:
    """Load all texts of a saved record (.safetensors, .npz or .json).

    A .npz may be another program's: `attentions` and `tokens`, and what else `record_of` takes, by its names. A .json
    holds weights and tokens only: what the rest was is found as `record_of` finds it.

    Raises RequestError when the file is missing, cut short, or not a record.
    """
    path = Path(path)
    suffix = check_suffix(path, SUFFIXES, "a record")
    if suffix not in READ:
        raise RequestError(f"{path}: {suffix} is for other programs; a record is read from {', '.join(READ)}")
    try:
        with path.open("rb"):
            pass
        records = list(read_records(path, suffix))
        if not records:
            raise ValueError("it holds no text")
        return records
    except RequestError as error:
        raise RequestError(f"{path}: {error}") from error
    except OSError as error:
        raise RequestError(f"can't read {path}: {error.strerror or first_line(error)}") from error
    except Exception as error:  # a garbled file can end in nearly any of them
        raise RequestError(f"{path} is not a whole attncli record: {first_line(error)}") from error


def read_records(path: Path, suffix: str) -> Iterator[AttentionRecord]:
    """Raises whatever a garbled file ends in."""
    if suffix == ".json":
        yield from of_document(read_json(path))
        return
    for contents in read_npz(path) if suffix == ".npz" else read_safetensors(path):
        yield build(*contents) if isinstance(contents, Contents) else of_arrays(contents)


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
    model = build_model(rest["model"])
    kind = rest.get("kind", "encoder")
    if kind not in choices.names(choices.Kind):
        raise ValueError(f"no attention of the kind {kind!r}")
    measure = rest.get("measure", "weight")
    if measure not in MEASURES:
        raise ValueError(f"no measure {measure!r}")
    check_kind("mask_name", [rest["mask_name"]], str)
    check_numbers("layers", layers, model.layers)
    check_numbers("heads", heads, model.heads)
    whose = numbers, layers, heads, queries, keys
    vectors = build_vectors(*whose) if numbers.keys() & set(VECTOR_ARRAYS) else None
    return AttentionRecord(
        weights, layers, heads, tokens, mask, rest["mask_name"], model, vectors, key_tokens, kind, measure
    )


def of_arrays(arrays: dict[str, Any]) -> AttentionRecord:
    """A record from another program's .npz: what `record_of` takes by its names, and `query` and `key` for `vectors`.

    Raises RequestError as `record_of` does, and KeyError without tokens.
    """
    known: dict[str, Any] = {
        name: arrays[name].tolist() for name in ("layers", "heads", "kind", "measure", "model") if name in arrays
    }
    if "query" in arrays or "key" in arrays:
        of = map(tuple, arrays["neurons"].tolist()) if "neurons" in arrays else None
        pair = arrays["query"], arrays["key"]
        known["vectors"] = pair if of is None else Vectors(list(of), *pair)
    keys = arrays["key_tokens"].tolist() if "key_tokens" in arrays else None
    segments = arrays["segments"].tolist() if "segments" in arrays else None
    mask = arrays.get("mask")
    if mask is not None and mask.ndim == 0:
        mask = mask.item()
    return record_of(arrays[PLAIN], arrays["tokens"].tolist(), keys, segments=segments, mask=mask, **known)


def of_document(document: dict[str, Any]) -> Iterator[AttentionRecord]:
    """The records in what `run --json` prints.

    Raises RequestError as `record_of` does, and ValueError, TypeError or KeyError where it is something else.
    """
    model = build_model(document["model"])
    for text in document["records"]:
        maps = {(one["layer"], one["head"]): one["weights"] for one in text["attention"]}
        layers, heads = (list(dict.fromkeys(numbers)) for numbers in zip(*maps, strict=True))
        check_numbers("layers", layers, model.layers)
        check_numbers("heads", heads, model.heads)
        weights = as_maps([[maps[layer, head] for head in heads] for layer in layers]).weights
        tokens = seen(as_tokens(text["tokens"], "tokens", text["segments"]), text.get("shown"))
        keys = None
        if text.get("key_tokens") is not None:
            keys = seen(as_tokens(text["key_tokens"], "key_tokens"), text.get("key_shown"))
        check_kind("mask", [text["mask"]], str)
        known = Known(layers, heads, text.get("kind", "encoder"), text.get("measure", "weight"), model=model)
        try:
            yield assembled(weights, tokens, keys, text["mask"], known)
        except RequestError:  # a layer that looks further than the name says, or words
            yield replace(assembled(weights, tokens, keys, None, known), mask_name=text["mask"])


def seen(tokens: Tokens, shown: Any) -> Tokens:
    """Tokens as a document says that they are shown: without it, as they are written. Raises ValueError for others."""
    shown = tokens.text if shown is None else shown
    if not isinstance(shown, list) or len(shown) != len(tokens):
        raise ValueError(f"it says of other than {len(tokens)} tokens how they are shown")
    check_kind("shown", shown, str)
    return replace(tokens, shown=shown)


def build_model(parts: dict[str, Any]) -> ModelInfo:
    """Raises TypeError or ValueError where it is none."""
    model = ModelInfo(**parts)
    check_kind("model", [model.name, model.path, model.sha256], str)
    check_kind("model", [model.layers, model.heads, model.hidden_size], int)
    return model


def build_tokens(parts: dict[str, Any]) -> Tokens:
    """Tokens from a file's contents. Raises ValueError, TypeError or KeyError where they don't fit together."""
    names = [name for name in TOKEN_KINDS if name in parts or name != "shown"]  # which older files don't have
    lists = {name: parts[name] for name in names}
    if any(not isinstance(part, list) or len(part) != len(lists["text"]) for part in lists.values()):
        raise ValueError("not every token has an id, a segment, a word and an offset")
    for name in names:
        check_kind(name, lists[name], TOKEN_KINDS[name])
    return Tokens(**{**lists, "offsets": [(int(a), int(b)) for a, b in lists["offsets"]]})


def check_numbers(what: str, numbers: Sequence[int], count: int) -> None:
    """Raises ValueError when these are not some of `count` layers or heads, each once."""
    if len(set(numbers)) < len(numbers) or not all(type(number) is int and 0 <= number < count for number in numbers):
        raise ValueError(f"{what} {number_list(sorted(numbers))} are not some of the model's {count}")


def check_kind(what: str, values: Iterable[Any], kind: Any) -> None:
    """Raises ValueError when a value is of another type than `kind`."""
    if not all(isinstance(value, kind) for value in values):
        raise ValueError(f"{what}: a value is of a wrong type")
