"""What is done with each shard of texts when heads are ablated: both rounds of `attncli.effects.ablated_corpus`."""

import dataclasses
import hashlib
import json
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch

from attncli.base.errors import Notice, RequestError
from attncli.base.schema import fields, text
from attncli.corpus.of_model import OfModel, pool
from attncli.corpus.shards import Arrays, Counts, Seen, Shard
from attncli.corpus.texts import Line, Reading
from attncli.effects.ablation import Silenced, Ways
from attncli.effects.asking import WRITTEN, Asking, question
from attncli.effects.questions import Question
from attncli.effects.removal import MEASURING, Orders, held
from attncli.effects.rows import Rows
from attncli.models.model import Model
from attncli.models.network import lay_out
from attncli.models.opening import Opening
from attncli.models.tapped import TappedModel, require_tapped
from attncli.record.selection import Selection
from attncli.text.tokens import Unreadable

ABOUT = fields({"kind": text(), "about": text()})
COUNTED = ("shard", "number", "tokens")  # whole numbers of a row: which text of which shard, and its length
ORDER = "order of heads"
WAITING = 2  # texts a core that are asked about already
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Asked:
    """Asks a model about texts as they stand in files."""

    model: TappedModel
    reading: Reading
    asking: Asking

    def of(
        self, lines: Iterator[Line], wanted: Callable[[int], bool] = lambda number: True
    ) -> Iterator[tuple[int, Line, Question]]:
        """Those that are wanted, with their numbers. Raises RequestError as `question` does, with the text's place."""
        for number, line in enumerate(lines):
            if wanted(number):
                asked = self.tried(line, partial(question, self.model, line.text, self.asking))
                if asked is not None:
                    yield number, line, asked

    def tried(self, line: Line, made: Callable[[], T]) -> T | None:
        """What is made of a text; None, after it was told of, where it can't be and such texts are passed over."""
        try:
            return made()
        except RequestError as error:
            if not self.reading.skip_bad and not isinstance(error, Unreadable):
                raise RequestError(f"{line.place}: {error}") from error
            self.reading.refuse(line, str(error))
            return None


@dataclass(frozen=True)
class Ablating:
    """What is asked, and which heads are put out of whose way: what `ablate` takes."""

    ways: Ways = field(default_factory=Ways)
    layers: Selection = "all"
    heads: Selection = "all"
    asking: Asking = field(default_factory=Asking)


