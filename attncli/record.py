"""AttentionRecord: everything that one run yields for one text; saving and loading it.

Reading, analysing and drawing a record needs numpy, not torch. Nothing in a record's file is trusted: no
pickle is ever read, and shapes and numbers are checked.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attncli.errors import RequestError
from attncli.files import check_suffix, write_whole
from attncli.selection import Selection, select
from attncli.text import Tokens, first_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]

SUFFIXES = (".safetensors", ".npz", ".json", ".csv")
LOADED = (".safetensors", ".npz")  # those that are read again
CSV_HEADER = ("text", "layer", "head", "query", "key", "query_token", "key_token", "weight")
TOKEN_KINDS = {"text": str, "ids": int, "segments": int, "words": int | None, "special": bool, "padding": bool}
ARRAYS = ("weights", "layers", "heads", "segments", "mask")  # in every file, under these names
VECTOR_ARRAYS = ("neurons", "query", "key")  # in files of records with vectors
KINDS = ("encoder", "decoder", "cross")
MEASURES = ("weight", "norm", "share of norm")
FORMAT = "attncli-1"  # in the metadata of a safetensors file, so that another's is not taken for ours


@dataclass(frozen=True)
class ModelInfo:
    """Which model a record is of; the counts are the model's, not the record's."""

    name: str
    path: str
    sha256: str
    layers: int
    heads: int
    hidden_size: int


@dataclass(frozen=True)
class Vectors:
    """The queries and keys of some heads: what their scores are made of.

    With d = head_dim, a head's map is softmax(q k^T / sqrt(d)) over the keys that its mask allows, up to the
    rounding of the dtype that the model computed in.

    heads: (layer, head), their numbers in the model, each once. query, key: float32 `[head, token, head_dim]`,
    in the order of `heads`; not divided by sqrt(head_dim) yet.
    """

    heads: list[tuple[int, int]]
    query: Floats
    key: Floats

    def of(self, layer: int, head: int) -> tuple[Floats, Floats]:
        """Query and key of one head, `[token, head_dim]` each, by its numbers in the model.

        Raises KeyError for a head whose vectors are not here.
        """
        if (layer, head) not in self.heads:
            raise KeyError(f"the vectors of layer {layer}, head {head} are not in this record")
        place = self.heads.index((layer, head))
        return self.query[place], self.key[place]

    def select(self, layers: Sequence[int], heads: Sequence[int]) -> "Vectors | None":
        """The vectors of those heads that are among these layers and heads; None when there is none."""
        places = [place for place, (layer, head) in enumerate(self.heads) if layer in layers and head in heads]
        if not places:
            return None
        return Vectors([self.heads[place] for place in places], self.query[places], self.key[places])


@dataclass(frozen=True)
class AttentionRecord:
    """The attention of one text.

    weights: float32 `[layer, head, query, key]`. A row sums to 1, or is all 0 where nothing may be attended to; save
    where `measure` is "norm".
    layers, heads: the numbers, in the model, of what stands along the first two axes.
    tokens: what stands along the queries, and along the keys too unless there are key_tokens of their own.
    mask: bool `[query, key]`, True = may attend; mask_name: "padding", "causal" or "none".
    vectors: the queries and keys of some of these heads, where they were asked for.
    kind: which attention it is: "encoder" or "decoder", both of a text to itself, or "cross", of what a decoder
    writes (tokens) to what an encoder has read (key_tokens).
    measure: what stands in `weights`: "weight"; "norm", of weight times transformed value (`attncli.models.norms`); or
    "share of norm", a norm divided by the sum of its row.
    """

    weights: Floats
    layers: list[int]
    heads: list[int]
    tokens: Tokens
    mask: Bools
    mask_name: str
    model: ModelInfo
    vectors: Vectors | None = None
    key_tokens: Tokens | None = None
    kind: str = "encoder"
    measure: str = "weight"

    @property
    def unusual(self) -> list[str]:
        """What a title has to say of it: "cross attention", "norm"; nothing of an encoder's weights."""
        kind = [] if self.kind == "encoder" else [f"{self.kind} attention"]
        return kind if self.measure == "weight" else [*kind, self.measure]

    @property
    def keys(self) -> Tokens:
        """The tokens along the keys."""
        return self.tokens if self.key_tokens is None else self.key_tokens

    def map(self, layer: int, head: int) -> Floats:
        """The `[query, key]` weights of one head, by its numbers in the model.

        Raises KeyError when the record does not hold that head.
        """
        if layer not in self.layers or head not in self.heads:
            raise KeyError(f"layer {layer}, head {head} is not in this record")
        one: Floats = self.weights[self.layers.index(layer), self.heads.index(head)]
        return one

    def select(self, layers: Selection | None = None, heads: Selection | None = None) -> "AttentionRecord":
        """The same record with fewer layers or heads, named as in `Model.attend`: numbers are the model's.

        Raises RequestError when one is not in the record, or not even in the model.
        """
        layers = self.chosen("layer", layers, self.layers, self.model.layers)
        heads = self.chosen("head", heads, self.heads, self.model.heads)
        rows = [self.layers.index(layer) for layer in layers]
        columns = [self.heads.index(head) for head in heads]
        return replace(
            self,
            weights=self.weights[np.ix_(rows, columns)],
            layers=layers,
            heads=heads,
            vectors=None if self.vectors is None else self.vectors.select(layers, heads),
        )

    def chosen(self, what: str, selection: Selection | None, there: Sequence[int], count: int) -> list[int]:
        """The layers or heads meant, all that are `there` by default; `count` is how many the model has."""
        wanted = list(there) if selection is None else select(selection, count, what)
        missing = [number for number in wanted if number not in there]
        if missing:
            raise RequestError(f"{what} {missing[0]} is not in the record: it holds {number_list(there)}")
        return wanted

    def save(self, path: str | Path) -> None:
        """Save by suffix: .safetensors (the native format), .npz, .json or .csv. Whole or not at all.

        .json and .csv hold the weights only, not the vectors.

        Raises RequestError for another suffix or an unwritable place.
        """
        save_records([self], path)

    def page(self, path: str | Path | None = None, **options: Any) -> str:
        """One HTML document with all heads of this record; saved too, where a `path` (.html) is given.

        Options are those of `attncli view`: layers, heads (as for `select`), view, query, segments, special, words,
        threshold, title: see `attncli.render.page.page`. For several texts or masks call that with a list.

        Raises RequestError for a layer, head or token that is not here, or an unwritable place.
        """
        from attncli.render.page import page, save_page

        document = page(self.select(options.pop("layers", None), options.pop("heads", None)), **options)
        if path is not None:
            save_page(document, path)
        return document

    def figure(self, path: str | Path | None = None, **options: Any) -> "Figure":
        """A matplotlib figure of these maps; saved too, where a `path` (.png, .svg, .pdf) is given.

        Options are those of `attncli heatmap`: layers, heads (as for `select`), style, mean, special, words,
        segments, query, vmax, cmap, title, width, font, font_size: see `attncli.render.figure.heatmap`; and dpi.

        Raises RequestError for a layer, head or token that is not here, or an unwritable place.
        """
        from attncli.render.figure import DPI, heatmap, save_figure

        dpi = options.pop("dpi", DPI)
        drawn = heatmap(self.select(options.pop("layers", None), options.pop("heads", None)), **options)
        if path is not None:
            save_figure(drawn, path, dpi)
        return drawn

    def _repr_html_(self) -> str:
        """What a notebook shows: the page, in a frame."""
        from attncli.render.page.document import frame

        return frame(self.page())

    def document(self) -> dict[str, Any]:
        """This text's entry under "records" in `run --json`."""
        more: dict[str, Any] = {} if self.kind == "encoder" else {"kind": self.kind}
        if self.measure != "weight":
            more["measure"] = self.measure
        if self.key_tokens is not None:
            more["key_tokens"] = self.key_tokens.text
        return {
            "tokens": self.tokens.text,
            **more,
            "segments": self.tokens.segments,
            "mask": self.mask_name,
            "attention": [
                {"layer": layer, "head": head, "weights": self.map(layer, head).tolist()}
                for layer in self.layers
                for head in self.heads
            ],
        }


