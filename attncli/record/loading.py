"""Load saved records, and check their schemas and that their parts are consistent.

`attncli.record.masks` checks the arrays.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attncli.base import choices, untrusted
from attncli.base.errors import RequestError
from attncli.base.files import check_suffix
from attncli.base.printable import first_line
from attncli.base.schema import anything, fields, flag, integer, list_of, maybe, name, one_of, real, refuse, text
from attncli.base.untrusted import Tensors, check_regular, listed, parse_json, read_json
from attncli.record.making import Known, as_maps, as_tokens, assembled, record_of
from attncli.record.masks import MEASURES, check_hidden, check_maps, compact, masks_of, room
from attncli.record.parts import (
    SCORE_ARRAYS,
    USUAL_ARRAYS,
    VECTOR_ARRAYS,
    Answer,
    ModelInfo,
    PredictionSummary,
    UsualWeights,
    Vectors,
    build_vectors,
    pairs_of,
)
from attncli.record.record import ARRAYS, FORMAT, READ, SUFFIXES, AttentionRecord, Contents
from attncli.record.selection import Choice, number_list
from attncli.text.tokens import Tokens

LARGEST_RECTANGLE = 2**28  # weights of a document's layers and heads, if it has only some of their maps
PLAIN = "attentions"  # the weights in another program's .npz, beside "tokens"


def load_record(path: str | Path) -> AttentionRecord:
    """Load a saved record (.safetensors, .npz or .json) that holds one text.

    Raises RequestError if the file is missing, truncated, not a record, or holds several texts.
    """
    records = load_records(path)
    if len(records) != 1:
        raise RequestError(f"{path} holds {len(records)} texts: use load_records")
    return records[0]


def load_records(path: str | Path) -> list[AttentionRecord]:
    """Load all texts of a saved record (.safetensors, .npz or .json).

    A .npz may come from another program: `attentions`, `tokens`, and other arguments of `record_of` by name. A .json
    holds only weights, tokens and masks; the rest is inferred as `record_of` does.

    Raises RequestError if the file is missing, truncated, or not a record.
    """
    path = Path(path)
    suffix = check_suffix(path, SUFFIXES, "a record")
    if suffix not in READ:
        raise RequestError(f"{path}: a record can't be loaded from {suffix}, only from {', '.join(READ)}")
    try:
        check_regular(path)
        if suffix == ".json":
            records = list(of_document(read_json(path)))
        else:
            every = [read_npz(path)] if suffix == ".npz" else read_safetensors(path)
            records = [build(*one) if isinstance(one, Contents) else of_arrays(one) for one in every]
        if not records:
            raise ValueError("it holds no text")
        for record in records:
            if (record.kind == "cross") != record.crosses:
                keys = "separate" if record.crosses else "no"
                raise ValueError(f"its kind is {record.kind}, but it has {keys} key tokens")
        return records
    except RequestError as error:
        raise RequestError(f"{path}: {first_line(error)}") from error
    except OSError as error:
        raise RequestError(f"can't read {path}: {error.strerror or first_line(error)}") from error
    except ValueError as error:
        raise RequestError(f"{path} is not a complete attncli record: {first_line(error)}") from error


def build(numbers: dict[str, Any], labels: Any) -> AttentionRecord:
    """Build a record from a file's contents. Raises RequestError and ValueError if they are inconsistent."""
    LABELS(labels, "it")
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
        raise ValueError("its segments differ from those of its tokens")
    if "tokens" in numbers and not np.array_equal(numbers["tokens"], np.array(tokens.text)):
        raise ValueError("its tokens differ from those in its labels")
    pairs = None
    if "pairs" in labels:
        pairs = [(layer, head) for layer, head in labels["pairs"]]
        rows, columns = ({pair[side] for pair in pairs} for side in (0, 1))
        if len(set(pairs)) < len(pairs) or rows != set(layers) or columns != set(heads):
            raise ValueError("its pairs are not distinct heads in each of its layers and heads")
    sinks = labels.get("sinks", False)
    check_maps(weights, measure, room(labels.get("dtype")), sinks)
    if not mask.all():
        check_hidden((weights.max(axis=1) > 0) & ~mask, tokens)
    whose = numbers, labels.get("terms", []), layers, heads, queries, keys
    return AttentionRecord(
        weights=np.ascontiguousarray(weights) if pairs is None else weights.copy(),
        layers=layers,
        heads=heads,
        pairs=pairs,
        tokens=tokens,
        masks=mask,
        mask_name=labels["mask_name"],
        model=model,
        vectors=build_vectors(*whose) if numbers.keys() & {*VECTOR_ARRAYS, *SCORE_ARRAYS} else None,
        key_tokens=key_tokens,
        kind=labels.get("kind", "encoder"),
        measure=measure,
        prediction=read_prediction(labels, tokens),
        dtype=labels.get("dtype", "float32"),
        sinks=sinks,
        usual=build_usual(numbers, labels, len(layers), len(heads)),
        written=read_written(labels, tokens),
        rows=read_rows(labels, tokens, key_tokens),
    )


