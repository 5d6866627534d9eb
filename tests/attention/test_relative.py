"""Scores that know of distances: laws, the papers' formulas, and transformers' code with random numbers."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from attncli.attention import (
    Alibi,
    Disentangled,
    PositionalScore,
    RelativeBias,
    Rotary,
    RotaryScore,
    Where,
    causal_mask,
    masked_softmax,
    scaled_dot,
)
from attncli.attention.positions import (
    CONTENT_TO_POSITION,
    POSITION_TO_CONTENT,
    alibi_slopes,
    by_offset,
    log_buckets,
    relative_buckets,
)

F64 = torch.float64
OFFSETS = torch.arange(-9000, 9001)  # as far as texts go, and further
KINDS = (CONTENT_TO_POSITION, POSITION_TO_CONTENT)
seeds = st.integers(0, 999)
lengths = st.integers(1, 7)


def randn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


# --- buckets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("buckets", "furthest"), [(32, 128), (32, 8192), (64, 128), (16, 40), (8, 20), (256, 512)])
def test_relative_buckets_are_transformers(buckets, furthest):
    from transformers.models.mpnet.modeling_mpnet import MPNetEncoder
    from transformers.models.t5.modeling_t5 import T5Attention

    found = relative_buckets(OFFSETS, buckets, furthest)
    assert torch.equal(found, T5Attention._relative_position_bucket(OFFSETS, True, buckets, furthest))
    assert torch.equal(found, MPNetEncoder.relative_position_bucket(OFFSETS, buckets, furthest))
    assert set(found.tolist()) == set(range(buckets)) - {buckets // 2}  # an offset of 0 is one of those before


def test_relative_buckets_by_hand():
    """Of 32, 16 for each side: 0 to 7 tokens away have one each, 128 tokens and more the last."""
    assert relative_buckets(torch.tensor([0, -1, -7, 1, 7, -8, -128, -5000, 128])).tolist() == [
        *(0, 1, 7, 17, 23, 8, 15, 15, 31)
    ]


@pytest.mark.parametrize(("near", "furthest"), [(256, 512), (32, 512), (8, 40), (256, 8192), (7, 30)])
def test_log_buckets_are_transformers(near, furthest):
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    found = log_buckets(OFFSETS, near, furthest)
    assert torch.equal(found, make_log_bucket_position(OFFSETS, near, furthest).long())
    assert torch.equal(found, -found.flip(0))
    inside = OFFSETS.abs() <= near // 2
    assert torch.equal(found[inside], OFFSETS[inside])


# --- ALiBi ----------------------------------------------------------------------------------------------


def test_slopes_of_8_and_16_heads_are_the_papers():
    """Press et al. 2022, section 3: 1/2, 1/4, ..., 1/256; of 16 heads their geometric means between them."""
    assert alibi_slopes(8).tolist() == [2.0**-place for place in range(1, 9)]
    assert alibi_slopes(16).tolist() == pytest.approx([2 ** (-place / 2) for place in range(1, 17)])


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
    """With projections of its own, in float64."""
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


@given(st.integers(1, 4), st.integers(1, 300), seeds)
def test_a_relative_bias_is_t5s(heads, tokens, seed):
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    ours = biased(heads, seed)
    config = T5Config(d_model=4 * heads, d_kv=4, num_heads=heads, dropout_rate=0.0)
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double()
    theirs.relative_attention_bias.load_state_dict(ours.table.state_dict())
    zero = torch.zeros(heads, tokens, 4, dtype=F64)
    torch.testing.assert_close(ours(zero, zero), theirs.compute_bias(tokens, tokens)[0])


# --- disentangled attention -----------------------------------------------------------------------------


@given(st.integers(1, 3), lengths, seeds, st.sampled_from([0, 4]), st.sampled_from([KINDS, KINDS[:1], KINDS[1:]]))
def test_each_term_is_the_papers_formula(heads, tokens, seed, near, kinds):
    """He et al. 2021, equation 4, in loops: δ(i, j) stands in a table of 2 k rows, at k where i = j."""
    head_dim, span = 4, 4
    score = disentangled(heads, head_dim, seed, span, near, kinds=kinds)
    query, key = randn(seed, heads, tokens, head_dim), randn(seed + 1, heads, tokens, head_dim)
    terms = score.terms(query, key, Where(range(heads), slice(0, tokens), slice(0, tokens)))
    assert set(terms) == set(kinds)
    vectors = score.norm(score.vectors.weight)
    scale = math.sqrt(head_dim * (1 + len(kinds)))
    for head in range(heads):
        rows = slice(head * head_dim, (head + 1) * head_dim)
        of_query, of_key = (
            vectors @ score.own[name].weight[rows].T + score.own[name].bias[rows] for name in ("query", "key")
        )
        for i in range(tokens):
            for j in range(tokens):
                offset = i - j if not near else int(log_buckets(torch.tensor(i - j), near, 12))
                row = min(max(offset + span, 0), 2 * span - 1)
                if CONTENT_TO_POSITION in kinds:
                    expected = query[head, i] @ of_key[row] / scale
                    torch.testing.assert_close(terms[CONTENT_TO_POSITION][head, i, j], expected)
                if POSITION_TO_CONTENT in kinds:
                    expected = key[head, j] @ of_query[row] / scale
                    torch.testing.assert_close(terms[POSITION_TO_CONTENT][head, i, j], expected)


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


@given(st.integers(1, 6), st.integers(1, 6), seeds)
def test_what_stands_at_an_offset_is_what_stands_at_the_other_token(tokens, others, seed):
    x = randn(seed, 2, tokens, tokens + others - 1)
    found = by_offset(x, others)
    assert found.shape == (2, tokens, others)
    for token in range(tokens):
        for other in range(others):
            assert torch.equal(found[:, token, other], x[:, token, other - token + tokens - 1])
