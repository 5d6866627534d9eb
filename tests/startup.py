"""Measure the time of whole programs, from the shell and back, and their memory: python tests/startup.py [ROUNDS]

Medians over rounds in which all take turns; the ratios to `import torch` are what the README reports. "cold": nothing
is in the cache. "first start": no file of attncli's bytecode exists.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import attncli
from attncli.models.hub import locate

SENTENCE = "The trophy does not fit in the suitcase because it is too big."
SCRIPT = """
from transformers import AutoModel, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained({path!r})
model = AutoModel.from_pretrained({path!r}, attn_implementation="eager")
model(**tokenizer({sentence!r}, return_tensors="pt"), output_attentions=True).attentions
"""
ATTNCLI = [sys.executable, "-m", "attncli"]
COLD, FIRST = "attncli run (cold)", "attncli run (first start)"


class Took(NamedTuple):
    """Seconds, and the most memory in MB."""

    seconds: float
    memory: float


def run(command: list[str], package: Path, cache: Path) -> Took:
    """Run a program to its end, with attncli's code in the folder `package`. Raises RuntimeError if it fails."""
    own = {"PYTHONPATH": str(package), "ATTNCLI_CACHE": str(cache)}
    known = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begun = time.perf_counter()
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**known, **own},
        cwd=cache,
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(said.decode())
    return Took(time.perf_counter() - begun, used.ru_maxrss / 1000)


def copied(folder: Path) -> Path:
    """Copy attncli to a folder, without bytecode."""
    root = Path(attncli.__file__).parent.parent
    for name in ("attncli", "sample_inputs"):
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def measure(programs: Mapping[str, list[str]], rounds: int) -> dict[str, Took]:
    """Return the medians of each program."""
    took: dict[str, list[Took]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        usual, warm = copied(folder / "usual"), folder / "cache"
        warm.mkdir()
        for number in range(-1, rounds):
            for name, command in programs.items():
                cache = Path(tempfile.mkdtemp(dir=folder)) if name == COLD else warm
                package = copied(folder / f"first{number}") if name == FIRST else usual
                one = run(command, package, cache)
                if number >= 0:  # after a round that compiles and fills the cache
                    took[name].append(one)
    return {name: Took(*map(statistics.median, zip(*some, strict=True))) for name, some in took.items()}


if __name__ == "__main__":
    script = SCRIPT.format(path=str(locate("minilm").path), sentence=SENTENCE)
    programs = {
        "import torch": [sys.executable, "-c", "import torch"],
        "shortest transformers script": [sys.executable, "-c", script],
        "attncli run": [*ATTNCLI, "run", SENTENCE],
        COLD: [*ATTNCLI, "run", SENTENCE],
        FIRST: [*ATTNCLI, "run", SENTENCE],
        "attncli run -l 3 -H 1": [*ATTNCLI, "run", "-l", "3", "-H", "1", SENTENCE],
        "attncli find": [*ATTNCLI, "find", "it", "trophy", SENTENCE],
        "attncli explain": [*ATTNCLI, "explain", "--query", "it", SENTENCE],
        "attncli view": [*ATTNCLI, "view", SENTENCE, "-o", "a.html"],
        "attncli heatmap": [*ATTNCLI, "heatmap", SENTENCE, "--head", "3", "-o", "a.png"],
        "import typer": [sys.executable, "-c", "import typer"],
        "attncli --help": [*ATTNCLI, "--help"],
    }
    found = measure(programs, int(sys.argv[1]) if len(sys.argv) > 1 else 9)
    for name, took in found.items():
        peer = "import typer" if name == "attncli --help" else "import torch"
        ratio = took.seconds / found[peer].seconds
        print(f"{name:<30}{took.seconds:>7.3f} s {took.memory:>6.0f} MB {ratio:>6.2f} x {peer}")
