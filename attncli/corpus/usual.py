"""The usual weights of a model's heads, averaged over short texts that come with the program.

They are computed once for all heads of a model and kept in the cache (`attncli.base.cache`).
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from attncli.analysis.edges import TextSums, Usual, placed_tokens, text_sums
from attncli.analysis.patterns import row_shares
from attncli.base import __version__
from attncli.base.arrays import Doubles, seal_of
from attncli.base.cache import DIGEST, cache_directory, keep_newest
from attncli.base.errors import no_notices
from attncli.base.untrusted import read_npz, read_regular
from attncli.models.checkpoint_files import CONFIG_FILE
from attncli.models.parts import mask_name, self_attention_kind
from attncli.record.grouping import merge_words
from attncli.record.selection import Input, Request
from attncli.text.samples import find_sample
from attncli.text.tokens import Tokens, word_tokens

if TYPE_CHECKING:
    from attncli.models.engine import Engine

FILES = (
    "agreement.txt",
    "coreference.txt",
    "negation.txt",
    "pair.txt",
    "words.txt",
)  # the sample files with short lines
FORMAT = 3  # of the files in the cache: also raise it when the arithmetic changes
LARGEST = 2**25  # bytes of a file


def usual_of(
    engine: "Engine", request: Request, words: bool = False, tell: Callable[[float], None] = lambda _: None
) -> Usual | None:
    """Return the usual weights for a request, averaged over the sample texts.

    words: between words. tell: called before each text with the completed share. It may raise to end the work. Returns
    None if a decoder would first have to generate from each text, which is slow.

    Raises RequestError as `Engine.answer`.
    """
    if engine.of_part(request.which).writes:
        return None
    complete = Request(mask=request.mask, measure=request.measure, which=request.which)
    (layers, heads), (rows, columns) = _selected(engine, complete), _selected(engine, request)
    # Silencing heads of the last layer changes no map.
    effective = [(layer, head) for layer, head in engine.silenced_heads if layer < layers[-1]]
    engine = engine.silencing(effective) if effective != engine.silenced_heads else engine
    engine.check(complete)
    with no_notices():
        texts = list(engine.tokenizer.encode_each(map(Input, lines()), None))
    key = _key(engine, complete, words, texts)
    found = None if key is None else _read(key)
    if found is None:
        found = _compute(engine, complete, words, tell)
        if key is not None:
            made = found._asdict()
            seal = np.array(seal_of(key, made))
            keep_newest(_path(key), lambda path: np.savez(path, seal=seal, **made))
    of_texts = [placed_tokens(word_tokens(text) if words else text) for text in texts]
    usual = Usual([TextSums(*one) for one in zip(of_texts, found.sums, found.counts, strict=True)])
    return usual.select([layers.index(layer) for layer in rows], [heads.index(head) for head in columns])


class _Sums(NamedTuple):
    """The sums of all texts: sums, float64 `[text, layer, head, bin]`, and counts, float64 `[text, layer, bin]`."""

    sums: Doubles
    counts: Doubles


def _selected(engine: "Engine", request: Request) -> tuple[list[int], list[int]]:
    """Return the layers and heads of a request. Raises RequestError for numbers out of range."""
    part = engine.of_part(request.which)
    chosen = request.choose(part.select_layers, part.heads)
    return chosen.layers, chosen.heads


def _compute(engine: "Engine", request: Request, words: bool, tell: Callable[[float], None]) -> _Sums:
    """Run the model on the sample texts. Arguments as for `usual_of`."""

    def inputs() -> Iterator[Input]:
        texts = lines()
        for number, text in enumerate(texts):
            tell(number / len(texts))
            yield Input(text)

    with no_notices():
        records = map(row_shares, engine.answer(inputs(), request))
        each = list(map(text_sums, map(merge_words, records) if words else records))
    return _Sums(np.stack([one.sums for one in each]), np.stack([one.counts for one in each]))


def lines() -> list[str]:
    """Return the sample texts."""
    files = [find_sample(name).text.splitlines() for name in FILES]
    return [line.strip() for file in files for line in file if line.strip()]


# --- the cache ------------------------------------------------------------------------------------------


def _key(engine: "Engine", request: Request, words: bool, texts: Sequence[Tokens]) -> str | None:
    """Return a string of everything that the sums depend on; None if the model has no digest."""
    try:
        config = read_regular(engine.place.path / CONFIG_FILE)
    except OSError:
        return None
    if not DIGEST.fullmatch(engine.sha256):
        return None
    described = {
        "format": FORMAT,
        "version": __version__,
        "weights": engine.sha256,
        "config": hashlib.sha256(config).hexdigest(),
        "engine": f"transformers {version('transformers')}" if engine.name == "transformers" else engine.name,
        "device": str(engine.device),
        "dtype": engine.dtype_name,
        "without": engine.silenced_heads,
        "part": self_attention_kind(engine, request.which),
        "mask": mask_name(engine, request.mask, request.which),
        "measure": request.measure,
        "words": words,
        "texts": hashlib.sha256(json.dumps([text.plain.lists for text in texts]).encode()).hexdigest(),
    }
    return json.dumps(described)


def _path(key: str) -> Path:
    return cache_directory() / "usual" / f"{hashlib.sha256(key.encode()).hexdigest()}.npz"


def _read(key: str) -> _Sums | None:
    """Return the cached sums of a key; None if there are none, or the file is damaged."""
    try:
        arrays = read_npz(_path(key), ("seal", *_Sums._fields), most=LARGEST)
    except (OSError, ValueError):
        return None
    seal = str(arrays.pop("seal"))
    return _Sums(**arrays) if seal == seal_of(key, arrays) else None
