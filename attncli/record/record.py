"""AttentionRecord: everything that one run yields for one text. Records do not need torch."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attncli.base.arrays import Bools, Floats, Ints
from attncli.base.errors import RequestError
from attncli.base.files import as_dataframe, check_suffix, write_table, write_whole
from attncli.base.printable import first_line, printable
from attncli.record.masks import HALVES, agree, compact, entries
from attncli.record.parts import (
    AxisUnits,
    KnownKinds,
    ModelInfo,
    PredictionSummary,
    RecordDocument,
    UsualWeights,
    Vectors,
    decimals,
)
from attncli.record.selection import Choice, Heads, Selection, all_name_layers, choose_heads, number_list, select
from attncli.text.tokens import Tokens

if TYPE_CHECKING:
    from pandas import DataFrame

SHOWING = "attncli.report.showing"  # shows records: a higher package, so imported on use
SHOWN_TOKENS = 5  # in a record's repr
SUFFIXES = (".safetensors", ".npz", ".json", ".csv")
LOADED = (".safetensors", ".npz")  # formats that hold the complete record
READ = (*LOADED, ".json")  # formats that can be loaded
CSV_HEADER = ("text", "layer", "head", "query", "key", "query_token", "key_token", "weight", "hidden")
ARRAYS = ("weights", "layers", "heads", "segments", "mask")  # in every file
FORMAT = "attncli-1"  # in the metadata of a safetensors file, to recognize attncli's own


class Contents(NamedTuple):
    """One text of a file: its arrays by name (ARRAYS, VECTOR_ARRAYS, ...), and the rest of its record as JSON."""

    numbers: dict[str, Any]
    labels: dict[str, Any]

    @property
    def tokens(self) -> dict[str, Any]:
        """Return the fields of the query tokens."""
        return self.labels["tokens"]

    @property
    def keys(self) -> dict[str, Any]:
        """Return the fields of the key tokens."""
        return self.labels["key_tokens"] or self.tokens


@dataclass(frozen=True, repr=False)
class AttentionRecord:
    """The attention of one text.

    weights: float32 `[layer, head, query, key]`. A row sums to 1, or is 0 if the mask hides every key, unless `measure`
    is "norm" or the network has `sinks`.
    layers, heads: the model's numbers of the layers and heads on the first two axes.
    tokens: the tokens of the query axis, and of the key axis unless there are key_tokens.
    rows: the places of the queries on the key axis, if the record has only some rows. The keys are then `key_tokens`.
    masks: bool `[layer, query, key]`, True = may attend. If the layers agree, one `[query, key]` may be
    passed; `masks` is then a view of it. mask_name: "padding", "causal" or "none".
    vectors: the queries and keys of some of these heads, if requested.
    kind: "encoder" or "decoder" (self-attention), or "cross": from a decoder's output (tokens) to the encoder's
    input (key_tokens).
    measure: the content of `weights`: "weight"; "norm", the norm of weight times transformed value
    (`attncli.models.taps.Lengths`); or "share of norm", a norm divided by the sum of its row.
    prediction: the model's prediction for the text, if requested and available.
    dtype: the dtype that computed the maps, such as "bfloat16". It determines how exactly rows sum to 1.
    part: describes `tokens` if they are not all tokens of the text. Not saved in files.
    sinks: heads have a sink score, which is part of the softmax but belongs to no key (gpt-oss). A row of weights then
    sums to at most 1.
    usual: the weights that these heads usually give between words, over other texts, if they were measured.
    written: the index of the first generated token, if the model generated a part of the text. `prediction` then has
    the most likely next tokens at each step.
    pairs: the chosen heads, (layer, head), if they are not all `heads` of all `layers`. The weights of the others are
    set to 0, and are neither shown nor saved.
    kinds: the names of its heads' kinds, if they are known. Not saved in files.
    """

    weights: Floats
    layers: list[int]
    heads: list[int]
    tokens: Tokens
    masks: Bools
    mask_name: str
    model: ModelInfo
    vectors: Vectors | None = None
    key_tokens: Tokens | None = None
    kind: str = "encoder"
    measure: str = "weight"
    prediction: PredictionSummary | None = None
    dtype: str = "float32"
    part: AxisUnits | None = None
    sinks: bool = False
    usual: UsualWeights | None = None
    written: int | None = None
    pairs: list[tuple[int, int]] | None = None
    kinds: KnownKinds | None = None
    rows: list[int] | None = None

    def __post_init__(self) -> None:
        for row, column in np.argwhere(self.unchosen):
            if self.weights[row, column].any():
                self.weights[row, column] = 0
        masks = compact(self.masks) if self.masks.ndim == 3 else self.masks
        masks = np.broadcast_to(masks, (len(self.layers), *self.weights.shape[-2:]))
        object.__setattr__(self, "masks", masks)

    def __repr__(self) -> str:
        """AttentionRecord(minilm, 6 layers x 12 heads, 16 tokens, mask padding: "[CLS] the trophy does not ...")"""
        counts = [
            f"{what}{'s' if len(these) > 1 else ''} {number_list(these)} of {count}"
            if len(these) < count
            else f"{count} {what}s"
            for what, these, count in (
                ("layer", self.layers, self.model.layers),
                ("head", self.heads, self.model.heads),
            )
        ]
        if self.pairs is not None:
            counts = [f"{self.choice} of {self.model.layers} layers x {self.model.heads} heads"]
        between = "" if self.key_tokens is None else f" to {len(self.key_tokens)}"
        parts = [
            printable(self.model.full_name),
            (", " if any("of" in count for count in counts) else " x ").join(counts),
            *self.unusual,
            f"{len(self.tokens)}{between} tokens",
            f"mask {printable(self.mask_name)}",
        ]
        begin = " ".join(map(printable, self.tokens.text[:SHOWN_TOKENS]))
        return f'AttentionRecord({", ".join(parts)}: "{begin}{" ..." if len(self.tokens) > SHOWN_TOKENS else ""}")'

    @property
    def choice(self) -> Choice:
        """Return the heads of this record."""
        return Choice(self.layers, self.heads, self.pairs)

    @property
    def each_head(self) -> list[tuple[int, int]]:
        """Return the heads of this record as (layer, head), in the order in which they are shown."""
        return self.choice.each

    @property
    def unchosen(self) -> Bools:
        """Return True for maps whose heads are not in this record, bool `[layer, head]`."""
        found = np.full((len(self.layers), len(self.heads)), self.pairs is not None)
        for layer, head in self.pairs or ():
            found[self.layers.index(layer), self.heads.index(head)] = False
        return found

    def heads_of(self, layer: int) -> list[int]:
        """Return the heads of this record in one of its layers."""
        return self.heads if self.pairs is None else [head for of, head in self.pairs if of == layer]

    @property
    def compact_masks(self) -> Bools:
        """Return the mask `[query, key]` if all layers agree, else `masks`. Files hold this form."""
        return compact(self.masks)

    @property
    def mask(self) -> Bools:
        """Return the mask of all layers, `[query, key]`. Raises RequestError if they differ."""
        if not agree(self.masks):
            raise RequestError("the layers have different masks: use record.masks, or select layers")
        return self.masks[0]

    @property
    def unusual(self) -> list[str]:
        """Return the facts that a title must mention, "cross attention" or "norm"; empty for an encoder's weights."""
        kind = [] if self.kind == "encoder" else [f"{self.kind} attention"]
        return kind if self.measure == "weight" else [*kind, self.measure]

    @property
    def keys(self) -> Tokens:
        """Return the tokens of the key axis."""
        return self.tokens if self.key_tokens is None else self.key_tokens

    @property
    def crosses(self) -> bool:
        """Return True if the keys belong to another text than the queries."""
        return self.key_tokens is not None and self.rows is None

    @property
    def places(self) -> Ints:
        """Return the places of the queries on the key axis, if both belong to one text."""
        return np.arange(len(self.tokens)) if self.rows is None else np.array(self.rows)

    def map(self, layer: int, head: int) -> Floats:
        """Return the `[query, key]` weights of one head, by its numbers in the model.

        Raises KeyError if the record does not hold that head.
        """
        if layer not in self.layers or head not in self.heads_of(layer):
            raise KeyError(f"layer {layer}, head {head} is not in this record")
        one: Floats = self.weights[self.layers.index(layer), self.heads.index(head)]
        return one

    def mask_of(self, layer: int) -> Bools:
        """Return the `[query, key]` mask of one layer, by its number in the model.

        Raises KeyError if the record does not hold that layer.
        """
        if layer not in self.layers:
            raise KeyError(f"layer {layer} is not in this record")
        one: Bools = self.masks[self.layers.index(layer)]
        return one

    def select(self, layers: Selection | None = None, heads: Heads | None = None) -> "AttentionRecord":
        """Return a record with fewer layers or heads, given as in `Model.attend` by the model's numbers.

        A plain number selects those heads that the record has; "3.1" must be in the record. Raises RequestError if one
        is not in the record or not in the model.
        """
        choice = Choice(self.select_layers(layers), self.heads)
        if heads is not None:
            choice = choose_heads(
                "all" if layers is None else layers,
                heads,
                lambda those: self.select_layers(layers if those == "all" else those),
                lambda those: _held("head", those, self.heads, self.model.heads),
            )
        if self.pairs is not None:
            found = [pair for pair in choice.each if pair in self.pairs]
            if not found or (all_name_layers(heads) and len(found) < len(choice.each)):
                missing = next(pair for pair in choice.each if pair not in found)
                raise RequestError(f"head {missing[0]}.{missing[1]} is not in the record: it holds {self.choice}")
            choice = Choice.of_pairs(
                found if all_name_layers(heads) else [pair for pair in self.pairs if pair in found]
            )
        rows = [self.layers.index(layer) for layer in choice.layers]
        columns = [self.heads.index(head) for head in choice.heads]
        return replace(
            self,
            weights=self.weights[np.ix_(rows, columns)],
            layers=choice.layers,
            heads=choice.heads,
            pairs=choice.pairs,
            masks=self.masks[0] if agree(self.masks) else self.masks[rows],
            vectors=None if self.vectors is None else self.vectors.select(choice.each),
            usual=None if self.usual is None else self.usual.select(rows, columns),
        )

    def select_layers(self, layers: Selection | None) -> list[int]:
        """Return the selected layers, by default all of this record. Raises RequestError as `select` does."""
        return self.layers if layers is None else _held("layer", layers, self.layers, self.model.layers)

    def save(self, path: str | Path) -> None:
        """Save by suffix: .safetensors (the native format), .npz, .json or .csv. Writes completely or not at all.

        .json and .csv hold the weights only, not the vectors.

        Raises RequestError for an unknown suffix or an unwritable place.
        """
        save_records([self], path)

    def contents(self) -> Contents:
        """Return the record as its files store it."""
        numbers = {
            "weights": np.ascontiguousarray(self.weights),
            "layers": np.array(self.layers, dtype=np.int64),
            "heads": np.array(self.heads, dtype=np.int64),
            "segments": np.array(self.tokens.segments, dtype=np.int64),
            "mask": np.ascontiguousarray(self.compact_masks),
            **({} if self.vectors is None else self.vectors.arrays()),
            **({} if self.usual is None else self.usual.arrays()),
        }
        labels: dict[str, Any] = {
            "tokens": asdict(self.tokens),
            "key_tokens": None if self.key_tokens is None else asdict(self.key_tokens),
            "mask_name": self.mask_name,
            "kind": self.kind,
            "measure": self.measure,
            "dtype": self.dtype,
            "model": self.model.document(),
        }
        if self.vectors is not None and self.vectors.terms:
            labels["terms"] = list(self.vectors.terms)
        if self.prediction is not None:
            labels["prediction"] = self.prediction.document()
        if self.sinks:
            labels["sinks"] = True
        if self.usual is not None:
            labels["usual_texts"] = self.usual.texts
        if self.written is not None:
            labels["written"] = self.written
        if self.pairs is not None:
            labels["pairs"] = self.pairs
        if self.rows is not None:
            labels["rows"] = self.rows
        return Contents(numbers, labels)

    def to_dataframe(self) -> "DataFrame":
        """Return a pandas DataFrame with one row per cell and the columns of the record's .csv.

        Columns: text (0), layer, head, query, key, query_token, key_token, weight, hidden (by its layer's mask).

        Raises RequestError if pandas is not installed.
        """
        maps = [(self.layers.index(layer), self.heads.index(head)) for layer, head in self.each_head]
        of_map, query, key = np.indices((len(maps), *self.weights.shape[2:])).reshape(3, -1)
        layer, head = np.array(maps).T[:, of_map]  # the places of each cell
        queries, keys = (np.array(tokens.text, dtype=object) for tokens in (self.tokens, self.keys))
        columns = (
            np.zeros_like(layer),
            np.array(self.layers)[layer],
            np.array(self.heads)[head],
            query,
            key,
            queries[query],
            keys[key],
            self.weights[layer, head, query, key],
            ~self.masks[layer, query, key],
        )
        return as_dataframe(dict(zip(CSV_HEADER, columns, strict=True)))

    # The only calls into rendering: a record displays itself, as in pandas.

    def page(self, path: str | Path | None = None, **options: Any) -> str:
        """Return an HTML document with all heads of this record. Also save it if a `path` (.html) is given.

        Options are those of `attncli view`: layers, heads (as for `select`), title, and how the page opens (view,
        query, segments, special, words, threshold, head): see `attncli.page.Start`. Several texts or masks:
        `attncli.page.page` takes a list.

        Raises RequestError for a missing layer, head or token, or an unwritable place.
        """
        page: str = import_module(SHOWING).page(self, path, **options)
        return page

    def figure(self, path: str | Path | None = None, **options: Any) -> Any:
        """Return a matplotlib `Figure` of these maps. Also save it if a `path` (.png, .svg, .pdf) is given.

        Options are those of `attncli heatmap`: layers, heads (as for `select`), style, mean, special, words,
        segments, query, vmax, cmap, title, width, font, font_size: see `attncli.report.figure.record`. And dpi.

        Raises RequestError for a missing layer, head or token, or an unwritable place.
        """
        return import_module(SHOWING).figure(self, path, **options)

    def _repr_html_(self) -> str:
        """Return the page in a frame, for notebooks."""
        shown: str = import_module(SHOWING).notebook(self)
        return shown

    def document(self) -> RecordDocument:
        """Return this text's entry under "records" in `run --json`."""
        found: RecordDocument = json.loads("".join(self.document_text()))
        return found

    def document_text(self, terms: bool = False) -> Iterator[str]:
        """Yield the entry as JSON map by map, since all heads of 512 tokens are hundreds of megabytes.

        terms: include the summands of each head's scores, which require its vectors.
        """
        yield f'{json.dumps(self.labels())[:-1]}, "attention": ['
        for number, (layer, head) in enumerate(self.each_head):
            weights = decimals(self.map(layer, head))
            more = ""
            if terms and self.vectors is not None:
                parts = self.vectors.parts(layer, head)
                named = (f"{json.dumps(name)}: {decimals(part.astype(np.float32))}" for name, part in parts.items())
                more = f', "terms": {{{", ".join(named)}}}'
            yield f'{", " if number else ""}{{"layer": {layer}, "head": {head}, "weights": {weights}{more}}}'
        yield "]}"

    def labels(self) -> dict[str, Any]:
        """Return the entry without the maps."""
        more: dict[str, Any] = {} if self.kind == "encoder" else {"kind": self.kind}
        if self.measure != "weight":
            more["measure"] = self.measure
        more |= {"dtype": self.dtype} if self.dtype in HALVES else {}
        more |= {"sinks": True} if self.sinks else {}
        if self.key_tokens is not None:
            more["key_tokens"] = self.key_tokens.text
        more |= {} if self.rows is None else {"rows": self.rows}
        for name, tokens in (("shown", self.tokens), ("key_shown", self.key_tokens)):
            if tokens is not None and tokens.shown != tokens.text:
                more[name] = tokens.shown
        own = entries(self.masks, self.layers, self.mask_name, self.tokens, self.key_tokens)
        masks: dict[str, Any] = {"masks": own} if own else {}
        if self.prediction is not None:
            more["prediction"] = self.prediction.document()
        if self.written is not None:
            more["written"] = self.written
        return {"tokens": self.tokens.text, **more, "segments": self.tokens.segments, "mask": self.mask_name, **masks}


