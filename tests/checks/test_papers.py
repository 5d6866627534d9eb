"""What papers claim, on a head: what is algebra holds for every head, and each claim can fail."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from heads import heads, in_layer, made_up
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attncli.attention import Rotary, TransformerEncoderLayer, window_mask
from attncli.checks import papers
from attncli.checks.looks import HeadInLayer
from attncli.checks.papers import check_papers


def failing(minilm, head):
    return [claim.name for claim in check_papers(head, HeadInLayer.of(minilm, head)) if not claim.holds]


def test_all_hold_on_a_head_of_minilm_and_sharing_keys_does_not_on_another(minilm, trained):
    claims = check_papers(trained(), HeadInLayer.of(minilm, trained()))
    assert [claim.name for claim in claims] == [
        "rotary", "window", "shared keys", "QK norm", "RMSNorm", "GLU", "pre-norm",
    ]  # fmt: skip
    assert all(claim.holds for claim in claims)
    assert all(np.isfinite(list(claim.figures.values())).all() for claim in claims)
    assert failing(minilm, trained(3, 1)) == ["shared keys"]  # six heads' keys are nearer to its own than four heads'


@settings(max_examples=8)
@given(st.integers(0, 999), st.integers(2, 7), st.integers(0, 2), st.sampled_from([0.01, 1.0, 30.0]))
def test_what_is_algebra_holds_for_every_head(seed, tokens, padding, scale):
    head = in_layer(seed, tokens=tokens + padding, padding=padding, scale=scale)
    assert papers.rotary_knows_differences_only(head).holds
    claim = papers.qk_norm_bounds_scores(head)
    assert claim.figures["QK norm: largest score, queries x 10"] <= 2 + 1e-9
    assert claim.figures["QK norm: entropy, as it is"] == pytest.approx(
        claim.figures["QK norm: entropy, queries x 10"], abs=1e-6
    )


@settings(max_examples=8)
@given(heads())
def test_norms_and_gates_are_the_same_for_every_input(head):
    assert papers.layer_norm_is_rms_norm_of_what_is_centred(head).figures["deviation"] < 1e-9
    assert papers.gated_with_values_of_1_is_plain(head, 0).holds


def test_a_layer_of_one_head_shares_with_nobody_and_one_element_is_not_turned():
    small = in_layer(heads=1, head_dim=1, number=0)
    names = {claim.name for claim in check_papers(made_up(), small)}
    assert {"rotary", "shared keys"}.isdisjoint(names) and len(names) == 5


# --- each can fail --------------------------------------------------------------------------------------


class Doubled(Rotary):
    """Forgets where the text begins: positions are squared."""

    def angles(self, positions, dtype):
        return super().angles(positions**2, dtype)


def test_a_rotation_that_goes_by_more_than_the_difference_is_found(monkeypatch):
    monkeypatch.setattr(papers, "Rotary", Doubled)
    assert not papers.rotary_knows_differences_only(in_layer()).holds


def test_a_rotation_that_turns_nothing_says_nothing(monkeypatch):
    monkeypatch.setattr(papers, "Rotary", lambda size: Rotary(0))
    assert not papers.rotary_knows_differences_only(in_layer()).holds


def test_a_window_that_reaches_less_far_than_it_says_is_found(monkeypatch):
    assert papers.wide_windows_are_none(in_layer()).holds
    monkeypatch.setattr(papers, "window_mask", lambda reach, tokens: window_mask(max(reach - 1, 0), tokens))
    assert not papers.wide_windows_are_none(in_layer()).holds


def test_heads_that_have_the_same_keys_lose_nothing_by_sharing():
    head = in_layer(heads=4)
    assert not papers.sharing_keys_moves_the_map(replace(head, key=head.key[1].expand_as(head.key))).holds


def test_scores_that_are_not_normed_are_not_bounded(monkeypatch):
    class Plain(nn.Module):
        def __init__(self, d_k, norm):
            super().__init__()

        def forward(self, query, key):
            return query @ key.mT

    assert papers.qk_norm_bounds_scores(in_layer()).holds
    monkeypatch.setattr(papers, "QueryKeyNorm", Plain)
    assert not papers.qk_norm_bounds_scores(in_layer()).holds


def test_a_norm_that_centres_is_not_told_from_one_that_does_not(monkeypatch):
    assert papers.layer_norm_is_rms_norm_of_what_is_centred(made_up()).holds
    monkeypatch.setattr(papers, "RMSNorm", lambda size, eps: nn.LayerNorm(size, eps))
    assert not papers.layer_norm_is_rms_norm_of_what_is_centred(made_up()).holds


def test_a_gate_on_the_wrong_half_is_found(monkeypatch):
    class Swapped(papers.GatedFeedForward):
        def forward(self, x):
            values, opened = self.up(x).chunk(2, dim=-1)
            return self.down(self.function(opened) * values)

    monkeypatch.setattr(papers, "GatedFeedForward", Swapped)
    assert not papers.gated_with_values_of_1_is_plain(made_up(), 0).holds


def test_layers_that_are_all_post_norm_do_not_grow(monkeypatch):
    assert papers.pre_norm_grows(made_up(hidden=64), 0).holds
    monkeypatch.setattr(
        papers, "TransformerEncoderLayer", lambda size, heads, hidden, norm_first: TransformerEncoderLayer(size, heads)
    )
    assert not papers.pre_norm_grows(made_up(hidden=64), 0).holds


def test_random_layers_are_nobody_elses():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    check_papers(made_up(), in_layer())
    assert torch.equal(torch.rand(3), expected)
