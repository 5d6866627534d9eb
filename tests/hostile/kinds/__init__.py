"""Kinds of cases: each has a module with `make(random, place)`, and `look(case, runner)` where one call is too few."""

import importlib
from random import Random
from types import ModuleType
from typing import NamedTuple

from hostile.case import Case
from hostile.oracle import wrong
from hostile.place import Place
from hostile.running import LINK, Runner

KINDS = ("files", "lies", "settings", "states", "corpora", "texts", "options", "streams", "kills", "resumes")
SHARES = {
    "files": 30,
    "lies": 8,
    "settings": 20,
    "states": 6,
    "corpora": 10,
    "texts": 40,
    "options": 20,
    "streams": 4,
    "kills": 2,
    "resumes": 1,
}  # how many of each kind in turn


class Verdict(NamedTuple):
    """code: how the call ended. why: what is wrong; None where nothing is."""

    code: int
    why: str | None


def module(kind: str) -> ModuleType:
    return importlib.import_module(f"hostile.kinds.{kind}")


def make(kind: str, seed: int, number: int, place: Place) -> Case:
    """The case of a kind and a number: the same whenever it is asked for."""
    return module(kind).make(Random(f"{kind} {seed} {number}"), place)


def look(case: Case, runner: Runner) -> Verdict:
    """Run a case and return the verdict."""
    with runner.prepared(case):
        return getattr(module(case.kind), "look", once)(case, runner)


def once(case: Case, runner: Runner) -> Verdict:
    """One call; and where another gives the same, that it does. A link that was there is one afterwards."""
    outcome = runner.run(case)
    why = wrong(case, outcome)
    if why is None and case.same_as is not None and outcome.code == 0:
        other = runner.run(case, case.same_as)
        why = None if other.out == outcome.out else f"{case.note}: not the same as {' '.join(case.same_as)}"
    if why is None:
        links = [name for name, source in case.copies.items() if source.startswith(LINK) and "/" not in name]
        replaced = [name for name in links if not (runner.folder / name).is_symlink()]
        why = f"replaces the link {replaced[0]}" if replaced else None
    return Verdict(outcome.code, why)
