"""Statistics of every head over many texts: `attncli stats` in Python."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import starmap
from pathlib import Path

from attncli.analysis.statistics import USUAL, Counting, Statistics, Sums
from attncli.base.errors import Notice, RequestError
from attncli.corpus.reading import Reading, shown
from attncli.corpus.reducer import Reducer
from attncli.corpus.resuming import Fingerprint, Keeper
from attncli.models.engine import Engine
from attncli.text.tokens import Unreadable
from attncli.text.windows import Window, windows

EVERYTHING = Reading()


def corpus_statistics(
    model: Engine,
    texts: Iterable[str],
    mask: str = "padding",
    distances: bool = False,
    measure: str = "weight",
    words: bool = False,
    stride: int | None = None,
    which: str | None = None,
) -> Statistics:
    """What every head of a model does in general, over texts of any number and length.

    The figures are in `attncli.analysis.statistics`, and so is what mask, distances, measure, words and which mean
    (`Counting`). stride: of texts longer than the model, tokens from one window to the next.

    Raises RequestError when there is no text, for one in which there is nothing, and as `Counting` and `Reducer` do.
    """

    def cut(number: int, text: str) -> Iterator[Window]:
        try:
            yield from windows(number, text, reducer.tokenizer, stride)
        except Unreadable as error:
            raise RequestError(f"text {number}: {error}") from error

    reducer = Reducer(model, Counting(mask, distances, measure, words, which))
    sums = reducer.reduce(starmap(cut, enumerate(texts)))
    if not sums.texts:
        raise RequestError("there is no text in the corpus")
    return reducer.statistics(sums)


def count_files(
    model: Engine,
    files: Sequence[str],
    reading: Reading = EVERYTHING,
    stride: int | None = None,
    counting: Counting = USUAL,
    resume: Path | None = None,
    show: Callable[[Sums], None] = lambda sums: None,
) -> Statistics:
    """The same over the texts of files ("-" is stdin), which no memory has to hold.

    reading: how texts stand in them; counting: what is counted; stride: as above.
    resume: a file to go on from where it is there, kept up to date.
    show: called with the sums so far: with those that it goes on from first, then after every batch.

    A KeyboardInterrupt ends it early: the statistics of what there is by then are `partial`, and a Notice says so.
    Before any text has been counted it is an interruption like any other. Whatever ends it, the file is up to date.

    Raises RequestError as reading, the model, `Keeper` and `Fingerprint` do, and when there is no text.
    """
    reducer = Reducer(model, counting)
    with Keeper(resume, asked_for(reducer, files, reading, stride)) as keeper:
        so_far = begun = keeper.load(reducer.nothing())
        if reading.limit is not None and reading.limit < begun.read:
            raise RequestError(
                f"{resume} has begun on {begun.read:,} texts, which can't be taken apart: ask for --limit {begun.read} "
                "or more, or name another file"
            )
        show(begun.sums)
        partial = False
        fingerprint = Fingerprint(begun, resume)
        texts = reading.windows(files, reducer.tokenizer, stride, fingerprint.numbered)
        try:
            for so_far in fingerprint.signed(reducer.count(texts, begun)):
                show(so_far.sums)
                keeper.offer(so_far)
        except KeyboardInterrupt:
            if not so_far.sums.texts:
                raise
            partial = True
        finally:
            keeper.save(so_far)
        if not so_far.sums.texts:
            raise RequestError(f"no text in {', '.join(map(shown, files))}: put one text on a line")
        if partial:
            more = "" if resume is None or keeper.kept is not so_far else "; the same command goes on from here"
            warnings.warn(
                f"interrupted: these figures are PARTIAL, of {so_far.sums.texts} texts{more}", Notice, stacklevel=2
            )
    return reducer.statistics(so_far.sums, partial)


def asked_for(reducer: Reducer, files: Sequence[str], reading: Reading, stride: int | None) -> dict[str, object]:
    """What a file to go on from must have been begun with, by the names that options have."""
    counting = reducer.counting
    return {
        "model": reducer.model.sha256,
        "--dtype": reducer.model.dtype_name,
        "--which": None if reducer.kind == "encoder" else reducer.kind,  # of which older files say nothing
        "--without": reducer.info.changes or None,  # and of this
        "--stride": stride,
        "--mask": counting.mask,
        "--distances": counting.distances,
        "--measure": counting.measure,
        "--words": counting.words,
        "corpus": list(files),
        "--paragraphs": reading.paragraphs,
        "--jsonl": reading.field,
    }
