"""Mechanisms on a head: variants are what they are called, measures agree with other programs, claims can fail."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from heads import heads, made_up
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli import load_model
from attncli.analysis.patterns import counted_queries
from attncli.attention import NORMALISERS, SCORES, attend, dot, scaled_dot
from attncli.checks import mechanisms
from attncli.checks.mechanisms import check_claims, variants
from attncli.models import encoder
from attncli.models.head import OneHead, one_head

TEXT = "The trophy does not fit in the suitcase because it is too big."
PARAMETERLESS = {"dot", "scaled_dot"}


@pytest.fixture(scope="module")
def trained(minilm):
    """`trained(layer, head, mask)` -> a head of minilm on a text with two [PAD], taken apart once."""
    tokens = minilm.tokenizer.encode(TEXT, None, 18)
    made: dict[tuple[int, int, str], OneHead] = {}

    def make(layer: int = 4, head: int = 3, mask: str = "padding") -> OneHead:
        key = layer, head, mask
        if key not in made:
            made[key] = one_head(minilm, tokens, *key)
        return made[key]

    return make


# --- variants -------------------------------------------------------------------------------------------


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
    real = counted_queries(one.record)
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
        drawn = score not in PARAMETERLESS | {"content"}  # content has one parameter, which starts the same
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
    found = maps(made_up(tokens=mechanisms.POSITIONS + 1, hidden=2, head_dim=2))
    assert found["location", "softmax"].shape == (mechanisms.POSITIONS + 1,) * 2


# --- measures -------------------------------------------------------------------------------------------

matrices = st.builds(
    lambda seed, rows, columns, scale: (
        torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale
    ),
    st.integers(0, 2**32 - 1),
    st.integers(2, 8),
    st.integers(2, 8),
    st.sampled_from([0.1, 1.0, 20.0]),
)


@given(matrices)
def test_the_norm_of_softmaxs_jacobian_is_autograds(scores):
    softmax = partial(torch.softmax, dim=-1)
    expected = np.mean([torch.autograd.functional.jacobian(softmax, row).norm().item() for row in scores])
    assert mechanisms.jacobian_norm(softmax(scores)) == pytest.approx(expected, abs=1e-8)


@given(matrices)
def test_standardised_components_have_mean_0_and_variance_1(vectors):
    found = mechanisms.standardised(vectors).numpy()
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(found.var(axis=0), 1, atol=1e-9)
    assert not mechanisms.standardised(torch.full((4, 3), 7.0)).any()


@given(matrices)
def test_the_variance_of_scores_is_numpys(query):
    key = query.flip(0) + 1
    expected = np.var([[q @ k for k in key.numpy()] for q in query.numpy()], ddof=1)
    assert mechanisms.variance_of_scores(query, key) == pytest.approx(expected)


def test_asymmetry_by_hand():
    assert mechanisms.asymmetry(torch.tensor([[1.0, 2.0], [2.0, 5.0]])) == 0
    assert mechanisms.asymmetry(torch.tensor([[0.0, 1.0], [0.0, 0.0]])) == pytest.approx(2**0.5)
    assert mechanisms.asymmetry(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])) == pytest.approx(2)
    assert mechanisms.asymmetry(torch.zeros(2, 2)) == 0


def test_a_relative_difference_by_hand():
    assert mechanisms.relative(torch.tensor([1.0, -4.0]), torch.tensor([1.5, -5.0])) == pytest.approx(0.2)


# --- claims ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", ["padding", "causal"])
@pytest.mark.parametrize(("layer", "head"), [(0, 2), (2, 9), (4, 3), (5, 11)])
def test_all_hold_on_these_heads_of_minilm(minilm, trained, layer, head, mask):
    claims = check_claims(minilm, trained(layer, head, mask))
    assert [claim.name for claim in claims if not claim.holds] == []
    assert all(np.isfinite(list(claim.figures.values())).all() for claim in claims)
    assert len({claim.name for claim in claims}) == len(claims) == 10


def test_one_does_not_hold_on_this_head_and_that_is_said(minilm, trained):
    """Its scores are so small that dividing makes its rows nearly uniform, which takes gradient away."""
    claims = check_claims(minilm, trained(0, 0))
    assert [claim.name for claim in claims if not claim.holds] == ["saturation on this head"]


def test_every_family_can_be_measured(tiny):
    for family in ("bert", "roberta", "distilbert", "electra"):
        model = load_model(str(tiny(family)), device="cpu")
        head = one_head(model, model.tokenizer.encode("the cat sat on it"), 1, 2, "causal")
        held = {claim.name for claim in check_claims(model, head) if claim.holds}
        assert held >= {"bilinear", "key-value", "heads alike", "order", "one projection", "division"}
        assert len(variants(head)) == len(SCORES) * len(NORMALISERS)


@settings(max_examples=20)
@given(heads())
def test_what_is_algebra_holds_for_every_head(head):
    assert mechanisms.one_projection_makes_it_symmetric(head).holds
    assert mechanisms.bilinear_is_the_heads_score(head).holds
    assert mechanisms.key_value_with_one_matrix_is_plain(head).holds
    assert mechanisms.heads_alike_are_one_head(head).holds


def test_padding_does_not_change_the_figures_of_a_head(minilm):
    """[PAD] changes no real token's vector, and what is measured is measured on those."""
    bare, padded = (one_head(minilm, minilm.tokenizer.encode(TEXT, None, to), 4, 3, "padding") for to in (16, 30))
    for claim in (
        mechanisms.variance_grows_with_size,
        mechanisms.softmax_saturates,
        mechanisms.projections_make_it_asymmetric,
    ):
        assert claim(padded).figures == pytest.approx(claim(bare).figures, rel=1e-4)


