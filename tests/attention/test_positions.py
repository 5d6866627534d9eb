"""Positions: the papers' formulas, laws, and transformers' code with random numbers."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from attncli.attention import (
    Alibi,
    Disentangled,
    LearnedPositions,
    PositionalScore,
    RelativeBias,
    Rotary,
    RotaryScore,
    SinusoidalPositions,
    Where,
    attend,
    causal_mask,
    masked_softmax,
    scaled_dot,
)
from attncli.attention.positions import (
    CONTENT_TO_POSITION,
    POSITION_TO_CONTENT,
    alibi_slopes,
    log_buckets,
    relative_buckets,
)

even = st.integers(1, 40).map(lambda half: 2 * half)


def the_papers(positions: list[int], d_model: int) -> np.ndarray:
    table = np.empty((len(positions), d_model))
    for row, position in enumerate(positions):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            table[row, 2 * i], table[row, 2 * i + 1] = np.sin(angle), np.cos(angle)
    return table


@given(d_model=even, positions=st.lists(st.integers(0, 1_000_000), min_size=1, max_size=8))
def test_sinusoidal_is_the_papers_formula(d_model, positions):
    found = SinusoidalPositions(d_model)(torch.tensor(positions))
    assert found.dtype == torch.get_default_dtype()
    np.testing.assert_allclose(found.numpy(), the_papers(positions, d_model), rtol=0, atol=2e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_converting_the_module_costs_no_precision(dtype):
    """A model is converted as a whole; an angle of 100000 in float16 would be anything."""
    positions = torch.tensor([0, 511, 100_000])
    converted = SinusoidalPositions(16).to(dtype)
    assert torch.equal(converted(positions), SinusoidalPositions(16)(positions))


@pytest.mark.parametrize("d_model", [1, 7])
def test_odd_is_refused(d_model):
    with pytest.raises(ValueError, match=rf"d_model {d_model} is odd"):
        SinusoidalPositions(d_model)


def test_learned_positions_are_rows_of_a_table():
    torch.manual_seed(0)
    positions = LearnedPositions(5, 3)
    numbers = torch.tensor([[4, 0, 0], [1, 2, 3]])
    assert torch.equal(positions(numbers), positions.table.weight[numbers])
    positions(torch.tensor([2, 2])).sum().backward()
    assert positions.table.weight.grad.sum(dim=1).tolist() == [0, 0, 6, 0, 0]  # row 2, twice, 3 columns
    with pytest.raises(IndexError):
        positions(torch.tensor([5]))


F64 = torch.float64
seeds = st.integers(0, 999)
bases = st.sampled_from([10.0, 10_000.0, 160_000.0])


def randn(seed: int, *shape: int, dtype=F64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@st.composite
def rotations(draw, least: int = 0) -> tuple[Rotary, int]:
    """Draw a rotation of all or some elements, in either layout, and the size of the vectors."""
    rotated, rest = 2 * draw(st.integers(least, 4)), draw(st.integers(0, 3))
    return Rotary(rotated, draw(bases), draw(st.booleans())), max(rotated + rest, 1)


def turned(rotary: Rotary, x: Tensor, positions) -> Tensor:
    return rotary.turn(x, rotary.angles(torch.as_tensor(positions), x.dtype))


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


OFFSETS = torch.arange(-9000, 9001)  # as far as texts go, and further
KINDS = (CONTENT_TO_POSITION, POSITION_TO_CONTENT)
lengths = st.integers(1, 7)


# --- buckets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("buckets", "furthest"), [(32, 128), (32, 8192), (64, 128), (16, 40), (8, 20), (256, 512)])
def test_relative_buckets_are_transformers(buckets, furthest):
    from transformers.models.mpnet.modeling_mpnet import MPNetEncoder
    from transformers.models.t5.modeling_t5 import T5Attention

    found = relative_buckets(OFFSETS, buckets, furthest)
    assert torch.equal(found, T5Attention._relative_position_bucket(OFFSETS, True, buckets, furthest))
    assert torch.equal(found, MPNetEncoder.relative_position_bucket(OFFSETS, buckets, furthest))
    assert set(found.tolist()) == set(range(buckets)) - {buckets // 2}  # an offset of 0 is one of those before


@pytest.mark.parametrize(("near", "furthest"), [(256, 512), (32, 512), (8, 40), (256, 8192), (7, 30)])
def test_log_buckets_are_transformers(near, furthest):
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    found = log_buckets(OFFSETS, near, furthest)
    assert torch.equal(found, make_log_bucket_position(OFFSETS, near, furthest).long())
    assert torch.equal(found, -found.flip(0))
    inside = OFFSETS.abs() <= near // 2
    assert torch.equal(found[inside], OFFSETS[inside])


# --- ALiBi ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", [*range(1, 34), 40, 63, 64, 71])
def test_slopes_are_transformers_of_any_number_of_heads(heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
    torch.testing.assert_close(alibi_slopes(heads), theirs, rtol=1e-6, atol=0)


@given(st.integers(1, 6), lengths, seeds)
def test_alibi_looking_back_is_blooms(heads, tokens, seed):
    """There the term is m j, which differs from -m (i - j) by as much for all keys of a query."""
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    query, key = randn(seed, heads, tokens, 4), randn(seed + 1, heads, tokens, 4)
    theirs = scaled_dot(query, key) + build_alibi_tensor(torch.ones(1, tokens), heads, F64)
    mask = causal_mask(tokens)
    torch.testing.assert_close(
        masked_softmax(Alibi(heads)(query, key), mask), masked_softmax(theirs, mask), rtol=1e-5, atol=1e-7
    )


def test_alibi_by_hand():
    zero = torch.zeros(2, 3, 4)
    half = [[0.0, -1 / 16, -1 / 8], [-1 / 16, 0.0, -1 / 16], [-1 / 8, -1 / 16, 0.0]]
    assert Alibi(2)(zero, zero)[0].tolist() == half  # m is 2^-4
    assert not list(Alibi(2).parameters())


# --- laws of all ----------------------------------------------------------------------------------------


def disentangled(heads: int, head_dim: int, seed: int, span: int = 3, near: int = 0, **given) -> Disentangled:
    """Make disentangled positions with projections of their own, in float64."""
    size = heads * head_dim
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        own = {"query": nn.Linear(size, size), "key": nn.Linear(size, size)}
        return Disentangled(nn.Embedding(2 * span, size), nn.LayerNorm(size), own, near=near, furthest=12, **given).to(
            F64
        )


def biased(heads: int, seed: int) -> RelativeBias:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return RelativeBias(heads).to(F64)


MADE = {
    "rotary": lambda heads, head_dim, seed: RotaryScore(Rotary(head_dim)),
    "relative": lambda heads, head_dim, seed: biased(heads, seed),
    "alibi": lambda heads, head_dim, seed: Alibi(heads),
    "disentangled": lambda heads, head_dim, seed: disentangled(heads, head_dim, seed),
    "disentangled in buckets": lambda heads, head_dim, seed: disentangled(heads, head_dim, seed, span=4, near=4),
    "plain": lambda heads, head_dim, seed: PositionalScore(),
}
names = st.sampled_from(sorted(MADE))


@given(names, st.integers(1, 3), st.integers(2, 9), seeds)
def test_between_the_same_vectors_scores_depend_on_the_difference_of_positions_only(name, heads, tokens, seed):
    query, key = (randn(seed + place, heads, 1, 4).expand(heads, tokens, 4) for place in (0, 1))
    scores = MADE[name](heads, 4, seed)(query, key)
    for offset in range(-tokens + 1, tokens):
        diagonal = scores.diagonal(offset, -2, -1)
        torch.testing.assert_close(diagonal, diagonal[..., :1].expand_as(diagonal), rtol=0, atol=1e-12)
    if name != "plain":
        assert ((scores[:, 0, 1] - scores[:, 0, 0]).abs() > 1e-6).all()  # and do depend on it


@given(names, st.integers(1, 3), lengths, seeds)
def test_terms_add_up(name, heads, tokens, seed):
    query, key = randn(seed, 2, heads, tokens, 4), randn(seed + 1, 2, heads, tokens, 4)
    score = MADE[name](heads, 4, seed)
    where = Where(range(heads), slice(0, tokens), slice(0, tokens))
    positions = torch.arange(tokens)
    content = score.turn(query, positions) @ score.turn(key, positions).mT * score.scale(4)
    terms = score.terms(query, key, where)
    assert bool(terms) == score.has_terms == (name not in ("rotary", "plain"))
    torch.testing.assert_close(score(query, key), content + sum(terms.values()))


@given(names, st.data(), st.integers(1, 3), lengths, seeds)
def test_terms_of_some_heads_queries_and_keys_are_a_part_of_all(name, data, heads, tokens, seed):
    query, key = randn(seed, heads, tokens, 4), randn(seed + 1, heads, tokens, 4)
    score = MADE[name](heads, 4, seed)

    def part() -> slice:
        start = data.draw(st.integers(0, tokens - 1))
        return slice(start, data.draw(st.integers(start + 1, tokens)))

    queries, keys = part(), part()
    chosen = data.draw(st.lists(st.integers(0, heads - 1), min_size=1, unique=True))
    some = score.terms(query[chosen][:, queries], key[chosen][:, keys], Where(chosen, queries, keys))
    whole = score.terms(query, key, Where(range(heads), slice(0, tokens), slice(0, tokens)))
    for kind, term in whole.items():
        torch.testing.assert_close(
            some[kind].expand(len(chosen), -1, -1), term[chosen][:, queries, keys], rtol=0, atol=1e-12
        )
    torch.testing.assert_close(score(query[chosen], key[chosen], chosen), score(query, key)[chosen])


def test_without_positions_it_is_the_scaled_dot_product():
    query, key = randn(0, 2, 3, 4, 5), randn(1, 2, 3, 6, 5)
    torch.testing.assert_close(PositionalScore()(query, key), scaled_dot(query, key))


# --- relative biases ------------------------------------------------------------------------------------


# --- disentangled attention -----------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [KINDS, KINDS[:1], KINDS[1:]], ids=["both", "c2p", "p2c"])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
@pytest.mark.parametrize("buckets", [-1, 8], ids=["single", "buckets"])
def test_disentangled_scores_are_transformers(monkeypatch, kinds, shared, buckets):
    """Its weights and output, with random numbers, on texts that are longer than what has vectors of its own."""
    from transformers import DebertaV2Config
    from transformers.models.deberta_v2 import modeling_deberta_v2 as deberta

    monkeypatch.setattr(  # theirs is in float32
        deberta, "scaled_size_sqrt", lambda x, factor: torch.tensor(x.shape[-1] * factor, dtype=F64).sqrt()
    )
    torch.manual_seed(0)
    names = {CONTENT_TO_POSITION: "c2p", POSITION_TO_CONTENT: "p2c"}
    config = DebertaV2Config(
        hidden_size=12, num_attention_heads=3, relative_attention=True, position_buckets=buckets, share_att_key=shared,
        max_relative_positions=20, pos_att_type=[names[kind] for kind in kinds],
    )  # fmt: skip
    theirs = deberta.DisentangledSelfAttention(config).double().eval()
    vectors = nn.Embedding(2 * theirs.pos_ebd_size, 12).double()
    parts = {CONTENT_TO_POSITION: "key", POSITION_TO_CONTENT: "query"}
    own = None if shared else {part: getattr(theirs, f"pos_{part}_proj") for part in map(parts.get, kinds)}
    score = Disentangled(vectors, None, own, kinds, near=max(buckets, 0), furthest=20)
    score.share(theirs.query_proj, theirs.key_proj)

    x = randn(1, 2, 45, 12)
    mask = torch.ones(2, 1, 45, 45, dtype=torch.bool)
    output, weights = theirs(x, mask, output_attentions=True, rel_embeddings=vectors.weight)
    query, key, value = (
        part(x).unflatten(-1, (3, 4)).transpose(1, 2)
        for part in (theirs.query_proj, theirs.key_proj, theirs.value_proj)
    )
    found = masked_softmax(score(query, key))
    torch.testing.assert_close(found, weights, rtol=0, atol=1e-12)
    torch.testing.assert_close((found @ value).transpose(1, 2).flatten(-2), output, rtol=0, atol=1e-12)


def test_another_kind_of_term_is_refused():
    with pytest.raises(ValueError, match="content to position and position to content, not p2p"):
        disentangled(1, 4, 0, kinds=("p2p",))
