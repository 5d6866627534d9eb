"""Run the whole check of somebody's code in a process with limits. Only that process imports torch.

    attncli ──► supervisor ──► the process that runs the code ──► what the code starts

The supervisor ends with the code or with attncli, whichever ends first, and ends everything below it. On Linux that
includes processes with a session of their own and orphans, which become its children.
"""

import ctypes
import faulthandler
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from threading import Lock, Thread
from types import TracebackType
from typing import Any

from attncli.base.errors import Notice, RequestError
from attncli.base.printable import printable, shorten, shorten_start
from attncli.base.untrusted import LONGEST_JSON, parse_json

# Not by `-m`, which would run a torch.py in the user's current folder.
PROGRAM = """
import sys
root = sys.argv[1]
sys.path[:1] = [] if root in sys.path else [root]
from attncli.checks.code.process import main
main()
"""
ROOT = str(Path(__file__).parents[3])
CLOSED = 77  # exit code of a child whose pipes were closed
ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
GRACE, TICK, SOON = 1.0, 0.1, 0.01  # seconds
GIGABYTE = 10**9
TRIES = 500  # to kill all that it started
SET_PARENT_DEATH_SIGNAL, SET_CHILD_SUBREAPER = 1, 36  # of prctl(2)
KEPT = 1 << 16  # bytes of what it prints
QUOTED = 60  # characters of its last line that a message has
LONGEST = 300  # characters of a line of a message
LINES = 5  # of a refusal: the reason, and an adapter
STEPS = ("loaded", "opened", "made", "called")

# --- the parent process --------------------------------------------------------------------------------


