"""Reduce a corpus to sums: batch by batch through the network, then text by text.

`attncli.corpus_statistics` goes through texts in memory, `count_files` through files of any size.
"""

import copy
import random
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import starmap
from typing import Any

import torch

from attncli.analysis.patterns import row_shares
from attncli.base.choices import check_texts, each_text
from attncli.base.errors import Notice, RequestError
from attncli.corpus.batch_sums import TOKENS_A_CORE, BatchSums
from attncli.corpus.of_model import MOST_THREADS, OfModel, model_options, pool
from attncli.corpus.running import Corpus, Show, Where, go_through, notify_partial, silent
from attncli.corpus.shards import Arrays, CorpusSize, Counts, Shard
from attncli.corpus.statistics import Statistics
from attncli.corpus.sums import FIGURES, USUAL, Counting, Sums, plain_part
from attncli.corpus.texts import TextFormat
from attncli.models import rows
from attncli.models.devices import BATCH_TOKENS
from attncli.models.engine import Engine, check_every_layer, check_model
from attncli.models.model import OFTEN, Model
from attncli.models.network import lay_out
from attncli.models.opening import Opening
from attncli.record import AttentionRecord, ModelInfo, Request
from attncli.record.grouping import merge_words
from attncli.text.tokens import Unreadable
from attncli.text.windows import Window, windows

BLOCK_WEIGHTS = {"cpu": 2**20, "cuda": 2**26}  # weights in memory at a time: on a CPU, those that fit into its cache
LARGE = 2**15  # bytes of the first shard from which on weights are laid out: about eight batches
# Tokens of a window where an engine gives whole maps only: those of all layers and heads are in memory together.
LONGEST_WINDOW = 1024
TEXTS_SORTED, TOKENS_SORTED = 1024, 65536  # sorted by length together; all of them are in memory


@dataclass(frozen=True)
class Pace:
    """The sizes of computations, which the last bit of the sums depends on.

    batch_tokens: tokens of a batch. block_weights: weights in memory at a time (see `BatchSums`). threads: cores that
    share a batch if there are fewer batches than cores. laid_out: whether the model's weights are laid out, which takes
    their memory again; None decides by the number of batches.
    """

    batch_tokens: int
    block_weights: int
    threads: int
    laid_out: bool | None = None

    @classmethod
    def on(cls, device: str, **changes: Any) -> "Pace":
        """Return the pace for a device of this type, on this machine."""
        tokens = TOKENS_A_CORE if device == "cpu" else BATCH_TOKENS[device]
        weights = BLOCK_WEIGHTS.get(device, BLOCK_WEIGHTS["cpu"])
        return replace(cls(tokens, weights, min(MOST_THREADS, torch.get_num_threads())), **changes)


class Reducer:
    """Reduces a corpus to sums on a model.

    tokenizer: cuts texts into windows.

    Raises RequestError for a checkpoint that can't be read, and for a request that the engine can't meet.
    """

    def __init__(
        self, model: Engine, counting: Counting = USUAL, pace: Pace | None = None, cores: int | None = None
    ) -> None:
        self.model = model
        self.which = model.to_itself(counting.which)
        self.counting = counting = replace(counting, mask=model.mask_of(counting.mask, self.which))
        model.check(Request(mask=counting.mask, measure=counting.measure, which=self.which))
        check_every_layer(model, self.which, "stats")
        self.sums: BatchSums | _RecordSums
        part = model.of_part(self.which)
        device = part.device.type
        self.pace = pace or Pace.on(device)
        self.cores = 1
        if not model.writes(Request(which=self.which)):
            self.sums = BatchSums(part, counting, self.pace.block_weights)
            self.batch_tokens = self.pace.batch_tokens
            if device == "cpu" and isinstance(model, Model):
                self.cores = cores or torch.get_num_threads()
        else:
            self.sums = _RecordSums(model, counting, self.which)
            self.batch_tokens = LONGEST_WINDOW
        self.tokenizer = self.sums.tokenizer

    @property
    def info(self) -> ModelInfo:
        """The model with the layers and heads that are counted."""
        return self.model.info_of(self.which)

    @property
    def kind(self) -> str:
        """The kind of attention that is counted, as in a record."""
        return self.model.kind(self.which)

    def nothing(self) -> Sums:
        """Return the sums of no text."""
        return Sums.nothing(self.info.layers, self.info.heads, self.counting.distances)

    def statistics(self, sums: Sums, partial: bool = False) -> Statistics:
        """Return the statistics of the sums of at least one text."""
        return Statistics.of(sums, self.info, self.counting, partial, self.kind)

    def reduce(self, texts: Iterable[Iterable[Window]]) -> Sums:
        """Return the sums over all texts. Raises RequestError as `count`."""
        sums = self.nothing()
        for so_far in self.count(texts):
            sums = so_far
        return sums

    def count(self, texts: Iterable[Iterable[Window]]) -> Iterator[Sums]:
        """Yield the sums of the texts so far after every batch. Raises RequestError if weights are no numbers."""
        sums = self.nothing()
        if isinstance(self.model, Model):
            self.model.need(self.model.layers)
        # On a CPU every core takes its own batch: a batch has many small products, and cores that share one of them
        # wait for each other most of the time. If there are fewer batches than cores, these share them all the same.
        alone = not isinstance(self.model, Model) or self.model.device.type != "cpu"
        with pool(self.cores, self.pace.threads) as each:
            begun: dict[int, tuple[int, Sums]] = {}  # by text: how many of its windows are counted, and their sums
            for group in groups(texts):
                of = {window.text: window.of for window in group if window.of is not None}
                cut = batches(group, self.batch_tokens)
                laid_out = len(cut) >= OFTEN if self.pace.laid_out is None else self.pace.laid_out
                if laid_out and isinstance(self.model, Model):
                    lay_out(self.model.network)
                every = map if alone or len(cut) < self.pace.threads else each.map
                for batch, parts in zip(cut, every(self.sums.parts, cut), strict=True):
                    for window, part in zip(batch, parts, strict=True):
                        count, so_far = begun.pop(window.text, (0, None))
                        count, so_far = count + 1, part if so_far is None else so_far + part
                        if count == of.get(window.text):
                            sums = sums + so_far.of_text()
                        else:
                            begun[window.text] = count, so_far
                    yield sums
                group.clear()  # before the next ones are read
                cut.clear()


