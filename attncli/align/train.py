"""Train an aligner (dates and texts that are none, teacher forcing, Adam), and measure how good it is."""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.align.characters import PAD, sources, targets
from attncli.align.checkpoint import SIZES, About, Sizes, build, load, restore, save, training_path, weights_path
from attncli.align.dates import draw, draw_no_date, is_date
from attncli.align.networks import Network
from attncli.align.translate import Aligner, load_aligner
from attncli.base.errors import RequestError

STEPS = {"additive": 4000, "dot": 4000, "general": 4000, "concat": 3000, "transformer": 5000}
BATCH = 64  # dates per step
RATE = 2e-3  # Adam's highest learning rate
WARM_UP = 0.05  # the share of the steps in which it rises to that
CLIP = 1.0  # the largest norm of a gradient
NO_DATES = 0.4  # the share of texts that are no date
OUTSIDERS = 0.06  # the share with a meaningless character before or after the date
EVERY = 100  # steps between measurements on the validation part, and between checkpoints
VALIDATION = 200  # dates
OUTSIDER = "\N{CALENDAR}"
MOMENTS = ("exp_avg", "exp_avg_sq")  # Adam's averages of each parameter's gradient


class Training:
    """A network in training: `step` of `steps` are done.

    Everything follows from attention, seed, steps and sizes. Batch number n is drawn with a generator of its own, so a
    resumed training equals an uninterrupted one.
    """

    def __init__(self, attention: str, seed: int, steps: int, sizes: Sizes | None = None) -> None:
        self.about = About(attention, seed, 0, steps, SIZES[attention] if sizes is None else sizes)
        self.network = build(attention, self.about.sizes, seed)
        self.optimizer = torch.optim.Adam(self.network.parameters())

    @classmethod
    def resume(cls, folder: Path, attention: str, seed: int, steps: int) -> "Training":
        """Return the training that was saved in `folder`. Raises RequestError for none, or one with other settings."""
        path = training_path(folder, attention)
        if not path.is_file():
            raise RequestError(f"{path} is missing: there is no {attention} training to resume; leave out --resume")
        about, tensors = load(path)
        if (about.attention, about.seed, about.steps) != (attention, seed, steps):
            raise RequestError(f"{path} was begun with --seed {about.seed} --steps {about.steps}: resume with these")
        weight, *moments = (
            {name.removeprefix(f"{kind}."): t for name, t in tensors.items() if name.startswith(f"{kind}.")}
            for kind in ("weight", *MOMENTS)
        )
        training = cls(attention, seed, steps, about.sizes)
        training.about = about
        training.network.load_state_dict(restore(path, about, weight).state_dict())
        checked = [dict(restore(path, about, moment).state_dict()) for moment in moments]
        for name, parameter in training.network.named_parameters():
            averages = {kind: moment[name] for kind, moment in zip(MOMENTS, checked, strict=True)}
            training.optimizer.state[parameter] = {"step": torch.tensor(float(about.step)), **averages}
        return training

    @property
    def finished(self) -> bool:
        return self.about.step >= self.about.steps

    def advance(self) -> float:
        """Train on one batch. Returns its loss, in nats per character."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.about.step, self.about.steps)
        loss = loss_of(self.network, *training_batch(self.about.seed, self.about.step))
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), CLIP)
        self.optimizer.step()
        self.about = replace(self.about, step=self.about.step + 1)
        return loss.item()

    def save(self, folder: Path) -> None:
        """Write the weights and, unless the training is finished, the state to resume from."""
        attention, weights = self.about.attention, self.network.state_dict()
        save(weights_path(folder, attention), self.about, {name: tensor.half() for name, tensor in weights.items()})
        if self.finished:
            training_path(folder, attention).unlink(missing_ok=True)
            return
        state = {f"weight.{name}": parameter.detach() for name, parameter in self.network.named_parameters()}
        for name, parameter in self.network.named_parameters():
            state |= {f"{kind}.{name}": self.optimizer.state[parameter][kind] for kind in MOMENTS}
        save(training_path(folder, attention), self.about, state)


def train(training: Training, folder: Path, minutes: float, show: Callable[[float, float | None], None]) -> None:
    """Train to the last step or until the minutes are over, and save the weights in `folder`.

    Every EVERY steps a checkpoint is written. show: is called after every step with the loss of its batch and, with a
    checkpoint, the share of the validation part that is exact. An interruption leaves the last checkpoint, whole.
    """
    deadline = time.monotonic() + 60 * minutes
    late = False
    while not training.finished and not late:
        loss, exact = training.advance(), None
        late = time.monotonic() > deadline
        if training.about.step % EVERY == 0 or training.finished or late:
            exact = share_exact(training.network, draw("validation", VALIDATION, random.Random(0)))
            training.save(folder)
        show(loss, exact)


def learning_rate(step: int, steps: int) -> float:
    """Rise to RATE in the first WARM_UP of the steps, then fall to 0 along a cosine (Loshchilov and Hutter 2017)."""
    warm = max(1, round(WARM_UP * steps))
    if step < warm:
        return RATE * (step + 1) / warm
    return RATE * 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))


def training_batch(seed: int, step: int) -> tuple[list[str], list[str]]:
    """Draw the texts of one step and their outputs, always the same ones for a seed and a step."""
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


def predict(network: Network, texts: Sequence[str], outputs: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return the logits of each next character, given the true ones before (teacher forcing), and that character."""
    numbers = targets(outputs)
    memory: Any = network.encode(sources(texts))
    return network.decode(memory, numbers[:, :-1]).logits, numbers[:, 1:]


