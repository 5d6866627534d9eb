"""The file formats of records: field names and layout. `attncli.record.loading` checks the content."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attncli.base import untrusted
from attncli.base.errors import RequestError
from attncli.base.files import write_table
from attncli.base.printable import first_line
from attncli.base.schema import anything, each
from attncli.base.untrusted import Tensors
from attncli.record.parts import SCORE_ARRAYS, VECTOR_ARRAYS, decimals

SUFFIXES = (".safetensors", ".npz", ".json", ".csv")
LOADED = (".safetensors", ".npz")  # formats that hold the complete record
READ = (*LOADED, ".json")  # formats that can be loaded
CSV_HEADER = ("text", "layer", "head", "query", "key", "query_token", "key_token", "weight", "hidden")
ARRAYS = ("weights", "layers", "heads", "segments", "mask")  # in every file
PLAIN = "attentions"  # the weights in another program's .npz, beside "tokens"
FORMAT = "attncli-1"  # in the metadata of a safetensors file, to recognize attncli's own


def check_record_count(path: Path, count: int) -> None:
    """Raises RequestError if a file with this suffix can't hold `count` texts."""
    if path.suffix.lower() == ".npz" and count != 1:
        raise RequestError(f"{path}: .npz holds one text and there are {count}; .safetensors holds many")


class Contents(NamedTuple):
    """One text of a file: its arrays under ARRAYS, VECTOR_ARRAYS, SCORE_ARRAYS, and the rest of its record as JSON."""

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
    """Write all texts. If there are several, the tensors of the second are called weights.1, and so on."""
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


def write_csv(texts: Sequence[Contents], path: Path) -> None:
    """Write one row per cell. `hidden` is 1 if the layer's mask hides the cell; its weight is then a meaningless 0."""
    write_table(CSV_HEADER, (row for number, text in enumerate(texts) for row in csv_rows(number, text)), path)


def csv_rows(number: int, text: Contents) -> Iterator[tuple[Any, ...]]:
    tokens, keys = text.tokens["text"], text.keys["text"]
    weights, layers, heads = (text.numbers[name] for name in ("weights", "layers", "heads"))
    masks = np.broadcast_to(text.numbers["mask"], (len(layers), len(tokens), len(keys)))
    for layer, of_layer, mask in zip(layers.tolist(), weights, (~masks).astype(int), strict=True):
        for head, of_head in zip(heads.tolist(), of_layer, strict=True):
            for query, (row, hidden) in enumerate(zip(json.loads(decimals(of_head)), mask.tolist(), strict=True)):
                for key, weight in enumerate(row):
                    yield number, layer, head, query, key, tokens[query], keys[key], weight, hidden[key]


def write_text(pieces: Iterable[str], path: Path) -> None:
    """Write a document piece by piece."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(pieces)


def read_npz(path: Path) -> Contents | dict[str, Any]:
    """Return a record's contents, or all arrays by name if another program wrote the file (PLAIN).

    Raises ValueError if it is neither.
    """
    arrays = untrusted.read_npz(path)
    if PLAIN in arrays:
        return arrays
    for name in (*ARRAYS, "labels"):
        if name not in arrays:
            raise ValueError(f"it has no {name}")
    return Contents(arrays, untrusted.parse_json(str(arrays["labels"])))


def read_safetensors(path: Path) -> Iterator[Contents]:
    """Yield the contents of each text. Raises ValueError if attncli did not write the file."""
    file = Tensors(path, "numpy")
    if file.metadata.get("format") != FORMAT:
        raise ValueError("it was not written by attncli")
    every = untrusted.parse_json(file.metadata.get("records", ""))
    each(anything)(every, "records")
    for number, rest in enumerate(every):
        end = "" if len(every) == 1 else f".{number}"
        names = [*ARRAYS, *(name for name in (*VECTOR_ARRAYS, *SCORE_ARRAYS) if name + end in file.shapes)]
        yield Contents({name: file.read(name + end) for name in names}, rest)
