"""Saved records, read and checked: what does not fit together is refused."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attncli.base.errors import RequestError
from attncli.base.files import check_suffix
from attncli.base.printable import first_line
from attncli.base.schema import each, whole
from attncli.base.untrusted import check_regular, listed, read_json
from attncli.record import schema
from attncli.record.files import PLAIN, READ, SUFFIXES, Contents, read_npz, read_safetensors
from attncli.record.making import Known, as_maps, as_tokens, assembled, record_of
from attncli.record.masks import check_hidden, check_maps, compact, masks_of, precision_of
from attncli.record.parts import SCORE_ARRAYS, VECTOR_ARRAYS, ModelInfo, Said, Vectors, build_vectors, pairs_of, said_of
from attncli.record.record import AttentionRecord
from attncli.record.selection import number_list
from attncli.text.tokens import Tokens


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
    holds weights, tokens and masks only: what the rest was is found as `record_of` finds it.

    Raises RequestError when the file is missing, cut short, or not a record.
    """
    path = Path(path)
    suffix = check_suffix(path, SUFFIXES, "a record")
    if suffix not in READ:
        raise RequestError(f"{path}: {suffix} is for other programs; a record is read from {', '.join(READ)}")
    try:
        check_regular(path)
        records = list(read_records(path, suffix))
        if not records:
            raise ValueError("it holds no text")
        return records
    except RequestError as error:
        raise RequestError(f"{path}: {first_line(error)}") from error
    except OSError as error:
        raise RequestError(f"can't read {path}: {error.strerror or first_line(error)}") from error
    except ValueError as error:
        raise RequestError(f"{path} is not a whole attncli record: {first_line(error)}") from error


def read_records(path: Path, suffix: str) -> Iterator[AttentionRecord]:
    """Raises RequestError and ValueError for what is no record."""
    for record in of_document(read_json(path)) if suffix == ".json" else of_contents(path, suffix):
        if (record.kind == "cross") != (record.key_tokens is not None):
            raise ValueError(
                f"its kind is {record.kind}, and {'no' if record.kind == 'cross' else 'other'} tokens are its keys"
            )
        yield record


def of_contents(path: Path, suffix: str) -> Iterator[AttentionRecord]:
    """The records of a .npz or .safetensors. Raises RequestError and ValueError as `read_records`."""
    for contents in [read_npz(path)] if suffix == ".npz" else read_safetensors(path):
        yield build(*contents) if isinstance(contents, Contents) else of_arrays(contents)


def build(numbers: dict[str, Any], labels: Any) -> AttentionRecord:
    """A record from a file's contents. Raises RequestError and ValueError where they don't fit together."""
    schema.LABELS(labels, "it")
    tokens = build_tokens(labels["tokens"])
    key_tokens = None if labels.get("key_tokens") is None else build_tokens(labels["key_tokens"])
    model, measure = ModelInfo(**labels["model"]), labels.get("measure", "weight")
    queries, keys = len(tokens), len(tokens if key_tokens is None else key_tokens)
    weights, mask = numbers["weights"], numbers["mask"]
    layers, heads = (
        check_numbers(what, listed(what, numbers[what]), getattr(model, what)) for what in ("layers", "heads")
    )
    if weights.dtype != np.float32 or weights.shape != (len(layers), len(heads), queries, keys):
        raise ValueError(f"weights are {weights.dtype} {list(weights.shape)} for {queries} queries and {keys} keys")
    if 0 in weights.shape:
        raise ValueError("it holds no weights")
    if mask.dtype != np.bool_ or mask.shape not in ((queries, keys), (len(layers), queries, keys)):
        wanted = f"{len(layers)} layers, {queries} queries and {keys} keys"
        raise ValueError(f"the mask is {mask.dtype} {list(mask.shape)} for {wanted}")
    if not np.array_equal(numbers["segments"], tokens.segments):
        raise ValueError("its segments are not those of its tokens")
    if "tokens" in numbers and not np.array_equal(numbers["tokens"], np.array(tokens.text)):
        raise ValueError("its tokens are not those of its labels")
    sinks = labels.get("sinks", False)
    precision = precision_of(weights, measure, labels.get("dtype"), sinks)
    check_maps(weights, measure, precision.room, sinks)
    if not mask.all():
        check_hidden((weights.max(axis=1) > 0) & ~mask, tokens)
    whose = numbers, labels.get("terms", []), layers, heads, queries, keys
    return AttentionRecord(
        weights=np.ascontiguousarray(weights),
        layers=layers,
        heads=heads,
        tokens=tokens,
        masks=mask,
        mask_name=labels["mask_name"],
        model=model,
        vectors=build_vectors(*whose) if numbers.keys() & {*VECTOR_ARRAYS, *SCORE_ARRAYS} else None,
        key_tokens=key_tokens,
        kind=labels.get("kind", "encoder"),
        measure=measure,
        prediction=predicted(labels, tokens),
        dtype=precision.dtype,
        sinks=sinks,
    )


