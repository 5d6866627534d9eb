"""Run every command of two versions of the program, each as its own process, and compare the outputs.

    python tests/same_outputs.py run before --commit HEAD~3
    python tests/same_outputs.py run after
    python tests/same_outputs.py compare before after

The cases are in same_outputs.txt. Each leaves a folder FOLDER/NAME with stdout, stderr, code and the files that the
command wrote. Every version gets the inputs, small checkpoints and cases of the working tree that this script is in.
Not among the cases: --help, whose words change on purpose.
"""

import argparse
import json
import math
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from output_differences import CLOSE, OTHER, PRINTED, Difference, differences, read
from own_attention import MINE
from shell import environment

ROOT = Path(__file__).resolve().parent.parent
CASES = Path(__file__).with_suffix(".txt")
PROCESSES = 2  # at once, of a thread each: threads that wait for each other's cores take many times as long
LIMIT = 300  # seconds for one command
SHARED = ("in", "models", "cache")  # folders of a run that are no case's
ABOUT = "run.json"  # of a run: what else than the program its files depend on
SHOWN = 3  # differences of a case that are told
TOLERANCE = 1e-6

# What words in capitals stand for in the cases.
TEXTS = {
    "TROPHY": "The trophy does not fit in the suitcase because it is too big.",
    "CAT": "The cat sat on the mat.",
    "DOG": "The dog sat on the mat.",
    "QUESTION": "Where did the little bear hide the honey?",
    "ANSWER": "The little bear hid the honey under a pile of dry leaves behind the cave.",
    "PIECES": "The antidisestablishmentarianism of the electroencephalographer was incomprehensible.",
}
# What FOLDER/in holds beside sample_inputs/*.
INPUTS = {
    "dates.txt": "3 March 2021\nWed 3 Mar 21\n二〇二一年三月三日\n",
    "texts.jsonl": '{"text": "The cat sat."}\n{"text": "A dog ran to the old mill."}\n{"words": "none"}\nno JSON\n',
    "empty.txt": "\n\n",
    "mine.py": MINE,
}


# --- cases ----------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """settings: of the environment. stdin: a file, seen from the case's folder. after: cases whose files it takes."""

    arguments: list[str]
    settings: dict[str, str]
    stdin: str | None
    after: list[str]


def read_cases(text: str) -> dict[str, Case]:
    """The cases by name. Raises ValueError for two of one name, and for one before another whose file it takes."""
    found: dict[str, Case] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        pattern, command = line.split(maxsplit=1)
        choices = re.search(r"\{(.*)\}", pattern)
        for choice in choices[1].split(",") if choices else [""]:
            name = re.sub(r"\{.*\}", choice, pattern)
            command_line, _, stdin = command.replace("{}", choice).partition(" < ")
            words = shlex.split(command_line)
            count = next(number for number, word in enumerate(words) if "=" not in word)
            settings = dict(word.split("=", 1) for word in words[:count])
            after = [other for other in re.findall(r"\.\./([\w-]+)/", command_line) if other not in SHARED]
            if name in (*found, *SHARED) or not found.keys() >= set(after):
                raise ValueError(f"{name} is there twice, or takes a file of a case that comes after it")
            found[name] = Case([TEXTS.get(word, word) for word in words[count:]], settings, stdin or None, after)
    return found


def chosen(cases: dict[str, Case], only: str) -> dict[str, Case]:
    """Those with a match of `only` in their names, and those whose files they take."""
    names = {name for name in cases if re.search(only, name)}
    for name in reversed(cases):
        names.update(cases[name].after if name in names else [])
    return {name: case for name, case in cases.items() if name in names}


def make_inputs(folder: Path) -> None:
    """Make the inputs of the cases: FOLDER/in, and small random checkpoints in FOLDER/models, always the same."""
    from checkpoints import FAMILIES, make_checkpoint
    from foreign_checkpoints import DECODERS, ENCODER_DECODERS, make_foreign
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    shutil.copytree(ROOT / "sample_inputs", folder / "in")
    trees = (folder / "in" / "treebank.conllu").read_text(encoding="utf-8").split("\n\n")
    parts = {"begin.conllu": "\n\n".join([*trees[:20], ""]), "rest.conllu": "\n\n".join(trees[20:])}
    for name, text in {**INPUTS, **parts}.items():
        (folder / "in" / name).write_text(text, encoding="utf-8")
    for name in dict.fromkeys((*FAMILIES, "bert-2", *DECODERS, *ENCODER_DECODERS, "mamba")):
        place = folder / "models" / name
        place.mkdir(parents=True)
        if name in FAMILIES or name == "bert-2":
            make_checkpoint(place, name.removesuffix("-2"), seed=2 if name == "bert-2" else 0)
        else:
            make_foreign(place, name)


# --- running --------------------------------------------------------------------------------------------


def run(folder: Path, commit: str | None, only: str) -> None:
    """Run cases with the program of a commit, or that of the working tree."""
    folder = folder.resolve()
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder} is not empty: name a new folder")
    cases = chosen(read_cases(CASES.read_text(encoding="utf-8")), only)
    begun = time.monotonic()
    make_inputs(folder)
    with program(commit) as source, ThreadPoolExecutor(PROCESSES) as pool:
        running: dict[str, Future[int]] = {}
        for name, case in cases.items():  # in their order: what a case waits for has begun before it
            running[name] = pool.submit(run_case, folder / name, case, source, [running[one] for one in case.after])
        for name, code in running.items():
            print(f"{code.result():>3}  {name}", flush=True)
        about = {"commit": commit, "places": [str(folder), str(source)]}
    (folder / ABOUT).write_text(json.dumps(about), encoding="utf-8")
    print(f"{len(cases)} cases in {time.monotonic() - begun:.0f} s")