@dataclass(frozen=True)
class AblatedTexts(OfModel[Rows]):
    """The first round: a row for each text of a shard, as `Silenced.row` makes it.

    threads: cores that share a text's products. Of a corpus that has room in a shard they are as many as torch takes;
    of a larger one every core takes texts of its own.
    """

    shard_bytes: ClassVar[int] = 2**16  # eight hundred sentences: some two minutes of one core with minilm

    reading: Reading
    asking: Asking
    ways: Ways
    silenced: Silenced
    threads: int

    @classmethod
    def of(cls, model: TappedModel, reading: Reading, ablating: Ablating) -> "AblatedTexts":
        """Raises RequestError for a layer or a head that there is not."""
        ways, asking = ablating.ways, ablating.asking
        silenced = Silenced.of(model, ways, ablating.layers, ablating.heads)
        others = None if ways.texts is None else digest(list(ways.texts))
        asked = {
            "command": "ablate",
            "model": model.sha256,
            "--dtype": model.dtype_name,
            "--without": model.info.changes or None,
            "--way": silenced.ways,
            "--reference": others,
            "--layer": silenced.layers,
            "--head": silenced.heads,
            **{WRITTEN[name]: value for name, value in asdict(asking).items()},
            **reading.asked,
        }
        threads = torch.get_num_threads()
        return cls(Opening.of(model), asked, reading, asking, ways, silenced, threads, model=model)

    def then(self, orders: Orders, texts: Rows) -> "HeldTexts":
        """The second round, from what the first one found."""
        places = np.stack([texts["shard"], texts["number"]], axis=1)[MEASURING].tolist()
        measured: dict[int, set[int]] = {}
        for shard, number in places:
            measured.setdefault(shard, set()).add(number)
        asked = {**self.asked, ORDER: digest([asdict(orders), places])}
        every = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        return HeldTexts(**{**every, "asked": asked}, orders=orders, measured=measured)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the numbers of a text."""
        ways, layers, heads = self.silenced.ways, self.silenced.layers, self.silenced.heads
        return {
            "effects": (len(ways), len(self.silenced.sets)),
            "slopes": (len(layers), len(heads)),
            "value": (),
        }

    def wanted(self, shard: Shard, number: int) -> bool:
        """Whether something is found of that text of a shard."""
        return True

    def row(self, model: TappedModel) -> Callable[[Question], Rows]:
        """What makes a text's."""
        other = self.ways.reference(model, self.asking.mask)
        return lambda asked: self.silenced.row(asked, other)

    @property
    def fixed(self) -> Mapping[str, int]:
        return {"threads": self.threads}

    def at(self, fixed: Mapping[str, int] | None, size: int) -> "AblatedTexts":
        if fixed is not None:
            return replace(self, threads=fixed["threads"])
        return self if size <= self.shard_bytes else replace(self, threads=1)

    def begin(self, cores: int | None) -> Counts[Rows]:
        model = require_tapped(self.opened(), self.asking.which)
        model.need(model.layers)
        if isinstance(model, Model):
            lay_out(model.network)  # which would happen after some texts, and might round otherwise from there
        row, asked = self.row(model), Asked(model, self.reading, self.asking)
        own = self.threads == 1 and model.device.type == "cpu"
        each = (cores or torch.get_num_threads()) if own else 1

        def of_text(one: tuple[int, Line, Question]) -> Rows | None:
            number, line, asking = one
            made = asked.tried(line, lambda: row(asking))
            tokens = sum(len(text.tokens) for text in asking.texts)
            return None if made is None else numbered(made, number, tokens)

        def counts(shard: Shard) -> Iterator[Rows]:
            total = self.nothing()
            texts = asked.of(self.reading.texts(shard.pieces), lambda number: self.wanted(shard, number))
            for made in side_by_side(of_text, texts, self.threads, each):
                if made is not None:
                    made.arrays["shard"][:] = shard.number
                    total = total + made
                    yield total

        return counts

    def nothing(self) -> Rows:
        whole_numbers: Arrays = {name: np.empty(0, np.int64) for name in COUNTED}
        return Rows({**{name: np.empty((0, *shape)) for name, shape in self.shapes.items()}, **whole_numbers})

    def seen(self, total: Rows) -> Seen:
        return Seen(len(total), int(total["tokens"].sum()))

    def saved(self, total: Rows) -> tuple[dict[str, Any], Arrays]:
        return {"kind": total.kind, "about": total.about}, total.arrays

    def loaded(self, about: dict[str, Any], arrays: Arrays) -> Rows:
        ABOUT(about, "it")
        nothing = self.nothing().arrays
        if set(arrays) != set(nothing):
            raise ValueError("it has other numbers")
        for name, array in arrays.items():
            if array.dtype != nothing[name].dtype or array.shape != (len(arrays["tokens"]), *nothing[name].shape[1:]):
                raise ValueError(f"{name} are another model's, or of other heads")
            unknown = np.isinf(array) if name == "slopes" else ~np.isfinite(array)
            if unknown.any() or (name in COUNTED and (array < 0).any()):
                raise ValueError(f"{name} are no numbers of texts")
        return Rows(arrays, about["kind"], about["about"])


@dataclass(frozen=True, kw_only=True)
class HeldTexts(AblatedTexts):
    """The second round: what is `held` of the output on the texts that are measured on. measured: of each shard their
    numbers in it.
    """

    orders: Orders
    measured: Mapping[int, set[int]]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"held": (len(self.orders.every), len(self.orders.removed))}

    def wanted(self, shard: Shard, number: int) -> bool:
        return number in self.measured[shard.number]

    def row(self, model: TappedModel) -> Callable[[Question], Rows]:
        return lambda asked: Rows.of(asked, held=held(asked, self.orders))

    def begin(self, cores: int | None) -> Counts[Rows]:
        inside = super().begin(cores)

        def counts(shard: Shard) -> Iterator[Rows]:
            if shard.number not in self.measured:
                return
            total = self.nothing()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Notice)  # what there is to say of these texts was said
                for total in inside(shard):
                    yield total
            if len(total) != len(self.measured[shard.number]):
                raise RequestError(f"{shard.where} has changed meanwhile: run the same again")

        return counts


def numbered(row: Rows, number: int, tokens: int) -> Rows:
    return replace(row, arrays={**row.arrays, **dict(zip(COUNTED, np.array([[0], [number], [tokens]]), strict=True))})


def side_by_side(function: Callable[[T], U], things: Iterator[T], threads: int, cores: int) -> Iterator[U]:
    """function of each thing, in their order: each on so many threads; of more than one core each takes its own.

    The things themselves are made by this thread alone: a tokenizer is not for several at once.
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


def digest(of: Any) -> str:
    """Of JSON."""
    return hashlib.sha256(json.dumps(of).encode()).hexdigest()
