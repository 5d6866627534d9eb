"""Run a case and judge it: by one call, by two that are compared, or by a call that is interrupted and made again."""

import io
import os
import signal
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hostile.case import Case
from hostile.oracle import wrong
from hostile.running import LINK, PASSING, Outcome, Runner, remove


class Verdict(NamedTuple):
    """code: how the call ended. why: what is wrong; None where nothing is."""

    code: int
    why: str | None


def look(case: Case, runner: Runner) -> Verdict:
    """Run a case and return the verdict."""
    with runner.prepared(case):
        if "signal" in case.disturbed:
            return interrupted(case, runner)
        return odd_streams(case, runner) if case.streams else once(case, runner)


def once(case: Case, runner: Runner) -> Verdict:
    """One call; and where another gives the same, or must not, that it does. A link that was there still is one."""
    outcome = runner.run(case)
    why = wrong(case, outcome)
    if why is None and case.same_as is not None and outcome.code == 0:
        other = runner.run(case, case.same_as)
        why = None if other.out == outcome.out else f"{case.note}: not the same as {' '.join(case.same_as)}"
    if why is None and case.differs_from is not None and outcome.code == 0:
        found = everything_of(outcome, runner)
        runner.tidy()
        other = runner.run(case, case.differs_from)
        why = wrong(case, other, case.differs_from)
        if why is None and found == everything_of(other, runner):
            why = f"changes nothing beside {' '.join(case.differs_from)}"
    if why is None:
        links = [name for name, source in case.copies.items() if source.startswith(LINK) and "/" not in name]
        replaced = [name for name in links if not (runner.folder / name).is_symlink()]
        why = f"replaces the link {replaced[0]}" if replaced else None
    return Verdict(outcome.code, why)


def everything_of(outcome: Outcome, runner: Runner) -> tuple[object, ...]:
    made = {name: (runner.folder / name).read_bytes() for name in outcome.made if (runner.folder / name).is_file()}
    return outcome.code, outcome.out, outcome.err, made


def odd_streams(case: Case, runner: Runner) -> Verdict:
    """The exit code is what it is with whole streams, but where what was to be printed has no place."""
    plain = runner.run(replace(case, streams={}))
    runner.tidy()
    outcome = runner.run(case)
    out, codes = case.streams.get("stdout"), {plain.code}
    if out in ("closed", "full") and plain.out:
        codes = {2} if out == "full" else {2, plain.code}
    if "stdin" in case.streams:  # another stdin may be no texts
        codes |= {0, 2}
    why = wrong(case, outcome)
    if why is None and outcome.code not in codes:
        why = f"{case.streams}: ends with {outcome.code}, not {sorted(codes)}"
    if why is None and out == "broken" and outcome.code == 0 and len(outcome.err) > len(plain.err):
        why = f"a broken pipe is told of: {outcome.err[-100:]!r}"
    return Verdict(outcome.code, why)


def interrupted(case: Case, runner: Runner) -> Verdict:
    """Send a signal after each of the `shares` of the usual time, or when the folder changes, if that is earlier.

    A file is whole or as before. The same call then does what was interrupted, and leaves nothing else.
    """
    usual = runner.run(case)
    whole = target_of(case, runner)
    for name, content in case.files.items():
        (runner.folder / name).write_bytes(content)
    for name in usual.made:
        remove(runner.folder / name)
    sent = getattr(signal, f"SIG{case.disturbed['signal']}")
    for share in case.disturbed["shares"]:
        outcome = runner.run(case, sent=sent, after=share * usual.seconds, watched=runner.folder)
        why = None if sent == signal.SIGKILL and outcome.code == -sent else wrong(case, outcome)
        found = target_of(case, runner)
        if why is None and found not in (None, whole) and not complete(case, found or b""):
            why = f"the file is not whole: {found!r:.60}"
        if why is not None:
            return Verdict(outcome.code, why)
    for path in runner.folder.rglob(".attncli-*"):
        os.utime(path, (0, 0))  # long ago
    again = runner.run(case)
    again.changed = [name for name in again.changed if not name.startswith(".attncli-")]  # cleared, or told of below
    left = [path.name for path in runner.folder.rglob("*") if path.name.startswith((".attncli-", *PASSING))]
    why = wrong(case, again) or (f"leaves {left}" if left else None)
    if why is None and again.out != usual.out:
        why = "prints something else than in one go"
    return Verdict(again.code, why)


def target_of(case: Case, runner: Runner) -> bytes | None:
    """Return the file that -o names."""
    path = runner.folder / next((word for word in case.arguments if word.startswith("a.")), "none")
    return path.read_bytes() if path.is_file() else None


def complete(case: Case, found: bytes) -> bool:
    """Return whether a file ends properly, for formats of which no two files are identical."""
    ends: dict[str, Callable[[bytes], bool]] = {
        ".svg": lambda one: one.rstrip().endswith(b"</svg>"),
        ".npz": lambda one: zipfile.is_zipfile(io.BytesIO(one)),
    }
    target = next(word for word in case.arguments if word.startswith("a."))
    return ends.get(Path(target).suffix, lambda one: False)(found)
