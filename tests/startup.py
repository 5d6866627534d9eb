"""How long whole programs take, from the shell and back: python tests/startup.py

Medians over rounds in which all take turns; the ratios are what the README reports.
"""

import statistics
import subprocess
import sys
import time

from attncli.models.hub import locate

SENTENCE = "The trophy does not fit in the suitcase because it is too big."
ROUNDS = 15
SCRIPT = """
from transformers import AutoModel, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained({path!r})
model = AutoModel.from_pretrained({path!r}, attn_implementation="eager")
model(**tokenizer({sentence!r}, return_tensors="pt"), output_attentions=True).attentions
"""
ATTNCLI = [sys.executable, "-m", "attncli"]


def measure(programs: dict[str, list[str]]) -> dict[str, float]:
    """Median seconds of each program."""
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, command in programs.items():
            begun = time.perf_counter()
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
            seconds[name].append(time.perf_counter() - begun)
    return {name: statistics.median(some) for name, some in seconds.items()}


if __name__ == "__main__":
    script = SCRIPT.format(path=str(locate("minilm").path), sentence=SENTENCE)
    took = measure(
        {
            "import torch": [sys.executable, "-c", "import torch"],
            "shortest transformers script": [sys.executable, "-c", script],
            "attncli run": [*ATTNCLI, "run", SENTENCE],
            "import typer": [sys.executable, "-c", "import typer"],
            "attncli --help": [*ATTNCLI, "--help"],
        }
    )
    for name, seconds in took.items():
        print(f"{name:<30}{seconds:>7.2f} s")
    for name, other in (
        ("attncli run", "import torch"),
        ("attncli run", "shortest transformers script"),
        ("attncli --help", "import typer"),
    ):
        print(f"{name} takes {took[name] / took[other]:.2f} x {other}")
