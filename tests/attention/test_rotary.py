"""Rotary positions: the law that makes them, the paper's matrices, and transformers' code."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attncli.attention import Rotary, RotaryScore, attend, causal_mask, dot, scaled_dot

F64 = torch.float64
seeds = st.integers(0, 999)
bases = st.sampled_from([10.0, 10_000.0, 160_000.0])


def randn(seed: int, *shape: int, dtype=F64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@st.composite
def rotations(draw, least: int = 0) -> tuple[Rotary, int]:
    """Of a whole vector or of a part of it, in both layouts; and the size of the vectors."""
    rotated, rest = 2 * draw(st.integers(least, 4)), draw(st.integers(0, 3))
    return Rotary(rotated, draw(bases), draw(st.booleans())), max(rotated + rest, 1)


def turned(rotary: Rotary, x: Tensor, positions) -> Tensor:
    return rotary.turn(x, rotary.angles(torch.as_tensor(positions), x.dtype))


# --- laws -----------------------------------------------------------------------------------------------


@given(rotations(), seeds, st.lists(st.integers(0, 500), min_size=1, max_size=5), st.integers(0, 500))
def test_scores_depend_on_the_difference_of_positions_only(rotation, seed, positions, shift):
    rotary, size = rotation
    here = torch.tensor(positions)
    query, key = randn(seed, 2, len(here), size), randn(seed + 1, 2, len(here), size)
    near = dot(turned(rotary, query, here), turned(rotary, key, here.flip(0)))
    far = dot(turned(rotary, query, here + shift), turned(rotary, key, here.flip(0) + shift))
    torch.testing.assert_close(far, near, rtol=0, atol=1e-9)


@given(rotations(least=1), seeds, st.integers(2, 7))
def test_between_the_same_vectors_a_score_says_how_far_apart_they_stand(rotation, seed, tokens):
    rotary, size = rotation
    query, key = (randn(seed + place, 1, 1, size).expand(1, tokens, size) for place in (0, 1))
    scores = RotaryScore(rotary)(query, key)[0]
    for offset in range(-tokens + 1, tokens):
        diagonal = scores.diagonal(offset)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-12)
    assert (scores[0, 1] - scores[0, 0]).abs() > 1e-9  # and does depend on it


@given(rotations(), seeds, st.integers(0, 10_000))
def test_a_rotation_changes_no_length_and_nothing_that_is_not_turned(rotation, seed, position):
    rotary, size = rotation
    x = randn(seed, 3, size)
    found = turned(rotary, x, [position] * 3)
    torch.testing.assert_close(found.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(found[:, rotary.rotated :], x[:, rotary.rotated :])
    assert torch.equal(turned(rotary, x, [0] * 3), x)


@given(rotations(least=1), seeds)
def test_the_two_layouts_are_one_with_its_elements_in_another_order(rotation, seed):
    rotary, size = rotation
    half, all_of_it = rotary.rotated // 2, torch.arange(size)
    pairs = torch.stack([all_of_it[:half], all_of_it[half : 2 * half]], dim=1).flatten()  # 0, half, 1, half + 1, ...
    order = torch.cat([pairs, all_of_it[2 * half :]])
    x, positions = randn(seed, 4, size), torch.arange(4)
    halves, interleaved = (Rotary(rotary.rotated, rotary.base, kind) for kind in (False, True))
    torch.testing.assert_close(turned(halves, x, positions)[:, order], turned(interleaved, x[:, order], positions))


# --- the paper and other programs -----------------------------------------------------------------------


@given(rotations(), seeds, st.integers(0, 2000))
def test_each_pair_is_turned_by_the_papers_matrix(rotation, seed, position):
    """Su et al. 2021, equations 14 and 15, and 34 as 2 x 2 matrices."""
    rotary, size = rotation
    x = randn(seed, 1, size)
    expected = x[0].tolist()
    for i in range(rotary.rotated // 2):
        angle = position * rotary.base ** (-2 * i / rotary.rotated)
        one, other = (2 * i, 2 * i + 1) if rotary.interleaved else (i, i + rotary.rotated // 2)
        first, second = x[0, one].item(), x[0, other].item()
        expected[one] = first * math.cos(angle) - second * math.sin(angle)
        expected[other] = first * math.sin(angle) + second * math.cos(angle)
    torch.testing.assert_close(turned(rotary, x, [position])[0], torch.tensor(expected, dtype=F64), rtol=0, atol=1e-9)


@pytest.mark.parametrize("rotated", [16, 4])
def test_halves_are_transformers(rotated):
    """GPT-NeoX's, whose part of a vector is turned; ModernBERT's is the same of a whole one, in float32."""
    from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb

    rotary, positions = Rotary(rotated, 160_000.0), torch.tensor([0, 3, 8191])
    query, key = randn(0, 2, 4, 3, 16), randn(1, 2, 4, 3, 16)
    cos, sin = (torch.cat([part, part], dim=-1)[None] for part in rotary.angles(positions, F64))
    for ours, theirs in zip((query, key), apply_rotary_pos_emb(query, key, cos, sin), strict=True):
        torch.testing.assert_close(turned(rotary, ours, positions), theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("base", [10_000.0, 160_000.0])
def test_modernberts_angles_and_rotation(base):
    from transformers import ModernBertConfig
    from transformers.models.modernbert import modeling_modernbert as modern

    config = ModernBertConfig(hidden_size=64, num_attention_heads=4, vocab_size=99, global_attn_every_n_layers=3)
    config.rope_parameters = {
        kind: {"rope_type": "default", "rope_theta": base} for kind in ("full_attention", "sliding_attention")
    }
    positions, x = torch.arange(600), randn(0, 1, 4, 600, 16, dtype=torch.float32)
    cos, sin = modern.ModernBertRotaryEmbedding(config)(x, positions[None], "full_attention")
    theirs, _ = modern.apply_rotary_pos_emb(x, x, cos, sin)
    torch.testing.assert_close(turned(Rotary(16, base), x, positions), theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("rotated", [16, 6])
def test_interleaved_is_transformers(rotated):
    """GPT-J's, in float32."""
    from transformers.models.gptj import modeling_gptj as gptj

    x, positions = randn(0, 2, 9, 4, 16, dtype=torch.float32), torch.arange(9)  # [batch, token, head, head_dim]
    sin, cos = gptj.create_sinusoidal_positions(9, rotated)[None].chunk(2, dim=-1)
    part = gptj.apply_rotary_pos_emb(x[..., :rotated], sin, cos)
    theirs = torch.cat([part, x[..., rotated:]], dim=-1).transpose(1, 2)
    found = turned(Rotary(rotated, interleaved=True), x.transpose(1, 2), positions)
    torch.testing.assert_close(found, theirs, rtol=0, atol=1e-6)


