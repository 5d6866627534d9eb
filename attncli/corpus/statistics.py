"""Statistics of every head over many texts: `attncli stats` in Python."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any

import numpy as np
import torch

from attncli.analysis.ranges import check_sums
from attncli.analysis.statistics import USUAL, Counting, Statistics, Sums
from attncli.base.arguments import check_texts, each_text
from attncli.base.errors import Notice, RequestError
from attncli.base.schema import fields, whole
from attncli.corpus.inputs.reading import Reading
from attncli.corpus.of_model import OfModel, asked_of
from attncli.corpus.reducer import Pace, Reducer
from attncli.corpus.shards.going import Corpus, going_through
from attncli.corpus.shards.plan import Shard
from attncli.corpus.shards.running import Show, silent
from attncli.corpus.shards.where import Where
from attncli.corpus.shards.work import Arrays, Counts, Seen
from attncli.models.engine import Engine, check_model
from attncli.models.opening import Opening
from attncli.text.tokens import Unreadable
from attncli.text.windows import Window, windows

ARRAYS = ("limit", "totals", "means", "squares", "divergence", "alike")  # of the sums
SUMS = fields({"texts": whole(), "queries": whole()})
LARGE = 2**15  # bytes of a corpus for which weights are laid out: those of eight batches, about


def corpus_statistics(
    model: Engine,
    texts: Iterable[str],
    mask: str | None = None,
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

    check_model(model)
    check_texts("texts", texts)

    def cut(number: int, text: str) -> Iterator[Window]:
        try:
            yield from windows(number, text, reducer.tokenizer, stride)
        except Unreadable as error:
            raise RequestError(f"text {number}: {error}") from error

    reducer = Reducer(model, Counting(mask, distances, measure, words, which))
    sums = reducer.reduce(starmap(cut, enumerate(each_text("texts", texts))))
    if not sums.texts:
        raise RequestError("there is no text in the corpus")
    return reducer.statistics(sums)


def count_files(
    model: Engine,
    files: Sequence[str],
    reading: Reading = Reading(),
    stride: int | None = None,
    counting: Counting = USUAL,
    where: Where = Where(),
    show: Show = silent,
) -> Statistics:
    """The same over the texts of files ("-" is stdin), folders and addresses, which no memory has to hold.

    reading: how texts stand in them; counting: what is counted; stride: as above. where: who counts, and where the sums
    of shards are kept, so that nothing is counted twice. show: is told how far it is.

    A KeyboardInterrupt ends it early: the statistics of what there is by then are `partial`, and a Notice says so.
    Before any text has been counted it is an interruption like any other.

    Raises RequestError as reading, the model and `going_through` do, and when there is no text.
    """
    reducer = Reducer(model, counting)
    heads = CountedHeads.of(reducer, reading, stride)
    found = going_through(heads, Corpus(files, reading), where, show)
    if not found.total.texts:
        if found.partial:
            raise KeyboardInterrupt
        raise RequestError(f"no text in {', '.join(files)}: put one text on a line")
    if found.partial:
        more = "" if where.state is None else "; the same command goes on from here"
        warnings.warn(
            f"interrupted: these figures are PARTIAL, of {found.total.texts} texts{more}", Notice, stacklevel=2
        )
    return reducer.statistics(found.total, found.partial)


@dataclass(frozen=True)
class CountedHeads(OfModel[Sums]):
    """The sums of a shard's texts.

    layers, heads: how many there are.
    """

    reading: Reading
    stride: int | None
    counting: Counting
    layers: int
    heads: int
    pace: Pace

    @classmethod
    def of(cls, reducer: Reducer, reading: Reading, stride: int | None) -> "CountedHeads":
        model, info, counting = reducer.model, reducer.info, reducer.counting
        asked = {
            **asked_of("stats", model, reducer.which),
            "--stride": stride,
            "--mask": counting.mask,
            "--distances": counting.distances,
            "--measure": counting.measure,
            "--words": counting.words,
            **reading.asked,
        }
        opening = Opening.of(model)
        return cls(opening, asked, reading, stride, counting, info.layers, info.heads, reducer.pace, model=model)

    @property
    def fixed(self) -> Mapping[str, int]:
        return self.pace.numbers

    def at(self, fixed: Mapping[str, int] | None, size: int) -> "CountedHeads":
        if fixed is None:
            return replace(self, pace=replace(self.pace, laid_out=size >= LARGE if size else None))
        return replace(self, pace=Pace.from_numbers(fixed))

    def on(self, device: str) -> "CountedHeads":
        pace = Pace.on(torch.device(device).type)
        return replace(self, pace=pace, opening=replace(self.opening, device=device))

    def begin(self, cores: int | None) -> Counts[Sums]:
        reducer = Reducer(self.opened(), self.counting, self.pace, cores)

        def counts(shard: Shard) -> Iterator[Sums]:
            return reducer.count(self.reading.windows(shard.pieces, reducer.tokenizer, self.stride))

        return counts

    def nothing(self) -> Sums:
        return Sums.nothing(self.layers, self.heads, self.counting.distances)

    def seen(self, total: Sums) -> Seen:
        return Seen(total.texts, total.queries)

    def saved(self, total: Sums) -> tuple[dict[str, Any], Arrays]:
        arrays = {name: getattr(total, name) for name in ARRAYS if getattr(total, name) is not None}
        return {"texts": total.texts, "queries": total.queries}, arrays

    def loaded(self, about: dict[str, Any], arrays: Arrays) -> Sums:
        nothing = self.nothing()
        SUMS(about, "it")
        shapes = {name: getattr(nothing, name).shape for name in ARRAYS if getattr(nothing, name) is not None}
        if {name: array.shape for name, array in arrays.items()} != shapes:
            raise ValueError("its shapes are another model's")
        if any(array.dtype != np.float64 for array in arrays.values()):
            raise ValueError("its sums are no doubles")
        sums = Sums(about["texts"], about["queries"], **arrays)
        check_sums(sums)
        return sums
