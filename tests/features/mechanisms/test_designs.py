"""Designs of a head: each is what it is called, and its verdict is what its figures say."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from heads import heads, in_layer, made_up
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.analysis.patterns import counted_queries
from attncli.attention import (
    NORMALISERS,
    SCORES,
    Alibi,
    MultiHeadAttention,
    Rotary,
    RotaryScore,
    attend,
    causal_mask,
    window_mask,
)
from attncli.base.choices import DesignName, names
from attncli.features.mechanisms.designs import (
    DRAWS,
    POSITIONS,
    designs,
    group_sizes,
    variants,
    verdict_on_distance,
    with_shared_keys,
)
from attncli.features.mechanisms.head import Figures, HeadInLayer

seeds = st.integers(0, 999)


def maps(head, **options):
    return {design.name: design.found.weights for design in designs(head, **options)}


@given(seeds, st.integers(1, 6), st.integers(0, 2), st.booleans(), st.integers(1, 5), st.integers(0, 3))
@settings(max_examples=5)
def test_every_design_is_attention(seed, real, padding, causal, head_dim, reach):
    """Rows sum to 1, hidden keys get nothing, figures are within their bounds, none is left out without a reason."""
    tokens = real + padding
    mask = causal_mask(tokens) if causal else None
    head = in_layer(seed, 4, tokens, padding, head_dim, mask)
    found = designs(head, reach, seed=seed)
    turned = {name for name in names(DesignName) if name.startswith("rotary")}
    assert [one.name for one in found] == [name for name in names(DesignName) if head_dim > 1 or name not in turned]
    for one in found:
        assert len(one.controls) == (3 if one.name in ("grouped", "multi-query") else DRAWS)
        assert one.trained == (one.name not in ("relative", "disentangled"))
        assert one.trained != one.verdict.endswith("in this draw")
        document = one.document()
        assert document["control_moved"] == pytest.approx(np.mean([look.moved for look in one.controls]))
        assert document["control_distance"] == pytest.approx(np.mean([look.distance for look in one.controls]))
        assert document["control_weights"] == one.controls[0].weights.tolist()
        for look in (one.found, *one.controls):
            np.testing.assert_allclose(look.weights[head.counted].sum(axis=-1), 1, atol=1e-5)
            assert not look.weights[~head.mask.numpy()].any()
            assert 0 <= look.moved <= 1 + 1e-6 and 0 <= look.same_key <= 1
            assert -1e-6 <= look.distance <= tokens - 1 + 1e-6


def test_each_position_and_window_is_what_it_is_called():
    head = in_layer(tokens=9, head_dim=8)
    found = maps(head, reach=3)
    query, key = head.query, head.key

    def map_of(score, mask=None):
        return attend(query, key, key, mask, score).weights[1].numpy()

    expected = {
        "rotary": map_of(RotaryScore(Rotary(8))),
        "rotary-interleaved": map_of(RotaryScore(Rotary(8, interleaved=True))),
        "rotary-partial": map_of(RotaryScore(Rotary(2))),
        "alibi": map_of(Alibi(3)),
        "window": map_of(head.score, window_mask(3, 9)),
        "causal-window": map_of(head.score, window_mask(3, 9) & causal_mask(9)),
    }
    for name, weights in expected.items():
        np.testing.assert_allclose(found[name], weights, atol=1e-6, err_msg=name)
        assert sum(np.allclose(weights, other, atol=1e-4) for other in expected.values()) == 1, name


@settings(max_examples=6)
@given(seeds, st.integers(0, 7))
def test_a_window_of_no_less_than_the_text_moves_nothing(seed, more):
    head = in_layer(seed)
    [wide] = designs(head, reach=5 + more, only="window")
    assert wide.found.moved < 1e-6 and wide.controls[0].moved < 1e-6 and wide.verdict == "as in shuffled orders"
    [narrow] = designs(head, reach=0, only="window")
    assert np.array_equal(narrow.found.weights, np.eye(6)) and narrow.found.distance == 0


@pytest.mark.parametrize("seed", [0, 1])
def test_what_is_drawn_is_drawn_from_the_seed_and_nobody_elses(seed):
    head = in_layer(seed)
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first, again, other = maps(head, seed=3), maps(head, seed=3), maps(head, seed=4)
    assert torch.equal(torch.rand(3), expected)
    for name, weights in first.items():
        np.testing.assert_array_equal(weights, again[name])
        assert (weights != other[name]).any() == (name in ("relative", "disentangled"))


# --- shared keys ----------------------------------------------------------------------------------------


def test_pooled_keys_are_those_of_pooled_projections(minilm, trained):
    """Ainslie et al. 2023, figure 1: key projections of a group's heads are mean pooled into one."""
    head = HeadInLayer.of(minilm, trained())
    for size in group_sizes(head)[1:]:
        grouped = MultiHeadAttention(384, 12, key_heads=12 // size)
        with torch.inference_mode():
            grouped.query = head.attention.query
            for name in ("weight", "bias"):
                by_group = getattr(head.attention.key, name).unflatten(0, (-1, size, 32))
                getattr(grouped.key, name).copy_(by_group.mean(dim=1).flatten(0, 1))
            query, key, _ = grouped.project(torch.from_numpy(trained().x)[None])
            expected = attend(query[0, 3], key[0, 3], key[0, 3], head.mask).weights
        np.testing.assert_allclose(with_shared_keys(head, size).weights, expected.numpy(), atol=1e-5)


@given(seeds)
def test_sharing_with_nobody_moves_nothing_and_nor_does_sharing_the_same(seed):
    head = in_layer(seed, heads=4)
    assert with_shared_keys(head, 1).moved < 1e-6
    alike = replace(head, key=head.key[1].expand_as(head.key))
    found = designs(alike, only="multi-query")[0]
    assert found.found.moved < 1e-6 and found.controls[0].moved < 1e-6 and found.verdict == "as with another head's"


def described(head, only):
    return [design.described for design in designs(head, only=only)]


def test_heads_share_keys_by_twos_and_all_together():
    one, _, _, twelve = of = [in_layer(heads=heads, number=0) for heads in (1, 2, 9, 12)]
    assert group_sizes(twelve) == [1, 2, 3, 4, 6, 12] and group_sizes(one) == [1]
    assert [described(head, "grouped") for head in of] == [
        [],
        ["keys of 2 heads"],
        ["keys of 3 heads"],
        ["keys of 2 heads"],
    ]
    assert [described(head, "multi-query") for head in of] == [
        [],
        *([f"keys of {all_of} heads"] for all_of in (2, 9, 12)),
    ]
    assert [group_sizes(in_layer(heads=12, key_heads=keys)) for keys in (6, 3, 1)] == [[2, 4, 6, 12], [4, 12], [12]]
    assert described(in_layer(heads=12, key_heads=3), "grouped") == ["keys of 12 heads"]
    assert described(in_layer(heads=12, key_heads=1), "multi-query") == []
    assert {"grouped", "multi-query"}.isdisjoint(maps(one))


# --- verdicts -------------------------------------------------------------------------------------------


def seen(distance: float, moved: float = 0.5) -> Figures:
    return Figures(np.eye(6, dtype=np.float32), 0.0, distance, moved, 0.0)


@pytest.mark.parametrize(
    ("own", "distance", "controls", "verdict"),
    [
        (4, 2, (3, 5), "looks nearer"),
        (4, 6, (3, 5), "looks further"),
        (4, 4, (3, 5), "as in shuffled orders"),
        (2, 2.5, (3, 5), "as in shuffled orders"),  # nearer than the controls, and not than the head is by itself
        (4, 3.5, (3, 5), "as in shuffled orders"),  # nearer than it is, as with one of the controls
        (7, 6, (3, 5), "as in shuffled orders"),
    ],
)
def test_nearer_is_nearer_than_the_head_and_all_controls(own, distance, controls, verdict):
    assert verdict_on_distance(seen(distance), [seen(one) for one in (own, *controls)]) == verdict


# --- scores ---------------------------------------------------------------------------------------------

PARAMETERLESS = {name for name, make in SCORES.items() if not isinstance(make(4), torch.nn.Module)}


@pytest.mark.parametrize("mask", ["padding", "causal", "none"])
def test_the_heads_own_score_under_softmax_is_its_own_map(trained, mask):
    for layer, head in ((0, 2), (4, 3), (5, 11)):
        one = trained(layer, head, mask)
        [own] = [found for found in variants(one) if (found.score, found.normaliser) == ("scaled_dot", "softmax")]
        np.testing.assert_allclose(own.found.weights, one.record.map(layer, head), atol=1e-5)
        assert own.found.moved < 1e-5
        assert own.found.same_key == 1


@settings(max_examples=20)
@given(heads(), st.integers(0, 2**63 - 1), st.sampled_from([0.1, 1.0, 10.0]))
def test_every_variant_is_attention(head, seed, temperature):
    """Rows sum to 1, hidden keys get nothing, hard rows look at one key, and figures are within their bounds."""
    found = variants(head, temperature, seed)
    assert [(one.score, one.normaliser) for one in found] == [
        (score, name) for score in SCORES for name in NORMALISERS if score in PARAMETERLESS or name == "softmax"
    ]
    most = np.log(head.record.mask.sum(axis=1).max())
    for one in found:
        if one.normaliser not in ("relu_norm", "sigmoid"):
            np.testing.assert_allclose(one.found.weights.sum(axis=-1), 1, atol=1e-5)
        assert not one.found.weights[~head.record.mask].any()
        assert one.trained == (one.score in PARAMETERLESS)
        if one.normaliser != "sigmoid":
            assert -1e-6 <= one.found.entropy <= most + 1e-5
            assert 0 <= one.found.moved <= 1 + 1e-6
        assert 0 <= one.found.same_key <= 1
        if one.normaliser.startswith("hard"):
            assert set(np.unique(one.found.weights)) <= {0, 1} and one.found.entropy == 0


def test_figures_are_over_the_queries_that_are_real_tokens(trained):
    """Zeros are among the keys that a query may attend to."""
    one = trained(mask="causal")
    real = counted_queries(one.record, 4)
    assert real.tolist() == [True] * 16 + [False] * 2
    own, visible = one.record.map(4, 3)[real].astype(float), one.record.mask[real]
    output = own @ one.value
    for found in variants(one):
        weights = found.found.weights[real].astype(float)
        logs = np.log(np.where(weights > 0, weights, 1))
        assert found.found.entropy == pytest.approx(-(weights * logs).sum() / 16, abs=1e-6)
        assert found.found.moved == pytest.approx(np.abs(weights - own).sum() / 2 / 16)
        assert found.found.same_key == (weights.argmax(1) == own.argmax(1)).mean()
        assert found.zero == pytest.approx((weights[visible] == 0).mean())
        change = np.linalg.norm(weights @ one.value - output) / np.linalg.norm(output)
        assert found.output == pytest.approx(change, rel=1e-3, abs=1e-5)


def variant_maps(head, **options):
    return {(found.score, found.normaliser): found.found.weights for found in variants(head, **options)}


def test_the_same_seed_gives_the_same_numbers_whatever_was_drawn_before(trained):
    first = variant_maps(trained(), seed=3)
    torch.rand(5)
    again, other = variant_maps(trained(), seed=3), variant_maps(trained(), seed=4)
    for (score, normaliser), weights in first.items():
        np.testing.assert_array_equal(weights, again[score, normaliser])
        drawn = score not in PARAMETERLESS | {"content", "qk_norm"}  # whose parameters start the same
        if normaliser == "hard_sample" or (drawn and normaliser == "softmax"):
            assert (weights != other[score, normaliser]).any()
        elif not drawn:
            np.testing.assert_array_equal(weights, other[score, normaliser])


def test_temperature_is_of_softmax_alone_and_sharpens_below_1(trained):
    cold, own, hot = (variant_maps(trained(), temperature=temperature) for temperature in (0.5, 1.0, 2.0))
    for (score, normaliser), weights in own.items():
        places = score, normaliser
        if normaliser != "softmax":
            np.testing.assert_array_equal(cold[places], weights)
            np.testing.assert_array_equal(hot[places], weights)
        else:
            assert cold[places].max(axis=-1).mean() > weights.max(axis=-1).mean() > hot[places].max(axis=-1).mean()


def test_a_text_longer_than_a_location_score_has_positions():
    found = variant_maps(made_up(tokens=POSITIONS + 1, hidden=2, head_dim=2))
    assert found["location", "softmax"].shape == (POSITIONS + 1,) * 2
