"""A session: open models and their records of texts, within a memory limit.

Only the newest of the waiting requests is answered.
"""

import gc
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from attncli.analysis.edges import Usual
from attncli.analysis.patterns import row_shares
from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.models.opening import Opening
from attncli.record import AttentionRecord
from attncli.record.display import in_stretches
from attncli.record.selection import Input, Request

if TYPE_CHECKING:
    from attncli.effects.answer import TokenSources
    from attncli.models.block import Tap
    from attncli.models.devices import InTorch
    from attncli.models.engine import Engine
    from attncli.text.tokens import Tokens


class SupersededError(CancelledError):
    """Raised when a newer request replaces this one."""


class Watch:
    """The progress of a task, and its cancellation.

    tell: called with the completed share, 0 to 1, by the task's thread.
    """

    def __init__(self, tell: Callable[[float], None] = lambda _: None) -> None:
        self.tell = tell
        self.cancelled = threading.Event()

    def __call__(self, share: float) -> None:
        """Report the completed share. Raises SupersededError if the task is cancelled."""
        self.check()
        self.tell(share)

    def check(self) -> None:
        """Raises SupersededError if the task is cancelled."""
        if self.cancelled.is_set():
            raise SupersededError


@dataclass
class _Task:
    """A task. whose: identifies the requester, whose newer task cancels the older one."""

    work: Callable[[Watch], Any]
    watch: Watch
    whose: Hashable
    future: Future[Any] = field(default_factory=Future)


class Worker:
    """A thread with a queue of a single task.

    A new task replaces the waiting task of any requester. It also cancels a running task of its own requester, when
    that task next calls its watch. The futures of replaced tasks raise SupersededError.
    """

    def __init__(self, name: str = "attncli-live") -> None:
        self.changed = threading.Condition()
        self.waiting: _Task | None = None
        self.doing: _Task | None = None
        self.closed = False
        self.thread = threading.Thread(target=self.run, name=name, daemon=True)
        self.thread.start()

    def ask(self, work: Callable[[Watch], Any], whose: Hashable = None, watch: Watch | None = None) -> Future[Any]:
        """Run `work(watch)` next, and return its future."""
        task = _Task(work, watch or Watch(), whose)
        with self.changed:
            if self.closed:
                raise RuntimeError("the worker is closed")
            older, self.waiting = self.waiting, task
            if self.doing is not None and self.doing.whose == whose:
                self.doing.watch.cancelled.set()
            self.changed.notify()
        if older is not None:
            cancel(older)
        return task.future

    def stop(self) -> None:
        """Cancel the waiting and the running task. A task that never calls its watch still runs to its end."""
        with self.changed:
            older, self.waiting = self.waiting, None
            if self.doing is not None:
                self.doing.watch.cancelled.set()
        if older is not None:
            cancel(older)

    def close(self) -> None:
        """Cancel the waiting and the running task, and end the thread."""
        with self.changed:
            self.closed = True
            self.changed.notify()
        self.stop()

    def run(self) -> None:
        while (task := self.next()) is not None:
            if not task.future.set_running_or_notify_cancel():
                continue  # the requester has cancelled it
            try:
                result = task.work(task.watch)
            except BaseException as error:  # noqa: BLE001  # raised for the waiting requester
                task.future.set_exception(error)
            else:
                task.future.set_result(result)

    def next(self) -> _Task | None:
        """Return the next task; None after closing."""
        with self.changed:
            self.doing = None
            self.changed.wait_for(lambda: self.waiting is not None or self.closed)
            self.doing, self.waiting = self.waiting, None
            return self.doing


def cancel(task: _Task) -> None:
    """Cancel a task, whether it waits or runs."""
    task.watch.cancelled.set()
    if task.future.set_running_or_notify_cancel():
        task.future.set_exception(SupersededError())


