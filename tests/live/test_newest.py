"""One thing at a time, and the newest next."""

import threading
import time
from concurrent.futures import CancelledError

import pytest

from attncli.live.session import SupersededError, Worker

WAIT = 120  # seconds: only what hangs takes so long


@pytest.fixture
def newest():
    one = Worker()
    yield one
    one.close()
    one.thread.join(WAIT)
    assert not one.thread.is_alive()


class BlockedWork:
    """Work that goes on until it is let go, or is not wanted any more."""

    def __init__(self):
        self.begun, self.free = threading.Event(), threading.Event()

    def __call__(self, watch):
        self.begun.set()
        while not self.free.wait(0.005):
            watch(0.5)
        return "done"


def test_it_is_done_and_its_error_is_whoever_asked_for_its(newest):
    def wrong(watch):
        raise ValueError("no")

    assert newest.ask(lambda watch: 3).result(WAIT) == 3
    with pytest.raises(ValueError, match="no"):
        newest.ask(wrong).result(WAIT)
    assert newest.ask(lambda watch: 4).result(WAIT) == 4


def test_what_waits_gives_way_to_what_comes(newest):
    held = BlockedWork()
    first = newest.ask(held, whose="a")
    held.begun.wait(WAIT)
    waiting = [newest.ask(lambda watch, n=n: n, whose=n) for n in range(100)]
    for one in waiting[:-1]:
        with pytest.raises(SupersededError):
            one.result(0)
    time.sleep(0.1)  # in which it looks at its watch many times
    assert not first.done(), "others' wishes do not stop what is being done"
    held.free.set()
    assert first.result(WAIT) == "done"
    assert waiting[-1].result(WAIT) == 99


def test_what_is_done_gives_way_to_what_the_same_asker_wants_instead(newest):
    held = BlockedWork()
    first = newest.ask(held, whose="a")
    held.begun.wait(WAIT)
    assert newest.ask(lambda watch: "new", whose="a").result(WAIT) == "new"
    with pytest.raises(SupersededError):
        first.result(WAIT)


def test_whoever_goes_away_stops_nothing_else(newest):
    held = BlockedWork()
    newest.ask(held, whose="a")
    held.begun.wait(WAIT)
    gone = newest.ask(lambda watch: "gone", whose="b")
    assert gone.cancel()
    held.free.set()
    assert newest.ask(lambda watch: "next", whose="c").result(WAIT) == "next"
    with pytest.raises(CancelledError):
        gone.result(0)


def test_what_waits_when_it_is_closed_is_dropped():
    one, held = Worker(), BlockedWork()
    first = one.ask(held)
    held.begun.wait(WAIT)
    waiting = one.ask(lambda watch: 1, whose="b")
    one.close()
    for future in (first, waiting):
        with pytest.raises(SupersededError):
            future.result(WAIT)
    with pytest.raises(RuntimeError, match="closed"):
        one.ask(lambda watch: 1)