@contextmanager
def program(commit: str | None) -> Iterator[Path]:
    """The folder that processes import the package from: that of a commit, or the working tree."""
    with tempfile.TemporaryDirectory(prefix="attncli-") as place, tempfile.TemporaryFile() as packed:
        if commit is not None:
            subprocess.run(
                ["git", "-C", ROOT, "archive", commit, "attncli", "sample_inputs"], stdout=packed, check=True
            )
            packed.seek(0)
            with tarfile.open(fileobj=packed) as archive:
                archive.extractall(place, filter="data")
        source = ROOT if commit is None else Path(place).resolve()
        asked = [sys.executable, "-c", "import attncli; print(attncli.__file__)"]
        env = environment(PYTHONPATH=str(source))
        found = subprocess.run(asked, cwd=place, env=env, capture_output=True, text=True, check=True).stdout
        if not Path(found).is_relative_to(source):
            sys.exit(f"what is imported is {found.strip()}, although PYTHONPATH is {source}")
        yield source


def run_case(folder: Path, case: Case, source: Path, after: list[Future[int]]) -> int:
    """One process in a folder of its own, once those that it waits for are done. Its exit code."""
    for one in after:
        one.result()
    folder.mkdir()
    stdin = None if case.stdin is None else (folder / case.stdin).read_bytes()
    cache = str(folder.parent.resolve() / "cache")  # of this version of the program alone
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        code = subprocess.run(
            [sys.executable, "-m", "attncli", *case.arguments],
            cwd=folder,
            env=environment(
                **{"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "ATTNCLI_CACHE": cache, **case.settings}
            ),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            stdout=out,
            stderr=err,
            timeout=LIMIT,
            check=False,
        ).returncode
    (folder / "code").write_text(str(code))
    return code


# --- comparing ------------------------------------------------------------------------------------------


def compare(first: Path, second: Path, tolerance: float = TOLERANCE, stderr: bool = False) -> bool:
    """Say of every case whether it is the same in two runs, and where not; whether all are, within the tolerance."""
    runs = [(folder, cleaner(folder)) for folder in (first, second)]
    every: dict[str, list[Difference]] = {}
    for name in sorted({path.parent.name for folder in (first, second) for path in folder.glob("*/code")}):
        one, other = (outputs(folder / name, clean, stderr) for folder, clean in runs)
        every[name] = sorted(differences(one, other, tolerance), key=lambda found: (found.kind != OTHER, -found.size))
        say(name, every[name])
    differ = sum(any(one.kind == OTHER for one in found) for found in every.values())
    same = sum(not found for found in every.values())
    print(f"\n{len(every)} cases: {same} the same, {len(every) - same - differ} within the tolerance, {differ} differ")
    close = [(one.size, name, one.where) for name, found in every.items() for one in found if one.kind == CLOSE]
    if close:
        size, name, where = max(close)
        print(f"the largest difference within the tolerance: {size:.2e} in {name}{where}")
    return bool(every) and not differ


def say(name: str, found: list[Difference]) -> None:
    """A line for a case, and below it the first that differ: those that are no rounding, and of them the largest."""
    differ = [one for one in found if one.kind == OTHER]
    sizes = {kind: max((one.size for one in found if one.kind == kind), default=0.0) for kind in (CLOSE, PRINTED)}
    within = ", ".join(f"{kind} {size:.0e}" for kind, size in sizes.items() if size)
    print(f"{f'DIFFERS in {len(differ)}' if differ else within or 'same':<28} {name}")
    for one in differ[:SHOWN]:
        print(f"    {one.where.lstrip('.')}: {one.words}" + (f" ({one.size:.2e})" if one.size < math.inf else ""))


def outputs(folder: Path, clean: Callable[[str], str], stderr: bool) -> dict[str, Any]:
    """Return the files that a case left, by name; none if it was not run. Folders of sums are left out, since they hold
    the times when their inputs were written.
    """
    files = [path for path in sorted(folder.iterdir()) if path.is_file()] if (folder / "code").is_file() else []
    return {path.name: read(path, clean) for path in files if stderr or path.name != "stderr"}


def cleaner(folder: Path) -> Callable[[str], str]:
    """Return a function that removes from the texts of a run the times taken and the folders of paths."""
    places = json.loads((folder / ABOUT).read_text(encoding="utf-8"))["places"]
    # Installed packages: from where a path begins, lest all of a long word be tried as its beginning.
    roots = "|".join([*map(re.escape, places), r"""(?<![^\s"'])[^\s"']*/site-packages"""])
    inside = re.compile(rf"""(?:{roots})(?:/[^\s"'/]+)*/""")
    return lambda text: re.sub(r"[\d.]+ minutes", "… minutes", inside.sub("…/", text))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="run the cases, and keep what they print and save")
    running.add_argument("folder", type=Path, help="a new one")
    running.add_argument("--commit", help="whose program to run (default: that of the working tree)")
    running.add_argument("--only", default="", metavar="REGEX", help="cases with a match in their names")
    comparing = commands.add_parser("compare", help="compare two runs; exit code 1 where they differ")
    comparing.add_argument("folders", type=Path, nargs=2, metavar="FOLDER")
    comparing.add_argument("--tolerance", type=float, default=TOLERANCE)
    comparing.add_argument("--stderr", action="store_true", help="compare what was said on stderr too")
    given = parser.parse_args()
    if given.command == "run":
        run(given.folder, given.commit, given.only)
    elif not compare(*given.folders, given.tolerance, given.stderr):
        sys.exit(1)
