"""The driver: gives an engine the shards that are not done, and adds up what comes out, in the plan's order.

Numbers that are added in another order give another last bit. So a shard that is done early waits for those before it:
its sums in the folder, or, where there is none, in memory.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic

from attncli.base.errors import Notice, RequestError
from attncli.base.printable import first_line
from attncli.corpus.inputs.files import BadFile
from attncli.corpus.shards.engine import Counted, Engine, Failed, Going
from attncli.corpus.shards.folder import Folder
from attncli.corpus.shards.plan import Plan, Shard
from attncli.corpus.shards.work import Seen, Total, Work


@dataclass(frozen=True)
class HowFar:
    """How far it is: what has been counted, of which `before` by an earlier run; shards that are done, of how many."""

    seen: Seen
    before: Seen
    shards: int
    of: int


Show = Callable[[HowFar], None]


def silent(now: HowFar) -> None:
    """Shows nothing."""


@dataclass
class Result(Generic[Total]):
    """What came out. partial: it was interrupted. retried: how often a shard was counted again; skipped: which could
    not be counted, and why.
    """

    total: Total
    partial: bool = False
    retried: int = 0
    skipped: list[str] = field(default_factory=list)


def run(
    work: Work[Total],
    plan: Plan,
    engine: Engine,
    folder: Folder | None = None,
    skip_bad: bool = False,
    show: Show = silent,
) -> Result[Total]:
    """The sums over all shards of a plan.

    folder: where each shard's are kept; what is there already and whole is not counted again. skip_bad: go on without
    shards that can't be counted, with a Notice.

    A KeyboardInterrupt ends it early: what there is by then is `partial`.

    Raises RequestError for a shard that can't be counted, and as the work, the engine and the folder do.
    """
    result = Result(work.nothing())
    merging = Merging(work, plan, folder, result)
    going: Total | None = None
    told: set[str] = set()
    of = 0 if show is silent else plan.count
    try:
        for event in engine(work, merging.missing(), folder):
            if isinstance(event, Going):
                going = event.total
                show(merging.how_far(of, work.seen(event.total)))
                continue
            going = None
            if isinstance(event, Failed):
                merging.skip(event, skip_bad)
            else:
                for notice in event.notices:
                    if notice not in told:
                        warnings.warn(notice, Notice, stacklevel=2)
                        told.add(notice)
                merging.take(event)
            show(merging.how_far(of))
        show(merging.how_far(of))  # with what lay in the folder after the last of them
    except KeyboardInterrupt:
        result.partial = True
        merging.rest()
        if going is not None:
            result.total = result.total + going
    if result.retried:
        again = "once" if result.retried == 1 else f"{result.retried} times"
        warnings.warn(f"a shard was counted again {again}, after whoever had it failed", Notice, stacklevel=2)
    return result


class Merging(Generic[Total]):
    """Adds up the sums of shards in the order of these.

    waiting: of shards that are done before others, what is to be added: their sums, or the name of their file, or None
    where there is nothing. before, now: what was counted earlier and what by this run.
    """

    def __init__(self, work: Work[Total], plan: Plan, folder: Folder | None, result: Result[Total]) -> None:
        self.work, self.plan, self.folder, self.result = work, plan, folder, result
        self.request = work.digest
        self.next = 0
        self.waiting: dict[int, bytes | str | None] = {}
        self.before = self.now = Seen(0, 0)
        self.shards = 0

    def missing(self) -> Iterator[Shard]:
        """The shards whose sums are not in the folder, or not as they were written; the others are added up."""
        there = set() if self.folder is None else self.folder.names()
        for shard in self.plan.shards():
            name = shard.name(self.request)
            if name not in there or (total := self.kept(name, shard)) is None:
                yield shard
            else:
                self.before = plus(self.before, self.work.seen(total))
                self.shards += 1
                if shard.number == self.next:
                    self.add(total)
                else:
                    self.waiting[shard.number] = name

    def kept(self, name: str, shard: Shard) -> Total | None:
        """What the folder has of a shard; None, with a Notice, where that is damaged."""
        assert self.folder is not None
        content = self.folder.read(name)
        if content is None:
            return None
        try:
            return self.work.unsealed(content)
        except ValueError as error:
            where = f"{self.folder.name}/{name}"
            warnings.warn(
                f"{where} is damaged ({first_line(error)}): {shard.where} is counted again", Notice, stacklevel=2
            )
            return None

    def how_far(self, of: int, going: Seen = Seen(0, 0)) -> HowFar:
        """Of so many shards; going: what there is of one that is being counted."""
        return HowFar(plus(plus(self.before, self.now), going), self.before, self.shards, of)

    def take(self, done: Counted) -> None:
        self.result.retried += done.tries - 1
        self.now = plus(self.now, done.seen)
        name = done.shard.name(self.request)
        if self.folder is not None and done.content is not None:  # by a worker that has no such folder
            self.folder.write(name, done.content)
            done = done._replace(content=None)
        self.put(done.shard, name if done.content is None else done.content)

    def skip(self, failed: Failed, skip_bad: bool) -> None:
        """Raises RequestError unless bad shards are to be skipped."""
        self.result.retried += failed.tries - 1
        why = first_line(failed.error)
        said = (
            why if isinstance(failed.error, BadFile) else f"{failed.shard.where}: failed {failed.tries} times ({why})"
        )
        if not skip_bad:
            raise RequestError(f"{said}: --skip-bad goes on without it") from failed.error
        self.result.skipped.append(said)
        warnings.warn(f"skipped {said}", Notice, stacklevel=2)
        self.put(failed.shard, None)

    def put(self, shard: Shard, what: bytes | str | None) -> None:
        self.waiting[shard.number] = what
        self.shards += 1
        while self.next in self.waiting:
            self.settle(self.next)

    def rest(self) -> None:
        """What is done, though not all before it is."""
        for number in sorted(self.waiting):
            self.settle(number)

    def settle(self, number: int) -> None:
        what = self.waiting.pop(number)
        if isinstance(what, str):
            assert self.folder is not None
            content = self.folder.read(what)
            if content is None:
                raise RequestError(f"{self.folder.name}/{what} is gone: run the same again")
            what = content
        try:
            self.add(self.work.nothing() if what is None else self.work.unsealed(what))
        except ValueError as error:
            raise RequestError(
                f"sums of a shard were damaged meanwhile ({first_line(error)}): run the same again"
            ) from error

    def add(self, total: Total) -> None:
        self.result.total = self.result.total + total
        self.next += 1


def plus(one: Seen, other: Seen) -> Seen:
    return Seen(one.texts + other.texts, one.tokens + other.tokens)
