"""Ablate the texts of files, in shards and in two rounds.

The first round measures the effects on every text. They give the orders of heads, with which the second round measures
every second text. Each shard keeps a row per text, and rows are put after each other. They grow with the number of
texts, because intervals need to know how the effects vary. A row of the first round takes 8 bytes for each effect and
each slope, 1.3 kB with minilm and one way; a row of the second 0.5 kB. A text goes through the network once per head
and more: a million texts, with 1.3 GB, take days of many cores.

The texts that make the orders are counted over the whole corpus, after the first round. No sums are rounded in between.
So every number is the same for all sizes of shards.
"""

import dataclasses
import hashlib
import json
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch

from attncli.base.errors import Notice, RequestError, no_notices
from attncli.corpus.of_model import OfModel, pool
from attncli.corpus.running import Corpus, Show, Where, go_through, silent
from attncli.corpus.shards import Arrays, CorpusSize, Counts, Shard
from attncli.corpus.texts import Line, TextFormat
from attncli.effects.asking import OPTIONS, Asking
from attncli.effects.question import Question, make_question
from attncli.features.ablate import (
    MEASURING,
    ORDERING,
    Ablation,
    Orders,
    Rows,
    Silencing,
    Ways,
    ablation,
    curves_of,
    effects_in_order,
    mean_slope,
    removal_orders,
)
from attncli.models.engine import Engine, require_tapped
from attncli.models.model import Model
from attncli.models.network import lay_out
from attncli.models.opening import Opening
from attncli.record.selection import Heads, Selection
from attncli.text.tokens import Unreadable

COUNTED = ("shard", "number", "tokens")  # whole numbers of a row: which text of which shard, and its length
ORDER = "order of heads"
WAITING = 2  # texts a core that are asked about already
T = TypeVar("T")
U = TypeVar("U")


def ablate_files(
    model: Engine,
    files: Sequence[str],
    reading: TextFormat = TextFormat(),
    ways: Ways = Ways(),
    layers: Selection = "all",
    heads: Heads = "all",
    asking: Asking = Asking(),
    where: Where = Where(),
    show: Show = silent,
) -> Ablation:
    """Ablate the texts of files ("-" is stdin), folders and addresses, as `ablate` does.

    reading: the form of the files. where: where shards are computed and rows are kept, so that nothing is done twice.
    show: called with the progress of each round. The texts of a stream, which can be read only once, are all kept.

    A KeyboardInterrupt ends it early: the result of the first round so far is `partial`, without curves, and a Notice
    says so. Before the first text is done, it is raised.

    Raises RequestError as reading, `ablate` and `go_through` do, and where there is no text.
    """
    model = require_tapped(model, asking.which)
    corpus = Corpus(files, reading)
    if "-" in files:
        questions = (one for _, _, one in line_questions(model, reading, asking, reading.texts(corpus.inputs)))
        return ablation(model, questions, ways, layers, heads, asking.mask)
    first = AblatedTexts.of(model, reading, ways, layers, heads, asking)
    found = go_through(first, corpus, where, show)
    if not len(found.total):
        if found.partial:
            raise KeyboardInterrupt
        raise RequestError(f"no text in {', '.join(files)}: put one text on a line")
    made = first.silencing.ablation(model.info, model.usual_mask(asking.mask), found.total)
    if len(found.total) > 1 and not found.partial:
        second = first.with_orders(removal_orders(made, mean_slope(found.total["slopes"][ORDERING])), found.total)
        found = go_through(second, corpus, where, show)
        made = replace(made, curves=curves_of(second.orders, found.total["held"]))
    if not found.partial:
        return made
    more = "" if where.state is None else "; the same command goes on from here"
    warnings.warn(f"interrupted: these effects are PARTIAL, of {made.texts} texts{more}", Notice, stacklevel=2)
    return replace(made, curves=(), partial=True)


def line_questions(
    model: Engine,
    reading: TextFormat,
    asking: Asking,
    lines: Iterator[Line],
    wanted: Callable[[int], bool] = lambda number: True,
) -> Iterator[tuple[int, Line, Question]]:
    """Yield questions about the wanted lines, with their numbers. Raises RequestError as `attempt` does."""
    for number, line in enumerate(lines):
        if wanted(number):
            question = attempt(reading, line, partial(make_question, model, line.text, asking, quiet=number > 0))
            if question is not None:
                yield number, line, question


def attempt(reading: TextFormat, line: Line, make: Callable[[], T]) -> T | None:
    """Return what `make` returns for a text; None for a bad text, after a Notice, where bad texts are skipped.

    Raises RequestError as `make` does, naming the place of the text.
    """
    try:
        return make()
    except RequestError as error:
        if not reading.skip_bad and not isinstance(error, Unreadable):
            raise RequestError(f"{line.where}: {error}") from error
        reading.refuse(line, str(error))
        return None


