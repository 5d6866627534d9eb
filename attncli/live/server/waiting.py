"""Waiting for what a thread does: at once for what is quick, and a line with the share that is done for what is not."""

import asyncio
import traceback
import warnings
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from typing import Any

import orjson

from attncli.base.errors import RequestError
from attncli.live.newest import Newest, SupersededError, Watch
from attncli.live.server.answers import Answer
from attncli.live.server.site import Site

PATIENCE = 0.3  # seconds until it is told how far something is
STEP = 0.1  # seconds from one telling to the next
PIECE = 2**18  # bytes that are sent at once
BUSY = "superseded"
MISTAKE = "this could not be done: a mistake in attncli"


class Working:
    """Something that the thread of a model does, newest first, and how far it is."""

    def __init__(self, worker: Newest, work: Callable[[Watch], Any], whose: str) -> None:
        self.share = 0.0
        self.watch = Watch(self.tell)
        self.future: Future[Any] = worker.ask(work, whose, self.watch)
        self.done = asyncio.wrap_future(self.future)
        self.done.add_done_callback(lambda one: one.cancelled() or one.exception())  # which is told elsewhere

    def tell(self, share: float) -> None:
        self.share = share

    async def wait(self, seconds: float | None) -> bool:
        """Whether it is done, one way or another, within so many seconds; None: it is waited for."""
        done, _ = await asyncio.wait([self.done], timeout=seconds)
        return bool(done)

    def drop(self) -> None:
        """Nobody waits for it any more."""
        self.watch.dropped.set()
        self.future.cancel()


def told(error: BaseException, site: Site) -> tuple[int, dict[str, Any]]:
    """What went wrong, as an answer: its status and what it says."""
    if isinstance(error, SupersededError):
        return 409, {BUSY: True}
    if isinstance(error, RequestError):
        return 422, {"error": site.said(str(error))}
    if isinstance(error, MemoryError):
        return 422, {"error": "not enough memory: a shorter text"}
    warnings.warn("".join(traceback.format_exception(error)), RuntimeWarning, stacklevel=2)  # which --debug shows
    return 500, {"error": MISTAKE}


def pieces(answer: Answer) -> list[bytes]:
    """An answer in parts that are small enough to be sent one by one, and large enough to be few."""
    whole = b"".join((answer.line, *answer.parts))
    return [whole[start : start + PIECE] for start in range(0, len(whole), PIECE)]


async def lines(working: Working, site: Site) -> AsyncIterator[bytes]:
    """How far it is, again and again, and then the answer, or what went wrong, which a status can't say any more."""
    try:
        while not await working.wait(STEP):
            yield orjson.dumps({"share": round(working.share, 3)}) + b"\n"
        error = working.future.exception()
        if error is None:
            for piece in pieces(working.future.result()):
                yield piece
        else:
            yield orjson.dumps(told(error, site)[1]) + b"\n"
    finally:
        working.drop()
