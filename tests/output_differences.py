"""Read what a command printed or saved as data, and find where two such outputs differ.

`read` makes dicts, lists, strings, numbers and arrays of a file of any kind that the program writes; `differences`
goes through two of them side by side.
"""

import base64
import csv
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from packed import unpack_layer

CLOSE, PRINTED, OTHER = "close", "printed", "other"
NUMBER = re.compile(r" *([-+]?\d*\.?\d+(?:e[-+]?\d+)?)")  # with the spaces before it: a column is filled up with them
HEAD = re.compile(r"\d+\.\d\d?")  # 3.11 can be the name of a head, and 3.10 that of another one
PIXEL = 1 / 255
SHORT = 110  # characters that are shown of what differs


class Rounded(NamedTuple):
    """Numbers that are written in steps of `unit`: the least difference can make them a step apart."""

    values: Any
    unit: float


# --- reading --------------------------------------------------------------------------------------------


def read(path: Path, clean: Callable[[str], str] = str) -> Any:
    """Read a file. `clean` removes from every text what may differ."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return {name: without_strings(file[name], clean) for name in file}
    if path.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(str(path), "numpy") as file:
            labels = {name: parsed(clean(text)) for name, text in (file.metadata() or {}).items()}
            return {**labels, "tensors": {name: file.get_tensor(name) for name in file.keys()}}  # noqa: SIM118
    if path.suffix == ".png":
        from matplotlib.image import imread

        return Rounded(imread(path), PIXEL)
    if path.suffix == ".pdf":
        return clean("\n".join(streams(path.read_bytes())))
    text = clean(path.read_text(encoding="utf-8", errors="backslashreplace"))
    if path.suffix == ".html":
        with suppress(
            KeyError, ValueError, IndexError
        ):  # a page of a version that this does not know: only the same text is the same
            return page(text)
    return list(csv.reader(text.splitlines())) if path.suffix == ".csv" else parsed(text)


def without_strings(array: Any, clean: Callable[[str], str]) -> Any:
    """numpy's arrays of strings as lists, and a single string as what it holds."""
    if array.dtype.kind != "U":
        return array
    return array.tolist() if array.ndim else parsed(clean(str(array)))


def parsed(text: str) -> Any:
    """JSON where it is that, else the text."""
    with suppress(ValueError):
        return json.loads(text) if text.startswith(("{", "[")) else text
    return text


def streams(document: bytes) -> Iterator[str]:
    """The parts of a PDF: what is drawn, pictures, fonts."""
    for part in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", document, flags=re.DOTALL):
        with suppress(zlib.error):  # one that is not packed
            part = zlib.decompress(part)
        yield part.decode("latin-1")


def page(text: str) -> dict[str, Any]:
    """Return the data of a page of `view`, not its looks: its description, with packed chunks as arrays.

    Numbers with a fraction stay texts, because they were rounded.
    """
    chunks = dict(re.findall(r'<script type="application/octet-stream" id="(\w+)">(.*?)</script>', text))
    known = json.loads(re.search(r'id="page">(.*?)</script>', text, flags=re.DOTALL)[1], parse_float=str)
    for entry, mask in [(one, mask) for one in known["texts"] for mask in one["masks"]]:
        for layer, name in enumerate(mask["maps"]):
            heads = (known.get("whole") or [known["heads"]] * len(mask["maps"]))[layer]
            mask["maps"][layer] = weights_of(chunks[name], mask, len(heads), entry)
        mask["allowed"] = unpacked(chunks[mask["allowed"]])
        vectors = mask["vectors"]
        for layer, name in vectors.get("chunks", {}).items():
            low, high = unpacked(chunks[name]).reshape(2, -1).astype(np.float64)
            vectors["chunks"][layer] = low + 256 * high - vectors["levels"]
    return {**known, "version": None, "title": re.search(r"<title>(.*?)</title>", text, flags=re.DOTALL)[1]}


def weights_of(chunk: str, mask: dict[str, Any], heads: int, entry: dict[str, Any]) -> Rounded:
    """The weights of a layer `[head, query, key]`, with how far they are from those of the record."""
    queries, keys = len(entry["tokens"]), len((entry.get("keys") or entry)["tokens"])
    levels = int(mask["levels"])
    return Rounded(unpack_layer(chunk, (heads, queries, keys), levels), 0.5 / levels)


def unpacked(chunk: str) -> Any:
    return np.frombuffer(zlib.decompress(base64.b64decode(chunk)), dtype=np.uint8)


# --- comparing ------------------------------------------------------------------------------------------


class Difference(NamedTuple):
    """A difference. kind: CLOSE, within the tolerance; PRINTED, a step of what is written rounded; or OTHER."""

    where: str
    kind: str
    size: float
    words: str


