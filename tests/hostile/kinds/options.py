"""Options of every command in any combination, with right and wrong values. One that is given changes something."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from cli.commands import commands, is_flag
from cli.test_every_option import GENERAL, SILENT, SILENT_HERE, VALUES, WAYS, way
from hostile.case import Case
from hostile.kinds import Verdict
from hostile.oracle import wrong
from hostile.place import Place
from hostile.running import Outcome, Runner

WRONG = (
    "", "-1", "0", "99", "1e9", "x", "all", "0-99", "3-1", "0,0", ",", "nan", "inf", "-0", "1.5", "\u202e", "\x1b[31m",
    "tiny", "one.txt", "maps.npz", ".", "/dev/null", "missing.npz", "a" * 5000, "9" * 400, "--",
    "0x1", "½", "٣", "cat#99",
    "padding", "weight", "a.svg", "a.npz", "a.csv", "a.json", "a.html", "a.pdf", "a.xyz", ".npz", "0.0", "9.9",
)  # fmt: skip
MORE = {  # right ones, beside those that change something
    "layer": ("0", "all", "-1", "0,1", "0-2"), "head": ("0", "all", "-1", "1-3"), "mask": ("none", "padding"),
    "output_path": ("a.svg", "a.npz", "a.csv", "a.json", "a.html", "a.safetensors"),
    "dtype": ("float64", "float16", "float32"), "device": ("cpu", "auto"), "by": ("self", "entropy"),
    "method": ("flow",),
    "query": ("0", "cat#2", "[CLS]", "-1"), "measure": ("weight",), "top_k": ("0", "50"), "which": ("encoder", "cross"),
    "engine": ("attncli", "auto"), "width": ("single", "300"), "style": ("matrix",), "limit": ("2",), "stride": ("30",),
}  # fmt: skip
SLOW = {"compare", "mechanisms"}  # seconds a call; tried rarely
NEVER = {*GENERAL, "open_it"}  # nobody wants a browser for each
# What changes nothing that shows, and why that is right.
EXCEPT = {
    *GENERAL, *SILENT,
    "dtype",  # rounding does not always show
    "device",  # there is one
}  # fmt: skip


def make(random: Random, place: Place) -> Case:
    """A way of using a command, with a few more options; and the same without one of them."""
    name = random.choice([one for one in WAYS if one not in SLOW or random.random() < 0.2])
    line = random.choice(WAYS[name])
    base = way(line)
    free = [one for one in commands()[name].params if not set(one.opts) & set(base)]
    free = [one for one in free if one.param_type_name != "argument" and one.name not in NEVER]
    chosen = random.sample(free, min(len(free), random.choice((1, 1, 2, 2, 3, 4, 6))))
    given = [(one, typed(one, base, random)) for one in chosen]
    arguments = (*base, *(word for _, (words, _) in given for word in words))
    telling = [one for one, (_, tells) in given if tells and (line, one.name) not in SILENT_HERE]
    left_out = random.choice(telling) if telling else None
    without = (*base, *(word for one, (words, _) in given if one is not left_out for word in words))
    return Case("options", arguments, differs_from=without if left_out is not None else None)


def typed(option: Any, base: tuple[str, ...], random: Random) -> tuple[tuple[str, ...], bool]:
    """An option as it is typed; and whether it is one that must change something, or be refused."""
    name = max(option.opts, key=lambda written: written.startswith("--"))
    tells = option.name not in EXCEPT
    if is_flag(option):
        return (name,), tells
    if random.random() < 0.3:
        return (f"{name}={random.choice(WRONG)}",), False
    if option.name in MORE and random.random() < 0.4:
        return (name, random.choice(MORE[option.name])), False
    value = VALUES[option.name][0]
    if option.name == "output_path":
        value = "other" + next((Path(one).suffix for one in base if one.startswith("a.")), ".json")
    return (name, value), tells


def look(case: Case, runner: Runner) -> Verdict:
    """Both calls are right; and what they print, say or write is not the same."""
    outcome = runner.run(case)
    why = wrong(case, outcome)
    if why is not None or case.differs_from is None or outcome.code != 0:
        return Verdict(outcome.code, why)
    found = everything_of(outcome, runner)
    runner.tidy()
    plain = runner.run(replace(case, arguments=case.differs_from))
    why = wrong(case, plain, case.differs_from)
    if why is None and found == everything_of(plain, runner):
        why = f"changes nothing beside {' '.join(case.differs_from)[:100]}"
    return Verdict(outcome.code, why)


def everything_of(outcome: Outcome, runner: Runner) -> Any:
    made = {name: (runner.folder / name).read_bytes() for name in outcome.made if (runner.folder / name).is_file()}
    return outcome.code, outcome.out, outcome.err, made