def loss_of(network: Network, texts: Sequence[str], outputs: Sequence[str]) -> Tensor:
    """Return the mean cross-entropy, in nats, of each next character."""
    logits, true = predict(network, texts, outputs)
    return F.cross_entropy(logits.flatten(0, 1), true.flatten(), ignore_index=PAD)


# --- measuring ------------------------------------------------------------------------------------------

TEST = 2000  # dates
TRIED = 500  # dates, and as many texts that are none, whose doubts are counted
TOGETHER = 250  # texts at a time


class Tried(NamedTuple):
    """Counts of texts: `right` ones, `doubted` right dates, and `silent` ones, which are wrong without a doubt.

    A date is right if it was written. A text that is none is right if no date of 1950 to 2049 was written.
    """

    texts: int
    right: int
    doubted: int
    silent: int


@torch.no_grad()
def share_exact(network: Network, pairs: Sequence[tuple[str, str]]) -> float:
    """Return the share of (text, output) whose greedy translation is the output with its end.

    Greedy decoding writes exactly the output if and only if each of its characters, and the end, is the likeliest
    after the true ones before it. So one teacher-forced pass is enough.
    """
    right = 0
    for start in range(0, len(pairs), TOGETHER):
        texts, outputs = zip(*pairs[start : start + TOGETHER], strict=True)
        logits, true = predict(network, texts, outputs)
        right += int(((logits.argmax(dim=-1) == true) | (true == PAD)).all(dim=-1).sum())
    return right / len(pairs)


def measure(attention: str, folder: Path) -> tuple[float, Tried, Tried]:
    """Return the share of TEST dates that the weights in a folder write exactly, and the outcomes of TRIED dates and of
    as many texts that are none. The texts are always the same ones of the test part.

    Raises RequestError as `load_aligner`.
    """
    aligner = load_aligner(attention, folder)
    generator = random.Random(0)
    exact = share_exact(aligner.network, draw("test", TEST, generator))
    dates = draw("test", TRIED, generator)
    no_dates = [draw_no_date("test", generator) for _ in range(TRIED)]
    return exact, tried(aligner, dates), tried(aligner, no_dates)


def tried(aligner: Aligner, pairs: Sequence[tuple[str, str]]) -> Tried:
    """Translate the texts of (text, output), and count the outcomes."""
    right = doubted = silent = 0
    for one, (_, output) in zip(aligner.translate_together([text for text, _ in pairs]), pairs, strict=True):
        if one.date == (output if is_date(output) else None):
            right += 1
            doubted += is_date(output) and one.doubt is not None
        else:
            silent += one.doubt is None
    return Tried(len(pairs), right, doubted, silent)
