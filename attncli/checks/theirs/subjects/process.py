"""The process that runs somebody's code: started, asked, ended. Needs no torch, so that it can start early."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import attncli
from attncli.base.errors import RequestError
from attncli.base.printable import printable, shorten
from attncli.checks.theirs.subjects.failing import shown
from attncli.checks.theirs.subjects.frames import receive, send

# Not by `-m`, which would look for torch in the folder that somebody is in, and run a torch.py that is there.
PROGRAM = """
import sys
root = sys.argv[1]
sys.path[:1] = [] if root in sys.path else [root]
from attncli.checks.theirs.subjects.worker import main
main(*sys.argv[2:])
"""
ROOT = str(Path(attncli.__file__).parent.parent)
KILLED = 9  # the signal
CLOSED = 77  # the exit code of a worker whose pipes have been closed
ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
GRACE = 1.0  # seconds for an end that is on its way
TICK = 0.1
KEPT = 1 << 16  # bytes of what it prints
QUOTED = 60  # characters of it that are told


class Process:
    """`what`: "file.py:Name", which is opened there at once. It ends after so many seconds, at the latest.

    gigabytes: what it may take beside what torch itself does, where the system has such limits.
    """

    def __init__(self, what: str, seconds: float = 60.0, gigabytes: float = 4.0) -> None:
        self.what = shown(what)
        self.file = file_of(what)
        self.seconds = seconds
        self.gigabytes = gigabytes
        self.until = time.monotonic() + seconds
        self.ended = ""
        self.killed = False
        self.printed = b""
        self.dying, place = tempfile.mkstemp()  # by its name, for which every system has a way
        self.place = Path(place)
        self.child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, ROOT, what, str(time.time() + seconds), str(gigabytes), place],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=os.environ | ENVIRONMENT,
            start_new_session=True,  # so that Ctrl-C is ours alone, and all that it starts can be ended with it
        )
        self.listener = Thread(target=self.listen, daemon=True)
        self.listener.start()

    def listen(self) -> None:
        """It never waits for a reader of what it prints."""
        assert self.child.stderr is not None
        with suppress(OSError, ValueError):
            while part := self.child.stderr.read(KEPT):
                self.printed = (self.printed + part)[-KEPT:]

    def ask(self, request: bytes, doing: str) -> bytes:
        """Its answer. doing: what is done meanwhile, "it is called".

        Raises RequestError when it ends without one, or time is over.
        """
        if self.ended:
            raise RequestError(self.ended)
        came: SimpleQueue[bytes | Exception] = SimpleQueue()
        # In a thread: a process that is gone can leave others behind, which hold the pipe open.
        Thread(target=self.exchange, args=(request, came), daemon=True).start()
        answer = self.wait(came)
        if isinstance(answer, bytes):
            return answer
        self.ended = self.why(answer, doing)
        self.close()
        raise RequestError(self.ended)

    def exchange(self, request: bytes, came: "SimpleQueue[bytes | Exception]") -> None:
        assert self.child.stdin is not None and self.child.stdout is not None
        try:
            send(self.child.stdin, request)
            came.put(receive(self.child.stdout))
        except (OSError, EOFError, ValueError) as error:
            came.put(error)

    def wait(self, came: "SimpleQueue[bytes | Exception]") -> bytes | Exception:
        """TimeoutError when time is over, EOFError when it has ended."""
        while True:
            gone = self.child.poll() is not None
            try:
                return came.get(timeout=GRACE if gone else TICK)
            except Empty:
                if gone:
                    return EOFError()
                if time.monotonic() > self.until + GRACE:
                    return TimeoutError()

    def why(self, error: Exception, doing: str) -> str:
        """The line for the user."""
        if not isinstance(error, TimeoutError):
            with suppress(subprocess.TimeoutExpired):
                self.child.wait(GRACE)
        late = time.monotonic() >= self.until
        code = self.child.returncode
        self.kill()
        self.listener.join(GRACE)
        said, line = self.last_words()
        where = f"{f'line {line}, ' if line else ''}while {doing}"
        words = f"; its last words: {said}" if said else ""
        if late:
            return (
                f"{self.what} is not done after {self.seconds:g} s ({where}): is it a loop without end? "
                "--time-limit SECONDS gives it longer"
            )
        if isinstance(error, ValueError):
            return self.no_answer(error, doing)
        if code in (CLOSED, None):
            return f"{self.what} closes pipes that are not its own ({where}): without them it can't answer{words}"
        if code == -KILLED:
            return f"{self.what} is killed ({where}): had the machine no more memory?{words}"
        if code < 0:
            name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
            return f"{self.what} crashes by {name} ({where}): that is to be mended first{words}"
        return f"{self.what} ends its process ({where}): what does that, os._exit({code})?, is to be taken out{words}"

    def no_answer(self, error: ValueError, doing: str) -> str:
        why = shorten(printable(str(error)), 100)
        return (
            f"{self.what} answers what is no answer (while {doing}): {why}. What writes to pipes that aren't its own?"
        )

    def last_words(self) -> tuple[str, str]:
        """The last line that it printed, and the line of the file in which Python says that it died."""
        lines = self.printed.decode(errors="replace").strip().splitlines()
        os.lseek(self.dying, 0, os.SEEK_SET)
        where = line_in(os.read(self.dying, KEPT).decode(errors="replace"), self.file)
        return shorten(printable(lines[-1].strip()), QUOTED) if lines else "", where

    def kill(self) -> None:
        """And all that it has started. Once: later its number may be that of another's processes."""
        if self.killed:
            return
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self.child.pid, signal.SIGKILL)
        self.child.kill()
        self.child.wait()
        self.killed = True

    def close(self) -> None:
        self.kill()
        if self.dying >= 0:
            os.close(self.dying)
            self.dying = -1
            self.place.unlink(missing_ok=True)
        self.ended = self.ended or f"{self.what} has been closed"
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            if pipe is not None:
                pipe.close()


def line_in(dying: str, file: str) -> str:
    """The innermost line of this file in the thread that died or, when time was over, in the first: it is told last."""
    threads = [part for part in re.split(r"^(?=(?:Current )?[Tt]hread )", dying, flags=re.MULTILINE) if "File " in part]
    here = [part for part in threads if part.startswith("Current ")] or threads[-1:]
    found = re.search(rf'File "[^"]*{re.escape(file)}", line (\d+)', here[0]) if here else None
    return found[1] if found else ""


def file_of(what: str) -> str:
    """The name of the file, as Python writes it where it dies."""
    place = what.rpartition(":")[0] or what
    name = Path(place).name if place.endswith(".py") else f"{place.rpartition('.')[2]}.py"
    return name.encode("ascii", "backslashreplace").decode()