def document_text(records: Iterable[AttentionRecord]) -> Iterator[str]:
    """What `run --json` prints, piece by piece: the model once, then every text's record."""
    for number, record in enumerate(records):
        yield f'{{"model": {json.dumps(asdict(record.model))}, "records": [' if number == 0 else ", "
        yield json.dumps(record.document())
    yield "]}\n"


def number_list(numbers: Sequence[int]) -> str:
    """0, 1, 2, 3 -> "0-3";  0, 2, 3 -> "0,2-3"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


# --- saving ---------------------------------------------------------------------------------------------


def save_records(records: Sequence[AttentionRecord], path: str | Path) -> None:
    """Save one text or many into one file, by suffix; .npz holds one text only. Whole or not at all.

    Raises RequestError for an unknown suffix, an unwritable place, or several texts in .npz.
    """
    path = Path(path)
    suffix = check_suffix(path, SUFFIXES, "a record")
    if not records:
        raise RequestError(f"{path}: there is no record to save")
    if suffix == ".npz" and len(records) != 1:
        raise RequestError(f"{path}: .npz holds one text and there are {len(records)}; .safetensors holds many")
    write = {".npz": write_npz, ".safetensors": write_safetensors, ".json": write_json, ".csv": write_csv}[suffix]
    write_whole(path, lambda temporary: write(records, temporary))


def arrays(record: AttentionRecord) -> dict[str, Any]:
    """The numbers of a record, under the names that its files use: ARRAYS, and VECTOR_ARRAYS where it has vectors."""
    numbers = {
        "weights": np.ascontiguousarray(record.weights),
        "layers": np.array(record.layers, dtype=np.int64),
        "heads": np.array(record.heads, dtype=np.int64),
        "segments": np.array(record.tokens.segments, dtype=np.int64),
        "mask": np.ascontiguousarray(record.mask),
    }
    if record.vectors is not None:
        numbers["neurons"] = np.array(record.vectors.heads, dtype=np.int64)
        numbers["query"] = np.ascontiguousarray(record.vectors.query)
        numbers["key"] = np.ascontiguousarray(record.vectors.key)
    return numbers


def labels(record: AttentionRecord) -> dict[str, Any]:
    """The rest of a record: what is not an array of numbers."""
    return {
        "tokens": asdict(record.tokens),
        "key_tokens": None if record.key_tokens is None else asdict(record.key_tokens),
        "mask_name": record.mask_name,
        "kind": record.kind,
        "measure": record.measure,
        "model": asdict(record.model),
    }


def write_npz(records: Sequence[AttentionRecord], path: Path) -> None:
    [record] = records
    with path.open("wb") as file:
        np.savez_compressed(
            file,
            **arrays(record),
            tokens=np.array(record.tokens.text, dtype=np.str_),
            labels=np.array(json.dumps(labels(record))),
        )


def write_safetensors(records: Sequence[AttentionRecord], path: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    tensors = {
        (name if len(records) == 1 else f"{name}.{number}"): array
        for number, record in enumerate(records)
        for name, array in arrays(record).items()
    }
    metadata = {"format": FORMAT, "records": json.dumps([labels(record) for record in records])}
    try:
        save_file(tensors, str(path), metadata=metadata)
    except SafetensorError as error:  # a full disk, say
        raise OSError(first_line(error)) from error


def write_json(records: Sequence[AttentionRecord], path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(document_text(records))


def write_csv(records: Sequence[AttentionRecord], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(CSV_HEADER)
        for text, record in enumerate(records):
            writer.writerows(csv_rows(text, record))


def csv_rows(text: int, record: AttentionRecord) -> Iterator[tuple[Any, ...]]:
    tokens, keys = record.tokens.text, record.keys.text
    for layer in record.layers:
        for head in record.heads:
            for query, row in enumerate(record.map(layer, head).tolist()):
                for key, weight in enumerate(row):
                    yield text, layer, head, query, key, tokens[query], keys[key], weight


# --- loading --------------------------------------------------------------------------------------------


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
        records = [build(numbers, rest) for numbers, rest in read(path)]
        if not records:
            raise ValueError("it holds no text")
        return records
    except OSError as error:
        raise RequestError(f"can't read {path}: {error.strerror or first_line(error)}") from error
    except Exception as error:  # a garbled file can end in nearly any of them
        raise RequestError(f"{path} is not a whole attncli record: {first_line(error)}") from error


def read_npz(path: Path) -> Iterable[tuple[dict[str, Any], dict[str, Any]]]:
    with np.load(path, allow_pickle=False) as file:
        names = [*ARRAYS, *(name for name in VECTOR_ARRAYS if name in file)]
        yield {name: file[name] for name in names}, json.loads(str(file["labels"]))


def read_safetensors(path: Path) -> Iterable[tuple[dict[str, Any], dict[str, Any]]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise ValueError("it was not written by attncli")
            every = json.loads(metadata["records"])
            there = set(file.keys())
            for number, rest in enumerate(every):
                end = "" if len(every) == 1 else f".{number}"
                names = [*ARRAYS, *(name for name in VECTOR_ARRAYS if name + end in there)]
                yield {name: file.get_tensor(name + end) for name in names}, rest
    except SafetensorError as error:
        raise ValueError(first_line(error)) from error


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
    if mask.dtype != np.bool_ or mask.shape != (queries, keys):
        raise ValueError(f"the mask is {mask.dtype} {list(mask.shape)} for {queries} queries and {keys} keys")
    if not np.isfinite(weights).all() or weights.min() < 0:
        raise ValueError("a weight is negative or not a number")
    model = ModelInfo(**rest["model"])
    attention = rest.get("kind", KINDS[0])
    if attention not in KINDS:
        raise ValueError(f"no attention of the kind {attention!r}")
    measure = rest.get("measure", MEASURES[0])
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
        weights, layers, heads, tokens, mask, rest["mask_name"], model, vectors, key_tokens, attention, measure
    )


def build_tokens(parts: dict[str, Any]) -> Tokens:
    """Tokens from a file's contents. Raises ValueError, TypeError or KeyError where they don't fit together."""
    tokens = Tokens(**{field.name: parts[field.name] for field in fields(Tokens)})
    tokens = Tokens(**{**vars(tokens), "offsets": [(int(a), int(b)) for a, b in tokens.offsets]})
    if any(len(part) != len(tokens.text) for part in vars(tokens).values()):
        raise ValueError("not every token has an id, a segment, a word and an offset")
    for name, kind in TOKEN_KINDS.items():
        check_kind(name, getattr(tokens, name), kind)
    return tokens


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
