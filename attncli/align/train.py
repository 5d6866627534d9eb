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
from attncli.align.checkpoint import SIZES, About, Sizes, build, save, weights_path
from attncli.align.dates import draw, draw_no_date, is_date
from attncli.align.networks import Network
from attncli.align.translate import Aligner, load_aligner

STEPS = {"additive": 4000, "dot": 4000, "general": 4000, "concat": 3000, "transformer": 5000}
BATCH = 64  # dates per step
RATE = 2e-3  # Adam's highest learning rate
WARM_UP = 0.05  # the share of the steps in which it rises to that
CLIP = 1.0  # the largest norm of a gradient
NO_DATES = 0.4  # the share of texts that are no date
OUTSIDERS = 0.06  # the share with a meaningless character before or after the date
EVERY = 100  # steps between measurements on the validation part
VALIDATION = 200  # dates
OUTSIDER = "\N{CALENDAR}"


class Training:
    """A network in training: `step` of `steps` are done.

    Everything follows from attention, seed, steps and sizes. Batch number n is drawn with a generator of its own.
    """

    def __init__(self, attention: str, seed: int, steps: int, sizes: Sizes | None = None) -> None:
        self.about = About(attention, seed, 0, steps, SIZES[attention] if sizes is None else sizes)
        self.network = build(attention, self.about.sizes, seed)
        self.optimizer = torch.optim.Adam(self.network.parameters())

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
        """Write the weights in half precision."""
        tensors = {name: tensor.half() for name, tensor in self.network.state_dict().items()}
        save(weights_path(folder, self.about.attention), self.about, tensors)


def train(training: Training, folder: Path, minutes: float, show: Callable[[float, float | None], None]) -> None:
    """Train to the last step or until the minutes are over, and save the weights in `folder`.

    show: is called after every step with the loss of its batch and, every EVERY steps and at the end, the share of the
    validation part that is exact. An interruption saves nothing.
    """
    deadline = time.monotonic() + 60 * minutes
    late = False
    while not training.finished and not late:
        loss, exact = training.advance(), None
        late = time.monotonic() > deadline
        if training.about.step % EVERY == 0 or training.finished or late:
            exact = share_exact(training.network, draw("validation", VALIDATION, random.Random(0)))
        show(loss, exact)
    training.save(folder)


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