class Checking:
    """A check that runs in a process of its own, which ends with this context.

    what: "file.py:Name". options: those of `check`. real: the arguments of `load`, for a layer whose weights are put
    into it. seconds: the time limit. gigabytes: the memory limit, not counting torch and the model.
    """

    def __init__(
        self,
        what: str,
        options: Mapping[str, Any],
        real: Mapping[str, Any] | None = None,
        seconds: float = 60.0,
        gigabytes: float = 4.0,
    ) -> None:
        self.what, self.seconds = shorten_start(what), seconds
        self.file = file_of(what)
        self.until = time.monotonic() + seconds
        self.doing = STEPS[0] if real else STEPS[1]
        self.printed = b""
        self.killed = False
        self.folder = Path(tempfile.mkdtemp(prefix="attncli-"))  # for all temporary files, torch's too
        self.dying = self.folder / "dying"  # by its name, for which every system has a way
        self.dying.touch()
        self.key = secrets.token_hex()  # in each message, so that what their code writes to our pipes is none
        place = str(self.dying)
        job = {"what": what, "options": options, "real": real, "gigabytes": gigabytes, "dying": place, "key": self.key}
        self.job = json.dumps({**job, "until": time.time() + seconds}).encode() + b"\n"
        self.child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, ROOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | ENVIRONMENT | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(self.folder)),
            start_new_session=True,  # so that Ctrl-C reaches only this process, and killpg all that the child starts
        )
        self.came: Queue[bytes | Exception] = Queue(1000)
        # In threads: what the child leaves behind may hold its pipes open.
        Thread(target=self.read, daemon=True).start()
        self.listener = Thread(target=self.listen, daemon=True)
        self.listener.start()

    def __enter__(self) -> "Checking":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def read(self) -> None:
        assert self.child.stdin is not None and self.child.stdout is not None
        try:
            self.child.stdin.write(self.job)
            self.child.stdin.flush()
            while line := self.child.stdout.readline(LONGEST_JSON):
                self.came.put(line)
            self.came.put(EOFError())
        except (OSError, ValueError) as error:
            self.came.put(EOFError(str(error)))

    def listen(self) -> None:
        """Read everything that it prints, so that it never waits for a reader. Keep the end."""
        assert self.child.stderr is not None
        with suppress(OSError, ValueError):
            while part := self.child.stderr.read1(KEPT):  # type: ignore[attr-defined]
                self.printed = (self.printed + part)[-KEPT:]

    def result(self, advance: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Return the document of the result. Call `advance` at every step, and pass notices on as warnings.

        Raises RequestError if it can't be checked, or the process ends without a document.
        """
        while True:
            gone = self.child.poll() is not None
            if time.monotonic() > self.until + GRACE:
                raise RequestError(self.why(TimeoutError()))
            try:
                line = self.came.get(timeout=GRACE if gone else TICK)
            except Empty:
                if not gone:
                    continue
                line = EOFError()
            if isinstance(line, Exception):
                raise RequestError(self.why(line))
            try:
                message = parse_json(line, infinite=True)
                if type(message) is not dict or message.pop("key", None) != self.key:
                    raise ValueError("it is none of our messages")
            except ValueError as error:
                raise RequestError(self.why(error)) from error
            [(kind, value)] = message.items()
            if kind == "found":
                return value
            if kind == "refused":
                raise RequestError("\n".join(shorten(printable(x), LONGEST) for x in value.split("\n")[:LINES]))
            if kind == "notice":
                warnings.warn(shorten(printable(value), LONGEST), Notice, stacklevel=2)
                continue
            self.doing = value
            advance()

    def why(self, error: Exception) -> str:
        """Explain why there is no document."""
        if isinstance(error, EOFError):
            with suppress(subprocess.TimeoutExpired):
                self.child.wait(GRACE)
        late, code = time.monotonic() >= self.until, self.child.returncode
        self.kill()
        self.listener.join(GRACE)  # it may have its last words still to read
        line = line_in(self.dying.read_bytes()[-KEPT:].decode(errors="replace"), self.file)
        thing = "the model" if self.doing == "loaded" else "it"
        where = f"{f'line {line}, ' if line else ''}while {thing} was being {self.doing}"
        lines = self.printed.decode(errors="replace").strip().splitlines()
        words = f" Its last words: {shorten(printable(lines[-1].strip()), QUOTED)}" if lines else ""
        if late:
            limit = "If it is no endless loop, --time-limit SECONDS gives it longer."
            return f"{self.what} did not finish within {self.seconds:g} s ({where}). {limit}"
        if isinstance(error, ValueError):
            output = shorten(printable(str(error)), 100)
            return f"{self.what} sent no result but something else ({where}): {output}. Does it write to our pipes?"
        if code in (CLOSED, None):
            return f"{self.what} closed a pipe that is not its own ({where}): without it there is no result.{words}"
        if code == -9:
            return f"{self.what} was killed ({where}): was the machine out of memory?{words}"
        if code < 0:
            name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
            return f"{self.what} crashed with {name} ({where}): mend that first.{words}"
        return f"{self.what} ended its process with exit code {code} ({where}): remove os._exit or the like.{words}"

    def kill(self) -> None:
        """Kill it and all that it started. Only once: later its number may belong to another process."""
        if self.killed:
            return
        kill_descendants(self.child.pid)
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self.child.pid, signal.SIGKILL)
        self.child.kill()
        self.child.wait()
        self.killed = True


def line_in(dying: str, file: str) -> str:
    """Return the innermost line of this file in the thread that died. A timeout lists the main thread last."""
    threads = [part for part in re.split(r"^(?=(?:Current )?[Tt]hread )", dying, flags=re.MULTILINE) if "File " in part]
    here = [part for part in threads if part.startswith("Current ")] or threads[-1:]
    found = re.search(rf'File "[^"]*{re.escape(file)}", line (\d+)', here[0]) if here else None
    return found[1] if found else ""


def file_of(what: str) -> str:
    """Return the name of the file as Python writes it in a dump of tracebacks."""
    place = what.rpartition(":")[0] or what
    name = Path(place).name if place.endswith(".py") else f"{place.rpartition('.')[2]}.py"
    return name.encode("ascii", "backslashreplace").decode()


# --- the child processes ----------------------------------------------------------------------------------


def main() -> None:
    """Check the code that the first line of stdin names. Send steps, notices and the result as lines of JSON."""
    orders, messages = os.fdopen(os.dup(0), "rb", 0), os.dup(1)
    job = json.loads(orders.readline())
    folder = Path(job["dying"]).parent
    if hasattr(os, "fork"):
        supervise(orders, messages, folder)
    else:
        Thread(target=end_with, args=(orders, folder, Lock()), daemon=True).start()
    dying = os.open(job["dying"], os.O_WRONLY)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # their code has neither our pipes nor our input
    os.dup2(2, 1)
    faulthandler.enable(dying)
    faulthandler.dump_traceback_later(max(job["until"] - time.time(), SOON), exit=True, file=dying)
    process = os.getpid()

    def send(**message: Any) -> None:
        line = memoryview(json.dumps({**message, "key": job["key"]}).encode() + b"\n")
        if os.getpid() != process:  # the child of a fork in their code
            os._exit(0)
        try:
            while line:
                line = line[os.write(messages, line) :]
        except OSError:
            os._exit(CLOSED)

    run(job, send)


def run(job: dict[str, Any], send: Callable[..., None]) -> None:
    """Send the document of the result, or the reason why the code can't be checked."""
    from attncli.checks.code import subject as code
    from attncli.checks.code.check import check_subject
    from attncli.checks.code.names import Options
    from attncli.checks.code.transplant import real_layer

    name, file = shorten_start(job["what"]), ""
    try:
        real = None if job["real"] is None else partial(real_layer, *load(send, **job["real"]))
        limit(job["gigabytes"])
        send(step="opened")
        ours = code.torch_settings()
        subject = code.Subject(code.open_code(job["what"]), lambda step: send(step=step))
        code.set_torch_settings(ours)
        name, file = subject.name, subject.file
        send(found=check_subject(subject, Options(**job["options"]), real).document())
    except RequestError as error:
        more = f"it takes more than {job['gigabytes']:g} GB of memory: --memory-limit GB gives it more"
        send(refused=str(error).replace(code.OUT_OF_MEMORY, more))
    except BaseException as error:  # noqa: BLE001  (it is somebody's code)
        send(refused=f"{name} can't be run: {code.describe_error(error, file)}")


def load(
    send: Callable[..., None], place: dict[str, Any], text: str, pair: str | None, layer: str, head: str
) -> tuple[Any, Any, int, int]:
    """Load the model, its tokens of the text, and the numbers of the layer and the head. Send its notices."""
    from attncli.models.checkpoint_files import Place
    from attncli.models.engine import check_own
    from attncli.models.loading import load_from
    from attncli.record.selection import choose_head

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Notice)
        location = Place(**{**place, "path": Path(place["path"])})
        check_own(location)
        model = load_from(location, "cpu", "float32", "attncli")
    for warning in caught:
        if issubclass(warning.category, Notice):
            send(notice=str(warning.message))
    return model, model.tokenizer.encode(text, pair), *choose_head(layer, head, model.layers, model.heads)


