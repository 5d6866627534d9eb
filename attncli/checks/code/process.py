"""Run the whole check of somebody's code in a process with limits. Only that process imports torch.

Code that crashes, hangs, prints or takes too much memory ends in one line. The process and all that it starts in its
group end with the check, and with attncli.
"""

import faulthandler
import json
import os
import re
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
from threading import Thread
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
GRACE, SOON = 1.0, 0.01  # seconds
GIGABYTE = 10**9
KEPT = 1 << 16  # bytes of what it prints
QUOTED = 60  # characters of its last line that a message has
LONGEST = 300  # characters of a line of a message
LINES = 5  # of a refusal: the reason, and an adapter

# --- the parent process --------------------------------------------------------------------------------


def check_apart(
    what: str,
    options: Mapping[str, Any],
    real: Mapping[str, Any] | None = None,
    seconds: float = 60.0,
    gigabytes: float = 4.0,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Check "file.py:Name" in a process of its own. Return the document of the result; pass notices on as warnings.

    options: those of `check`. real: the arguments of `load`, for a layer whose weights are put into it. seconds: the
    time limit. gigabytes: the memory limit, not counting torch and the model. advance: is called at every step.

    Raises RequestError if it can't be checked, or the process ends without a document.
    """
    until, doing, said = time.monotonic() + seconds, "loaded" if real else "opened", bytearray()
    with tempfile.TemporaryDirectory(prefix="attncli-", ignore_cleanup_errors=True) as folder:
        job = {"what": what, "options": options, "real": real, "gigabytes": gigabytes, "folder": folder}
        child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, ROOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | ENVIRONMENT | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder),
            start_new_session=True,  # so that Ctrl-C reaches only this process, and killpg all that the child starts
        )
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        printing: Any = child.stderr

        def listen() -> None:
            """Read everything that it prints, so that it never waits for a reader. Keep the end."""
            while part := printing.read1(KEPT):
                said[:] = (said + part)[-KEPT:]

        def watch() -> None:
            try:
                child.wait(seconds + GRACE)
            except subprocess.TimeoutExpired:
                child.kill()

        listener = Thread(target=listen, daemon=True)
        listener.start()
        Thread(target=watch, daemon=True).start()
        output = ""
        try:
            child.stdin.write(json.dumps({**job, "until": time.time() + seconds}).encode() + b"\n")
            child.stdin.flush()
            while line := child.stdout.readline(LONGEST_JSON):
                [(kind, value)] = parse_json(line, infinite=True).items()
                if kind == "found":
                    return value
                if kind == "refused":
                    raise RequestError("\n".join(shorten(printable(x), LONGEST) for x in value.split("\n")[:LINES]))
                if kind == "notice":
                    warnings.warn(shorten(printable(value), LONGEST), Notice, stacklevel=2)
                else:
                    doing = value
                    advance()
            with suppress(subprocess.TimeoutExpired):
                child.wait(GRACE)
        except (OSError, ValueError, AttributeError) as error:
            output = "" if isinstance(error, OSError) else shorten(printable(str(error)), 100)
        finally:
            late, code = time.monotonic() >= until, child.returncode
            with suppress(OSError):
                if hasattr(os, "killpg"):
                    os.killpg(child.pid, signal.SIGKILL)
            child.kill()
            child.wait()
        listener.join(GRACE)  # it may have its last words still to read
        where = f"while {'the model' if doing == 'loaded' else 'it'} was being {doing}"
        with suppress(OSError):
            if number := _line_in((Path(folder) / "dying").read_bytes()[-KEPT:].decode(errors="replace"), what):
                where = f"line {number}, {where}"
    if late:
        limit = "If it is no endless loop, --time-limit SECONDS gives it longer."
        raise RequestError(f"{shorten_start(what)} did not finish within {seconds:g} s ({where}). {limit}")
    raise RequestError(f"{shorten_start(what)} {_why(code, where, output, bytes(said))}")


def _why(code: int | None, where: str, output: str, said: bytes) -> str:
    """Explain why there is no document. output: what came instead. said: what the process printed."""
    lines = said.decode(errors="replace").strip().splitlines()
    words = f" Its last words: {shorten(printable(lines[-1].strip()), QUOTED)}" if lines else ""
    if output:
        return f"sent no result but something else ({where}): {output}. Does it write to our pipes?"
    if code in (CLOSED, None):
        return f"closed a pipe that is not its own ({where}): without it there is no result.{words}"
    if code == -9:
        return f"was killed ({where}): was the machine out of memory?{words}"
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
        return f"crashed with {name} ({where}): mend that first.{words}"
    return f"ended its process with exit code {code} ({where}): remove os._exit or the like.{words}"


def _line_in(dying: str, what: str) -> str:
    """Return the innermost line of the checked file in the thread that died. A timeout lists the main thread last."""
    place = what.rpartition(":")[0] or what
    name = Path(place).name if place.endswith(".py") else f"{place.rpartition('.')[2]}.py"
    name = name.encode("ascii", "backslashreplace").decode()  # as Python writes it in a dump of tracebacks
    threads = [part for part in re.split(r"^(?=(?:Current )?[Tt]hread )", dying, flags=re.MULTILINE) if "File " in part]
    here = [part for part in threads if part.startswith("Current ")] or threads[-1:]
    found = re.search(rf'File "[^"]*{re.escape(name)}", line (\d+)', here[0]) if here else None
    return found[1] if found else ""


# --- the child process ------------------------------------------------------------------------------------


def main() -> None:
    """Check the code that the first line of stdin names. Send steps, notices and the result as lines of JSON."""
    orders, messages = os.fdopen(os.dup(0), "rb", 0), os.dup(1)
    job = json.loads(orders.readline())

    def end_with_attncli() -> None:
        orders.read()
        shutil.rmtree(job["folder"], ignore_errors=True)
        if hasattr(os, "killpg"):
            os.killpg(0, signal.SIGKILL)
        os._exit(CLOSED)

    Thread(target=end_with_attncli, daemon=True).start()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # their code has neither our pipes nor our input
    os.dup2(2, 1)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: os.close(messages))
    dying = os.open(Path(job["folder"]) / "dying", os.O_WRONLY | os.O_CREAT)
    faulthandler.enable(dying)
    faulthandler.dump_traceback_later(max(job["until"] - time.time(), SOON), exit=True, file=dying)

    def send(**message: Any) -> None:
        line = memoryview(json.dumps(message).encode() + b"\n")
        try:
            while line:
                line = line[os.write(messages, line) :]
        except OSError:  # attncli has ended, or this is the child of a fork in their code
            os._exit(CLOSED)

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
