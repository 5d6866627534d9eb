"""What runs in the process of its own: it opens somebody's file, and answers what is asked of what stands there."""

import faulthandler
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from attncli.base.errors import RequestError
from attncli.checks.theirs.subjects import wire
from attncli.checks.theirs.subjects.failing import in_words, shown
from attncli.checks.theirs.subjects.frames import Stream, receive, send
from attncli.checks.theirs.subjects.here import Here
from attncli.checks.theirs.subjects.inspecting import name_of
from attncli.checks.theirs.subjects.opening import opened
from attncli.checks.theirs.subjects.process import CLOSED
from attncli.checks.theirs.subjects.subject import Answer, Call

GIGABYTE = 10**9
SOON = 0.01  # seconds


def main(what: str, until: str, gigabytes: str, place: str) -> None:
    """Answers until nobody asks any more, or it is `until`, by time.time(). place: a file for where it dies.

    What is opened has neither our pipes nor our input.
    """
    requests, answers = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    dying = os.open(place, os.O_WRONLY)
    with suppress(OSError):  # Windows removes no file that is open; whoever asks does so at the end
        Path(place).unlink()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    faulthandler.enable(dying)
    faulthandler.dump_traceback_later(max(float(until) - time.time(), SOON), exit=True, file=dying)
    waiting: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=listen, args=(requests, waiting), daemon=True).start()
    limit(float(gigabytes))
    answer(waiting, answers, subject(what))


def listen(requests: Stream, waiting: "SimpleQueue[bytes]") -> None:
    """Whoever asked may have been killed: then nothing of this goes on."""
    with suppress(OSError, EOFError, ValueError):
        while True:
            waiting.put(receive(requests))
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(CLOSED)


def limit(gigabytes: float) -> None:
    """Of memory, beside what is taken already; and no image of it is left behind by a crash."""
    try:
        import resource
    except ImportError:  # Windows
        return
    used = 0
    with suppress(OSError), Path("/proc/self/statm").open(encoding="ascii") as sizes:
        used = int(sizes.read().split()[5]) * resource.getpagesize()
    for kind, size in ((resource.RLIMIT_DATA, used + int(gigabytes * GIGABYTE)), (resource.RLIMIT_CORE, 0)):
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (size, size))


def subject(what: str) -> Here | RequestError:
    try:
        return Here(opened(what))
    except RequestError as error:
        return error
    except BaseException as error:  # noqa: BLE001  (it is somebody's code)
        return RequestError(f"{shown(what)} can't be looked at: {in_words(error, '')}")


def answer(waiting: "SimpleQueue[bytes]", answers: Stream, here: Here | RequestError) -> None:
    process = os.getpid()
    while True:
        request = waiting.get()
        said = said_to(request, here)
        if os.getpid() != process:  # somebody's os.fork, of which this is the child
            os._exit(0)
        try:
            send(answers, said)
        except OSError:
            os._exit(CLOSED)


def said_to(request: bytes, here: Here | RequestError) -> bytes:
    """{"answer": ...}, or {"refused": a line}."""
    if isinstance(here, RequestError):
        return wire.pack({"refused": str(here)})
    try:
        asked = wire.unpack(request)
        made = VERBS[asked["verb"]](here, asked["with"])
    except RequestError as error:
        return wire.pack({"refused": str(error)})
    except BaseException as error:  # noqa: BLE001  (it is somebody's code)
        return wire.pack({"refused": f"{name_of(here.thing)} can't be run: {in_words(error, here.file)}"})
    try:
        return wire.pack({"answer": made})
    except Exception as error:  # noqa: BLE001  (their tensors can be of a kind of their own)
        return wire.pack({"answer": Answer(error=in_words(error, here.file))})


VERBS: dict[str, Callable[[Here, Any], Any]] = {
    "describe": lambda here, _: here.describe(),
    "make": lambda here, arguments: here.make(arguments),
    "fill": lambda here, weights: here.fill(weights),
    "call": lambda here, call: here.call(Call(**call | {"arguments": tuple(call["arguments"])})),
}
