"""Train the networks that `align` translates dates with, and measure them."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.progress import Progress, silent
from attncli.features.feature import Feature
from attncli.features.inputs import notify
from attncli.features.options import MODEL, OUTPUT, choice, option
from attncli.report import NextCommand, Report, Sentence

if TYPE_CHECKING:
    from attncli.align.train import Tried


@dataclass(eq=False)
class TrainAlign(Feature):
    """Train one kind of attention to translate dates, and measure it.

    It is measured on 2,000 dates that it never saw, and on 500 dates and 500 texts that are none: how many are wrong,
    and how many of these without a doubt. Writes ATTENTION.safetensors, which `attncli align --weights DIR` uses,
    at the end. The same seed and number of steps give the same weights, on one kind of processor.

    \b
    Examples:
      attncli train-align --attention additive --seed 0
      attncli train-align --attention dot --minutes 1 -o weights
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
    minutes: Annotated[
        float, option(MODEL, "--minutes", metavar="X", min=0.0, help="Stop after so long, with the weights so far.")
    ] = 5.0
    steps: Annotated[
        int | None,
        option(MODEL, "--steps", metavar="N", min=1, help="Batches to train on.", show_default="what the kind needs"),
    ] = None

    def report(self, progress: Progress = silent) -> Report:
        _make_folder(self.folder)
        import torch

        from attncli.align import checkpoint, train

        # More threads gain nothing with networks this small, and with one the weights don't depend on their number.
        torch.set_num_threads(1)
        steps = train.STEPS[self.attention] if self.steps is None else self.steps
        training = train.Training(self.attention, self.seed, steps)
        begun = time.monotonic()
        try:
            with progress(steps, self.attention) as advance:

                def show(loss: float, exact: float | None) -> None:
                    line = f"{self.attention}: step {training.about.step}/{steps}  loss {loss:.5f}"
                    advance(text=line)
                    if exact is not None:
                        notify(f"{line}  exact {exact:.1%}")

                train.train(training, self.folder, self.minutes, show)
        except KeyboardInterrupt:
            notify(f"interrupted at step {training.about.step} of {steps}: no weights were saved")
            raise
        if not training.finished:
            after = f"{self.minutes:g} minutes are over at step {training.about.step} of {steps}"
            notify(f"{after}: the weights so far are saved")
        taken = (time.monotonic() - begun) / 60
        path = checkpoint.weights_path(self.folder, self.attention)
        exact, dates, no_dates = train.measure(self.attention, self.folder)
        parameters = sum(parameter.numel() for parameter in training.network.parameters())
        return Report(
            [str(path)],
            [
                Sentence(
                    f"  {exact:.2%} of {train.TEST:,} dates never seen are exact; {parameters:,} "
                    f"parameters, {path.stat().st_size / 1e6:.2f} MB, {taken:.1f} minutes"
                ),
                Sentence(_describe("dates", dates)),
                Sentence(_describe("texts that are no date", no_dates)),
            ],
            lambda: {"exact": exact, "dates": dates._asdict(), "no_dates": no_dates._asdict()},
            next=NextCommand("translate with it", "align", {"attention": self.attention, "weights": self.folder})
            if training.finished
            else None,
        )


def _make_folder(folder: Path) -> None:
    """Make the folder if it is missing. Raises RequestError if nothing can be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"can't make the folder {folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise RequestError(f"can't write into {folder}: give another folder with -o")


def _describe(name: str, tried: "Tried") -> str:
    """Describe the outcomes of some texts in one line."""
    wrong = tried.texts - tried.right
    return (
        f"  of {tried.texts:,} {name} {tried.right:,} are right ({tried.doubted:,} of them doubted), {wrong:,} wrong, "
        f"{tried.silent:,} of these without a doubt"
    )
