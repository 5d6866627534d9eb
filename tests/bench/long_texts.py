"""Measure the time and memory of long texts beside transformers, and what a window saves.

    python tests/bench/long_texts.py -m modernbert --tokens 512,1024 [--json]

A whole walk that keeps no maps, of one text, with random weights. Each program runs once: that takes minutes. On a CPU
the seconds are those of the processor, on one thread, so that what else a machine does counts for little.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from attncli.base.errors import RequestError
from attncli.base.printable import printable
from attncli.checks.machine import machine_document
from attncli.checks.memory import peak_added
from attncli.checks.timing import Run, finish, one_thread
from attncli.features.bench import machine_text, megabytes, three_digits
from attncli.features.bench.measuring import (
    EAGER,
    PEERS,
    Case,
    Contestants,
    Shape,
    architecture_document,
    padded,
    random_texts,
    run_peer,
)
from attncli.models.block import Block, Tap
from attncli.models.config import ModelConfig
from attncli.models.engine import available
from attncli.models.random import architecture
from attncli.report.terminal import Prose, plain_table

OURS = "attncli"
PROGRAMS = (OURS, *PEERS)
SCORES = 3  # copies of a layer's scores that eager attention has room for: it needs two, and some more for masks
NUMBER = 4  # bytes of one in float32


class Timed(Tap):
    """What the attention of every layer takes, in seconds, by whether it has a window."""

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

    def median(self, windowed: bool) -> float | None:
        """Over the layers with a window, or those without one; None where there are none."""
        return statistics.median(self.taken[windowed]) if self.taken[windowed] else None


def clock(device: torch.device) -> float:
    """Seconds of the processor; of an accelerator those of the clock, after what it still does."""
    finish(device)
    return time.process_time() if device.type == "cpu" else time.perf_counter()


def bench_long(
    name: str, lengths: Sequence[int], device: str = "auto", done: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Measure one text of each length. `done` is called for each length and program.

    Raises RequestError for a model's name that means nothing, a device that is not there, and a length that the model
    has no room for.
    """
    data = architecture(name)[1]
    check_lengths(name, ModelConfig.from_dict(data), lengths)
    contestants = Contestants(name, data, device)
    where = contestants.model.device
    machine = machine_document(where)
    with one_thread():
        rows = [measured(contestants, length, done) for length in lengths]
    return {
        "versions": {name: version(name) for name in (OURS, "torch", "transformers")},
        "device": str(where),
        "machine": machine,
        "dtype": "float32",
        "threads": 1,
        "model": name,
        "models": [architecture_document(Case(name, data, Shape(1, max(lengths), 1, 1), 1))],
        "weights": "random",
        "windows": [reach for reach in contestants.config.reach if reach is not None],
        "rows": rows,
    }


def check_lengths(name: str, config: ModelConfig, lengths: Sequence[int]) -> None:
    """Raises RequestError for one that is less than a token, or more than the model takes."""
    for length in lengths:
        if not 0 < length <= config.max_tokens:
            raise RequestError(f"--tokens {length}: {name} takes 1 to {config.max_tokens} tokens at a time")


def measured(contestants: Contestants, length: int, done: Callable[[], None]) -> dict[str, Any]:
    """A row of the document: one text of so many tokens."""
    model, timed = contestants.model, Timed(contestants.model.device)
    texts = random_texts(contestants.config, Shape(1, length, 1, 1))

    def ours() -> None:
        with torch.inference_mode():
            for _ in model.walk(model.rows(texts, "padding"), [timed]):
                pass

    given = padded(texts, 1, contestants.config.pad_id, model.device)
    runs: dict[str, Run] = {OURS: ours}
    runs.update({name: partial(run_peer, network, given) for name, network in contestants.peers.items()})
    if not eager_fits(contestants, length):
        del runs[EAGER]
    taken: dict[str, tuple[float, int | None]] = {}
    for name, run in runs.items():
        taken[name] = seconds_and_peak(run, model.device)
        done()
    local, everywhere = timed.median(True), timed.median(False)
    return {
        "tokens": length,
        "seconds": {name: taken[name][0] if name in taken else None for name in PROGRAMS},
        "peak_bytes": {name: taken[name][1] if name in taken else None for name in PROGRAMS},
        "eager_score_bytes": contestants.config.heads * length**2 * NUMBER,
        "layer_seconds": {"local": local, "global": everywhere},
        "saved": None if local is None or everywhere is None else everywhere / local,
    }


