"""Check somebody's code in a process of its own, with limits of time and memory. Only that process imports torch.

The process writes a line of JSON for each step, and the document of the result. It ends with attncli.
"""

import faulthandler
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread, Timer
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
ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
GRACE, STARTING = 1.0, 600.0  # seconds
GIGABYTE = 10**9
KEPT, PART = 500, 4096  # pieces of its output that are kept, and bytes of a piece
QUOTED = 60  # characters of its last line that a message has
LONGEST = 300  # characters of a line of a message
LINES = 5  # of a refusal: the reason, and an adapter

# --- the parent process --------------------------------------------------------------------------------


def run_check(
    what: str,
    nowhere: str,
    real: Mapping[str, Any] | None = None,
    seconds: float = 60.0,
    gigabytes: float = 4.0,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Return the document of a check that runs in a process of its own. Give its notices as warnings.

    what: "file.py:Name". nowhere: as in `check`. real: the arguments of `load`, for a layer whose weights are put into
    it. seconds: the time limit for opening the code, for making an instance, and for each call. gigabytes: the memory
    limit, not counting torch and the model. advance: is called at every step.

    Raises RequestError if it can't be checked, or the process ends without a document.
    """
    folder = tempfile.TemporaryDirectory(prefix="attncli-", ignore_cleanup_errors=True)
    dump = Path(folder.name, "dump")  # not in what the code prints, which would mix with it
    job = {
        "what": what,
        "dump": str(dump),
        "nowhere": nowhere,
        "real": real,
        "gigabytes": gigabytes,
        "seconds": seconds,
    }
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, ROOT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | ENVIRONMENT,
        start_new_session=True,  # so that Ctrl-C reaches only this process, and killpg all that the child starts
    )
    assert child.stdin is not None and child.stdout is not None and child.stderr is not None
    printed = deque[bytes](maxlen=KEPT)
    read = partial(child.stderr.read1, PART)  # type: ignore[attr-defined]
    listener = Thread(target=lambda: printed.extend(iter(read, b"")), daemon=True)
    listener.start()
    until, timer = time.monotonic() + STARTING, Timer(STARTING, kill, [child])
    timer.start()
    doing = "opened" if real is None else "loaded"
    try:
        with suppress(OSError):  # it has ended already
            child.stdin.write(json.dumps(job).encode() + b"\n")
            child.stdin.flush()
        for line in iter(partial(child.stdout.readline, LONGEST_JSON), b""):
            try:
                [(kind, value)] = parse_json(line, infinite=True).items()
            except ValueError as error:
                raise RequestError(f"{shorten_start(what)} writes to the pipe for attncli's result") from error
            if kind == "found":
                return value
            if kind == "refused":
                raise RequestError("\n".join(shorten(printable(one), LONGEST) for one in value.split("\n")[:LINES]))
            if kind == "notice":
                warnings.warn(shorten(printable(value), LONGEST), Notice, stacklevel=2)
            else:
                doing = value
                timer.cancel()
                allowed = STARTING if value == "examined" else seconds
                until, timer = time.monotonic() + allowed, Timer(allowed + GRACE, kill, [child])
                timer.start()
                if value != "examined":
                    advance()
        with suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)
        code, late = child.returncode, time.monotonic() >= until
    finally:
        timer.cancel()
        kill(child)
        threads = dump.read_text(errors="replace") if dump.exists() else ""
        folder.cleanup()
    listener.join(GRACE)
    text = b"".join(printed).decode(errors="replace")
    where = f"while {'the model' if doing == 'loaded' else 'it'} was being {doing}"
    raise RequestError(why_no_result(shorten_start(what), text, threads, where, code, seconds if late else None))


def why_no_result(what: str, printed: str, dump: str, where: str, code: int | None, late: float | None) -> str:
    """Return why a process sent no result. late: the time limit, if it was exceeded.

    `faulthandler` prints threads with their innermost lines first, and the main thread last.
    """
    place = what.rpartition(":")[0] or what
    file = Path(place).name if place.endswith(".py") else f"{place.rpartition('.')[2]}.py"
    threads = re.split(r"^(?:Current t|T)hread 0x", dump, flags=re.M)
    named = re.escape(file.encode("ascii", "backslashreplace").decode())  # as it is written there
    lines = [found for one in threads if (found := re.search(rf'File "[^"]*{named}", line (\d+)', one))]
    where = f"line {lines[-1][1]}, {where}" if lines else where
    last = printed.strip().rpartition("\n")[2].strip()
    said = f" Its last output: {shorten(printable(last), QUOTED)}" if last else ""
    if late is not None:
        limit = "If it is not an endless loop, allow more time with --time-limit SECONDS."
        return f"{what} did not finish within {late:g} s ({where}). {limit}"
    if code == -signal.SIGKILL:
        return f"{what} was killed ({where}): was the machine out of memory?{said}"
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
        return f"{what} crashed with {name} ({where}): fix that first.{said}"
    return f"{what} ended its process with exit code {code} ({where}): remove os._exit or the like.{said}"


def kill(child: "subprocess.Popen[bytes]") -> None:
    """Kill the process, and all that it started in its session."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    child.wait()


# --- the child process ------------------------------------------------------------------------------------


def main() -> None:
    """Check the code that the first line of stdin names. Write steps, notices and the result as lines of JSON."""
    orders, messages = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb")
    job = json.loads(orders.readline())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # their code has neither our pipes nor our input
    os.dup2(2, 1)
    dump = os.open(job["dump"], os.O_WRONLY | os.O_CREAT)
    faulthandler.enable(dump, all_threads=False)

    def end_with_attncli() -> None:
        orders.read()
        if hasattr(os, "killpg"):
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    Thread(target=end_with_attncli, daemon=True).start()

    def send(**message: Any) -> None:
        messages.write(json.dumps(message).encode() + b"\n")
        messages.flush()

    run(job, send, dump)


def run(job: dict[str, Any], send: Callable[..., None], dump: int) -> None:
    """Send the document of the result, or the reason why the code can't be checked. dump: the file for stack traces."""
    from attncli.checks.code import subject as code
    from attncli.checks.code.check import check_subject
    from attncli.checks.code.transplant import real_layer

    name, file = shorten_start(job["what"]), ""
    try:
        real = None if job["real"] is None else partial(real_layer, *load(send, **job["real"]))
        limit(job["gigabytes"])

        def report(step: str) -> None:
            if step == "examined":
                faulthandler.cancel_dump_traceback_later()
            else:  # their code runs
                faulthandler.dump_traceback_later(job["seconds"], exit=True, file=dump)
            send(step=step)

        report("opened")
        ours = code.torch_settings()
        subject = code.Subject(code.open_code(job["what"]), report)
        report("examined")
        code.set_torch_settings(ours)
        name, file = subject.name, subject.file
        send(found=check_subject(subject, job["nowhere"], real).document())
    except RequestError as error:
        more = f"it takes more than {job['gigabytes']:g} GB of memory: give it more with --memory-limit GB"
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


def limit(gigabytes: float) -> None:
    """Limit memory, not counting memory already in use. A crash leaves no core file behind."""
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
