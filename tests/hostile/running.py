"""Runs one call in a forked child, which is bounded in memory and time, in a folder of its own, and says what happened.

Who forks has imported everything (`hostile.__main__`), so that a call costs a fork, and no start of Python.
"""

import contextlib
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostile.case import Case
from hostile.place import Place

CPU_LIMIT = 20  # seconds of a processor; a call that takes longer hangs
WAITING = 300.0  # seconds in all, as other work may have the processors
ROOM = 2 << 30  # bytes of address space beyond what is there at the fork
LINK, PIPE, FOLDER = "-> ", "|", "/"  # what a case has under a name, beside copies
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PASSING = {"lock", "under-way"}  # in a folder of sums while it is counted into
TEMPORARY = "tmp"  # a folder beside the files, which TMPDIR names


@dataclass
class Outcome:
    """code: negative for the signal that ended it. made, changed: names of files beside those that were there; not what
    was left of a process that was killed, and is cleared."""

    code: int
    out: bytes
    err: bytes
    seconds: float
    cpu: float
    peak: int
    late: bool
    made: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


class Runner:
    """Runs cases one after another in a folder that is as it was before each."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place, self.folder = place, folder
        for name in place.names():
            self.restore(name)
        (folder / TEMPORARY).mkdir()
        self.before = self.snapshot()

    def restore(self, name: str) -> None:
        """One of the place's own files, a copy that may be spoilt; its folders are links."""
        source, target = self.place.folder / name, self.folder / name
        remove(target)
        if source.is_dir():
            target.symlink_to(source)
        elif source.exists():
            shutil.copy(source, target)

    def snapshot(self) -> dict[str, tuple[int, int, int]]:
        """Return every file and folder by name, with its inode, time of change and size."""
        found = {}
        for entry in walked(self.folder):
            about = entry.stat(follow_symlinks=False)
            name = os.path.relpath(entry.path, self.folder)
            found[name] = (
                about.st_ino,
                about.st_mtime_ns if entry.is_file(follow_symlinks=False) else 0,
                about.st_size,
            )
        return found

    @contextlib.contextmanager
    def prepared(self, case: Case) -> Iterator[None]:
        """The folder with a case's files in it; afterwards it is as before."""
        try:
            for name, source in case.copies.items():
                self.copy(self.folder / name, source)
            for name, content in case.files.items():
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)  # a link into the place
                path.write_bytes(content)
            yield
        finally:
            self.tidy()

    def copy(self, target: Path, source: str) -> None:
        """Put what a case's `copies` names in place of the file."""
        target.unlink(missing_ok=True)
        if source.startswith(LINK):
            target.symlink_to(source.removeprefix(LINK))
        elif source == PIPE:
            os.mkfifo(target)
        else:
            target.mkdir()
            if source != FOLDER:
                for file in (self.place.folder / source).iterdir():
                    (target / file.name).symlink_to(file)

    def tidy(self) -> None:
        """The folder is as it was at first."""
        after = self.snapshot()
        for name in sorted(after.keys() | self.before.keys()):
            if "/" not in name and after.get(name) != self.before.get(name):
                self.restore(name)
        for name in after:
            if Path(name).parent == Path(TEMPORARY):
                remove(self.folder / name)
        self.before = self.snapshot()

    def run(self, case: Case, arguments: tuple[str, ...] | None = None, **disturbed: Any) -> Outcome:
        """Make the call in the prepared folder, and note the files that it made and changed."""
        before = self.snapshot()
        outcome = forked(lambda: program(case, arguments or case.arguments, self.folder), case, **disturbed)
        after = self.snapshot()
        outcome.made = sorted(after.keys() - before.keys())
        outcome.changed = sorted(
            name for name in before if after.get(name) != before[name] and not cleared(name, after)
        )
        return outcome


def cleared(name: str, after: dict[str, tuple[int, int, int]]) -> bool:
    """Return whether this process removed a file that a killed one left, as it should."""
    parts = Path(name).parts
    return name not in after and (parts[0].startswith(".attncli-") or not PASSING.isdisjoint(parts[1:]))


def walked(folder: Path) -> Iterator["os.DirEntry[str]"]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from walked(Path(entry.path))


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


# --- the child ------------------------------------------------------------------------------------------