def differences(one: Any, other: Any, tolerance: float, where: str = "") -> Iterator[Difference]:
    """Yield the differences of two results of `read`; of two arrays, the place where they differ most.

    Numbers are CLOSE when they are no further apart than the tolerance, times the larger one where that is above 1.
    Whole numbers must be equal, and so must all with a tolerance of 0. Arrays must be of one type.
    """
    parts: list[tuple[Any, Any, str]] = []
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() ^ other.keys()):
            yield different(one.get(name), other.get(name), f"{where}.{name}")
        parts = [(one[name], other[name], f"{where}.{name}") for name in one if name in other]
    elif isinstance(one, Rounded) and isinstance(other, Rounded):
        yield from apart(one.values, other.values, max(one.unit, other.unit), tolerance, where)
    elif isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.dtype == other.dtype:
        yield from apart(one, other, 0, tolerance, where)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        if all(map(is_number, one + other)):
            yield from apart(np.array(one), np.array(other), 0, tolerance, where)
        else:
            parts = [(*both, f"{where}[{place}]") for place, both in enumerate(zip(one, other, strict=True))]
    elif is_number(one) and is_number(other):
        yield from apart(np.array(one), np.array(other), 0, tolerance, where)
    elif isinstance(one, str) and isinstance(other, str):
        for number, lines in enumerate(zip_longest(one.split("\n"), other.split("\n")), 1):
            yield from line_differences(*lines, tolerance, where if "\n" not in one else f"{where}:{number}")
    elif type(one) is not type(other) or isinstance(one, list | np.ndarray) or one != other:
        yield different(one, other, where)
    for part in parts:
        yield from differences(part[0], part[1], tolerance, part[2])


def is_number(thing: Any) -> bool:
    return isinstance(thing, int | float) and not isinstance(thing, bool)


def different(one: Any, other: Any, where: str) -> Difference:
    return Difference(where, OTHER, math.inf, describe_both(one, other))


def describe_both(*both: Any) -> str:
    """The two in words; of long texts, from shortly before the place where they part."""
    texts = [one if isinstance(one, str) else " ".join(repr(one).split()) for one in both]
    alike = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False))))
    begin = max(0, alike - SHORT // 3) if max(map(len, texts)) > SHORT else 0
    return " / ".join("…" * (begin > 0) + text[begin : begin + SHORT] for text in texts)


def apart(one: Any, other: Any, unit: float, tolerance: float, where: str) -> Iterator[Difference]:
    """Return the distance of the numbers of two arrays, which are written in steps of `unit`."""
    if one.shape != other.shape:
        yield different(list(one.shape), list(other.shape), where)
        return
    whole = one.dtype.kind in "iub" and other.dtype.kind in "iub"
    one, other = np.atleast_1d(one).astype(np.float64), np.atleast_1d(other).astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinity less infinity
        sizes = np.where((one == other) | (np.isnan(one) & np.isnan(other)), 0.0, np.abs(one - other))
    sizes[np.isnan(sizes)] = math.inf
    close = (0.0 if whole else tolerance) * np.maximum(1, np.maximum(np.abs(one), np.abs(other)))
    printed = close + (1.001 * unit if tolerance else 0.0)
    kind = CLOSE if (sizes <= close).all() else PRINTED if (sizes <= printed).all() else OTHER
    place = np.unravel_index(sizes.argmax(), sizes.shape) if sizes.size else ()
    if place and sizes[place]:
        index = f"[{','.join(map(str, place))}]" if sizes.size > 1 else ""
        yield Difference(
            where + index, kind, float(sizes[place]), describe_both(float(one[place]), float(other[place]))
        )


def line_differences(one: str | None, other: str | None, tolerance: float, where: str) -> Iterator[Difference]:
    """Yield the differences of two lines of text; only of their numbers if the rest is equal."""
    if one == other:
        return
    if one is None or other is None or NUMBER.sub("#", one) != NUMBER.sub("#", other):
        yield different(one, other, where)
        return
    for numbers in zip(NUMBER.findall(one), NUMBER.findall(other), strict=True):
        whole = all(re.fullmatch(r"[-+]?\d+", number) for number in numbers)
        exact = whole or any(HEAD.fullmatch(number) for number in numbers)
        unit = 0.0 if exact else max(map(last_place, numbers))
        values = [np.array((int if whole else float)(number)) for number in numbers]
        for found in apart(*values, unit, tolerance, where):
            yield found._replace(words=describe_both(one, other))


def last_place(number: str) -> float:
    """0.614 -> 0.001, 5.7e-07 -> 1e-08."""
    digits, _, exponent = number.partition("e")
    return float(f"1e{int(exponent or 0) - len(digits.partition('.')[2])}")
