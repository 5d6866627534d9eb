"""Counting a corpus, killed at any moment and gone on with, again and again: the figures are those of one go."""

import json
import signal
from random import Random
from typing import Any

from hostile.case import Case
from hostile.kinds import Verdict
from hostile.oracle import wrong
from hostile.place import Place
from hostile.running import Outcome, Runner

TOLERANCE = 1e-6  # other sums in another order
WORDS = ["the", "cat", "sat", "on", "it", "and", "too", "big", "unbelievable", "中", "国", "é", ".", ","]


def make(random: Random, place: Place) -> Case:
    lines = [" ".join(random.choices(WORDS, k=random.randrange(1, 40))) for _ in range(random.choice((30, 150, 400)))]
    more = random.choice(((), ("--words",), ("--distances",), ("--mask", "causal"), ("--stride", "20")))
    typed = ("stats", "-m", "tiny", "many.txt", "--resume", "state.npz", "--json", *more)
    files = {"many.txt": ("\n".join(lines) + "\n").encode()}
    shares = [random.random() for _ in range(random.randrange(1, 4))]
    return Case(
        "resumes", typed, files, disturbed={"signal": random.choice(("KILL", "KILL", "INT", "TERM")), "shares": shares}
    )


def look(case: Case, runner: Runner) -> Verdict:
    """How often it is killed is in `shares`: after which share of the time."""
    (runner.folder / "state.npz").unlink()
    usual = runner.run(case)
    if (why := wrong(case, usual)) is not None:
        return Verdict(usual.code, why)
    (runner.folder / "state.npz").unlink()
    sent = getattr(signal, f"SIG{case.disturbed['signal']}")
    for share in case.disturbed["shares"]:
        outcome = runner.run(case, sent=sent, after=share * usual.seconds)
        why = None if outcome.code == -signal.SIGKILL == -sent else wrong(case, outcome)
        if why is not None:
            return Verdict(outcome.code, why)
    outcome = runner.run(case)
    return Verdict(outcome.code, wrong(case, outcome) or other_figures(outcome, usual))


def other_figures(outcome: Outcome, usual: Outcome) -> str | None:
    found, wanted = json.loads(outcome.out), json.loads(usual.out)
    where = differing(found, wanted)
    return f"other figures after it was interrupted: {where}" if where else None


def differing(found: Any, wanted: Any, place: str = "") -> str | None:
    """The first place where two documents are not the same."""
    if isinstance(wanted, dict) and isinstance(found, dict) and found.keys() == wanted.keys():
        each = (differing(found[name], wanted[name], f"{place}.{name}") for name in wanted)
        return next((one for one in each if one), None)
    if isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        pairs = enumerate(zip(found, wanted, strict=True))
        return next((one for number, (a, b) in pairs if (one := differing(a, b, f"{place}.{number}"))), None)
    if isinstance(wanted, float) and isinstance(found, float):
        return None if abs(found - wanted) <= TOLERANCE * max(1, abs(wanted)) else f"{place}: {found}, not {wanted}"
    return None if found == wanted else f"{place}: {found!r:.60}, not {wanted!r:.60}"