def test_variance_does_not_grow_where_the_later_components_say_nothing():
    weight = np.random.default_rng(0).normal(size=(8, 12)).astype(np.float32)
    weight[4:] = 0
    claim = mechanisms.variance_grows_with_size(made_up(query=(weight, np.zeros(8, np.float32))))
    assert not claim.holds
    assert claim.figures["d_k 8"] == claim.figures["d_k 4"] > claim.figures["d_k 2"]


def test_a_head_of_one_component_has_nothing_to_grow():
    claim = mechanisms.variance_grows_with_size(made_up(head_dim=1))
    assert list(claim.figures) == ["d_k 1"] and not claim.holds


def test_random_scores_that_are_not_divided_keep_their_variance(monkeypatch):
    assert mechanisms.division_undoes_it(0).holds
    monkeypatch.setattr(mechanisms, "scaled_dot", dot)
    assert not mechanisms.division_undoes_it(0).holds


def test_small_scores_do_not_saturate():
    assert not mechanisms.softmax_saturates(made_up(scale=0.01)).holds
    assert mechanisms.softmax_saturates(made_up(scale=3)).holds


def test_scores_that_do_not_grow_do_not_saturate(monkeypatch):
    claim = mechanisms.softmax_saturates_at_random(0)
    assert claim.holds
    by_size = [claim.figures[f"d_k {size}, not divided"] for size in (16, 64, 256, 1024)]
    assert by_size == sorted(by_size, reverse=True)
    monkeypatch.setattr(mechanisms, "dot", scaled_dot)
    assert not mechanisms.softmax_saturates_at_random(0).holds


def test_a_head_with_one_projection_for_both_is_not_asymmetric():
    both = (np.eye(8, 12, dtype=np.float32), np.zeros(8, np.float32))
    head = made_up(query=both, key=both)
    assert not mechanisms.projections_make_it_asymmetric(head).holds
    assert mechanisms.projections_make_it_asymmetric(head).figures["scores"] < 1e-6
    assert mechanisms.projections_make_it_asymmetric(made_up()).holds


def test_a_score_that_is_not_symmetric_is_found(monkeypatch):
    monkeypatch.setattr(mechanisms, "scaled_dot", lambda query, key: scaled_dot(query, key.roll(1, 0)))
    assert not mechanisms.one_projection_makes_it_symmetric(made_up()).holds


def test_keys_that_are_no_projection_of_the_input_have_another_bilinear_score():
    head = made_up()
    weight, bias = head.projections["key"]
    assert not mechanisms.bilinear_is_the_heads_score(
        replace(head, projections={**head.projections, "key": (weight, bias + np.float32(0.1))})
    ).holds


def test_attention_by_another_score_is_not_the_plain_one(monkeypatch):
    monkeypatch.setattr(mechanisms, "attend", partial(attend, score=dot))
    assert not mechanisms.key_value_with_one_matrix_is_plain(made_up()).holds


def test_a_map_that_the_projections_do_not_give_is_found():
    head = made_up()
    weights = head.record.weights[..., ::-1].copy()
    assert not mechanisms.heads_alike_are_one_head(replace(head, record=replace(head.record, weights=weights))).holds


def test_a_model_that_adds_positions_all_the_same_knows_the_order(minilm, trained, monkeypatch):
    assert mechanisms.order_is_unknown_without_positions(minilm, trained(), 0).holds
    forward = encoder.Embeddings.forward
    monkeypatch.setattr(
        encoder.Embeddings, "forward", lambda self, ids, segments, positions: forward(self, ids, segments)
    )
    assert not mechanisms.order_is_unknown_without_positions(minilm, trained(), 0).holds
