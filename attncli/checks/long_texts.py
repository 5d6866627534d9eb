"""Long texts beside transformers: python -m attncli.checks.long_texts MODEL LENGTHS [PROGRAMS]

MODEL: one with windows (ModernBERT), by what `random_model` takes; its weights are random. LENGTHS in tokens:
"512,1024"; PROGRAMS: some of "attncli,sdpa,eager", by default all.

Prints a line for each length and program: the seconds and the MB at its peak that a whole walk adds, no maps kept, and,
of attncli, the milliseconds of one layer's attention with a window and without one (medians over layers). Seconds are
those of the processor, on one thread, so that what else a machine does counts for little.
"""

import statistics
import sys
import time

import torch
from torch import Tensor

from attncli.checks.contestants import PEERS, Contestants, Shape, padded, random_texts, run_peer
from attncli.checks.memory import peak_added
from attncli.models.attending import attend_heads
from attncli.models.random import architecture
from attncli.models.walk import Heads, walk
from attncli.text.tokens import Tokens

OURS = "attncli"


class Timed:
    """What the attention of every layer takes, in milliseconds, by whether it has a window."""

    def __init__(self) -> None:
        self.taken: dict[bool, list[float]] = {True: [], False: []}

    def __call__(self, heads: Heads, weights: Tensor | None = None) -> Tensor:
        begun = time.process_time()
        output = attend_heads(heads, weights)
        self.taken[heads.window is not None].append(1000 * (time.process_time() - begun))
        return output


def measured(three: Contestants, texts: list[Tokens], program: str) -> str:
    """One line."""
    model, timed, seconds = three.model, Timed(), 0.0
    batches = padded(texts, 1, three.config.pad_id, model.device)

    def run() -> None:
        nonlocal seconds
        begun = time.process_time()
        with torch.inference_mode():
            if program == OURS:
                for _ in walk(model.network, model.rows(texts, "padding"), timed):
                    pass
            else:
                run_peer(three.peers[program], batches)
        seconds = time.process_time() - begun

    peak = peak_added(run, model.device)
    megabytes = "-" if peak is None else f"{peak / 1e6:.0f}"
    layers = [f"{statistics.median(taken):.1f}" if taken else "-" for taken in timed.taken.values()]
    return f"{len(texts[0]):6}  {program:8}{seconds:8.2f}{megabytes:>8}{layers[0]:>10}{layers[1]:>10}\n"


def main(name: str, lengths: str, programs: str = ",".join((OURS, *PEERS))) -> None:
    torch.set_num_threads(1)
    three = Contestants(name, architecture(name)[1], "cpu")
    sys.stdout.write("tokens  program        s      MB  local ms global ms\n")
    for length in map(int, lengths.split(",")):
        texts = random_texts(three.config, Shape(1, length, 1, 1))
        for program in programs.split(","):
            sys.stdout.write(measured(three, texts, program))
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
