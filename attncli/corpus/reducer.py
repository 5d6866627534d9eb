"""Reduce a corpus to sums: run it through the network in batches, then sum text by text.

`attncli.corpus_statistics` reads texts in memory, `count_files` files of any size.
"""

import copy
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from attncli.analysis.patterns import row_shares
from attncli.base.choices import check_texts, each_text
from attncli.base.errors import RequestError
from attncli.corpus.batch_sums import Memory, batch_sums
from attncli.corpus.engines import pool
from attncli.corpus.running import Show, Workplace, notify_partial, process_corpus, silent
from attncli.corpus.shards import MOST_THREADS, Arrays, CorpusSize, Counts, Shard, Work, model_options
from attncli.corpus.statistics import Statistics
from attncli.corpus.sums import USUAL, Counting, Sums, plain_part
from attncli.corpus.texts import Line, LinePlace, TextFormat
from attncli.models import rows
from attncli.models.devices import BATCH_TOKENS
from attncli.models.engine import Engine, check_every_layer, check_model
from attncli.models.model import own_network
from attncli.models.network import lay_out
from attncli.models.opening import Opening
from attncli.models.parts import mask_name, self_attention_kind, self_attention_part
from attncli.record import ModelInfo, Request
from attncli.record.grouping import merge_words
from attncli.text.windows import TextWindow

TOKENS_A_CORE = 1024  # per batch on a CPU, where each core has its own batch: more takes memory and gains 2%
BLOCK_WEIGHTS = {"cpu": 2**20, "cuda": 2**26}  # weights in memory at a time: on a CPU, as many as fit into its cache
LARGE = 2**15  # bytes: weights are laid out if the first shard is at least this large, about eight batches
# Tokens of a window if an engine returns only whole maps: the maps of all layers and heads are then in memory together.
LONGEST_WINDOW = 1024
SORTED, TOKENS_SORTED = (
    1024,
    65536,
)  # the maximum of windows, and of their tokens, that are sorted by length together in memory


class Pace(NamedTuple):
    """The sizes of computations, which affect the last bit of the sums.

    batch_tokens: tokens of a batch. block_weights: weights in memory at a time (see `Memory`). threads: cores that
    share a batch if there are fewer batches than cores. laid_out: lay out the model's weights, which doubles their
    memory.
    """

    batch_tokens: int
    block_weights: int
    threads: int
    laid_out: bool = False

    @classmethod
    def on(cls, device: str, **changes: Any) -> "Pace":
        """Return the pace for a device of this type, on this machine."""
        tokens = TOKENS_A_CORE if device == "cpu" else BATCH_TOKENS[device]
        weights = BLOCK_WEIGHTS.get(device, BLOCK_WEIGHTS["cpu"])
        return cls(tokens, weights, min(MOST_THREADS, torch.get_num_threads()))._replace(**changes)


