"""Other weights: what a permutation keeps, and that the same number comes out of a network that has them."""

import numpy as np
import pytest
import torch
from invented import embedding_model

from attncli import load_model
from attncli.effects.change import Unchanged, uniform
from attncli.effects.question import Asking, make_question
from attncli.features.trust.weights import OTHER, REORDERED, Permuted, replace_weights
from attncli.models.block import Tap

TEXT = "the cat sat on it, the big cat"


@pytest.fixture(scope="module")
def model(tiny):
    return load_model(str(tiny("bert", head="ForSequenceClassification")), device="cpu", dtype="float64")


class Watch(Tap):
    """Keeps the weights of each layer before and after a rule."""

    changes_weights = True

    def __init__(self, rule) -> None:
        self.rule, self.seen = rule, []

    def places(self, block):
        return range(len(block.numbers))

    def weights(self, part, weights):
        after = self.rule(part, weights)
        self.seen.append((weights, after))
        return after


def move(before, after) -> list[int]:
    """Return the new place of each of some distinct numbers."""
    gone = torch.empty(len(before), dtype=torch.long)
    gone[before.argsort()] = after.argsort()
    return gone.tolist()


@pytest.mark.parametrize("mask", ["padding", "causal"])
def test_a_permuted_row_has_the_same_weights_on_keys_that_it_may_attend_to(model, mask):
    watch = Watch(Permuted(3))
    [text] = make_question(model, TEXT, Asking(ask="distance", mask=mask)).texts
    Unchanged.of(model, text.tokens, mask, [watch])
    count, moved = len(text.tokens), 0
    for before, after in watch.seen:
        for row in range(count):
            seen = row + 1 if mask == "causal" else count
            assert torch.equal(before[..., row, :seen].sort().values, after[..., row, :seen].sort().values)
            assert (after[..., row, seen:] == 0).all()
        moved += int((before != after).any(dim=-1).sum())
    assert moved > 0.8 * len(watch.seen) * 4 * count  # every row is drawn for itself
    moves = {tuple(move(before[0, head, -1], after[0, head, -1])) for before, after in watch.seen for head in range(4)}
    assert len(moves) == 4 * len(watch.seen)  # and so is every head and layer


def test_a_seed_is_a_permutation(model):
    [text] = make_question(model, TEXT, Asking(ask="distance")).texts
    ends = [Unchanged.of(model, text.tokens, taps=[Watch(Permuted(seed))]).last for seed in (1, 1, 2)]
    assert torch.equal(ends[0], ends[1]) and not torch.allclose(ends[0], ends[2])


def test_effects_are_those_of_a_network_that_has_these_weights(model):
    asking = Asking(target="LABEL_0", ask="logit")
    question = make_question(model, "the cat", asking)
    permuted, reordered, flat = replace_weights(question, [1, 2], 3, seed=7)
    other_order = make_question(model, "cat the", asking)

    def effect(asked, rule) -> float:
        last = Unchanged.of(model, asked.texts[0].tokens, taps=[Watch(rule)]).last
        return float(asked([last])[0]) - asked.value

    assert permuted == pytest.approx([effect(question, Permuted(7 * 3 + draw)) for draw in range(3)], abs=1e-10)
    assert flat == pytest.approx(effect(question, uniform), abs=1e-10)
    controls = [
        [effect(one, Permuted(7 * 3 + draw, REORDERED)) for one in (question, other_order)] for draw in range(3)
    ]
    chosen = [
        min(range(2), key=lambda place: abs(pair[place] - found))
        for pair, found in zip(controls, reordered, strict=True)
    ]
    assert reordered == pytest.approx([pair[place] for pair, place in zip(controls, chosen, strict=True)], abs=1e-10)
    assert 1 in chosen and np.ptp(controls, axis=1).min() > 1e-6


def test_two_texts_have_permutations_of_their_own(tmp_path):
    """The cosine of a text with itself stays 1 where both are permuted in the same way."""
    model = embedding_model(tmp_path)
    question = make_question(model, TEXT, Asking(similar_to=TEXT))
    permuted, reordered, _ = replace_weights(question, range(1, 4), 5, seed=3)
    assert question.value == pytest.approx(1) and (permuted < -1e-9).all() and (reordered != 0).all()
    one, other = question.texts
    for draw in range(5):
        last = Unchanged.of(model, one.tokens, taps=[Watch(Permuted(3 * 5 + draw))]).last
        beside = Unchanged.of(model, other.tokens, taps=[Watch(Permuted(3 * 5 + draw, OTHER))]).last
        assert permuted[draw] == pytest.approx(float(question([last, beside])[0]) - question.value, abs=1e-10)
