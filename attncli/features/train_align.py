"""Train the networks that `align` translates dates with, and measure them."""

import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.progress import Progress, silent
from attncli.features.feature import Feature
from attncli.features.inputs import notify
from attncli.features.options import MODEL, OUTPUT, choice, option
from attncli.report import NextCommand, Report, Sentence

EVERY = 100  # steps between measurements on the validation part
VALIDATION = 200  # dates to measure on then
TEST = 2000  # dates to measure on at the end
TEST_NO_DATES = 500  # texts that are no date


@dataclass(eq=False)
class TrainAlign(Feature):
    """Train one kind of attention to translate dates, and measure it.

    It is measured on 2,000 dates that it never saw, and on 500 texts that are no date. Writes ATTENTION.safetensors,
    which `attncli align --weights DIR` uses, at the end. The same seed and number of steps give the same weights, on
    one kind of processor.

    \b
    Examples:
      attncli train-align --attention additive --seed 0
      attncli train-align --attention dot --steps 1000 -o weights
    """

    group = "The program itself"
    saves = ()
    json = False

    attention: Annotated[choices.Attention, choice(MODEL, choices.Attention, "--attention", help="What to train: ")] = (
        "additive"
    )
    seed: Annotated[int, option(MODEL, "--seed", metavar="N", min=0, max=2**63 - 1, help="Of everything random.")] = 0
    folder: Annotated[
        Path, option(OUTPUT, "--output", "-o", metavar="DIR", help="The folder for the weights.", show_default="here")
    ] = Path()
    steps: Annotated[
        int | None,
        option(MODEL, "--steps", metavar="N", min=1, help="Batches to train on.", show_default="what the kind needs"),
    ] = None

    def report(self, progress: Progress = silent) -> Report:
        _make_folder(self.folder)
        import torch

        from attncli.align import checkpoint
        from attncli.align.dates import draw, draw_no_date
        from attncli.align.train import STEPS, share_exact, train

        # More threads gain nothing with networks this small, and with one the weights don't depend on their number.
        torch.set_num_threads(1)
        steps = STEPS[self.attention] if self.steps is None else self.steps
        network, begun = checkpoint.build(self.attention, self.seed), time.monotonic()
        with progress(steps, self.attention) as advance:
            for step, loss in enumerate(train(network, self.seed, steps), 1):
                line = f"{self.attention}: step {step}/{steps}  loss {loss:.5f}"
                advance(text=line)
                if step % EVERY == 0 or step == steps:
                    exact = share_exact(network, draw("validation", VALIDATION, random.Random(0)))
                    notify(f"{line}  exact {exact:.1%}")
        taken = (time.monotonic() - begun) / 60
        path = checkpoint.weights_path(self.folder, self.attention)
        checkpoint.save(path, checkpoint.About(self.attention, self.seed, steps), network)
        _, network = checkpoint.load(path)  # rounded to half precision
        generator = random.Random(0)
        dates = share_exact(network, draw("test", TEST, generator))
        no_dates = share_exact(network, [draw_no_date("test", generator) for _ in range(TEST_NO_DATES)])
        parameters = sum(parameter.numel() for parameter in network.parameters())
        return Report(
            [str(path)],
            [
                Sentence(
                    f"  {dates:.2%} of {TEST:,} dates never seen are exact; {parameters:,} parameters, "
                    f"{path.stat().st_size / 1e6:.2f} MB, {taken:.1f} minutes"
                ),
                Sentence(f"  {no_dates:.2%} of {TEST_NO_DATES} texts that are no date are exact"),
            ],
            lambda: {"exact": dates, "no_dates": no_dates},
            next=NextCommand("align", {"attention": self.attention, "weights": self.folder}),
        )


def _make_folder(folder: Path) -> None:
    """Make the folder if it is missing. Raises RequestError if nothing can be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"can't make the folder {folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise RequestError(f"can't write into {folder}: give another folder with -o")