def supervise(orders: Any, messages: int, folder: Path) -> None:
    """Fork, and return in the new process only. The old one ends everything below it when the new one ends, and then
    ends in the same way.
    """
    call_prctl(SET_CHILD_SUBREAPER, 1)
    worker = os.fork()
    if worker == 0:
        call_prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        orders.close()
        return
    for pipe in (messages, 1, 2):  # they end with the new process
        os.close(pipe)
    ending = Lock()  # of the one that ends this process
    Thread(target=end_with, args=(orders, folder, ending), daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    kill_descendants(os.getpid())
    ending.acquire()
    if code < 0:
        with suppress(OSError):  # of SIGKILL
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def end_with(orders: Any, folder: Path, ending: Lock) -> None:
    """End when the parent process ends, however it does, with everything below. Leave no file behind."""
    with suppress(OSError, ValueError):
        orders.read()
    ending.acquire()
    kill_descendants(os.getpid())
    shutil.rmtree(folder, ignore_errors=True)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(CLOSED)


def call_prctl(option: int, value: int) -> None:
    """Set an option of this process on Linux (prctl(2)). Other systems have none of these."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def kill_descendants(root: int) -> None:
    """Kill all processes below one, until there are none: while they are killed they may start others.

    Only Linux lists them, in /proc.
    """
    for _ in range(TRIES):
        below = descendants(root)
        if not below:
            return
        for number in below:
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
        time.sleep(SOON)


def descendants(root: int) -> list[int]:
    """Return the numbers of the living processes below one."""
    children: dict[int, list[int]] = {}
    dead = set()
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            state, parent = place.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:2]
            children.setdefault(int(parent), []).append(int(place.parent.name))
            if state in "ZX":
                dead.add(int(place.parent.name))
    found = [root]
    for number in found:
        found += children.get(number, [])
    return [number for number in found[1:] if number not in dead]


def limit(gigabytes: float) -> None:
    """Limit memory, not counting what is taken already. A crash leaves no core file behind."""
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