def _held(what: str, selection: Selection, held: Sequence[int], count: int) -> list[int]:
    """Return the selected layers or heads of a record. Raises RequestError if one is not in it."""
    wanted = select(selection, count, what)
    missing = [number for number in wanted if number not in held]
    if missing:
        raise RequestError(f"{what} {missing[0]} is not in the record: it holds {number_list(held)}")
    return wanted


def save_records(
    records: Iterable[AttentionRecord], path: str | Path, findings: Sequence[Mapping[str, Any]] | None = None
) -> None:
    """Save one or more texts in one file, by suffix. A .npz holds one text only. Writes completely or not at all.

    findings: strong edges, for a .json.

    Raises RequestError for an unknown suffix, an unwritable place, or several texts in .npz.
    """
    if isinstance(records, AttentionRecord):
        raise TypeError("records is a list of records, not one: write [record], or record.save(path)")
    path, records = Path(path), list(records)
    suffix = check_suffix(path, SUFFIXES, "a record")
    if not records:
        raise RequestError(f"{path}: no records given; saving needs at least one")
    check_record_count(path, len(records))
    if suffix == ".json":
        write_whole(path, lambda temporary: write_text(document_text(records, findings=findings), temporary))
    else:
        write = {".npz": write_npz, ".safetensors": write_safetensors, ".csv": write_csv}[suffix]
        write_whole(path, lambda temporary: write([record.contents() for record in records], temporary))


