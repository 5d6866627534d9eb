"""Training an aligner: batches of dates and of texts that are none, teacher forcing, Adam."""

import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.align.characters import PAD, Batch, batch, targets
from attncli.align.checkpoint import SIZES, About, Sizes, build, load, restore, save, training_path, weights_path
from attncli.align.dates import draw
from attncli.align.measure import share_exact
from attncli.align.network import Network
from attncli.align.no_dates import draw_no_date
from attncli.base.errors import RequestError

STEPS = {"additive": 4000, "dot": 4000, "general": 4000, "concat": 3000, "transformer": 5000}
BATCH = 64  # dates a step
RATE = 2e-3  # Adam's learning rate at its highest
WARM_UP = 0.05  # the share of the steps in which it rises to that
CLIP = 1.0  # the largest norm of a gradient
NO_DATES = 0.4  # the share of texts that are no date
OUTSIDERS = 0.06  # the share with a character before or after the date that says nothing
EVERY = 100  # steps between looks at the validation part, and between checkpoints
VALIDATION = 200  # dates
OUTSIDER = "\N{CALENDAR}"
MOMENTS = ("exp_avg", "exp_avg_sq")  # what Adam remembers of each parameter's gradient


class Progress(NamedTuple):
    """How a training goes: `step` of `steps`, the last batch's loss, and the share exact of the validation part.

    exact: as it was when last looked at, None before. looked: whether that was at this very step.
    """

    step: int
    steps: int
    loss: float
    exact: float | None
    looked: bool


class Training:
    """A network on its way: `step` of `steps` are done.

    Everything follows from attention, seed, steps and sizes: batch number n is drawn with a generator of its own, so a
    training that was interrupted goes on as if it had not been.
    """

    def __init__(self, attention: str, seed: int, steps: int, sizes: Sizes | None = None) -> None:
        self.about = About(attention, seed, 0, steps, SIZES[attention] if sizes is None else sizes)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = build(attention, self.about.sizes)
        self.optimizer = torch.optim.Adam(self.network.parameters())

    def advance(self) -> float:
        """One step of training; returns the loss of its batch, in nats a character."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.about.step, self.about.steps)
        texts, outputs = training_batch(self.about.seed, self.about.step)
        loss = loss_of(self.network, batch(texts), targets(outputs))
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), CLIP)
        self.optimizer.step()
        self.about = replace(self.about, step=self.about.step + 1)
        return loss.item()

    @property
    def finished(self) -> bool:
        return self.about.step >= self.about.steps

    def save(self, folder: Path) -> None:
        """Write the weights, and beside them what it takes to go on, which a finished training no longer needs."""
        weights = self.network.state_dict()
        save(weights_path(folder, self.about.attention), self.about, {name: t.half() for name, t in weights.items()})
        memory = training_path(folder, self.about.attention)
        if self.finished:
            memory.unlink(missing_ok=True)
        else:
            save(memory, self.about, {f"{kind}.{name}": t for kind, name, t in self.state()})

    def state(self) -> Iterator[tuple[str, str, Tensor]]:
        """Every parameter, and Adam's two averages of its gradient: (which of the three, the parameter's name, it)."""
        for name, parameter in self.network.named_parameters():
            yield "weight", name, parameter.detach()
            for kind in MOMENTS:
                yield kind, name, self.optimizer.state[parameter][kind]

    @classmethod
    def resume(cls, folder: Path, attention: str, seed: int, steps: int) -> "Training":
        """The training that was saved in `folder`. Raises RequestError when there is none, or it had other settings."""
        path = training_path(folder, attention)
        if not path.is_file():
            raise RequestError(f"{path} is missing: there is no {attention} training to resume; leave out --resume")
        about, tensors = load(path)
        if (about.attention, about.seed, about.steps) != (attention, seed, steps):
            raise RequestError(f"{path} was begun with --seed {about.seed} --steps {about.steps}: resume with these")
        parts = {
            kind: {name.removeprefix(f"{kind}."): t for name, t in tensors.items() if name.startswith(f"{kind}.")}
            for kind in ("weight", *MOMENTS)
        }
        training = cls(attention, seed, steps, about.sizes)
        training.about = about
        restored = {kind: restore(path, about, part).state_dict() for kind, part in parts.items()}
        training.network.load_state_dict(restored["weight"])
        for name, parameter in training.network.named_parameters():
            moments = {kind: restored[kind][name] for kind in MOMENTS}
            training.optimizer.state[parameter] = {"step": torch.tensor(float(about.step)), **moments}
        return training


def train(training: Training, folder: Path, minutes: float, report: Callable[[Progress], None]) -> None:
    """Train to the last step or until the minutes are over, and save the weights in `folder`.

    `report` is called after every step. Every EVERY steps the validation part is looked at and a checkpoint written;
    an interruption leaves the last one, whole.
    """
    deadline = time.monotonic() + 60 * minutes
    exact = None
    while not training.finished:
        loss = training.advance()
        late = time.monotonic() > deadline
        looked = training.about.step % EVERY == 0 or training.finished or late
        if looked:
            exact = share_exact(training.network, draw("validation", VALIDATION, random.Random(0)))
            training.save(folder)
        report(Progress(training.about.step, training.about.steps, loss, exact, looked))
        if late:
            break


def learning_rate(step: int, steps: int) -> float:
    """Up to RATE in the first WARM_UP of the steps, then down to 0 along a cosine (Loshchilov and Hutter 2017)."""
    warm = max(1, round(WARM_UP * steps))
    if step < warm:
        return RATE * (step + 1) / warm
    return RATE * 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))


def training_batch(seed: int, step: int) -> tuple[list[str], list[str]]:
    """The texts of one step, and what is to be written for each, always the same for a seed and a step."""
    generator = random.Random(f"{seed} {step}")
    texts, outputs = [], []
    for text, output in draw("train", BATCH, generator):
        chance = generator.random()
        if chance < NO_DATES:
            text, output = draw_no_date("train", generator)
        elif chance < NO_DATES + OUTSIDERS:
            text = generator.choice([f"{OUTSIDER}{text}", f"{text}{OUTSIDER}", f"{text}.", f"{text},"])
        texts.append(text)
        outputs.append(output)
    return texts, outputs


def loss_of(network: Network, texts: Batch, outputs: Tensor) -> Tensor:
    """Cross-entropy of each next character, given the true ones before it (teacher forcing); the mean, in nats."""
    logits = network.decode(network.encode(texts), outputs[:, :-1]).logits  # [batch, query, characters]
    return F.cross_entropy(logits.flatten(0, 1), outputs[:, 1:].flatten(), ignore_index=PAD)