@dataclass(frozen=True)
class AblatedTexts(OfModel[Rows]):
    """The first round: a row for each text of a shard, as `Silencing.row` makes it.

    threads: cores that share the products of a text. For a corpus that fits into one shard these are all of torch's
    threads; for a larger one each core takes texts of its own.
    """

    shard_bytes: ClassVar[int] = 2**16  # eight hundred sentences: some two minutes of one core with minilm

    reading: TextFormat
    asking: Asking
    ways: Ways
    silencing: Silencing
    threads: int

    @classmethod
    def of(
        cls, model: Engine, reading: TextFormat, ways: Ways, layers: Selection, heads: Heads, asking: Asking
    ) -> "AblatedTexts":
        """Raises RequestError for a layer or a head that does not exist."""
        silencing = Silencing.of(model, ways, layers, heads)
        others = None if ways.texts is None else _digest(list(ways.texts))
        options = {
            "command": "ablate",
            "model": model.sha256,
            "--dtype": model.dtype_name,
            "--without": model.info.changes or None,
            "--way": silencing.ways,
            "--reference": others,
            "--layer": silencing.choice.layers,
            "--head": silencing.choice.heads if silencing.choice.pairs is None else silencing.choice.pairs,
            **{OPTIONS[name]: value for name, value in asdict(asking).items()},
        }
        threads = torch.get_num_threads()
        return cls(Opening.of(model), options, reading, asking, ways, silencing, threads, model=model)

    def with_orders(self, orders: Orders, texts: Rows) -> "HeldOutTexts":
        """Return the second round, given the rows of the first."""
        places = np.stack([texts["shard"], texts["number"]], axis=1)[MEASURING].tolist()
        measured: dict[int, set[int]] = {}
        for shard, number in places:
            measured.setdefault(shard, set()).add(number)
        options = {**self.options, ORDER: _digest([asdict(orders), places])}
        every = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        return HeldOutTexts(**{**every, "options": options}, orders=orders, measured=measured)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the numbers of a text."""
        ways, (layers, heads, _) = self.silencing.ways, self.silencing.choice
        return {
            "effects": (len(ways), len(self.silencing.sets)),
            "slopes": (len(layers), len(heads)),
            "value": (),
        }

    def wanted(self, shard: Shard, number: int) -> bool:
        """Return whether a text of a shard gets a row."""
        return True

    def row(self, model: Engine) -> Callable[[Question], Rows]:
        """Return the function that makes the row of a text."""
        other = self.ways.reference(model, self.asking.mask)
        return lambda question: self.silencing.row(question, other)

    @property
    def fixed(self) -> Mapping[str, int]:
        return {"threads": self.threads}

    def starting_with(self, first: Shard) -> "AblatedTexts":
        return self if first.size < self.shard_bytes else replace(self, threads=1)

    def begin(self, cores: int | None) -> Counts[Rows]:
        model = require_tapped(self.open_model(), self.asking.which)
        model.need(model.layers)
        if isinstance(model, Model):
            lay_out(model.network)  # now, since it would happen after some texts and change how later ones are rounded
        row = self.row(model)
        own = self.threads == 1 and model.device.type == "cpu"
        each = (cores or torch.get_num_threads()) if own else 1

        def of_text(one: tuple[int, Line, Question]) -> Rows | None:
            number, line, question = one
            made = attempt(self.reading, line, lambda: row(question))
            tokens = sum(len(text.tokens) for text in question.texts)
            counted = dict(zip(COUNTED, np.array([[0], [number], [tokens]]), strict=True))
            return None if made is None else replace(made, arrays={**made.arrays, **counted})

        def counts(shard: Shard) -> Iterator[Rows]:
            total = self.nothing()
            lines, wanted = iter(shard.texts), partial(self.wanted, shard)
            texts = line_questions(model, self.reading, self.asking, lines, wanted)
            for made in _side_by_side(of_text, texts, self.threads, each):
                if made is not None:
                    made.arrays["shard"][:] = shard.number
                    total = total + made
                    yield total

        return counts

    def nothing(self) -> Rows:
        whole_numbers: Arrays = {name: np.empty(0, np.int64) for name in COUNTED}
        return Rows({**{name: np.empty((0, *shape)) for name, shape in self.shapes.items()}, **whole_numbers})

    def corpus_size(self, total: Rows) -> CorpusSize:
        return CorpusSize(len(total), int(total["tokens"].sum()))

    def saved(self, total: Rows) -> tuple[dict[str, Any], Arrays]:
        return {"kind": total.kind, "about": total.about}, total.arrays

    def loaded(self, about: dict[str, Any], arrays: Arrays) -> Rows:
        return Rows(arrays, about["kind"], about["about"])


@dataclass(frozen=True, kw_only=True)
class HeldOutTexts(AblatedTexts):
    """The second round: `effects_in_order` of every second text.

    measured: the numbers of these texts in each shard.
    """

    orders: Orders
    measured: Mapping[int, set[int]]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"held": (len(self.orders.all_orders), len(self.orders.removed))}

    def wanted(self, shard: Shard, number: int) -> bool:
        return number in self.measured[shard.number]

    def row(self, model: Engine) -> Callable[[Question], Rows]:
        return lambda question: Rows.of(question, held=effects_in_order(question, self.orders))

    def begin(self, cores: int | None) -> Counts[Rows]:
        inside = super().begin(cores)

        def counts(shard: Shard) -> Iterator[Rows]:
            if shard.number not in self.measured:
                return
            total = self.nothing()
            with no_notices():  # the first round showed the Notices of these texts
                for total in inside(shard):
                    yield total
            if len(total) != len(self.measured[shard.number]):
                raise RequestError(f"{shard.where} has changed meanwhile: run the same again")

        return counts


def _side_by_side(function: Callable[[T], U], things: Iterator[T], threads: int, cores: int) -> Iterator[U]:
    """Yield the function's results in order, each computed on `threads` threads; each of several cores takes its own.

    This thread alone makes the things, because several threads can't share a tokenizer.
    """
    with pool(cores, threads) as each:
        if cores == 1:
            yield from map(function, things)
        under_way: deque[Future[U]] = deque()
        for thing in things:
            under_way.append(each.submit(function, thing))
            if len(under_way) > WAITING * cores:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


def _digest(value: Any) -> str:
    """Return the SHA-256 of a value as JSON."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
