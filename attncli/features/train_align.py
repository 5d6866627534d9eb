"""Train the networks that `align` translates dates with, and measure them."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from attncli.base import choices
from attncli.base.files import make_folder
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
        make_folder(self.folder)
        import torch

        from attncli.align.checkpoint import Checkpoint, build, load, save
        from attncli.align.dates import draw_date, draw_no_date
        from attncli.align.train import STEPS, share_exact, train

        # More threads gain nothing with networks this small, and with one the weights don't depend on their number.
        torch.set_num_threads(1)
        steps = STEPS[self.attention] if self.steps is None else self.steps
        network, generator = build(self.attention, self.seed), random.Random(0)
        validation = [draw_date("validation", generator) for _ in range(VALIDATION)]
        with progress(steps, self.attention) as advance:
            for step, loss in enumerate(train(network, self.seed, steps), 1):
                line = f"{self.attention}: step {step}/{steps}  loss {loss:.5f}"
                advance(text=line)
                if step % EVERY == 0 or step == steps:
                    notify(f"{line}  exact {share_exact(network, validation):.1%}")
        path = self.folder / f"{self.attention}.safetensors"
        save(Checkpoint(path, self.attention, self.seed, steps, network))
        network = load(self.folder, self.attention).network  # rounded to half precision
        dates = share_exact(network, [draw_date("test", generator) for _ in range(TEST)])
        no_dates = share_exact(network, [draw_no_date("test", generator) for _ in range(TEST_NO_DATES)])
        return Report(
            [str(path)],
            [
                Sentence(f"  {dates:.2%} of {TEST:,} dates never seen are exact"),
                Sentence(f"  {no_dates:.2%} of {TEST_NO_DATES} texts that are no date are exact"),
            ],
            lambda: {"exact": dates, "no_dates": no_dates},
            next=NextCommand("align", {"attention": self.attention, "weights": self.folder}),
        )
