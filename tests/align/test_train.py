"""Training: it learns, and repeats itself."""

import random

import pytest
import torch

from attncli.align import checkpoint, train
from attncli.align.characters import NONE, PAD, SOURCE, TARGET, UNKNOWN, targets
from attncli.align.checkpoint import build
from attncli.align.dates import draw_date, draw_no_date, is_date, part_of
from attncli.align.networks import Decoded
from attncli.align.train import share_exact, training_batch
from attncli.base import choices

ATTENTIONS = choices.names(choices.Attention)
SMALL = {"d_embedding": 6, "d_hidden": 8}
SMALL_TRANSFORMER = {"d_model": 8, "heads": 2, "layers": 1}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Batches of 8 and small networks."""
    monkeypatch.setattr(train, "BATCH", 8)
    for attention in ATTENTIONS:
        sizes = SMALL_TRANSFORMER if attention == "transformer" else SMALL
        monkeypatch.setitem(checkpoint.SIZES, attention, sizes)


def same(one, other):
    one, other = one.state_dict(), other.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.slow
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_training_lowers_the_loss_and_repeats_itself_by_seed(attention):
    networks = []
    for seed in (0, 0, 1):
        networks.append(build(attention, seed))
        losses = list(train.train(networks[-1], seed, steps=30))
        assert len(losses) == 30 and sum(losses[-5:]) < sum(losses[:5])
    assert same(networks[0], networks[1])
    assert not same(networks[0], networks[2])


def test_training_leaves_the_callers_random_numbers_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    next(train.train(build("dot"), 0, 3))
    assert torch.equal(torch.rand(3), expected)


def test_batches_repeat_and_hold_no_day_of_another_part_and_as_many_others_as_said():
    assert training_batch(0, 3) == training_batch(0, 3)
    drawn = [training_batch(0, step) for step in range(100)]
    assert len({str(batch) for batch in drawn}) == 100
    texts, outputs = ([one for batch in drawn for one in batch[place]] for place in (0, 1))
    assert {part_of(output) for output in outputs if is_date(output)} == {"train"}
    assert sum(not is_date(output) for output in outputs) / len(outputs) == pytest.approx(train.NO_DATES, abs=0.05)
    assert 0 < sum(UNKNOWN in SOURCE.encode(text) for text in texts) < 0.3 * len(texts)


@pytest.mark.parametrize("steps", [1, 2, 20])
def test_a_training_may_be_short(steps):
    assert len(list(train.train(build("dot"), 0, steps))) == steps


def test_loss_is_the_mean_of_minus_log_of_what_the_true_characters_got():
    network = build("dot")
    texts, outputs = ["3 March 2021", "hello"], ["2021-03-03", NONE]
    logits, true = train.predict(network, texts, outputs)
    written = [(0, column) for column in range(11)] + [(1, column) for column in range(5)]  # with their ends
    likelihood = [logits.softmax(-1)[row, column, true[row, column]] for row, column in written]
    expected = -torch.stack(likelihood).log().mean()
    torch.testing.assert_close(train.loss_of(network, texts, outputs), expected)


# --- measuring ------------------------------------------------------------------------------------------


class Oracle:
    """Writes the outputs, except the first character of every tenth."""

    def __init__(self, pairs):
        self.first = targets([output for _, output in pairs])
        self.wrong = torch.arange(len(pairs)) % 10 == 0

    def __call__(self, source, previous):
        outputs, wrong = self.first[: len(source)], self.wrong[: len(source)]
        self.first, self.wrong = self.first[len(source) :], self.wrong[len(source) :]
        logits = torch.nn.functional.one_hot(outputs[:, 1 : previous.shape[1] + 1], len(TARGET)).float()
        logits[wrong, 0] = 0  # [START] is the first where all are alike
        logits[..., PAD] = -1  # is never written, not even after an end
        return Decoded(logits, {})


def test_share_exact_counts_outputs_of_which_every_character_and_the_end_is_right(monkeypatch):
    monkeypatch.setattr(train, "TOGETHER", 7)  # not a divisor
    generator = random.Random(0)
    pairs = [draw("test", generator) for draw in (draw_date, draw_no_date) for _ in range(15)]
    assert share_exact(Oracle(pairs), pairs) == 0.9