def document_text(
    records: Iterable[AttentionRecord], terms: bool = False, findings: Sequence[Mapping[str, Any]] | None = None
) -> Iterator[str]:
    """Yield the output of `run --json` in pieces: the model once, then the record of every text.

    terms: include the terms of the scores. findings: strong edges, written last, so that the list may grow meanwhile.
    """
    for number, record in enumerate(records):
        yield f'{{"model": {json.dumps(record.model.document())}, "records": [' if number == 0 else ", "
        yield from record.document_text(terms)
    yield "]" if findings is None else f'], "findings": {json.dumps(findings)}'
    yield "}\n"


def check_record_count(path: Path, count: int) -> None:
    """Raises RequestError if a file with this suffix can't hold `count` texts."""
    if path.suffix.lower() == ".npz" and count != 1:
        raise RequestError(f"{path}: .npz holds one text, but there are {count}: use .safetensors")


def write_npz(texts: Sequence[Contents], path: Path) -> None:
    """Write one text; .npz holds no more."""
    [text] = texts
    with path.open("wb") as file:
        np.savez_compressed(
            file,
            **text.numbers,
            tokens=np.array(text.tokens["text"], dtype=np.str_),
            labels=np.array(json.dumps(text.labels)),
        )


def write_safetensors(texts: Sequence[Contents], path: Path) -> None:
    """Write all texts. With several texts, each tensor's name ends in the text's number: weights.0, weights.1."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    tensors = {
        (name if len(texts) == 1 else f"{name}.{number}"): array
        for number, text in enumerate(texts)
        for name, array in text.numbers.items()
    }
    metadata = {"format": FORMAT, "records": json.dumps([text.labels for text in texts])}
    try:
        save_file(tensors, str(path), metadata=metadata)
    except SafetensorError as error:  # a full disk, say
        raise OSError(first_line(error)) from error


def cells_of(records: Iterable[AttentionRecord]) -> "DataFrame":
    """Return a pandas DataFrame with one row per cell of each record. The column `text` numbers the records."""
    frames = [record.to_dataframe().assign(text=number) for number, record in enumerate(records)]
    import pandas

    return pandas.concat(frames, ignore_index=True)


def write_csv(texts: Sequence[Contents], path: Path) -> None:
    """Write one row per cell. `hidden` is 1 if the layer's mask hides the cell; its weight is then a meaningless 0."""
    write_table(CSV_HEADER, (row for number, text in enumerate(texts) for row in csv_rows(number, text)), path)


def csv_rows(number: int, text: Contents) -> Iterator[tuple[Any, ...]]:
    tokens, keys = text.tokens["text"], text.keys["text"]
    weights, layers, heads = text.numbers["weights"], *(text.numbers[name].tolist() for name in ("layers", "heads"))
    masks = np.broadcast_to(text.numbers["mask"], (len(layers), len(tokens), len(keys)))
    for layer, head in text.labels.get("pairs") or product(layers, heads):
        row = layers.index(layer)
        of_head, mask = weights[row, heads.index(head)], (~masks[row]).astype(int)
        for query, (of_query, hidden) in enumerate(zip(json.loads(decimals(of_head)), mask.tolist(), strict=True)):
            for key, weight in enumerate(of_query):
                yield number, layer, head, query, key, tokens[query], keys[key], weight, hidden[key]


def write_text(pieces: Iterable[str], path: Path) -> None:
    """Write a document piece by piece."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(pieces)
