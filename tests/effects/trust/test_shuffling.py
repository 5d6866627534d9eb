"""Other weights: what a permutation keeps, and that the same number comes out of a network that has them."""

import pytest
import torch

from attncli import load_model
from attncli.effects.asking import Asking, question
from attncli.effects.changes import Reweigh, uniform
from attncli.effects.copies import Unchanged
from attncli.effects.trust.shuffling import Permuted, shuffled
from attncli.models.attending import attend_heads

TEXT = "the cat sat on it, the big cat"


@pytest.fixture(scope="module")
def model(tiny):
    return load_model(str(tiny("bert", head="ForSequenceClassification")), device="cpu", dtype="float64")


class Watch:
    """Keeps the weights of each layer before and after a rule."""

    def __init__(self, rule) -> None:
        self.rule, self.seen = rule, []

    def __call__(self, heads, weights=None):
        made = heads.query.new_empty(*heads.query.shape[:3], heads.key.shape[2])
        attend_heads(heads, made)
        after = self.rule(heads, made)
        self.seen.append((made, after))
        return after @ heads.value


def move(before, after) -> list[int]:
    """Where each of some numbers, all different, has gone."""
    gone = torch.empty(len(before), dtype=torch.long)
    gone[before.argsort()] = after.argsort()
    return gone.tolist()


@pytest.mark.parametrize("mask", ["padding", "causal"])
def test_a_permuted_row_has_the_same_weights_on_keys_that_it_may_attend_to(model, mask):
    watch = Watch(Permuted(3))
    [text] = question(model, TEXT, Asking(kind="distance", mask=mask)).texts
    Unchanged.of(model, text.tokens, mask, watch)
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
    [text] = question(model, TEXT, Asking(kind="distance")).texts
    ends = [Unchanged.of(model, text.tokens, attend=Watch(Permuted(seed))).last for seed in (1, 1, 2)]
    assert torch.equal(ends[0], ends[1]) and not torch.allclose(ends[0], ends[2])


def test_effects_are_those_of_a_network_that_has_these_weights(model):
    asked = question(model, TEXT, Asking(target="LABEL_0", kind="logit"))
    permuted, flat = shuffled(asked, 3, seed=7)
    [text] = asked.texts
    for draw in range(3):
        last = Unchanged.of(model, text.tokens, attend=Watch(Permuted(7 * 3 + draw))).last
        assert permuted[0, draw] == pytest.approx(float(asked([last])[0]) - asked.value, abs=1e-10)
    last = Unchanged.of(model, text.tokens, attend=Watch(uniform)).last
    assert flat[0] == pytest.approx(float(asked([last])[0]) - asked.value, abs=1e-10)
    assert permuted.shape == (5, 3) and flat.shape == (5,)
    [alone] = asked.effects([Reweigh([(2, head) for head in range(4)], uniform)])
    assert flat[3] == pytest.approx(alone)