# --- as a score -----------------------------------------------------------------------------------------


@given(rotations(), seeds, st.integers(1, 6))
def test_the_score_is_the_scaled_dot_product_of_turned_vectors(rotation, seed, tokens):
    rotary, size = rotation
    query, key = randn(seed, 3, tokens, size), randn(seed + 1, 3, tokens, size)
    both = [turned(rotary, x, range(tokens)) for x in (query, key)]
    score = RotaryScore(rotary)
    torch.testing.assert_close(score(query, key), scaled_dot(*both))
    expected = torch.nn.functional.scaled_dot_product_attention(*both, key, attn_mask=causal_mask(tokens))
    torch.testing.assert_close(attend(query, key, key, causal_mask(tokens), score).output, expected)
    assert not list(score.parameters())


@pytest.mark.parametrize("rotated", [1, 7])
def test_elements_are_turned_in_pairs(rotated):
    with pytest.raises(ValueError, match=f"{rotated} is odd"):
        Rotary(rotated)


@pytest.mark.parametrize("stretch", [1.0, 1.5, 4.0])
def test_stretched_positions_have_the_angles_of_nearer_ones(stretch):
    """Chen et al. 2023, equation 2: f'(x, m) = f(x, m / s)."""
    places = torch.arange(12, dtype=torch.float64)
    found = Rotary(8, 50.0, stretch=stretch).angles(places, torch.float64)
    torch.testing.assert_close(found, Rotary(8, 50.0).angles(places / stretch, torch.float64))


@pytest.mark.parametrize("factor", [1.0, 8 ** (1 / 32), 4.0])
def test_linear_scaling_is_transformers(factor):
    from transformers import GteConfig
    from transformers.models.gte.modeling_gte import GteRotaryEmbedding

    config = GteConfig(rope_parameters={"rope_type": "linear", "rope_theta": 160000.0, "factor": factor})
    theirs = GteRotaryEmbedding(config).inv_freq
    torch.testing.assert_close(Rotary(64, 160000.0, stretch=factor).rates(torch.float32), theirs, rtol=1e-6, atol=0)
