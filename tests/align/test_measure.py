"""Measuring: what counts as right, as doubted and as silently wrong; and what it finds of the package's weights."""

import random

import torch

from attncli.align import measure as measuring
from attncli.align.characters import PAD, TARGET, targets
from attncli.align.dates import draw
from attncli.align.measure import Tried, counted, share_exact
from attncli.align.network import Decoded
from attncli.align.no_dates import draw_no_date
from attncli.align.translate import Alignment


class Oracle:
    """Writes what it was given, except the first character of some."""

    def __init__(self, pairs, wrong):
        self.outputs, self.wrong = [output for _, output in pairs], wrong

    def encode(self, texts):
        first, self.outputs = targets(self.outputs[: len(texts.source)]), self.outputs[len(texts.source) :]
        mine, self.wrong = self.wrong[: len(texts.source)], self.wrong[len(texts.source) :]
        return first, mine

    def decode(self, memory, previous):
        logits = torch.nn.functional.one_hot(memory[0][:, 1:], len(TARGET)).float()
        logits[memory[1], 0] = 0  # [START] is the first where all are alike
        logits[..., PAD] = -1  # is never written, not even after an end
        return Decoded(logits, logits)


def test_share_exact_counts_outputs_of_which_every_character_and_the_end_is_right(monkeypatch):
    monkeypatch.setattr(measuring, "TOGETHER", 7)  # not a divisor
    generator = random.Random(0)
    pairs = draw("test", 10, generator) + [draw_no_date("test", generator) for _ in range(20)]
    wrong = torch.arange(30) % 10 == 0
    assert share_exact(Oracle(pairs, wrong), pairs) == 0.9


def written(output, probability=1.0):
    """An alignment of some text with what was written for it; its weights don't matter."""
    return Alignment("dot", [*"abc", "[END]"], [*output, "[END]"], [probability], None)


def test_verdicts_by_hand():
    date, other, sure, unsure = "2021-03-03", "2021-03-04", 1.0, 0.1
    assert counted([(written(date, sure), date)]) == Tried(1, right=1, doubted=0, silent=0)
    assert counted([(written(date, unsure), date)]) == Tried(1, right=1, doubted=1, silent=0)
    assert counted([(written(other, sure), date)]) == Tried(1, right=0, doubted=0, silent=1)
    assert counted([(written(other, unsure), date)]) == Tried(1, right=0, doubted=0, silent=0)
    assert counted([(written("none", sure), date)]) == Tried(1, right=0, doubted=0, silent=0)
    for output in ("none", "2021-02-30", "2050-01-01"):
        for answer in ("none", "2021-02-30", "2050-01-01"):  # all of them say that it is no date
            assert counted([(written(answer, sure), output)]) == Tried(1, right=1, doubted=0, silent=0)
        assert counted([(written(date, sure), output)]) == Tried(1, right=0, doubted=0, silent=1)
        assert counted([(written(date, unsure), output)]) == Tried(1, right=0, doubted=0, silent=0)


def test_counts_add_up():
    results = [(written("2021-03-03"), "2021-03-03")] * 3 + [(written("2021-03-03"), "none")] * 2
    assert counted(results) == Tried(5, right=3, doubted=0, silent=2)
