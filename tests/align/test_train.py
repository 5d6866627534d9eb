"""Training: it learns, and repeats itself."""

import random
from itertools import pairwise

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from attncli.align import train
from attncli.align.characters import NONE, PAD, SOURCE, TARGET, UNKNOWN, targets
from attncli.align.checkpoint import SIZES, build, load, weights_path
from attncli.align.dates import draw, draw_no_date, is_date, part_of
from attncli.align.networks import Decoded
from attncli.align.train import Training, Tried, learning_rate, share_exact, training_batch, tried
from attncli.align.translate import Alignment
from attncli.base import choices

ATTENTIONS = choices.names(choices.Attention)
SMALL = {"d_embedding": 6, "d_hidden": 8}
SMALL_TRANSFORMER = {"d_model": 8, "heads": 2, "layers": 1}


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Batches of 8, measured every second step."""
    monkeypatch.setattr(train, "BATCH", 8)
    monkeypatch.setattr(train, "EVERY", 2)
    monkeypatch.setattr(train, "VALIDATION", 10)


def begin(attention="dot", seed=0, steps=6):
    return Training(attention, seed, steps, SMALL_TRANSFORMER if attention == "transformer" else SMALL)


def weights(training):
    return {name: tensor.clone() for name, tensor in training.network.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def nothing(loss, exact):
    pass


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_training_lowers_the_loss_and_repeats_itself_by_seed(attention):
    trained = []
    for seed in (0, 0, 1):
        training = begin(attention, seed, steps=30)
        losses = [training.advance() for _ in range(30)]
        assert sum(losses[-5:]) < sum(losses[:5])
        trained.append(weights(training))
    assert same(trained[0], trained[1])
    assert not same(trained[0], trained[2])


def test_training_leaves_the_callers_random_numbers_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    begin().advance()
    assert torch.equal(torch.rand(3), expected)


def test_a_finished_training_leaves_its_weights_alone(tmp_path):
    seen = []
    train.train(begin(), tmp_path, 5, lambda loss, exact: seen.append(exact))
    assert list(tmp_path.iterdir()) == [weights_path(tmp_path, "dot")]
    assert [exact is not None for exact in seen] == [False, True] * 3


def test_minutes_that_are_over_stop_it_with_its_weights(tmp_path):
    training = begin()
    train.train(training, tmp_path, 0, nothing)
    assert training.about.step == 1
    assert load(weights_path(tmp_path, "dot"))[0].step == 1


def test_weights_are_stored_in_half_precision(tmp_path):
    training = begin()
    train.train(training, tmp_path, 0, nothing)
    stored = load_file(weights_path(tmp_path, "dot"))
    for name, tensor in training.network.state_dict().items():
        assert torch.equal(stored[name], tensor.half())
    with safe_open(weights_path(tmp_path, "dot"), framework="pt") as file:
        assert file.metadata() == {
            "format": "attncli-align 2",
            "attention": '"dot"',
            "seed": "0",
            "step": "1",
            "steps": "6",
            "sizes": '{"d_embedding": 6, "d_hidden": 8}',
        }


def test_batches_repeat_and_hold_no_day_of_another_part_and_as_many_others_as_said():
    assert training_batch(0, 3) == training_batch(0, 3)
    drawn = [training_batch(0, step) for step in range(100)]
    assert len({str(batch) for batch in drawn}) == 100
    texts, outputs = ([one for batch in drawn for one in batch[place]] for place in (0, 1))
    assert {part_of(output) for output in outputs if is_date(output)} == {"train"}
    assert sum(not is_date(output) for output in outputs) / len(outputs) == pytest.approx(train.NO_DATES, abs=0.05)
    assert 0 < sum(UNKNOWN in SOURCE.encode(text) for text in texts) < 0.3 * len(texts)


def test_learning_rate_rises_then_falls_to_nothing():
    rates = [learning_rate(step, 200) for step in range(201)]
    assert rates[:10] == pytest.approx([train.RATE * (step + 1) / 10 for step in range(10)])
    assert rates[10] == pytest.approx(train.RATE)
    assert all(before > after for before, after in pairwise(rates[10:]))
    assert rates[200] == pytest.approx(0)
    assert learning_rate(0, 1) > 0  # even of one step


def test_loss_is_the_mean_of_minus_log_of_what_the_true_characters_got():
    network = build("dot", SIZES["dot"])
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

    def encode(self, texts):
        mine = self.first[: len(texts)], self.wrong[: len(texts)]
        self.first, self.wrong = self.first[len(texts) :], self.wrong[len(texts) :]
        return mine

    def decode(self, memory, previous):
        logits = torch.nn.functional.one_hot(memory[0][:, 1 : previous.shape[1] + 1], len(TARGET)).float()
        logits[memory[1], 0] = 0  # [START] is the first where all are alike
        logits[..., PAD] = -1  # is never written, not even after an end
        return Decoded(logits, {})


def test_share_exact_counts_outputs_of_which_every_character_and_the_end_is_right(monkeypatch):
    monkeypatch.setattr(train, "TOGETHER", 7)  # not a divisor
    generator = random.Random(0)
    pairs = draw("test", 10, generator) + [draw_no_date("test", generator) for _ in range(20)]
    assert share_exact(Oracle(pairs), pairs) == 0.9


class Says:
    """An aligner that gives these outputs with these probabilities."""

    def __init__(self, *outputs):
        self.outputs = outputs

    def translate_together(self, texts):
        for (output, probability), text in zip(self.outputs, texts, strict=True):
            yield Alignment("dot", [*text, "[END]"], [*output, "[END]"], [probability], {})


def test_outcomes_by_hand():
    date, other, sure, unsure = "2021-03-03", "2021-03-04", 1.0, 0.1
    for output, expected, right, doubted, silent in [
        ((date, sure), date, 1, 0, 0),
        ((date, unsure), date, 1, 1, 0),
        ((other, sure), date, 0, 0, 1),
        ((other, unsure), date, 0, 0, 0),
        (("none", sure), date, 0, 0, 0),
        (("2021-02-30", sure), "none", 1, 0, 0),  # both say that it is no date
        ((date, sure), "2050-01-01", 0, 0, 1),
        ((date, unsure), "none", 0, 0, 0),
    ]:
        assert tried(Says(output), [("abc", expected)]) == Tried(1, right, doubted, silent)
    pairs = [("abc", date)] * 3 + [("abc", "none")] * 2
    assert tried(Says(*[(date, sure)] * 5), pairs) == Tried(5, right=3, doubted=0, silent=2)