def build_usual(numbers: dict[str, Any], labels: Any, layers: int, heads: int) -> UsualWeights | None:
    """Build the usual weights of a record's heads; None if the file has none. Raises ValueError if inconsistent."""
    if "usual_texts" not in labels:
        return None
    missing = np.empty(0)
    sums, counts = (numbers.get(name, missing) for name in USUAL_ARRAYS)
    for what, array, shape in (("usual_sums", sums, (layers, heads)), ("usual_counts", counts, (layers,))):
        if array.dtype != np.float64 or array.shape[:-1] != shape:
            raise ValueError(f"{what} do not fit {layers} layers of {heads} heads")
        if not np.isfinite(array).all() or (array < 0).any():
            raise ValueError(f"{what} contain a value that can't be a sum of weights")
    if sums.shape[-1] != counts.shape[-1]:
        raise ValueError("usual_sums and usual_counts have different distances")
    return UsualWeights(sums, counts, labels["usual_texts"])


def of_arrays(arrays: dict[str, Any]) -> AttentionRecord:
    """Build a record from another program's .npz: the arguments of `record_of` by name; `query` and `key` are
    `vectors`.

    Raises RequestError as `record_of` does, and ValueError without tokens, or with vectors of one side only.
    """
    named = ("layers", "heads", "kind", "measure", "model", "sinks")
    known: dict[str, Any] = {name: listed(name, arrays[name]) for name in named if name in arrays}
    PLAIN_FIELDS(known, "it")
    for one, other in (("attentions", "tokens"), ("query", "key"), ("key", "query"), ("neurons", "query")):
        if one in arrays and other not in arrays:
            raise ValueError(f"it has {one} but no {other}")
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
    """Yield the records in a document of `run --json`.

    Raises RequestError as `record_of` does, and ValueError for any other document.
    """
    DOCUMENT(document, "it")
    model = ModelInfo(**document["model"])
    for entry in document["records"]:
        maps = {(one["layer"], one["head"]): one["weights"] for one in entry["attention"]}
        if len(maps) < len(entry["attention"]) or not maps:
            raise ValueError("it has no maps, or two of the same head")
        layers, heads, pairs = Choice.of_pairs(maps)
        check_numbers("layers", layers, model.layers)
        check_numbers("heads", heads, model.heads)
        if pairs is None:
            weights = as_maps([[maps[layer, head] for head in heads] for layer in layers]).weights
        else:
            chosen = as_maps([list(maps.values())]).weights[0]
            shape = len(layers), len(heads), *chosen.shape[1:]
            if math.prod(shape) > LARGEST_RECTANGLE:
                raise ValueError(f"its heads are spread over {shape[0]} layers of {shape[1]} heads, too large to hold")
            weights = np.zeros(shape, np.float32)
            for (layer, head), one in zip(pairs, chosen, strict=True):
                weights[layers.index(layer), heads.index(head)] = one
        tokens = with_display(as_tokens(entry["tokens"], "tokens", entry["segments"]), entry.get("shown"))
        keys = None
        if entry.get("key_tokens") is not None:
            keys = with_display(as_tokens(entry["key_tokens"], "key_tokens"), entry.get("key_shown"))
        known = Known(
            layers,
            heads,
            entry.get("kind", "encoder"),
            entry.get("measure", "weight"),
            model=model,
            sinks=entry.get("sinks", False),
        )
        dtype = entry.get("dtype")
        if "masks" in entry:
            record = assembled(weights, tokens, keys, None, known, room(dtype))
            masks = masks_of(entry["masks"], layers, *weights.shape[-2:])
            check_hidden((weights.max(axis=1) > 0) & ~masks, record.tokens)
            record = replace(record, masks=compact(masks), mask_name=entry["mask"])
        else:
            try:
                record = assembled(weights, tokens, keys, entry["mask"], known, room(dtype))
            except RequestError:  # a layer attends beyond the named mask, or tokens are words
                record = replace(assembled(weights, tokens, keys, None, known, room(dtype)), mask_name=entry["mask"])
        prediction, written = read_prediction(entry, tokens), read_written(entry, tokens)
        rows = read_rows(entry, tokens, keys)
        yield replace(record, prediction=prediction, dtype=dtype or "float32", written=written, pairs=pairs, rows=rows)