def program(case: Case, arguments: tuple[str, ...], folder: Path) -> None:
    """The program from its beginning to its end, as `attncli` runs it. Never comes back.

    With an environment of its own, which is read when it is started, it is started anew.
    """
    os.chdir(folder)
    os.environ["TMPDIR"] = str(folder / TEMPORARY)
    tempfile.tempdir = None
    if case.disturbed.get("folder") == "deleted":
        gone = tempfile.mkdtemp()
        os.chdir(gone)
        Path(gone).rmdir()
    from attncli.__main__ import main

    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    except KeyboardInterrupt:  # before it has begun
        os._exit(130)
    if case.environment:
        command = [sys.executable, "-m", "attncli", *arguments]
        os.execve(sys.executable, command, {**os.environ, **case.environment})
    sys.argv = ["attncli", *arguments]
    main()


def forked(
    call: Callable[[], None],
    case: Case,
    sent: int | None = None,
    after: float = 0.0,
    watched: Path | None = None,
    **limits: int,
) -> Outcome:
    """A call in a child. limits: more of them, as RLIMIT_FSIZE=0.

    sent: a signal that it gets `after` seconds; or, if that is earlier, shortly after something appears in the folder
    that is `watched`.
    """
    out, err, given = (os.memfd_create(name) for name in ("out", "err", "in"))
    os.write(given, case.stdin or b"")
    os.lseek(given, 0, os.SEEK_SET)
    begun = time.monotonic()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until the program begins
    child = os.fork()
    if child == 0:
        status = 70
        try:
            os.setsid()  # so that what it starts ends with it
            bound(limits)
            open_streams(case, given, out, err)
            status = 1  # as Python ends with what nobody caught
            call()
        except BaseException:  # noqa: BLE001
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if sent is not None:
        disturb(child, sent, begun + after, watched)
    status, used, late = waited(child)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    printed = [read_all(stream) for stream in (out, err)]
    for stream in (out, err, given):
        os.close(stream)
    code = os.waitstatus_to_exitcode(status)
    cpu = used.ru_utime + used.ru_stime
    return Outcome(code, *printed, time.monotonic() - begun, cpu, used.ru_maxrss * 1024, late)


def disturb(child: int, sent: int, until: float, watched: Path | None) -> None:
    """Sends the signal when it is time, unless the child has ended before."""
    changed = watched.stat().st_mtime_ns if watched is not None else 0
    handle = os.pidfd_open(child)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    while time.monotonic() < until and not poll.poll(0):
        if watched is not None and watched.stat().st_mtime_ns != changed:
            time.sleep(max(0.0, until - time.monotonic()) / 20)  # somewhere in the writing
            break
        time.sleep(0.0002)
    os.close(handle)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, sent)


def waited(child: int) -> tuple[int, Any, bool]:
    """A child's status and what it used, and whether it had to be ended."""
    handle = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        late = not poll.poll(WAITING * 1000)
        if late:
            os.killpg(child, signal.SIGKILL)
    finally:
        os.close(handle)
    _, status, used = os.wait4(child, 0)
    return status, used, late


def read_all(stream: int) -> bytes:
    os.lseek(stream, 0, os.SEEK_SET)
    with os.fdopen(os.dup(stream), "rb") as file:
        return file.read()


def bound(limits: dict[str, int]) -> None:
    """Memory and processor time; what a signal does is as in a new process."""
    there = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for name, most in {"RLIMIT_AS": there + ROOM, "RLIMIT_CPU": CPU_LIMIT, "RLIMIT_CORE": 0, **limits}.items():
        resource.setrlimit(getattr(resource, name), (most, most))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)


def open_streams(case: Case, given: int, out: int, err: int) -> None:
    """The three streams as the case has them, and as Python has them at its start: None where one is closed."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    here = {"stdin": nothing if case.stdin is None else given, "stdout": out, "stderr": err}
    for number, (name, stream) in enumerate(here.items()):
        kind = case.streams.get(name)
        if kind == "closed":
            os.close(number)
            setattr(sys, name, None)
            continue
        os.dup2(stream if kind is None else odd(kind, number), number)
        mode = "r" if number == 0 else "w"
        setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    sys.stderr.reconfigure(errors="backslashreplace", line_buffering=True) if sys.stderr is not None else None
    os.closerange(3, max(nothing, given, out, err) + 64)


def odd(kind: str, number: int) -> int:
    """A stream of another kind, to be read (0) or written.

    full: a disk that is. broken: a pipe whose other end is closed.
    """
    if kind == "full":
        return os.open("/dev/full", os.O_RDWR)
    reading, writing = os.pipe()
    os.close(writing if number == 0 else reading)
    return reading if number == 0 else writing
