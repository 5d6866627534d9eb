"""A session: open models and their records of texts, as far as there is room.

Of requests that wait only the newest is answered.
"""

import gc
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from attncli.analysis.shares import row_shares
from attncli.analysis.telling import Edge, Usual, edges
from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.models.opening import Opening
from attncli.record import AttentionRecord
from attncli.record.request import Input, Request

if TYPE_CHECKING:
    from attncli.models.block import Tap
    from attncli.models.engine import Engine


class SupersededError(CancelledError):
    """Something newer was asked for."""


class Watch:
    """How far something is, and whether anybody still wants it.

    tell: is told the share that is done, 0 to 1, by the thread that does it.
    """

    def __init__(self, tell: Callable[[float], None] = lambda _: None) -> None:
        self.tell = tell
        self.dropped = threading.Event()

    def __call__(self, share: float) -> None:
        """Raises SupersededError when nobody wants it any more."""
        if self.dropped.is_set():
            raise SupersededError
        self.tell(share)


@dataclass
class Task:
    """Something to do; whose: of two of the same asker's the older one is not wanted any more."""

    work: Callable[[Watch], Any]
    watch: Watch
    whose: Hashable
    future: Future[Any] = field(default_factory=Future)


class Newest:
    """A thread that does what it is asked, and a queue of one before it.

    What waits gives way to what comes, whoever asked for it. What is being done gives way to what the same asker wants
    instead, as soon as it looks at its watch. Their futures then raise SupersededError.
    """

    def __init__(self, name: str = "attncli-live") -> None:
        self.changed = threading.Condition()
        self.waiting: Task | None = None
        self.doing: Task | None = None
        self.closed = False
        self.thread = threading.Thread(target=self.run, name=name, daemon=True)
        self.thread.start()

    def ask(self, work: Callable[[Watch], Any], whose: Hashable = None, watch: Watch | None = None) -> Future[Any]:
        """The future of `work(watch)`, done next."""
        task = Task(work, watch or Watch(), whose)
        with self.changed:
            if self.closed:
                raise RuntimeError("it is closed")
            older, self.waiting = self.waiting, task
            if self.doing is not None and self.doing.whose == whose:
                self.doing.watch.dropped.set()
            self.changed.notify()
        if older is not None:
            drop(older)
        return task.future

    def close(self) -> None:
        """What waits and what is being done is not wanted any more."""
        with self.changed:
            self.closed = True
            older, self.waiting = self.waiting, None
            if self.doing is not None:
                self.doing.watch.dropped.set()
            self.changed.notify()
        if older is not None:
            drop(older)

    def run(self) -> None:
        while (task := self.next()) is not None:
            if not task.future.set_running_or_notify_cancel():
                continue  # whoever asked went away
            try:
                result = task.work(task.watch)
            except BaseException as error:  # noqa: BLE001  # it is for whoever waits
                task.future.set_exception(error)
            else:
                task.future.set_result(result)

    def next(self) -> Task | None:
        """What to do now; None at the end."""
        with self.changed:
            self.doing = None
            self.changed.wait_for(lambda: self.waiting is not None or self.closed)
            self.doing, self.waiting = self.waiting, None
            return self.doing


def drop(task: Task) -> None:
    task.watch.dropped.set()
    if task.future.set_running_or_notify_cancel():
        task.future.set_exception(SupersededError())


EVERYTHING = Request()
KEPT = 256 * 2**20  # bytes of records
LONG = 128  # tokens, from which on how far a model is is told, and it may be stopped


@dataclass(frozen=True)
class Asked:
    """What somebody looks at: a text, what is asked of which of the session's models, and under which masks.

    without: heads that are silenced, "3.1,4.0", besides those that the model was opened without.
    vectors: numbers of q and k that may come along, for heads that the request doesn't name (`under_masks`); 0: none.
    """

    model: str
    text: Input
    request: Request = EVERYTHING
    masks: tuple[str | None, ...] = (None,)
    without: str = ""
    vectors: float = 0