def read_rows(document: dict[str, Any], tokens: Tokens, keys: Tokens | None) -> list[int] | None:
    """Read the places of the queries among the keys. Raises ValueError if they are not valid."""
    rows: list[int] | None = document.get("rows")
    if rows is None:
        return None
    if keys is None or len(rows) != len(tokens) or not all(row < len(keys) for row in rows) or rows != sorted(rows):
        refuse(rows, "rows", f"ascending places of {len(tokens)} queries among the key tokens")
    return rows


def read_written(document: dict[str, Any], tokens: Tokens) -> int | None:
    """Read the place of the first written token. Raises ValueError if there is no such token."""
    written: int | None = document.get("written")
    if written is not None and not written < len(tokens):
        refuse(written, "written", f"one of {len(tokens)} tokens")
    return written


def read_prediction(document: dict[str, Any], tokens: Tokens) -> PredictionSummary | None:
    """Read the prediction from a text's labels or document. Raises ValueError if it refers to other tokens."""
    prediction = document.get("prediction")
    if prediction is None:
        return None
    for place, answer in enumerate(prediction["answers"]):
        start, end = answer["start"], answer["end"]
        if (start is None) != (end is None) or (end is not None and not start < end <= len(tokens)):
            refuse([start, end], f"prediction: answers {place}", "tokens of the text")
    return PredictionSummary(**{**prediction, "answers": [Answer(**one) for one in prediction["answers"]]})


def with_display(tokens: Tokens, shown: list[str] | None) -> Tokens:
    """Return tokens with the display texts of a document, by default `text`. Raises ValueError for a wrong number."""
    shown = tokens.text if shown is None else shown
    if len(shown) != len(tokens):
        raise ValueError(f"it has {len(shown)} display texts for {len(tokens)} tokens")
    return replace(tokens, shown=shown)


def build_tokens(parts: dict[str, Any]) -> Tokens:
    """Build Tokens from a file's contents."""
    return Tokens(**{**parts, "offsets": [(start, end) for start, end in parts["offsets"]]})


def check_numbers(what: str, numbers: Any, count: int) -> list[int]:
    """Raises ValueError unless these are distinct numbers of `count` layers or heads."""
    list_of(integer(0, count - 1))(numbers, what)
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"{what} {number_list(sorted(numbers))} contain duplicates")
    return list(numbers)


# --- formats -----------------------------------------------------------------------------------------


def read_npz(path: Path) -> Contents | dict[str, Any]:
    """Return a record's contents, or all arrays by name if another program wrote the file (PLAIN).

    Raises ValueError if it is neither.
    """
    arrays = untrusted.read_npz(path)
    if PLAIN in arrays:
        return arrays
    for needed in (*ARRAYS, "labels"):
        if needed not in arrays:
            raise ValueError(f"it has no {needed}")
    return Contents(arrays, parse_json(str(arrays["labels"])))


def read_safetensors(path: Path) -> Iterator[Contents]:
    """Yield the contents of each text. Raises ValueError if attncli did not write the file."""
    file = Tensors(path, "numpy")
    if file.metadata.get("format") != FORMAT:
        raise ValueError("it was not written by attncli")
    every = parse_json(file.metadata.get("records", ""))
    list_of(anything)(every, "records")
    for number, rest in enumerate(every):
        end = "" if len(every) == 1 else f".{number}"
        optional = (*VECTOR_ARRAYS, *SCORE_ARRAYS, *USUAL_ARRAYS)
        names = [*ARRAYS, *(name for name in optional if name + end in file.shapes)]
        yield Contents({name: file.read(name + end) for name in names}, rest)


# --- schemas -----------------------------------------------------------------------------------------

MOST_HEADS = 10**6  # in a layer, and layers in a model
LARGEST_ID = 2**31 - 1  # in a vocabulary; unknown ids are -1
LONGEST_CHANGES = 10**5  # characters that describe a network's modifications
LONGEST_TERM = 100  # characters of a term's name
SEGMENTS = 2  # XLNet's [CLS] belongs to neither text


