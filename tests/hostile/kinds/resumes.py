"""A corpus counted, killed at any moment, gone on with, again and again: what is printed is that of one go, exactly."""

import shutil
import signal
from dataclasses import replace
from random import Random

from hostile.case import Case
from hostile.kinds import Verdict
from hostile.oracle import SUMS, wrong
from hostile.place import Place
from hostile.running import Outcome, Runner

WORDS = ["the", "cat", "sat", "on", "it", "and", "too", "big", "unbelievable", "中", "国", "é", ".", ","]
STATE = "sums"
WORKERS = ("--workers", "2")


def make(random: Random, place: Place) -> Case:
    lines = [" ".join(random.choices(WORDS, k=random.randrange(1, 40))) for _ in range(random.choice((30, 150, 400)))]
    more = random.choice(((), ("--words",), ("--distances",), ("--mask", "causal"), ("--stride", "20")))
    size = random.choice(("0.0005", "0.002", "0.01"))
    typed = ("stats", "-m", "tiny", "many.txt", "--state", STATE, "--shard-mb", size, "--json", *more)
    files = {"many.txt": ("\n".join(lines) + "\n").encode()}
    shares = [random.random() for _ in range(random.randrange(1, 4))]
    disturbed = {"signal": random.choice(("KILL", "KILL", "INT", "TERM")), "shares": shares}
    if random.random() < 0.2:  # started from a program, and not from what forks here
        return Case("resumes", (*typed, *WORKERS), files, environment={"PYTHONHASHSEED": "0"}, disturbed=disturbed)
    return Case("resumes", typed, files, disturbed=disturbed)


def look(case: Case, runner: Runner) -> Verdict:
    """Kill the run after each of the `shares` of its time, and compare the end with an uninterrupted run."""
    at = case.arguments.index("--state")
    alone = tuple(word for word in (*case.arguments[:at], *case.arguments[at + 2 :]) if word not in WORKERS)
    usual = runner.run(replace(case, environment={}), alone)
    if (why := wrong(case, usual, alone)) is not None:
        return Verdict(usual.code, why)
    whole = runner.run(case)
    why = wrong(case, whole) or other_figures(whole, usual)
    shutil.rmtree(runner.folder / STATE, ignore_errors=True)
    if why is not None:
        return Verdict(whole.code, why)
    sent = getattr(signal, f"SIG{case.disturbed['signal']}")
    for share in case.disturbed["shares"]:
        outcome = runner.run(case, sent=sent, after=share * whole.seconds)
        why = None if outcome.code == -signal.SIGKILL == -sent else wrong(case, outcome)
        if why is not None:
            return Verdict(outcome.code, why)
    outcome = runner.run(case)
    left = [path.name for path in (runner.folder / STATE).iterdir() if not SUMS.fullmatch(path.name)]
    why = wrong(case, outcome) or other_figures(outcome, usual) or (f"leaves {left}" if left else None)
    return Verdict(outcome.code, why)


def other_figures(outcome: Outcome, usual: Outcome) -> str | None:
    """Return the first difference between two outputs that should be equal; None without one."""
    if outcome.out == usual.out:
        return None
    pairs = zip(outcome.out.split(b"\n"), usual.out.split(b"\n"), strict=False)
    found = next((f"{one[:60]!r}, not {other[:60]!r}" for one, other in pairs if one != other), "fewer lines")
    return f"prints something else than in one go: {found}"
