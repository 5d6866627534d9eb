"""The oracle of all cases: exit 0 with true output, or one line that says why not; and no file left behind."""

import json
import re
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

from hostile.case import Case
from hostile.running import CPU_LIMIT, Outcome
from hostile.truth import untrue

LONGEST = 400  # characters of a line that says why
MEMORY = 2 << 30  # bytes
ENDS = {"INT": 130, "TERM": 143, "HUP": 129}  # exit codes after a signal
FORBIDDEN = (
    "Traceback (most",
    "a bug in attncli",
    "panicked at",
    "RUST_BACKTRACE",
    "not enough memory",
)
HARMFUL = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c\ud800-\udfff]"
)
WRITES = {"-o", "--output", "--copy"}
STATES = {"--state"}  # name a folder of sums, which has these files
SUMS = re.compile(r"[0-9a-f]{40}\.(npz|part)")
OWN_WORDS = "attncli: "
SAYS_NO = {"compare"}  # commands that end with 1 where a check says no


def wrong(case: Case, outcome: Outcome, arguments: tuple[str, ...] | None = None) -> str | None:
    """Return what is wrong with the outcome of a call; None if nothing is."""
    typed = case.arguments if arguments is None else arguments
    return (
        ended_badly(outcome)
        or said_badly(outcome)
        or (refused_badly(outcome) if outcome.code == 2 and heard(case) else None)
        or (done_badly(typed, outcome) if outcome.code == 0 and "stdout" not in case.streams else None)
        or left_behind(typed, outcome, case.streams.get("stdout") in ("closed", "full"))
        or (code_of(case, typed, outcome))
    )


def heard(case: Case) -> bool:
    """Return whether stderr arrives: it is a file, which may have no room."""
    return "stderr" not in case.streams and case.disturbed.get("RLIMIT_FSIZE", LONGEST) >= LONGEST


def ended_badly(outcome: Outcome) -> str | None:
    if outcome.late or (outcome.code in (-signal.SIGXCPU, -signal.SIGKILL) and outcome.cpu > CPU_LIMIT - 1):
        return f"hangs: {outcome.cpu:.0f} s of a processor in {outcome.seconds:.0f} s"
    if outcome.peak > MEMORY:
        return f"takes {outcome.peak >> 20} MB"
    return None


def said_badly(outcome: Outcome) -> str | None:
    """Return the first thing on either stream that no user should see."""
    try:
        texts = [outcome.err.decode("utf-8"), outcome.out.decode("utf-8")]
    except UnicodeDecodeError:
        return "prints what is not UTF-8"
    for text in texts:
        for words in FORBIDDEN:
            if words in text:
                line = next(line for line in text.splitlines() if words in line)
                return f"{words!r}: {line[-200:]} ... {text.strip()[-200:]}"
        found = HARMFUL.search(text)
        if found is not None:
            return f"prints the character U+{ord(found[0]):04X}"
    foreign = [line for line in texts[0].splitlines() if not line.startswith(OWN_WORDS)]
    if foreign:
        return f"says what is not its own: {foreign[0][:200]}"
    return None


def refused_badly(outcome: Outcome) -> str | None:
    """One line why, the last one, of a length that is read; what is said before it are notices."""
    lines = outcome.err.decode("utf-8").splitlines()
    errors = [line for line in lines if line.startswith("attncli: error: ")]
    if len(errors) != 1 or lines[-1] != errors[0]:
        return f"refuses in {len(errors)} lines: {' / '.join(lines)[:200]!r}"
    if len(errors[0]) > LONGEST:
        return f"says why in {len(errors[0])} characters"
    if outcome.out:
        return f"refuses, and prints {outcome.out[:40]!r}"
    return None


def done_badly(typed: tuple[str, ...], outcome: Outcome) -> str | None:
    """A document that is one, and true."""
    if "attncli: error: " in outcome.err.decode("utf-8"):
        return "is done, and says that it is not"
    if "--json" not in typed or {"--help", "-h", "--help-all", "--version", "-V"} & set(typed):
        return None
    try:
        document = json.loads(outcome.out, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        return f"prints no JSON: {error}"
    return untrue(typed, document)


def no_number(name: str) -> Any:
    raise ValueError(f"JSON has no {name}")


def left_behind(typed: tuple[str, ...], outcome: Outcome, unsaid: bool = False) -> str | None:
    """Files that nobody asked for; any, where the request was refused. `unsaid`: where a file's name can't be printed,
    it may be there all the same.
    """
    words = [part for word in typed for part in (word.split("=", 1) if word.startswith("--") else [word])]
    asked = {Path(after).name for before, after in pairwise(words) if before in WRITES}
    if outcome.code == 2 and not unsaid:
        asked = set()
    if "samples" in typed:
        return None
    states = {Path(after) for before, after in pairwise(words) if before in STATES and after}
    more = [
        name
        for name in (*outcome.made, *outcome.changed)
        if Path(name).name not in asked and not any(of_sums(Path(name), state) for state in states)
    ]
    return f"leaves {', '.join(more)[:100]} behind" if more else None


def of_sums(path: Path, state: Path) -> bool:
    """Return whether a path is a folder of sums, contains one or lies in one: it changes until the refusal."""
    return path == state or path in state.parents or (path.parent == state and SUMS.fullmatch(path.name) is not None)


def code_of(case: Case, typed: tuple[str, ...], outcome: Outcome) -> str | None:
    allowed = {0, 2} | ({1} if SAYS_NO & set(typed[:1]) else set())
    if case.expects != "any":
        allowed &= {"refused": {2}, "done": {0, 1}}[case.expects]
    sent = case.disturbed.get("signal")
    if sent in ENDS:
        allowed |= {ENDS[sent], -getattr(signal, f"SIG{sent}")}  # which is the same to a shell: it had hardly begun
    if sent == "KILL":
        allowed |= {-signal.SIGKILL}
    if outcome.code in allowed:
        return None
    said = outcome.err.decode("utf-8", "replace").strip().splitlines()
    name = f"signal {-outcome.code}" if outcome.code < 0 else f"exit {outcome.code}"
    return f"ends with {name}, not {sorted(allowed)}: {case.note} {said[-1][:160] if said else ''}"