class Reducer:
    """Reduces windows of texts to sums on a model.

    tokenizer: for cutting texts into windows. Raises RequestError for a checkpoint that can't be read, and for a
    request that the engine can't meet.
    """

    def __init__(
        self, model: Engine, counting: Counting = USUAL, pace: Pace | None = None, cores: int | None = None
    ) -> None:
        which = self_attention_part(model, counting.which)
        self.model = model
        self.counting = counting = replace(counting, mask=mask_name(model, counting.mask, which), which=which)
        request = Request(mask=counting.mask, measure=counting.measure, which=which)
        model.check(request)
        check_every_layer(model, which, "stats")
        self.part = model.of_part(which)
        device = self.part.device.type
        self.pace = pace or Pace.on(device)
        self.cores = 1  # on a CPU each core takes its own batch: cores that share small products wait for each other
        self.request: Request | None = None  # for whole maps, if a decoder generates from each text
        if not self.part.writes:
            self.batch_tokens = self.pace.batch_tokens
            self.tokenizer = self.part.tokenizer
            like = torch.empty(0, dtype=self.part.map_dtype, device=self.part.device)
            self.memory = Memory(self.pace.block_weights, like, 3 if counting.measure == "norm" else 2)
            if device == "cpu" and own_network(model) is not None:
                self.cores = cores or torch.get_num_threads()
        else:
            self.request = request
            self.batch_tokens = LONGEST_WINDOW
            self.tokenizer = copy.copy(model.tokenizer)
            self.tokenizer.max_tokens = min(model.tokenizer.max_tokens, LONGEST_WINDOW)

    def count(self, windows: Iterable[TextWindow]) -> Iterator[Sums]:
        """Yield the sums of the texts so far after every batch. Raises RequestError if weights are not finite."""
        info = self.model.of_part(self.counting.which).info
        sums = Sums.nothing(info.layers, info.heads)
        if (own := own_network(self.model)) is not None:
            own.need(own.layers)
            if self.pace.laid_out:
                lay_out(own.network)
        with pool(self.cores, self.pace.threads) as each:
            begun: dict[int, tuple[int, Sums]] = {}  # by text: the number of its counted windows, and their sums
            for group in groups(windows):
                of = {window.text: window.of for window in group if window.of is not None}
                cut = batches(group, self.batch_tokens)
                # If there are fewer batches than cores, the cores share each batch.
                alone = own is None or own.device.type != "cpu" or len(cut) < self.pace.threads
                for batch, parts in zip(cut, (map if alone else each.map)(self.parts, cut), strict=True):
                    for window, part in zip(batch, parts, strict=True):
                        count, so_far = begun.pop(window.text, (0, None))
                        count, so_far = count + 1, part if so_far is None else so_far + part
                        if count == of.get(window.text):
                            sums = sums + so_far.of_text()
                        else:
                            begun[window.text] = count, so_far
                    yield sums
                group.clear()  # frees memory before the next ones are read
                cut.clear()

    def parts(self, batch: Sequence[TextWindow]) -> list[Sums]:
        """Return the sums over the queries of each window.

        The decoder of an encoder-decoder generates from each text, and the generated tokens are counted.
        """
        if self.request is None:
            return batch_sums(self.part, self.counting, self.memory, batch)
        made = []
        records = self.model.attend_tokens((window.tokens for window in batch), self.request)
        for window, record in zip(batch, records, strict=True):
            if record.tokens is not window.tokens:  # the generated text replaces the input
                window = TextWindow.uncut(record.tokens, window.text, window.of)
            if self.counting.words:
                window, record = window.in_words, merge_words(record)
            weights = row_shares(record).weights
            made.append(plain_part(window, weights, record.compact_masks))
        return made


def groups(windows: Iterable[TextWindow]) -> Iterator[list[TextWindow]]:
    """Yield the windows that are sorted together."""
    group: list[TextWindow] = []
    tokens = 0
    for window in windows:
        group.append(window)
        tokens += len(window)
        if len(group) == SORTED or tokens >= TOKENS_SORTED:
            yield group
            group, tokens = [], 0
    if group:
        yield group


def batches(group: Sequence[TextWindow], most_tokens: int) -> list[list[TextWindow]]:
    """Return windows in batches of similar lengths (`attncli.models.rows.batches`), shuffled with seed 0.

    Without shuffling, an interrupted run would have counted only the short texts of its last group.
    """
    made = [[group[number] for number in numbers] for numbers in rows.batches(group, most_tokens)]
    random.Random(0).shuffle(made)
    return made


# --- statistics of texts and of files -----------------------------------------------------------------


def corpus_statistics(
    model: Engine,
    texts: Iterable[str],
    mask: str | None = None,
    measure: str = "weight",
    words: bool = False,
    stride: int | None = None,
    which: str | None = None,
) -> Statistics:
    """Return the statistics of every head of a model over texts of any number and length.

    mask, measure, words, which: as in `attncli.corpus.sums.Counting`. stride: tokens from one window to the next, in
    texts that exceed the model's limit. Raises RequestError if there is no text or an empty one, and as `Counting` and
    `Reducer`.
    """
    check_model(model)
    check_texts("texts", texts)
    work = CountedHeads.of(model.in_torch(), Counting(mask, measure, words, which), stride=stride)
    found, partial = process_corpus(
        work, (Line(LinePlace("", n, "text"), text) for n, text in enumerate(each_text(texts)))
    )
    if partial:
        raise KeyboardInterrupt
    if not found.texts:
        raise RequestError("there is no text in the corpus")
    return work.statistics(found)