def of_arrays(arrays: dict[str, Any]) -> AttentionRecord:
    """A record from another program's .npz: what `record_of` takes by its names, and `query` and `key` for `vectors`.

    Raises RequestError as `record_of` does, and ValueError where there are no tokens, or vectors of one side only.
    """
    named = ("layers", "heads", "kind", "measure", "model", "sinks")
    known: dict[str, Any] = {name: listed(name, arrays[name]) for name in named if name in arrays}
    schema.PLAIN(known, "it")
    for one, other in (("attentions", "tokens"), ("query", "key"), ("key", "query"), ("neurons", "query")):
        if one in arrays and other not in arrays:
            raise ValueError(f"it has {one} and no {other}")
    if "query" in arrays:
        pair = arrays["query"], arrays["key"]
        known["vectors"] = Vectors(pairs_of(arrays["neurons"]), *pair) if "neurons" in arrays else pair
    keys = listed("key_tokens", arrays["key_tokens"]) if "key_tokens" in arrays else None
    segments = listed("segments", arrays["segments"]) if "segments" in arrays else None
    mask = arrays.get("mask")
    if mask is not None and mask.ndim == 0:
        mask = mask.item()
    return record_of(arrays[PLAIN], listed("tokens", arrays["tokens"]), keys, segments=segments, mask=mask, **known)


def of_document(document: Any) -> Iterator[AttentionRecord]:
    """The records in what `run --json` prints.

    Raises RequestError as `record_of` does, and ValueError where it is something else.
    """
    schema.DOCUMENT(document, "it")
    model = ModelInfo(**document["model"])
    for text in document["records"]:
        maps = {(one["layer"], one["head"]): one["weights"] for one in text["attention"]}
        if len(maps) < len(text["attention"]) or not maps:
            raise ValueError("it has no map, or two of one head")
        layers, heads = (list(dict.fromkeys(numbers)) for numbers in zip(*maps, strict=True))
        if len(maps) < len(layers) * len(heads):
            raise ValueError("it has not the same heads of every layer")
        check_numbers("layers", layers, model.layers)
        check_numbers("heads", heads, model.heads)
        weights = as_maps([[maps[layer, head] for head in heads] for layer in layers]).weights
        tokens = seen(as_tokens(text["tokens"], "tokens", text["segments"]), text.get("shown"))
        keys = None
        if text.get("key_tokens") is not None:
            keys = seen(as_tokens(text["key_tokens"], "key_tokens"), text.get("key_shown"))
        known = Known(
            layers,
            heads,
            text.get("kind", "encoder"),
            text.get("measure", "weight"),
            model=model,
            sinks=text.get("sinks", False),
        )
        dtype, room = precision_of(weights, known.measure, text.get("dtype"), known.sinks)
        if "masks" in text:
            record = with_masks(assembled(weights, tokens, keys, None, known, room), text)
        else:
            try:
                record = assembled(weights, tokens, keys, text["mask"], known, room)
            except RequestError:  # a layer that looks further than the name says, or words
                record = replace(assembled(weights, tokens, keys, None, known, room), mask_name=text["mask"])
        yield replace(record, prediction=predicted(text, tokens), dtype=dtype)


def with_masks(record: AttentionRecord, text: dict[str, Any]) -> AttentionRecord:
    """A record with the masks that its document has. Raises RequestError and ValueError where they don't fit it."""
    masks = masks_of(text["masks"], record.layers, *record.weights.shape[-2:])
    check_hidden((record.weights.max(axis=1) > 0) & ~masks, record.tokens)
    return replace(record, masks=compact(masks), mask_name=text["mask"])


def predicted(stated: dict[str, Any], tokens: Tokens) -> Said | None:
    """What a text's labels or document say that the model said. Raises ValueError where that is of other tokens."""
    if "prediction" in stated:
        schema.prediction(stated["prediction"], len(tokens))
    return said_of(stated.get("prediction"))


def seen(tokens: Tokens, shown: list[str] | None) -> Tokens:
    """Tokens as a document says that they are shown: without it, as they are written. Raises ValueError for others."""
    shown = tokens.text if shown is None else shown
    if len(shown) != len(tokens):
        raise ValueError(f"it says of other than {len(tokens)} tokens how they are shown")
    return replace(tokens, shown=shown)


def build_tokens(parts: dict[str, Any]) -> Tokens:
    """Tokens from a file's contents."""
    return Tokens(**{**parts, "offsets": [(start, end) for start, end in parts["offsets"]]})


def check_numbers(what: str, numbers: Any, count: int) -> list[int]:
    """Raises ValueError when these are not some of `count` layers or heads, each once."""
    each(whole(0, count - 1))(numbers, what)
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"{what} {number_list(sorted(numbers))} are not each there once")
    return list(numbers)
