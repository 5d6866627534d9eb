"""Measure the time and memory of long texts beside transformers, and what a window saves.

    python tests/bench/long_texts.py -m modernbert --tokens 512,1024

A whole walk that keeps no maps, of one text, with random weights. Each program runs once: that takes minutes. On a CPU
the seconds are those of the processor, on one thread, so that what else a machine does counts for little.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor

from attncli.checks.machine import one_thread
from attncli.models.block import Block, Tap
from attncli.models.engine import available

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.maps import EAGER, Contestants, Shape, padded, random_texts, run_peer
from measuring import Run, finish, peak_added, processor

SCORES = 3  # copies of a layer's scores that eager attention has room for: it needs two, and some more for masks


class Timed(Tap):
    """Keeps the seconds that the attention of each layer takes, by whether it has a window."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.begun = 0.0
        self.taken: dict[bool, list[float]] = {True: [], False: []}

    def begin(self, block: Block) -> Block:
        self.begun = clock(self.device)
        return block

    def output(self, block: Block, output: Tensor) -> Tensor:
        self.taken[block.window is not None].append(clock(self.device) - self.begun)
        return output


def clock(device: torch.device) -> float:
    """Return the processor's seconds; on an accelerator those of the clock, after it has finished."""
    finish(device)
    return time.process_time() if device.type == "cpu" else time.perf_counter()


def print_length(contestants: Contestants, length: int) -> None:
    """Run one text of so many tokens through all programs, and print a line each."""
    model, config = contestants.model, contestants.config
    timed, texts = Timed(model.device), random_texts(config, Shape(1, length))

    def ours() -> None:
        with torch.inference_mode():
            for _ in model.walk(model.rows(texts, "padding"), [timed]):
                pass

    given = padded(texts, 1, config.pad_id, model.device)
    runs: dict[str, Run] = {name: partial(run_peer, one, given) for name, one in contestants.peers.items()}
    there = available() if model.device.type == "cpu" else None
    if there is not None and SCORES * config.heads * length**2 * 4 > there:
        del runs[EAGER]
    for name, run in {"attncli": ours, **runs}.items():
        seconds, peak = seconds_and_peak(run, model.device)
        layers = [f"{statistics.median(one) * 1e3:9.1f}" if one else f"{'-':>9}" for one in timed.taken.values()]
        timed.taken = {True: [], False: []}
        added = "?" if peak is None else f"{peak / 1e6:.0f}"
        print(f"{length:6}  {name:8}{seconds:8.2f}{added:>8} {' '.join(layers)}", flush=True)


def seconds_and_peak(run: Callable[[], object], device: torch.device) -> tuple[float, int | None]:
    """Return the seconds of one run, and the memory that it adds."""
    seconds = 0.0

    def timed() -> None:
        nonlocal seconds
        begun = clock(device)
        run()
        seconds = clock(device) - begun

    peak = peak_added(timed, device)
    return seconds, peak


def main() -> None:
    """Measure, and print a table."""
    asked = argparse.ArgumentParser(description="Measure the time and memory of long texts beside transformers.")
    asked.add_argument("-m", "--model", default="modernbert")
    asked.add_argument("--tokens", default="2048,8192", help="lengths, with commas between them")
    asked.add_argument("--device", default="auto")
    options = asked.parse_args()
    contestants = Contestants(options.model, options.device)
    print(f"{options.model}, random weights, float32, {contestants.model.device}, 1 thread; {processor()}")
    print(", ".join(f"{name} {version(name)}" for name in ("attncli", "torch", "transformers")))
    print("tokens  program        s      MB  local ms global ms")
    with one_thread():
        for length in options.tokens.split(","):
            print_length(contestants, int(length))


if __name__ == "__main__":
    main()
