"""Train a network (dates and texts that are none, teacher forcing, Adam), and measure how good it is."""

import random
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import OneCycleLR

from attncli.align.characters import PAD, sources, targets
from attncli.align.dates import draw_date, draw_no_date
from attncli.align.networks import Network

STEPS = {"additive": 4000, "dot": 4000, "general": 4000, "concat": 3000, "transformer": 5000}
BATCH = 64  # dates per step
RATE = 2e-3  # Adam's highest learning rate
WARM_UP = 0.06  # the share of the steps in which it rises to that; it falls along a cosine
CLIP = 1.0  # the largest norm of a gradient
NO_DATES = 0.4  # the share of texts that are no date
OUTSIDERS = 0.06  # the share with a meaningless character before or after the date
TOGETHER = 250  # texts measured at a time
OUTSIDER = "\N{CALENDAR}"


def train(network: Network, seed: int, steps: int) -> Iterator[float]:
    """Train a network in place. Yields the loss of each batch, in nats per character."""
    optimizer = torch.optim.Adam(network.parameters())
    rates = OneCycleLR(optimizer, RATE, steps, pct_start=WARM_UP, cycle_momentum=False)
    for step in range(steps):
        loss = loss_of(network, *training_batch(seed, step))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), CLIP)
        optimizer.step()
        rates.step()
        yield loss.item()


def training_batch(seed: int, step: int) -> tuple[list[str], list[str]]:
    """Draw the texts of one step and their outputs, always the same ones for a seed and a step."""
    generator = random.Random(f"{seed} {step}")
    texts, outputs = [], []
    for _ in range(BATCH):
        chance = generator.random()
        text, output = draw_no_date("train", generator) if chance < NO_DATES else draw_date("train", generator)
        if NO_DATES <= chance < NO_DATES + OUTSIDERS:
            text = generator.choice([f"{OUTSIDER}{text}", f"{text}{OUTSIDER}", f"{text}.", f"{text},"])
        texts.append(text)
        outputs.append(output)
    return texts, outputs


def predict(network: Network, texts: Sequence[str], outputs: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return the logits of each next character, given the true ones before (teacher forcing), and that character."""
    numbers = targets(outputs)
    return network(sources(texts), numbers[:, :-1]).logits, numbers[:, 1:]


def loss_of(network: Network, texts: Sequence[str], outputs: Sequence[str]) -> Tensor:
    """Return the mean cross-entropy, in nats, of each next character."""
    logits, true = predict(network, texts, outputs)
    return F.cross_entropy(logits.flatten(0, 1), true.flatten(), ignore_index=PAD)


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
