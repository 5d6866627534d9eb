"""attncli train-align: make the weights that align translates dates with."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.cli import hints, options, output

if TYPE_CHECKING:
    from attncli.align.measure import Tried
    from attncli.align.train import Progress


def train_align(
    context: typer.Context,
    attention: Annotated[
        choices.Attention, options.choice(options.MODEL, choices.Attention, "--attention", help="What to train: ")
    ] = "additive",
    seed: Annotated[
        int,
        options.option(
            options.MODEL, "--seed", metavar="N", min=0, max=2**63 - 1, help="What all chance follows from."
        ),
    ] = 0,
    folder: Annotated[
        Path,
        options.option(
            options.OUTPUT, "--output", "-o", metavar="DIR", help="The folder for the weights.", show_default="here"
        ),
    ] = Path(),
    minutes: Annotated[
        float,
        options.option(
            options.MODEL, "--minutes", metavar="X", min=0.0, help="Stop after so long; --resume goes on from there."
        ),
    ] = 5.0,
    steps: Annotated[
        int | None,
        options.option(
            options.MODEL,
            "--steps",
            metavar="N",
            min=1,
            help="Batches to train on.",
            show_default="what the kind needs",
        ),
    ] = None,
    resume: Annotated[
        bool, options.option(options.MODEL, "--resume", help="Go on with a training that was interrupted.")
    ] = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Train one kind of attention to translate dates, and measure it.

    It is measured on 2,000 dates that it never saw, and on 500 dates and 500 texts that are none: how many are wrong,
    and how many of these without a doubt. Writes ATTENTION.safetensors, which `attncli align --weights DIR` uses;
    while training, every 100 steps, along with ATTENTION.training.safetensors, which --resume goes on from. The same
    seed and number of steps give the same weights, on one kind of processor.

    \b
    Examples:
      attncli train-align --attention additive --seed 0
      attncli train-align --attention dot --minutes 1 -o weights
      attncli train-align --attention dot -o weights --resume
    """
    check_folder(folder)
    import torch

    from attncli.align import checkpoint, measure, train

    # More threads gain nothing with networks this small, and with one the weights don't depend on how many there are.
    torch.set_num_threads(1)
    path = checkpoint.weights_path(folder, attention)
    steps = train.STEPS[attention] if steps is None else steps
    training = (
        train.Training.resume(folder, attention, seed, steps) if resume else train.Training(attention, seed, steps)
    )
    begun = time.monotonic()
    try:
        with reported(attention, training.about.step, steps) as report:
            train.train(training, folder, minutes, report)
    except KeyboardInterrupt:
        kept = resume or training.about.step >= train.EVERY
        output.say(
            f"attncli: interrupted at step {training.about.step} of {steps}"
            + (f"; the last checkpoint is in {folder}: go on with --resume" if kept else ", before any checkpoint")
        )
        raise
    if not training.finished:
        output.say(
            f"attncli: {minutes:g} minutes are over at step {training.about.step} of {steps}: go on with --resume"
        )
    parameters = sum(parameter.numel() for parameter in training.network.parameters())
    minutes_taken = (time.monotonic() - begun) / 60
    measured = measure.measure(path)
    output.data(
        f"{path}: {measured.exact:.2%} of {measure.TEST:,} dates never seen are exact; {parameters:,} parameters, "
        f"{path.stat().st_size / 1e6:.2f} MB, {minutes_taken:.1f} minutes"
    )
    output.data(counts("dates", measured.dates))
    output.data(counts("texts that are no date", measured.no_dates))
    if training.finished:
        hints.offer(context, "translate with it", "align", attention=attention, weights=folder)


def counts(what: str, tried: "Tried") -> str:
    """What became of texts of a kind, in one line."""
    wrong = tried.texts - tried.right
    return (
        f"  of {tried.texts:,} {what} {tried.right:,} are right ({tried.doubted:,} of them doubted), {wrong:,} wrong, "
        f"{tried.silent:,} of these without a doubt"
    )


def check_folder(folder: Path) -> None:
    """Make the folder if it is not there. Raises RequestError when nothing can be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"can't make the folder {folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise RequestError(f"can't write into {folder}: give another folder with -o")


@contextmanager
def reported(what: str, done: int, steps: int) -> "Iterator[Callable[[Progress], None]]":
    """How a training goes, on stderr: a bar on a terminal, else a line at every look at the validation part."""
    if not output.shows_progress():
        yield lambda now: output.say(f"{what}: {described(now)}") if now.looked else None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[now]}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=steps, completed=done, now="")
        yield lambda now: bar.update(task, completed=now.step, now=described(now))


def described(now: "Progress") -> str:
    """Where a training stands, in one line."""
    exact = "" if now.exact is None else f"  exact {now.exact:.1%}"
    return f"step {now.step}/{now.steps}  loss {now.loss:.5f}{exact}"
