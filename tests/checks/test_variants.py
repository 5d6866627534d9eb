"""A head's variants: they are what they are called."""

import numpy as np
import pytest
import torch
from checkpoints import ONE_OF_EACH
from heads import heads, made_up
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli import load_model
from attncli.analysis.patterns import counted_queries
from attncli.attention import NORMALISERS, SCORES
from attncli.checks.variants import POSITIONS, variants
from attncli.models.head import one_head

PARAMETERLESS = {"dot", "scaled_dot"}


@pytest.mark.parametrize("mask", ["padding", "causal", "none"])
def test_the_heads_own_score_under_softmax_is_its_own_map(trained, mask):
    for layer, head in ((0, 2), (4, 3), (5, 11)):
        one = trained(layer, head, mask)
        [own] = [found for found in variants(one) if (found.score, found.normaliser) == ("scaled_dot", "softmax")]
        np.testing.assert_allclose(own.weights, one.record.map(layer, head), atol=1e-5)
        assert own.moved < 1e-5
        assert own.same_key == 1


@settings(max_examples=20)
@given(heads(), st.integers(0, 2**63 - 1), st.sampled_from([0.1, 1.0, 10.0]))
def test_every_variant_is_attention(head, seed, temperature):
    """Rows sum to 1, hidden keys get nothing, hard rows look at one key, and figures are within their bounds."""
    found = variants(head, temperature, seed)
    assert [(one.score, one.normaliser) for one in found] == [(s, n) for s in SCORES for n in NORMALISERS]
    most = np.log(head.record.mask.sum(axis=1).max())
    for one in found:
        np.testing.assert_allclose(one.weights.sum(axis=-1), 1, atol=1e-5)
        assert not one.weights[~head.record.mask].any()
        assert one.trained == (one.score in PARAMETERLESS)
        assert -1e-6 <= one.entropy <= most + 1e-5
        assert 0 <= one.moved <= 1 + 1e-6
        assert 0 <= one.same_key <= 1
        if one.normaliser != "softmax":
            assert set(np.unique(one.weights)) <= {0, 1} and one.entropy == 0


@given(st.integers(0, 2**32 - 1))
def test_a_query_that_may_look_nowhere_has_no_weights_and_does_not_count(seed):
    mask = np.random.default_rng(seed).random((7, 7)) < 0.4
    mask[0], mask[1] = False, True
    for one in variants(made_up(seed, 7, mask=mask)):
        np.testing.assert_allclose(one.weights.sum(axis=-1), mask.any(axis=-1), atol=1e-5)
        assert not one.weights[~mask].any()
        assert np.isfinite([one.entropy, one.moved, one.same_key]).all()


def test_figures_are_means_over_the_queries_that_are_real_tokens(trained):
    one = trained()
    real = counted_queries(one.record, 4)
    assert real.tolist() == [True] * 16 + [False] * 2
    own = one.record.map(4, 3)[real].astype(float)
    for found in variants(one):
        weights = found.weights[real].astype(float)
        logs = np.log(np.where(weights > 0, weights, 1))
        assert found.entropy == pytest.approx(-(weights * logs).sum() / 16, abs=1e-6)
        assert found.moved == pytest.approx(np.abs(weights - own).sum() / 2 / 16)
        assert found.same_key == (weights.argmax(1) == own.argmax(1)).mean()


def maps(head, **options):
    return {(found.score, found.normaliser): found.weights for found in variants(head, **options)}


def test_the_same_seed_gives_the_same_numbers_whatever_was_drawn_before(trained):
    first = maps(trained(), seed=3)
    torch.rand(5)
    again, other = maps(trained(), seed=3), maps(trained(), seed=4)
    for (score, normaliser), weights in first.items():
        np.testing.assert_array_equal(weights, again[score, normaliser])
        drawn = score not in PARAMETERLESS | {"content", "qk_norm"}  # whose parameters start the same
        if normaliser == "hard_sample" or (drawn and normaliser == "softmax"):
            assert (weights != other[score, normaliser]).any()
        elif not drawn:
            np.testing.assert_array_equal(weights, other[score, normaliser])


def test_seeds_of_variants_are_nobody_elses():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    variants(made_up())
    assert torch.equal(torch.rand(3), expected)


def test_temperature_is_of_softmax_alone_and_sharpens_below_1(trained):
    cold, own, hot = (maps(trained(), temperature=temperature) for temperature in (0.5, 1.0, 2.0))
    for (score, normaliser), weights in own.items():
        places = score, normaliser
        if normaliser != "softmax":
            np.testing.assert_array_equal(cold[places], weights)
            np.testing.assert_array_equal(hot[places], weights)
        else:
            assert cold[places].max(axis=-1).mean() > weights.max(axis=-1).mean() > hot[places].max(axis=-1).mean()


def test_a_text_longer_than_a_location_score_has_positions():
    found = maps(made_up(tokens=POSITIONS + 1, hidden=2, head_dim=2))
    assert found["location", "softmax"].shape == (POSITIONS + 1,) * 2


def test_heads_of_every_family_have_all(tiny):
    for family in ONE_OF_EACH:
        model = load_model(str(tiny(family)), device="cpu")
        head = one_head(model, model.tokenizer.encode("the cat sat on it"), 1, 2, "causal")
        assert len(variants(head)) == len(SCORES) * len(NORMALISERS)
