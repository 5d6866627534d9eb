"""How good an aligner is: on dates that it never saw, and on texts that are no date."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from attncli.align.characters import PAD, batch, targets
from attncli.align.checkpoint import load, restore
from attncli.align.dates import draw, is_date
from attncli.align.network import Network
from attncli.align.no_dates import draw_no_date
from attncli.align.translate import Aligner, Alignment

TEST = 2000  # dates
TRIED = 500  # dates, and as many texts that are none, of which it is told where a doubt was shown
TOGETHER = 250  # texts at a time


class Tried(NamedTuple):
    """Of `texts`, `right` are, `doubted` of these with a doubt shown for nothing; `silent` are wrong without one.

    A date is right when it was written. A text that is none is right when no date of 1950 to 2049 was written.
    """

    texts: int
    right: int
    doubted: int
    silent: int


class Measured(NamedTuple):
    """exact: the share of TEST dates that are written; dates, no_dates: what became of TRIED texts of either kind."""

    exact: float
    dates: Tried
    no_dates: Tried


@torch.no_grad()
def share_exact(network: Network, pairs: Sequence[tuple[str, str]]) -> float:
    """The share of (text, output) whose greedy translation is the output, character by character, with its end.

    Greedy decoding writes exactly the output if and only if each of its characters, and the end, is the likeliest
    after the true ones before it: so one teacher-forced pass tells.
    """
    right = 0
    for start in range(0, len(pairs), TOGETHER):
        texts, outputs = zip(*pairs[start : start + TOGETHER], strict=True)
        numbers = targets(outputs)
        best = network.decode(network.encode(batch(texts)), numbers[:, :-1]).logits.argmax(dim=-1)
        right += int(((best == numbers[:, 1:]) | (numbers[:, 1:] == PAD)).all(dim=-1).sum())
    return right / len(pairs)


def measure(path: Path) -> Measured:
    """A file's weights, as they are stored, on texts of the test part, always the same.

    Raises RequestError when the file is missing or damaged.
    """
    about, tensors = load(path)
    aligner = Aligner(about, restore(path, about, tensors), path)
    generator = random.Random(0)
    exact = share_exact(aligner.network, draw("test", TEST, generator))
    dates = draw("test", TRIED, generator)
    no_dates = [draw_no_date("test", generator) for _ in range(TRIED)]
    return Measured(exact, tried(aligner, dates), tried(aligner, no_dates))


def tried(aligner: Aligner, pairs: Sequence[tuple[str, str]]) -> Tried:
    """Translate the texts of (text, output), and count what became of them."""
    texts, outputs = zip(*pairs, strict=True)
    return counted(zip(aligner.translate_batch(texts), outputs, strict=True))


def counted(results: Iterable[tuple[Alignment, str]]) -> Tried:
    """What became of texts: each with what should have been written."""
    verdicts = [
        (one.date == (output if is_date(output) else None), one.doubt is not None, is_date(output))
        for one, output in results
    ]
    right = [(doubted, a_date) for is_right, doubted, a_date in verdicts if is_right]
    return Tried(
        texts=len(verdicts),
        right=len(right),
        doubted=sum(doubted and a_date for doubted, a_date in right),
        silent=sum(not is_right and not doubted for is_right, doubted, _ in verdicts),
    )