@dataclass
class Session:
    """Models by name, opened when they are first asked for, and records by what was asked, at most `kept` bytes.

    Whoever asks again for what is there has it at once; what was asked for longest ago goes first. Threads may ask at
    the same time; each model runs one text at a time.
    """

    openings: Sequence[Opening]
    kept: int = KEPT
    engines: "dict[Hashable, Engine]" = field(default_factory=dict)
    usuals: dict[Hashable, Usual | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_name = {opening.name: opening for opening in self.openings}
        if not self.by_name:
            raise RequestError("a session has one model at least")
        self.running = {name: threading.RLock() for name in self.by_name}
        self.records_of: OrderedDict[Asked, list[AttentionRecord]] = OrderedDict()
        self.changing = threading.Lock()

    @property
    def models(self) -> list[str]:
        """Their names, in the order given."""
        return list(self.by_name)

    def engine(self, model: str, without: str = "") -> "Engine":
        """Raises RequestError for a name that is not of this session, and as `Opening.open` and `without` do."""
        opening = self.by_name.get(model)
        if opening is None:
            raise RequestError(f"model {quoted(model)} is none of {', '.join(self.models)}")
        with self.running[model]:
            if (model, "") not in self.engines:
                self.engines[model, ""] = opening.open()
            opened = self.engines[model, ""]
            return opened.without(without) if without else opened

    def records(self, asked: Asked, watch: Watch | None = None) -> list[AttentionRecord]:
        """What the model makes of the text, a record a mask.

        Raises RequestError as `engine` and `under_masks` do; SupersededError when the watch does.
        """
        found = self.there(asked)
        if found is not None:
            return found
        with self.running_of(asked.model):
            found = self.there(asked)  # another thread may have asked for the same
            if found is None:
                found = self.made(asked, watch)
                self.keep(asked, found)
        return found

    def record(self, asked: Asked, watch: Watch | None = None) -> AttentionRecord:
        """That under the first mask. Raises as `records` does."""
        return self.records(asked, watch)[0]

    def there(self, asked: Asked) -> list[AttentionRecord] | None:
        """Those that are kept already."""
        with self.changing:
            if asked in self.records_of:
                self.records_of.move_to_end(asked)
            return self.records_of.get(asked)

    def running_of(self, model: str) -> threading.RLock:
        if model not in self.running:
            self.engine(model)  # which says what is wrong with it
        return self.running[model]

    def made(self, asked: Asked, watch: Watch | None) -> list[AttentionRecord]:
        from attncli.models.tapped import under_masks

        engine = self.engine(asked.model, asked.without)
        request = asked.request if asked.vectors else no_vectors(asked.request)
        taps = watching(engine, asked, watch)
        [records] = under_masks(engine, [asked.text], request, asked.masks, asked.vectors, taps=taps)
        return records

    def keep(self, asked: Asked, records: list[AttentionRecord]) -> None:
        with self.changing:
            self.records_of[asked] = records
            while len(self.records_of) > 1 and sum(map(size_of, self.records_of.values())) > self.kept:
                self.records_of.popitem(last=False)

    def usual(self, asked: Asked) -> Usual | None:
        """What is usual of the model's heads, over texts that come with the program; None where that takes long.

        Raises RequestError as `records` does.
        """
        from attncli.corpus.usual import usual_of

        request, kind = replace(asked.request, mask=asked.masks[0]), self.usual_kind(asked)
        with self.running_of(asked.model):
            if kind not in self.usuals:
                engine = self.engine(asked.model, asked.without)
                self.usuals[kind] = usual_of(engine, request, request.grouping.words)
            return self.usuals[kind]

    def usual_kind(self, asked: Asked) -> Hashable:
        """What `usuals` knows it by."""
        request = asked.request
        return asked.model, asked.without, asked.masks[0], request.measure, request.which, request.grouping.words

    def telling(self, record: AttentionRecord, over: Usual | None) -> list[list[Edge]]:
        """The strong edges of the heads that stand out, the first head first, beside what is usual in these texts."""
        shares = row_shares(record)
        stretched = record.part is not None and record.part.stretched  # which are no words
        return edges(shares, Usual.with_text(shares, None if stretched else over))


def settle() -> None:
    """What is there stays, and is looked through for garbage no more: with torch that takes a tenth of a second, again
    and again. For a program that has opened a model and is not about to end.
    """
    gc.collect()
    gc.freeze()


def check_models(models: Iterable[str]) -> None:
    """Raises RequestError for a model that is not there, before the first is opened."""
    from attncli.models.hub import locate

    for model in models:
        locate(model)


def no_vectors(request: Request) -> Request:
    return request if request.vectors is not None else replace(request, vectors="none")


def watching(engine: "Engine", asked: Asked, watch: Watch | None) -> list["Tap"]:
    """Return the taps that tell how far a network is with a long text; none where it can't be tapped."""
    from attncli.models.tapped import tapped
    from attncli.models.taps import Progress

    part = tapped(engine, asked.request.which)
    if watch is None or part is None or tokens_at_least(asked.text) < LONG:
        return []
    return [Progress(share_of(watch, part.layers, len(asked.masks)))]


def tokens_at_least(text: Input) -> int:
    """A text has about a token a word, and every piece is of some characters: short ones are known without cutting."""
    return sum(len(one) for one in (text.text, text.pair or "")) // 4


def share_of(watch: Watch, layers: int, masks: int) -> Callable[[int], None]:
    """Tells the watch what share of all layers, under all masks one after the other, is done."""
    told: list[int] = []

    def tell(layer: int) -> None:
        if told[-1:] != [layer]:
            told.append(layer)
        watch((len(told) - 1) / (layers * masks))

    return tell


def size_of(records: Iterable[AttentionRecord]) -> int:
    """Their bytes, about."""
    return sum(one.weights.nbytes + (0 if one.vectors is None else 4 * one.vectors.size) for one in records)
