"""One thing at a time, and the newest next: what waits is dropped when something newer comes."""

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Any


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