# --- windows as batches -------------------------------------------------------------------------------


def groups(texts: Iterable[Iterable[Window]]) -> Iterator[list[Window]]:
    """Yield the windows that are sorted together. A text of TOKENS_SORTED tokens or more has groups of its own."""
    group: list[Window] = []
    count = tokens = 0
    for text in texts:
        left = iter(text)
        part, size = _some(left)
        long = size >= TOKENS_SORTED
        if not long:
            group += part
            count, tokens = count + 1, tokens + size
        if group and (long or count == TEXTS_SORTED or tokens >= TOKENS_SORTED):
            yield group
            group, count, tokens = [], 0, 0
        while long and part:
            yield part
            part, _ = _some(left)
    if group:
        yield group


def _some(windows: Iterator[Window]) -> tuple[list[Window], int]:
    """Return the next windows of a text, up to TOKENS_SORTED tokens, and the number of their tokens."""
    part: list[Window] = []
    size = 0
    while size < TOKENS_SORTED and (window := next(windows, None)) is not None:
        part.append(window)
        size += len(window)
    return part, size


def batches(group: Sequence[Window], most_tokens: int) -> list[list[Window]]:
    """Return windows in batches of similar lengths (`attncli.models.rows.batches`), shuffled with seed 0.

    An interrupted run would otherwise have counted only short texts of its last group.
    """
    made = [[group[number] for number in numbers] for numbers in rows.batches(group, most_tokens)]
    random.Random(0).shuffle(made)
    return made


# --- decoders that write to each text -----------------------------------------------------------------


class _RecordSums:
    """Sums the weights of the decoder of an encoder-decoder, record by record: the tokens that it writes are counted.

    tokenizer: cuts windows whose maps fit into memory. which: as in a Request, except cross-attention.
    """

    def __init__(self, engine: Engine, counting: Counting, which: str | None) -> None:
        self.engine = engine
        self.counting = counting
        self.request = Request(mask=counting.mask, measure=counting.measure, which=which)
        self.tokenizer = copy.copy(engine.tokenizer)
        self.tokenizer.max_tokens = min(engine.tokenizer.max_tokens, LONGEST_WINDOW)
        self.notified = self.tokenizer.max_tokens == engine.tokenizer.max_tokens

    def parts(self, batch: Sequence[Window]) -> list[Sums]:
        """Return the sums over the queries of each window."""
        if not self.notified and any(window.of != 1 for window in batch):
            self.notified = True
            warnings.warn(
                f"texts of more than {LONGEST_WINDOW} tokens go through in windows of so many", Notice, stacklevel=2
            )
        records = self.engine.attend_tokens((window.tokens for window in batch), self.request)
        return [self._part(window, record) for window, record in zip(batch, records, strict=True)]

    def _part(self, window: Window, record: AttentionRecord) -> Sums:
        if record.tokens is not window.tokens:
            # the text that was written takes the place of the window that was read
            window = Window.uncut(record.tokens, window.text, window.of)
        if self.counting.words:
            window, record = window.in_words, merge_words(record)
        record = row_shares(record)
        return plain_part(window, record.weights, record.compact_masks, self.counting.distances)