EVERYTHING = Request()
KEPT = 256 * 2**20  # bytes of records
MOST_KEPT = 64  # texts whose records are kept
MOST_USUALS = 16  # settings of models, such as silenced heads, whose usual weights are kept
WRITES = 20  # maximum number of tokens that a decoder writes per key press or click
MOST_UNITS = 32  # maximum number of sentences or words before a token whose effects are measured
LONG = 128  # tokens: longer texts report progress and can be cancelled


@dataclass(frozen=True)
class SessionRequest:
    """A request to a session: a model, a text, what its record contains (`request`), and masks.

    without: heads to silence, "3.1,4.0", in addition to those that the model was opened without. written: ids that the
    model wrote after the text.
    vectors: the maximum number of elements of q and k for heads that the request doesn't name (`under_masks`); 0 for
    none.
    """

    model: str
    text: Input
    request: Request = EVERYTHING
    masks: tuple[str | None, ...] = (None,)
    without: str = ""
    vectors: float = 0
    written: tuple[int, ...] = ()


@dataclass
class Session:
    """Models by name, opened at the first request, and records by request, at most MOST_KEPT and `kept` bytes.

    Repeated requests are answered from memory. The least recently requested records are dropped first. Several threads
    may send requests; each model runs one text at a time.
    """

    openings: Sequence[Opening]
    kept: int = KEPT
    engines: "dict[Hashable, Engine]" = field(default_factory=dict)
    usuals: dict[Hashable, Usual | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_name = {opening.name: opening for opening in self.openings}
        if not self.by_name:
            raise RequestError("a session needs at least one model")
        self.running = {name: threading.RLock() for name in self.by_name}
        self.records_of: OrderedDict[SessionRequest, list[AttentionRecord]] = OrderedDict()
        self.changing = threading.Lock()
        self.last_sources: tuple[SessionRequest, int, TokenSources] | None = None

    @property
    def models(self) -> list[str]:
        """Return the models' names in the order given."""
        return list(self.by_name)

    def engine(self, model: str, without: str = "") -> "Engine":
        """Return an open model. Raises RequestError for an unknown name, and as `Opening.open` and `without` do."""
        opening = self.by_name.get(model)
        if opening is None:
            raise RequestError(f"model {quoted(model)} is none of {', '.join(self.models)}")
        with self.running[model]:
            if (model, "") not in self.engines:
                self.engines[model, ""] = opening.open_for_answers()
            opened = self.engines[model, ""]
            return opened.without(without) if without else opened

    def wake(self, model: str) -> None:
        """Load a model in torch if it is open in NumPy. Later requests run in torch, which is faster once loaded."""
        opened = self.engine(model)
        if (in_torch := opened.in_torch()) is not opened:
            self.engines[model, ""] = in_torch
            freeze_objects()

    def records(self, asked: SessionRequest, watch: Watch | None = None) -> list[AttentionRecord]:
        """Return the records of the text, one per mask.

        Raises RequestError as `engine` and `under_masks` do, and SupersededError as the watch does.
        """
        found = self.cached_records(asked)
        if found is not None:
            return found
        with self.running_of(asked.model):
            found = self.cached_records(asked)  # another thread may have computed it
            if found is None:
                found = self.compute_records(asked, watch)
                self.keep(asked, found)
        return found

    def record(self, asked: SessionRequest, watch: Watch | None = None) -> AttentionRecord:
        """Return the record for the first mask. Raises as `records` does."""
        return self.records(asked, watch)[0]

    def cached_records(self, asked: SessionRequest) -> list[AttentionRecord] | None:
        """Return the records if they are in memory."""
        with self.changing:
            if asked in self.records_of:
                self.records_of.move_to_end(asked)
            return self.records_of.get(asked)

    def running_of(self, model: str) -> threading.RLock:
        if model not in self.running:
            self.engine(model)  # raises an error that explains the problem
        return self.running[model]

    def compute_records(self, asked: SessionRequest, watch: Watch | None) -> list[AttentionRecord]:
        from attncli.models.engine import tokens_under_masks, under_masks

        request = asked.request
        if not asked.vectors and request.vectors is None:
            request = replace(request, vectors="none")
        if not asked.written:
            engine = self.engine(asked.model, asked.without)
            taps = progress_taps(engine, asked, watch)
            [records] = under_masks(engine, [asked.text], request, asked.masks, asked.vectors, taps=taps)
            return records
        from attncli.models.generation import prompt_tokens, read_steps, with_steps

        model = self.decoder(asked)
        text, taps = self.text(asked), progress_taps(model, asked, watch)
        request = replace(request, predict=False)  # the steps have the predictions
        [records] = tokens_under_masks(model, [text], request, asked.masks, asked.vectors, taps=taps)
        prompt = prompt_tokens(model, *asked.text)
        steps = [read_steps(model, prompt, asked.written, mask) for mask in asked.masks]
        return [
            with_steps(model, record, text, some, request.grouping) for record, some in zip(records, steps, strict=True)
        ]

    # --- writing on

    def write(
        self,
        asked: SessionRequest,
        most: int,
        watch: Watch | None = None,
        tell: Callable[[tuple[int, ...], str], None] = lambda ids, text: None,
    ) -> tuple[int, ...]:
        """Write at most `most` tokens after the text and what was written before, the likeliest each time.

        Return all written ids. tell: called after each token with these ids and their text. Raises RequestError for a
        model that can't generate, after an end token, and for a mask other than the model's own; SupersededError as the
        watch does.
        """
        from attncli.models.generation import Sampling, end_tokens, prompt_tokens, write, writer

        with self.running_of(asked.model):
            model, ids = self.decoder(asked), asked.written
            if ids and ids[-1] in end_tokens(model.place):
                raise RequestError("the model has ended its text: write again from one of its tokens")
            if any(mask not in (None, model.usual_mask(None)) for mask in asked.masks[:1]):
                raise RequestError(f"the model can only write under its own mask: choose {model.usual_mask(None)}")
            self.text(asked)  # raises an error for tokens that the model cannot write
            steps = write(model, prompt_tokens(model, *asked.text), Sampling(most), written=ids)
            for number, step in enumerate(steps, 1):
                ids += (step.token,)
                tell(ids, writer(model).decode(ids))
                if watch is not None:
                    watch(number / most)
        return ids

    def text(self, asked: SessionRequest) -> "Tokens":
        """Return the tokens of the text and of what was written; for an encoder-decoder only those of its output.

        Raises RequestError for ids that the model can't write, and for more tokens than it takes.
        """
        from attncli.models.generation import extend, next_output, prompt_tokens, writer

        with self.running_of(asked.model):
            model = self.decoder(asked)
            if max(asked.written, default=0) >= len(next_output(model).labels):
                raise RequestError(f"{asked.model} has no token {max(asked.written)}")
            text, most = extend(model, prompt_tokens(model, *asked.text), asked.written), writer(model).max_tokens
            if len(text) > most:
                raise RequestError(f"the text with what was written has {len(text)} tokens; {asked.model} takes {most}")
            return text

    def decoder(self, asked: SessionRequest) -> "InTorch":
        """Return the model that writes. Raises RequestError if it writes nothing, and as `engine` does."""
        from attncli.models.devices import InTorch
        from attncli.models.generation import next_output

        self.wake(asked.model)
        model = self.engine(asked.model, asked.without).of_part(asked.request.which)
        assert isinstance(model, InTorch)
        next_output(model)
        return model

    def sources(self, asked: SessionRequest, place: int, watch: Watch) -> "TokenSources":
        """Return what a token of the text rests on: the sentences before it, or the words of a single sentence.

        The last answer is kept. Only the last MOST_UNITS units before the token are measured. Raises RequestError for
        the first token, for a model that writes nothing, and SupersededError as the watch does.
        """
        from attncli.effects.answer import token_sources
        from attncli.record.grouping import axes_of
        from attncli.record.selection import Grouping

        with self.running_of(asked.model):
            if self.last_sources is not None and self.last_sources[:2] == (asked, place):
                return self.last_sources[2]
            model, text = self.decoder(asked), self.text(asked)
            if len(model.parts) > 1:
                raise RequestError("sources of a single token need a decoder: use attncli sources for this model")
            if place >= len(text):
                raise RequestError(f"there is no token {place}: the text has {len(text)}")
            if place < 2:
                raise RequestError("there are no words before this token: select a later one")
            for unit in ("sentence", "word"):
                units = axes_of(Grouping(unit=unit), text.plain).queries.groups
                units = [one for one in units if one[0] < place and one[-1] > 0]
                if len(units) > 1:
                    break
            found = token_sources(model, text, place, units[-MOST_UNITS:], watch)
            found = found._replace(kind=unit, more=max(len(units) - MOST_UNITS, 0))
            self.last_sources = asked, place, found
            return found

    # --- memory

    def keep(self, asked: SessionRequest, records: list[AttentionRecord]) -> None:
        with self.changing:
            self.records_of[asked] = records
            while len(self.records_of) > MOST_KEPT or (
                len(self.records_of) > 1 and sum(map(size_of, self.records_of.values())) > self.kept
            ):
                self.records_of.popitem(last=False)

    def usual(self, asked: SessionRequest, watch: Watch | None = None) -> Usual | None:
        """Return the usual weights of the model's heads in the sample texts.

        Return None for units of several words, and if the computation would take long.

        Raises RequestError and SupersededError as `records` does.
        """
        from attncli.corpus.usual import usual_of

        request, kind = replace(asked.request, mask=asked.masks[0]), self.usual_kind(asked)
        with self.running_of(asked.model):
            if kind not in self.usuals:
                engine, grouping = self.engine(asked.model, asked.without), request.grouping
                found = None if grouping.long_units else usual_of(engine, request, grouping.words, watch or Watch())
                self.usuals[kind] = found
                if len(self.usuals) > MOST_USUALS:
                    del self.usuals[next(iter(self.usuals))]
            return self.usuals[kind]

    def usual_kind(self, asked: SessionRequest) -> Hashable:
        """Return the key of a request's usual weights in `usuals`."""
        request = asked.request
        return asked.model, asked.without, asked.masks[0], request.measure, request.which, request.grouping.unit

    def baseline(self, record: AttentionRecord, in_samples: Usual | None) -> Usual:
        """Return the usual weights for a record: the means over its own text and over the sample texts.

        in_samples: the usual weights in the sample texts, if they are known.
        """
        in_samples = None if in_stretches(record) else in_samples  # stretches are not words
        return Usual.with_text(row_shares(record), in_samples)


def freeze_objects() -> None:
    """Exclude all current objects from garbage collection, which takes 0.1 seconds each time once torch is loaded.

    Call it after opening a model in a program that keeps running.
    """
    gc.collect()
    gc.freeze()


def check_models(models: Iterable[str]) -> None:
    """Raises RequestError for a missing model before any is opened."""
    from attncli.models.hub import locate

    for model in models:
        locate(model)


def progress_taps(engine: "Engine", asked: SessionRequest, watch: Watch | None) -> list["Tap"]:
    """Return the taps that report the progress on a long text."""
    from attncli.models.taps import LayerProgress

    part = engine.of_part(asked.request.which)
    estimated_tokens = (len(asked.text.text) + len(asked.text.pair or "")) // 4  # a guess, without tokenizing
    if watch is None or estimated_tokens < LONG:
        return []
    done: list[int] = []

    def tell(layer: int) -> None:
        if done[-1:] != [layer]:
            done.append(layer)
        watch((len(done) - 1) / (part.layers * len(asked.masks)))

    return [LayerProgress(tell)]


def size_of(records: Iterable[AttentionRecord]) -> int:
    """Return the approximate size of records in bytes."""
    return sum(one.weights.nbytes + (0 if one.vectors is None else 4 * one.vectors.size) for one in records)
