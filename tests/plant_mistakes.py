"""Plant mistakes, each alone, and run the tests of its room, to see how good the tests are at finding them.

    python tests/plant_mistakes.py                             all of them, in copies of this checkout
    python tests/plant_mistakes.py --commit c9f3e11            in copies of a commit
    python tests/plant_mistakes.py --tests "-n 2" --only NAME  one of them, with arguments for pytest
    python tests/plant_mistakes.py --compare                   those that ways.py is to find by itself

The mistakes are in mistakes.txt.
"""

import argparse
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from mistakes import Mistake, plant, read_mistakes

CHECKOUT = Path(__file__).parents[1]
SENTENCE = "The trophy does not fit in the suitcase because it is too big."
# What a family's name may go on with, and what of its config.json that is.
KINDS: dict[str, dict[str, Any]] = {
    "": {},
    "shares": {"share_att_key": True, "conv_kernel_size": 3},
    "predicts": {"head": "ForCausalLM"},
    "turns values": {"rotary_value": True},
    "is as wide as published": {"local_attention": 128, "max_position_embeddings": 300},
}
MAKE = """
import json, sys
from pathlib import Path
from checkpoints import FAMILIES, make_checkpoint
from foreign_checkpoints import make_foreign
folder, name, settings = Path(sys.argv[1]), *sys.argv[2:]
if name in FAMILIES:
    make_checkpoint(folder, name, **json.loads(settings))
else:
    folder.mkdir()
    make_foreign(folder, name)
"""
KEPT: list[tempfile.TemporaryDirectory[str]] = []  # checkpoints, until the program ends


@contextmanager
def copied(commit: str | None) -> Iterator[Path]:
    """A copy of a commit, or of what git knows or would take here; for one mistake, as tests leave things behind."""
    with tempfile.TemporaryDirectory(prefix="attncli-mistake-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        if commit is not None:
            with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", commit))) as archive:
                archive.extractall(folder, filter="data")
        else:
            for file in git("ls-files", "-z", "--cached", "--others", "--exclude-standard").decode().split("\0"):
                if (CHECKOUT / file).is_file():  # one that was moved is still in git's list
                    (folder / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(CHECKOUT / file, folder / file)
        yield folder


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=CHECKOUT, check=True, stdout=subprocess.PIPE).stdout


def room(folder: Path, path: Path) -> str:
    """The tests that mirror a file's folder, or the next one above it that has tests; those of the file itself where it
    lies in no folder of the package.
    """
    place = path.relative_to(folder / "attncli")
    if place.parent == Path():
        return f"tests/test_{place}"
    above = next(above for above in place.parents if (folder / "tests" / above).is_dir())
    return f"tests/{above.as_posix()}"


def failing(folder: Path, tests: str, arguments: Sequence[str]) -> str | None:
    """The first of these tests that fails in a copy, or None. Ends the program when they can't be run.

    The few that replace PYTHONPATH for a process of their own test what is installed, and not the copy.
    """
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    where = python(folder, environment, "-c", "import attncli; print(attncli.__file__)").stdout.strip()
    if not Path(where).is_relative_to(folder):
        raise SystemExit(f"{tests}: what would be tested is {where}, and not the copy in {folder}")
    done = python(folder, environment, "-m", "pytest", "-x", "--tb=no", "-rfE", *arguments, tests)
    if done.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    if found is None:
        raise SystemExit(f"{tests}: pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return found[1]


def python(folder: Path, environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@cache
def checkpoint(family: str) -> str:
    """Return the model for `compare`: minilm or smollm2, or a small random checkpoint of this family."""
    if family in ("minilm", "smollm2"):
        return family
    name, _, kind = family.partition(" that ")
    held = tempfile.TemporaryDirectory(prefix="attncli-mistake-", ignore_cleanup_errors=True)
    KEPT.append(held)
    folder = Path(held.name) / name
    settings = json.dumps({"max_position_embeddings": 90, **KINDS[kind]})
    # In a process of its own, since a hundred networks of transformers would fill the memory of this one.
    subprocess.run([sys.executable, "-c", MAKE, folder, name, settings], cwd=CHECKOUT / "tests", check=True)
    return str(folder)


def differing(folder: Path, options: dict[str, str]) -> str | None:
    """Return what `attncli compare` of a copy finds to be different in all ways of `ways.py`, or None."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    words = [word for pair in {**options, "-m": checkpoint(options.get("-m", "minilm"))}.items() for word in pair]
    done = python(folder, environment, "tests/ways.py", "--json", *words, SENTENCE)
    if done.returncode not in (0, 1):
        return done.stderr.strip().splitlines()[-1]
    document = json.loads(done.stdout)
    layers = ["layers"] if any(past(layer) for layer in document["layers"]) else []
    found = layers + [way["way"] for way in document["ways"] if not way["same"]]
    return None if document["same"] else ", ".join(found) or "errors of the layers"


def past(layer: dict[str, Any]) -> bool:
    """Return whether a layer of what `compare --json` prints is past its tolerance."""
    return any(layer[name] is None or layer[name] > layer[f"{name}_allowed"] for name in ("weights", "hidden"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--commit", help="plant them in this commit instead of the checkout")
    parser.add_argument("--tests", default="", metavar="ARGS", help='more for pytest, as in --tests "-n 2"')
    parser.add_argument("--compare", action="store_true", help="what compare finds, not what tests find")
    names = [one.name for one in read_mistakes()]
    parser.add_argument("--only", choices=names, action="append", metavar="NAME", help="this one; can be given again")
    asked = parser.parse_args()
    every = read_mistakes("compare" if asked.compare else "tests")
    chosen = [one for one in every if not asked.only or one.name in asked.only]

    def found(folder: Path, mistake: Mistake, tests: str) -> str | None:
        return differing(folder, mistake.options) if asked.compare else failing(folder, tests, shlex.split(asked.tests))

    with copied(asked.commit) as folder:
        rooms = ["compare" if asked.compare else room(folder, plant(one, folder / "attncli")[0]) for one in chosen]
        runs = {(tests, *sorted(one.options.items())): one for one, tests in zip(chosen, rooms, strict=True)}
        # A run that fails without a mistake would seem to catch everything.
        for (tests, *_), one in runs.items():
            if (failed := found(folder, one, tests)) is not None:
                raise SystemExit(f"{tests}: without any mistake there fails {failed}")
    caught = 0
    for mistake, tests in zip(chosen, rooms, strict=True):
        with copied(asked.commit) as folder:
            path, text = plant(mistake, folder / "attncli")
            path.write_text(text, encoding="utf-8")
            begun = time.monotonic()
            failed = found(folder, mistake, tests)
            taken = time.monotonic() - begun
        caught += failed is not None
        verdict = "MISSED" if failed is None else "caught"
        print(f"{mistake.name:53} {tests:23} {verdict} {taken:4.0f} s  {failed or ''}".rstrip(), flush=True)
    print(f"{caught} of {len(chosen)} caught")


if __name__ == "__main__":
    main()