# --- statistics of texts and of files -----------------------------------------------------------------

ARRAYS = ("limit", "totals", "means", "squares", "divergence", "alike")  # of the sums


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
    """Return the statistics of every head of a model over texts of any number and length.

    mask, distances, measure, words, which: as in `attncli.corpus.sums.Counting`. stride: tokens from one window
    to the next, in texts longer than the model reads.

    Raises RequestError if there is no text, for an empty one, and as `Counting` and `Reducer`.
    """

    check_model(model)
    check_texts("texts", texts)
    model = model.awake()

    def cut(number: int, text: str) -> Iterator[Window]:
        try:
            yield from windows(number, text, reducer.tokenizer, stride)
        except Unreadable as error:
            raise RequestError(f"text {number}: {error}") from error

    reducer = Reducer(model, Counting(mask, distances, measure, words, which))
    sums = reducer.reduce(starmap(cut, enumerate(each_text(texts))))
    if not sums.texts:
        raise RequestError("there is no text in the corpus")
    return reducer.statistics(sums)


def count_files(
    model: Engine,
    files: Sequence[str],
    reading: TextFormat = TextFormat(),
    stride: int | None = None,
    counting: Counting = USUAL,
    where: Where = Where(),
    show: Show = silent,
) -> Statistics:
    """Return the statistics over the texts of files ("-" is stdin), folders and addresses, in any amount.

    reading: how texts stand in them. stride: as in `corpus_statistics`. where: where shards are counted and their sums
    are kept. show: is called with the progress.

    A KeyboardInterrupt ends it early with `partial` statistics and a Notice, unless no text has been counted.

    Raises RequestError as reading, the model and `go_through`, and if there is no text.
    """
    reducer = Reducer(model, counting)
    heads = CountedHeads.of(reducer, reading, stride)
    found = go_through(heads, Corpus(files, reading), where, show)
    if not found.total.texts:
        if found.partial:
            raise KeyboardInterrupt
        raise RequestError(f"no text in {', '.join(files)}: put one text on a line")
    if found.partial:
        notify_partial(f"figures are PARTIAL, of {found.total.texts} texts", where)
    return reducer.statistics(found.total, found.partial)


@dataclass(frozen=True)
class CountedHeads(OfModel[Sums]):
    """The work that sums the texts of a shard. layers, heads: of the model."""

    reading: TextFormat
    stride: int | None
    counting: Counting
    layers: int
    heads: int
    pace: Pace

    @classmethod
    def of(cls, reducer: Reducer, reading: TextFormat, stride: int | None) -> "CountedHeads":
        model, info, counting = reducer.model, reducer.info, reducer.counting
        options = {
            **model_options("stats", model, reducer.which),
            "--stride": stride,
            "--mask": counting.mask,
            "--distances": counting.distances,
            "--measure": counting.measure,
            "--words": counting.words,
        }
        opening = Opening.of(model)
        return cls(opening, options, reading, stride, counting, info.layers, info.heads, reducer.pace, model=model)

    @property
    def fixed(self) -> Mapping[str, int]:
        return {name: int(value) for name, value in asdict(self.pace).items() if value is not None}

    def starting_with(self, first: Shard) -> "CountedHeads":
        return replace(self, pace=replace(self.pace, laid_out=first.size >= LARGE))

    def on(self, device: str) -> "CountedHeads":
        pace = Pace.on(torch.device(device).type)
        return replace(self, pace=pace, opening=replace(self.opening, device=device))

    def begin(self, cores: int | None) -> Counts[Sums]:
        reducer = Reducer(self.open_model(), self.counting, self.pace, cores)

        def counts(shard: Shard) -> Iterator[Sums]:
            return reducer.count(self.reading.windows(shard.texts, reducer.tokenizer, self.stride))

        return counts

    def nothing(self) -> Sums:
        return Sums.nothing(self.layers, self.heads, self.counting.distances)

    def corpus_size(self, total: Sums) -> CorpusSize:
        return CorpusSize(total.texts, total.queries)

    def saved(self, total: Sums) -> tuple[dict[str, Any], Arrays]:
        arrays = {name: getattr(total, name) for name in ARRAYS if getattr(total, name) is not None}
        return {"texts": total.texts, "queries": total.queries}, arrays

    def loaded(self, about: dict[str, Any], arrays: Arrays) -> Sums:
        sums = Sums(about["texts"], about["queries"], **arrays)
        if sums.totals.shape != (self.layers, self.heads, len(FIGURES)):
            raise ValueError("its shapes are another model's")
        return sums