def eager_fits(contestants: Contestants, length: int) -> bool:
    """Whether there is memory for the scores of one of its layers."""
    there = available() if contestants.model.device.type == "cpu" else None
    return there is None or SCORES * contestants.config.heads * length**2 * NUMBER <= there


def seconds_and_peak(run: Run, device: torch.device) -> tuple[float, int | None]:
    """Both of one run."""
    seconds = 0.0

    def timed() -> None:
        nonlocal seconds
        begun = clock(device)
        run()
        seconds = clock(device) - begun

    peak = peak_added(timed, device)
    return seconds, peak


# --- the table --------------------------------------------------------------------------------------------

COLUMNS = (
    *("attncli\ns", "eager\ns", "SDPA\ns"),
    *("attncli\nMB", "eager\nMB", "SDPA\nMB"),
    *("local\nms", "global\nms", "global\nof local"),
)


def long_table(document: dict[str, Any]) -> Table:
    """Return a line for each length."""
    table = plain_table("tokens", *COLUMNS, goes=("eager\nMB", "SDPA\nMB", "attncli\nMB"))
    for row in document["rows"]:
        seconds, peaks, layers = row["seconds"], row["peak_bytes"], row["layer_seconds"]
        table.add_row(
            f"{row['tokens']:,}",
            *(number(seconds[name]) for name in PROGRAMS),
            *("-" if seconds[name] is None else megabytes(peaks[name]) for name in PROGRAMS),
            *("-" if layers[name] is None else three_digits(layers[name] * 1e3) for name in ("local", "global")),
            number(row["saved"]),
        )
    return table


def number(value: float | None) -> str:
    return "-" if value is None else three_digits(value)


def long_legend(document: dict[str, Any]) -> Prose:
    """Say what the columns mean, and what it was measured on."""
    [model], windows = document["models"], document["windows"]
    near = f", of which {len(windows)} see {max(windows)} tokens to each side" if windows else ""
    largest = max(row["eager_score_bytes"] for row in document["rows"])
    whose = "of the processor" if document["device"] == "cpu" else "of the clock"
    return Prose(
        f"\n{printable(document['model'])}, {model['layers']} layers x {model['heads']} heads{near}. "
        f"s: seconds {whose}, for one whole walk that keeps no maps; MB: the peak of what it adds to the memory in "
        "use. -: the model has none, or there is no memory for it: eager attention has several copies of a layer's "
        f"scores, {largest / 1e9:.2g} GB each at the longest.\n"
        "local, global: one layer's attention with a window and without one, median over layers; of local: how many "
        "times as long a global one takes.\n"
        f"One run each, random weights, float32, {document['device']}, 1 thread; {machine_text(document['machine'])}; "
        + ", ".join(f"{name} {release}" for name, release in document["versions"].items())
        + "."
    )


def main() -> None:
    """Measure, and print a table or a JSON document."""
    asked = argparse.ArgumentParser(description="Measure the time and memory of long texts beside transformers.")
    asked.add_argument("-m", "--model", default="modernbert")
    asked.add_argument("--tokens", default="2048,8192", help="lengths, with commas between them")
    asked.add_argument("--device", default="auto")
    asked.add_argument("--json", action="store_true")
    options = asked.parse_args()
    document = bench_long(options.model, [int(length) for length in options.tokens.split(",")], options.device)
    if options.json:
        json.dump(document, sys.stdout)
    else:
        Console().print(long_table(document), long_legend(document))


if __name__ == "__main__":
    main()
