"""Streams that are closed, full, broken or silent, of commands that read and print in every way.

What can't be printed is said, or nobody is there to read it: a broken pipe is no error, a full disk is one, and whoever
closes stderr wants to hear nothing. A silent stdin is waited for by those alone that were told to read it.
"""

import signal
from dataclasses import replace
from random import Random

from hostile.case import Case
from hostile.kinds import Verdict
from hostile.oracle import wrong
from hostile.place import LINES, Place, words
from hostile.running import Outcome, Runner

PRINTING = (
    "run -m tiny @", "run -m tiny --json @", "run --from maps.npz", "run --from maps.npz --json", "models",
    "models --json", "models show tiny", "samples", "--help", "--version", "run --help", "stats --from stats.json",
    "stats -m tiny lines.txt --json", "find -m tiny cat sat @", "explain -m tiny @", "flow --from maps.npz --json",
    "mask -m tiny @", "diff maps.npz others.npz", "align --attention dot", "run -m tiny -l all -o a.csv @",
    "stats -m tiny lines.txt -o a.npz", "heatmap --from maps.npz -l 0 -H 0 -o a.svg", "probe -m tiny trees.conllu",
    "run -m tiny -f lines.txt", "samples pair.txt", "run -m tiny -o /dev/stdout.csv @",
    "view --from maps.npz -o a.html",
)  # fmt: skip
REFUSED = (
    "run -l 99 -m tiny @",
    "run --from missing.npz",
    "stats missing.txt",
    "nothing",
    "run --nothing",
    "run -m none @",
)
READING = (
    "run -m tiny -f -",
    "run -m tiny",
    "stats -m tiny -",
    "stats -m tiny",
    "probe -m tiny -",
    "find -m tiny cat sat -f -",
)
OUT = (None, None, "closed", "full", "broken")
ERR = (None, None, "closed", "full", "broken")
IN = (None, "closed", "silent", "broken", "text")
LONG = 4.0  # seconds in which whoever does not wait for stdin is done


def make(random: Random, place: Place) -> Case:
    lines = random.choice((PRINTING, PRINTING, REFUSED, READING))
    kinds = {"stdin": random.choice(IN), "stdout": random.choice(OUT), "stderr": random.choice(ERR)}
    if all(kind is None for kind in kinds.values()):
        kinds["stdout"] = "broken"
    given = LINES.encode() if kinds["stdin"] == "text" else None
    streams = {name: kind for name, kind in kinds.items() if kind not in (None, "text")}
    disturbed = {"signal": "INT"} if kinds["stdin"] == "silent" else {}
    return Case("streams", tuple(words(random.choice(lines))), stdin=given, streams=streams, disturbed=disturbed)


def look(case: Case, runner: Runner) -> Verdict:
    """The exit code is what it is with whole streams, but where what was to be printed has no place."""
    plain = runner.run(replace(case, streams={}, disturbed={}))
    runner.tidy()
    silent = case.streams.get("stdin") == "silent"
    outcome = runner.run(case, **({"sent": signal.SIGINT, "after": LONG} if silent else {}))
    return Verdict(outcome.code, wrong(case, outcome) or other_end(case, outcome, plain))


def other_end(case: Case, outcome: Outcome, plain: Outcome) -> str | None:
    out, given = case.streams.get("stdout"), case.streams.get("stdin")
    codes = {plain.code}
    if out in ("closed", "full") and plain.out:
        codes = {2}
        if out == "closed":
            codes |= {plain.code}
    if given in ("closed", "silent", "broken"):  # another stdin may be no texts, or texts that never come
        codes |= {0, 2} | ({130} if given == "silent" else set())
    if outcome.code not in codes:
        return f"{case.streams}: ends with {outcome.code}, not {sorted(codes)}"
    if out == "broken" and outcome.code == 0 and len(outcome.err) > len(plain.err) and "stderr" not in case.streams:
        return f"a broken pipe is told of: {outcome.err[-100:]!r}"
    return None
