"""Signals while something is written, full disks, and places where nothing can be: a file is whole or as before."""

import hashlib
import io
import json
import os
import signal
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from hostile.case import Case
from hostile.kinds import Verdict
from hostile.oracle import SUMS, wrong
from hostile.place import Place, words
from hostile.running import PASSING, Outcome, Runner, remove

BEFORE = b"what stood here before\n"
COUNTING = "stats -m tiny lines.txt --state a.sums --shard-mb 0.00005"
WRITING = (
    "run -m tiny -l all -o a.npz @", "run -m tiny -l all --vectors all -o a.safetensors @",
    "run -m tiny -l all -o a.csv @",
    "run --from maps.npz -o a.json", "stats -m tiny lines.txt -o a.npz", "stats -m tiny lines.txt -o a.json",
    "flow --from maps.npz -o a.npz", "heatmap --from maps.npz -l 0 -H 0 -o a.svg", "view --from maps.npz -o a.html",
    "heatmap --from maps.npz -l 0 -H 0 -o a.png", COUNTING,
    "run --from maps.npz -o a.npz",
)  # fmt: skip
NOWHERE = (
    "missing/a", "/proc/a", "/dev/null/a", "lines.txt/a", "loop", "folder", "a" * 300, "d/" * 3000 + "a", "", "/sys/a",
    "tiny/../missing/a", "/", "\x1b[31m/a",
)  # fmt: skip
NO_FOLDER = (
    "/proc/a", "/sys/a", "/dev/null", "/dev/null/a", "lines.txt", "lines.txt/a", "loop", "loop/a", "a" * 300,
    "d/" * 3000 + "a", "", " ", "nowhere://a", "://", "file://", "memory://a::b", "zip://a",
)  # fmt: skip
SIGNALS = ("INT", "TERM", "HUP", "KILL")


def make(random: Random, place: Place) -> Case:
    line = random.choice(WRITING)
    target = words(line)[words(line).index("--state" if line == COUNTING else "-o") + 1]
    files = {target: BEFORE} if random.random() < 0.5 and line != COUNTING else {}
    way = random.randrange(6)
    if way == 0:
        most = random.choice((0, 100, 1000, 4096))
        return Case("kills", tuple(words(line)), files, disturbed={"RLIMIT_FSIZE": most}, note=f"room for {most} bytes")
    if way == 1:
        where = random.choice(NO_FOLDER) if line == COUNTING else random.choice(NOWHERE) + Path(target).suffix
        typed = tuple(where if word == target else word for word in words(line))
        return Case("kills", typed, expects="refused", note="a place that can't be written to")
    return Case(
        "kills", tuple(words(line)), files, disturbed={"signal": random.choice(SIGNALS), "share": random.random()}
    )


def look(case: Case, runner: Runner) -> Verdict:
    if "RLIMIT_FSIZE" in case.disturbed:
        outcome = runner.run(case, RLIMIT_FSIZE=case.disturbed["RLIMIT_FSIZE"])
        return Verdict(outcome.code, wrong(case, outcome) or not_whole(case, outcome, runner))
    if "signal" not in case.disturbed:
        for suffix in {Path(word).suffix for word in case.arguments}:
            (runner.folder / f"loop{suffix}").symlink_to(f"loop{suffix}")
            (runner.folder / f"folder{suffix}").mkdir()
        (runner.folder / "loop").is_symlink() or (runner.folder / "loop").symlink_to("loop")
        outcome = runner.run(case)
        return Verdict(outcome.code, wrong(case, outcome))
    return interrupted(case, runner)


def interrupted(case: Case, runner: Runner) -> Verdict:
    """A signal at a share of the time; when the folder changes, if that is earlier. After KILL the same once more."""
    usual = runner.run(case)
    whole = read_target(case, runner)
    for name, content in case.files.items():
        (runner.folder / name).write_bytes(content)
    for name in usual.made:
        remove(runner.folder / name)
    sent = getattr(signal, f"SIG{case.disturbed['signal']}")
    share = case.disturbed["share"]
    outcome = runner.run(case, sent=sent, after=share * usual.seconds, watched=runner.folder)
    killed = case.disturbed["signal"] == "KILL"
    why = None if killed and outcome.code == -sent else wrong(case, outcome)
    why = why or not_whole(case, outcome, runner, whole)
    if why is None and killed:
        for path in runner.folder.rglob(".attncli-*"):
            os.utime(path, (0, 0))  # long ago
        again = runner.run(case)
        again.changed = [
            name for name in again.changed if not name.startswith(".attncli-")
        ]  # cleared, or told of below
        left = [path.name for path in runner.folder.rglob("*") if path.name.startswith((".attncli-", *PASSING))]
        why = wrong(case, again) or (f"leaves {left} of a process that was killed" if left else None)
    return Verdict(outcome.code, why)


def read_target(case: Case, runner: Runner) -> bytes | None:
    path = runner.folder / next(word for word in case.arguments if word.startswith("a."))
    return path.read_bytes() if path.is_file() else None


def not_whole(case: Case, outcome: Outcome, runner: Runner, whole: bytes | None = None) -> str | None:
    """The file is what it was before, or all of what it was to be; of a folder of sums each is."""
    if "--state" in case.arguments:
        return next((why for path in runner.folder.glob("a.sums/*") if (why := torn(path))), None)
    found, before = read_target(case, runner), next(iter(case.files.values()), None)
    if outcome.code in (0, 2) and case.disturbed.get("RLIMIT_FSIZE") is not None:
        return None if outcome.code == 0 or found == before else "a full disk, and the file is another"
    if found is None or found in (before, whole) or complete(case, found):
        return None
    return f"{case.disturbed}: the file is neither as before nor whole: {found[:30]!r}"


def torn(path: Path) -> str | None:
    """Return what is wrong with a file of sums or a plan; None if nothing is."""
    if path.name == "plan.json":
        json.loads(path.read_bytes())
    elif SUMS.fullmatch(path.name):
        digest, _, inside = path.read_bytes().partition(b"\n")
        if hashlib.sha256(inside).hexdigest().encode() != digest:
            return f"{path.name} is not whole"
    return None


def complete(case: Case, found: bytes) -> bool:
    """Return whether the file ends properly, for formats of which no two files are identical."""
    ends: dict[str, Callable[[bytes], bool]] = {
        ".svg": lambda one: one.rstrip().endswith(b"</svg>"),
        ".npz": lambda one: zipfile.is_zipfile(io.BytesIO(one)),
    }
    target = next(word for word in case.arguments if word.startswith("a."))
    return ends.get(Path(target).suffix, lambda one: False)(found)