def count_files(
    model: Engine,
    files: Sequence[str],
    reading: TextFormat = TextFormat(),
    stride: int | None = None,
    counting: Counting = USUAL,
    where: Workplace = Workplace(),
    show: Show = silent,
) -> Statistics:
    """Return the statistics over the texts of any number of files ("-" is stdin), folders and URLs.

    reading: the format of the texts. stride: as in `corpus_statistics`. where: where shards are counted and their sums
    are kept. show: called with the progress. After a KeyboardInterrupt the statistics are `partial`, with a Notice, if
    any text has been counted. Raises RequestError if there is no text, and as reading, the model and `process_corpus`.
    """
    work = CountedHeads.of(model, counting, reading, stride)
    found, partial = process_corpus(work, reading.texts(files), where, show)
    if not found.texts:
        if partial:
            raise KeyboardInterrupt
        raise RequestError(f"no text in {', '.join(files)}: put one text on each line")
    if partial:
        notify_partial(f"{found.texts} texts", where)
    return work.statistics(found, partial)


@dataclass(frozen=True)
class CountedHeads(Work[Sums]):
    """The work of summing the texts of a shard. info, kind: of the counted part of the model."""

    counting: Counting
    reading: TextFormat
    stride: int | None
    info: ModelInfo
    kind: str
    pace: Pace

    @classmethod
    def of(
        cls, model: Engine, counting: Counting = USUAL, reading: TextFormat = TextFormat(), stride: int | None = None
    ) -> "CountedHeads":
        """Return the work on a model. Raises RequestError as `Reducer`."""
        reducer = Reducer(model, counting)
        counting, which = reducer.counting, reducer.counting.which
        options = {
            **model_options("stats", model, which),
            "--stride": stride,
            "--mask": counting.mask,
            "--measure": counting.measure,
            "--words": counting.words,
        }
        about = model.of_part(which).info, self_attention_kind(model, which), reducer.pace
        return cls(Opening.of(model), options, counting, reading, stride, *about, model=model)

    @property
    def fixed(self) -> Mapping[str, int]:
        return {name: int(value) for name, value in self.pace._asdict().items()}

    def starting_with(self, first: Shard) -> "CountedHeads":
        return replace(self, pace=self.pace._replace(laid_out=first.size >= LARGE))

    def on(self, device: str) -> "CountedHeads":
        pace = Pace.on(torch.device(device).type)
        return replace(self, pace=pace, opening=replace(self.opening, device=device))

    def begin(self, cores: int | None) -> Counts[Sums]:
        reducer = Reducer(self.open_model(), self.counting, self.pace, cores)
        return lambda shard: reducer.count(self.reading.windows(shard.texts, reducer.tokenizer, self.stride))

    def statistics(self, sums: Sums, partial: bool = False) -> Statistics:
        """Return the statistics of the sums of at least one text."""
        return Statistics.of(sums, self.info, self.counting, partial, self.kind)

    def nothing(self) -> Sums:
        return Sums.nothing(self.info.layers, self.info.heads)

    def corpus_size(self, total: Sums) -> CorpusSize:
        return CorpusSize(total.texts, total.queries)

    def saved(self, total: Sums) -> tuple[dict[str, Any], Arrays]:
        arrays = {name: value for name, value in vars(total).items() if isinstance(value, np.ndarray)}
        return {"texts": total.texts, "queries": total.queries}, arrays

    def loaded(self, about: dict[str, Any], arrays: Arrays) -> Sums:
        return Sums(about["texts"], about["queries"], **arrays)