def check_offset(value: Any, what: str) -> None:
    """Accept [start, end), characters of a text."""
    list_of(integer(), 2)(value, what)
    if value[0] > value[1]:
        refuse(value, what, "a start and an end that is not smaller")


def check_share(value: Any, what: str) -> None:
    """Accept a number from 0 to 1."""
    real()(value, what)
    if not 0 <= value <= 1:
        refuse(value, what, "a number from 0 to 1")


MODEL = fields(
    {
        "name": name(),
        "path": name(),
        "sha256": name(),
        "layers": integer(1, MOST_HEADS),
        "heads": integer(1, MOST_HEADS),
        "hidden_size": integer(),
    },
    {"changes": text(LONGEST_CHANGES), "key_heads": integer(1, MOST_HEADS)},  # missing in older files
)

TOKENS_OF = {
    "text": list_of(text()),
    "ids": list_of(integer(-1, LARGEST_ID)),
    "segments": list_of(integer(0, SEGMENTS)),
    "words": list_of(maybe(integer())),
    "offsets": list_of(check_offset),
    "special": list_of(flag()),
    "padding": list_of(flag()),
}
SHOWN = {"shown": list_of(text())}  # missing in older files


def check_tokens(value: Any, what: str) -> None:
    """Accept the fields of `Tokens`, each with one entry per token."""
    fields(TOKENS_OF, {**SHOWN, "written": list_of(text())})(value, what)
    lengths = {field: len(entries) for field, entries in value.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{what}: the fields have different lengths: {lengths}")
    last: dict[int, int] = {}
    for segment, word in zip(value["segments"], value["words"], strict=True):
        if word is not None and word < last.get(segment, 0):
            raise ValueError(f"{what}: the words of segment {segment} are not in order")
        last[segment] = last.get(segment, 0) if word is None else word


ANSWER = fields(
    {
        "label": text(),
        "logit": real(),
        "probability": maybe(check_share),
        "start": maybe(integer()),
        "end": maybe(integer()),
    }
)
SAID = fields(
    {"output": text(), "kind": one_of(choices.names(choices.OutputName)), "single": flag(), "answers": list_of(ANSWER)}
)


WHICH = {"kind": one_of(choices.names(choices.KindName)), "measure": one_of(MEASURES)}  # missing in older files

DTYPE = {"dtype": one_of(choices.names(choices.DtypeName))}  # missing in older files
SINKS = {"sinks": flag()}  # only in files of networks with sinks

# The labels of a .npz, and of each text of a .safetensors.
LABELS = fields(
    {"tokens": check_tokens, "mask_name": one_of(choices.names(choices.MaskName)), "model": MODEL},
    {
        **WHICH,
        **DTYPE,
        **SINKS,
        "key_tokens": maybe(check_tokens),
        "terms": list_of(text(LONGEST_TERM)),
        "prediction": SAID,
        "usual_texts": integer(1),
        "written": integer(),
        "pairs": list_of(list_of(integer(), 2)),
        "rows": list_of(integer()),
    },
)

# The optional fields of another program's .npz, except those with an entry per token.
PLAIN_FIELDS = fields(
    {}, {**WHICH, **SINKS, "layers": list_of(integer()), "heads": list_of(integer()), "model": name()}
)

# Masks that differ from their name's: for each query, [start, end) of each run of keys (`attncli.record.masks`).
MASKS = list_of(fields({"layers": list_of(integer()), "allowed": list_of(list_of(list_of(integer(), 2)))}))

# The output of `run --json`. Its weights, nested lists, are checked as an array.
DOCUMENT = fields(
    {
        "model": MODEL,
        "records": list_of(
            fields(
                {
                    "tokens": list_of(text()),
                    "segments": list_of(integer(0, SEGMENTS)),
                    "mask": one_of(choices.names(choices.MaskName)),
                    "attention": list_of(
                        fields({"layer": integer(), "head": integer(), "weights": anything}, {"terms": anything})
                    ),
                },
                {
                    **WHICH,
                    **DTYPE,
                    **SINKS,
                    **SHOWN,
                    "key_tokens": list_of(text()),
                    "key_shown": list_of(text()),
                    "masks": MASKS,
                    "prediction": SAID,
                    "written": integer(),
                    "rows": list_of(integer()),
                },
            )
        ),
    },
    {"findings": anything},
)
