"""Claims on a head: measures agree with other programs, what is algebra holds for every head, and claims can fail."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from heads import heads, made_up
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli import load_model
from attncli.attention import (
    attend,
    dot,
    hard_max,
    masked_softmax,
    scaled_dot,
    sparsemax,
)
from attncli.features.mechanisms import claims as claiming
from attncli.features.mechanisms.claims import CLAIMS, Claim, ClaimTrial, check_claims
from attncli.models.head import one_head

TEXT = "The trophy does not fit in the suitcase because it is too big."


def measured(name, head):
    return Claim(name, *CLAIMS[name](ClaimTrial(head)))


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
    assert claiming.jacobian_norm(softmax(scores)) == pytest.approx(expected, abs=1e-8)


def test_asymmetry_by_hand():
    assert claiming.asymmetry(torch.tensor([[1.0, 2.0], [2.0, 5.0]])) == 0
    assert claiming.asymmetry(torch.tensor([[0.0, 1.0], [0.0, 0.0]])) == pytest.approx(2**0.5)
    assert claiming.asymmetry(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])) == pytest.approx(2)
    assert claiming.asymmetry(torch.zeros(2, 2)) == 0


# --- claims ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "failing"),
    [
        ((4, 3), []),
        ((0, 0), ["saturation on this head"]),  # small scores: dividing makes rows nearly uniform
        ((2, 9, "causal"), []),
    ],
)
def test_all_but_a_few_hold_on_heads_of_minilm(trained, place, failing):
    claims = check_claims(ClaimTrial(trained(*place)))
    assert [claim.name for claim in claims] == [*CLAIMS]
    assert all(np.isfinite(list(claim.figures.values())).all() for claim in claims)
    assert [claim.name for claim in claims if not claim.holds] == failing


@settings(max_examples=20)
@given(heads())
def test_what_is_algebra_holds_for_every_head(head):
    assert measured("one projection", head).holds
    assert measured("bilinear", head).holds
    assert measured("key-value", head).holds
    assert measured("heads alike", head).holds


def test_padding_does_not_change_the_figures_of_a_head(minilm):
    """[PAD] changes no real token's vector, and what is measured is measured on those."""
    bare, padded = (one_head(minilm, minilm.tokenizer.encode(TEXT, None, to), 4, 3, "padding") for to in (16, 30))
    for name in ("variance on this head", "saturation on this head", "asymmetry"):
        assert measured(name, padded).figures == pytest.approx(measured(name, bare).figures, rel=1e-4)


def test_a_map_that_is_no_less_symmetric_than_softmax_makes_it_is_not_enough(monkeypatch):
    """Make keys that nearly equal the queries, so that the scores are not quite symmetric."""
    weight = np.random.default_rng(0).normal(size=(8, 12)).astype(np.float32)
    bias = np.zeros(8, np.float32)
    claim = measured("asymmetry", made_up(query=(weight, bias), key=(weight / 2, bias + 0.01)))
    assert claim.figures["scores"] > claiming.SAME
    assert claim.figures["softmax"] < claim.figures["with W_Q = W_K"] and not claim.holds


def test_what_a_mask_makes_asymmetric_is_not_the_projections_doing(trained):
    """The causal one hides half of the map; what layer 0 reads is the same under each."""
    padding, causal = (measured("asymmetry", trained(0, 2, mask)) for mask in ("padding", "causal"))
    assert causal.figures == pytest.approx(padding.figures)


@pytest.mark.parametrize("family", ["modernbert", "mpnet", "deberta-v2"])
def test_claims_of_the_heads_own_score_hold_whatever_knows_of_positions(family, tiny):
    """The bilinear form is of queries and keys that nothing has turned; heads alike score as the head does."""
    changes = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]} if family == "deberta-v2" else {}
    model = load_model(str(tiny(family, **changes)), "cpu", engine="attncli")
    head = one_head(model, model.tokenizer.encode("the big cat sat on it"), 1, 2, "padding")
    for claim in (measured("bilinear", head), measured("heads alike", head)):
        assert claim.holds, claim


# --- hard attention ---------------------------------------------------------------------------------------


def test_the_gradients_of_soft_and_hard_attention_are_autograds():
    head = made_up(padding=2)
    figures = measured("hard attention", head).figures
    scores = torch.from_numpy(head.query @ head.key.T).double()[:7] / 8**0.5
    scores.requires_grad_()
    direction = torch.randn(8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = torch.softmax(scores[:, :7], dim=-1)
    (weights @ torch.from_numpy(head.value[:7]).double() @ direction).sum().backward()
    assert figures["|gradient| to the scores: soft"] == pytest.approx(scores.grad.norm().item(), rel=1e-5)
    chosen = torch.bincount(scores[:, :7].argmax(dim=1)).double()  # how often each value is the output
    expected = (chosen.norm() * direction.norm()).item()
    assert figures["|gradient| to the values: hard maximum"] == pytest.approx(expected)


# --- each can fail --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "what", "instead", "head"),
    [
        ("division", "scaled_dot", dot, made_up()),
        ("division", "scaled_dot", lambda query, key: 0.93 * scaled_dot(query, key), made_up()),
        ("saturation", "KEYS", (32, 8), made_up()),
        ("saturation", "dot", scaled_dot, made_up()),
        ("saturation", "SIZES", (4, 16), made_up()),
        ("zeros", "entmax15", masked_softmax, made_up()),
        ("zeros", "masked_softmax", sparsemax, made_up()),
        ("hard attention", "hard_max", masked_softmax, made_up()),
        ("hard attention", "hard_sample", lambda scores, mask, _: masked_softmax(scores, mask), made_up()),
        ("hard attention", "masked_softmax", hard_max, made_up()),
        ("one projection", "scaled_dot", lambda query, key: scaled_dot(query, key.roll(1, 0)), made_up()),
        ("key-value", "attend", partial(attend, score=dot), made_up()),
    ],
)  # fmt: skip
def test_a_claim_fails_where_something_else_is_computed(monkeypatch, name, what, instead, head):
    assert measured(name, head).holds
    monkeypatch.setattr(claiming, what, instead)
    assert not measured(name, head).holds


def otherwise():
    """Heads that claims do not hold for."""
    head, zeros = made_up(), np.zeros(8, np.float32)
    weight, bias = head.projections["key"]
    moved = {**head.projections, "key": (weight, bias + np.float32(0.1))}
    backwards = replace(head.record, weights=head.record.weights[..., ::-1].copy())
    half = np.random.default_rng(0).normal(size=(8, 12)).astype(np.float32)
    half[4:] = 0
    one = (np.eye(8, 12, dtype=np.float32), zeros)
    return {
        "variance: later components say nothing": made_up(query=(half, zeros)),
        "variance: one component": made_up(head_dim=1),
        "saturation on this head: small scores": made_up(scale=0.01),
        "asymmetry: one projection for both": made_up(query=one, key=one),
        "bilinear: keys are no projection of the input": replace(head, projections=moved),
        "heads alike: the map is another one": replace(head, record=backwards),
    }


@pytest.mark.parametrize(("why", "head"), otherwise().items())
def test_a_claim_fails_on_a_head_for_which_it_is_not_so(why, head):
    name = why.partition(":")[0]
    assert not measured("variance on this head" if name == "variance" else name, head).holds
