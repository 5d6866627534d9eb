"""Weights are read as the projections that they are, in every order, and written back."""

import pytest
import torch
from einops import rearrange
from hypothesis import given
from hypothesis import strategies as st

from attncli.attention.mistakes import Linear, Projections
from attncli.base.errors import RequestError
from attncli.checks.code.subject import Made, Weight
from attncli.checks.theirs.calling.drawing import draw_weights
from attncli.checks.theirs.calling.readings import PARTS, Reading, natural, part_of, readings, slots_of

D, HEADS = 12, 3
FOUR = ("W_q", "W_k", "W_v", "W_o")


def made(owner: str = "linear", bias: bool = False, **shapes) -> Made:
    weights = {name.replace("__", "."): Weight(shape, owner) for name, shape in shapes.items()}
    if bias:
        weights = {
            f"{name}.{kind}": Weight(shape if kind == "weight" else shape[:1], owner)
            for name, (shape, owner) in weights.items()
            for kind in ("weight", "bias")
        }
    return Made(weights, {})


def square(*names: str, owner: str = "linear", bias: bool = True) -> Made:
    return made(owner, bias, **{name.replace(".", "__"): (D, D) for name in names})


def read(of: Made, heads: int | None = HEADS, said=None) -> tuple[dict[str, torch.Tensor], list[Reading]]:
    return draw_weights(of), readings(of, heads, said or {})


@pytest.mark.parametrize(
    "names",
    [
        FOUR,
        ("q_proj", "k_proj", "v_proj", "out_proj"),
        ("to_q", "to_k", "to_v", "to_out.0"),
        ("query", "key", "value", "dense"),
        ("self.query", "self.key", "self.value", "output.dense"),
        ("linearQ", "linearK", "linearV", "fc"),
        ("tokeys", "tovalues", "toqueries", "unifyheads"),
        ("linears.0", "linears.1", "linears.2", "linears.3"),
        ("wq", "wk", "wv", "wo"),
        ("lin_q", "lin_k", "lin_v", "proj"),
    ],
)
def test_four_layers_by_their_names(names):
    weights, [one] = read(square(*names))
    order = (2, 0, 1, 3) if names[0] == "tokeys" else (0, 1, 2, 3)
    for linear, place in zip(one.read(weights), order, strict=True):
        assert torch.equal(linear.weight, weights[f"{names[place]}.weight"])
        assert torch.equal(linear.bias, weights[f"{names[place]}.bias"])
    assert one.heads == HEADS and not one.note and not one.mistakes


def test_without_names_the_user_says_which_is_which():
    of = square("alpha", "beta", "gamma", "delta")
    with pytest.raises(RequestError, match=r"the projection of the query is not among the weights.*--map NAME=query"):
        readings(of, HEADS, {})
    said = dict(zip(("gamma", "beta", "alpha", "delta"), PARTS, strict=True))
    weights, [one] = read(of, said=said)
    assert torch.equal(one.read(weights).query.weight, weights["gamma.weight"])


# In which order the rows of a fused matrix stand, as readings find it.
ORDERS = {
    "": "(three h d) m -> three (h d) m",
    "in the fused matrix each head has its query, key and value together": "(h three d) m -> three (h d) m",
    "in the fused matrix query, key and value take turns": "(h d three) m -> three (h d) m",
}


@pytest.mark.parametrize(
    "names", [("qkv", "proj"), ("c_attn", "c_proj"), ("in_proj", "out_proj"), ("to_qkv", "to_out")]
)
def test_a_fused_matrix_is_read_in_every_order(names):
    weights, found = read(made(bias=True, **{names[0]: (3 * D, D), names[1]: (D, D)}))
    assert [one.note for one in found] == list(ORDERS)
    for one in found:
        parts = rearrange(weights[f"{names[0]}.weight"], ORDERS[one.note], three=3, h=HEADS)
        biases = rearrange(weights[f"{names[0]}.bias"][:, None], ORDERS[one.note], three=3, h=HEADS)
        for linear, weight, bias in zip(one.read(weights)[:3], parts, biases, strict=True):
            assert torch.equal(linear.weight, weight) and torch.equal(linear.bias, bias[:, 0])
        assert torch.equal(one.read(weights).output.weight, weights[f"{names[1]}.weight"])


def test_keys_and_values_in_one_matrix():
    weights, found = read(made(to_q=(D, D), to_kv=(2 * D, D), to_out=(D, D)))
    assert [one.note for one in found] == list(ORDERS)
    by = found[0].read(weights)
    assert torch.equal(torch.cat([by.key.weight, by.value.weight]), weights["to_kv"]) and by.query.bias is None


def test_parameters_are_used_as_x_w_or_as_w_x():
    weights, [behind, before] = read(made("", **dict.fromkeys(FOUR, (D, D))))
    assert behind.note == "W is used as x W" and before.note == ""
    assert torch.equal(behind.read(weights).query.weight, weights["W_q"].mT)
    assert torch.equal(before.read(weights).query.weight, weights["W_q"])


def test_matrices_that_are_not_square_are_of_vectors_of_another_size_the_other_way():
    weights, found = read(made("", W_q=(D, 6), W_k=(D, 6), W_v=(D, 6), W_o=(6, D)))
    assert [(one.note, one.read(weights).query.weight.shape[1]) for one in found] == [("W is used as x W", D), ("", 6)]


def test_conv1d_has_its_inputs_first():
    weights, [one, *_] = read(made("conv1d", c_attn=(D, 3 * D), c_proj=(D, D)))
    assert torch.equal(one.read(weights).key.weight, weights["c_attn"][:, D : 2 * D].mT)
    assert torch.equal(one.read(weights).output.weight, weights["c_proj"].mT)


def test_parameters_of_three_dimensions_have_one_for_heads():
    weights, found = read(
        made("", W_Q=(HEADS, D, 4), W_K=(HEADS, D, 4), W_V=(HEADS, D, 4), W_O=(HEADS, 4, D), b_Q=(HEADS, 4), b_O=(D,))
    )
    by = found[0].read(weights)
    assert torch.equal(by.query.weight, rearrange(weights["W_Q"], "h m d -> (h d) m"))
    assert torch.equal(by.output.weight, rearrange(weights["W_O"], "h d m -> m (h d)"))
    assert torch.equal(by.query.bias, weights["b_Q"].flatten()) and by.key.bias is None


def test_layers_of_each_head_stand_one_below_the_other():
    names = [f"heads.{head}.{part}" for head in (10, 0, 2) for part in ("query", "key", "value")]
    weights, [one] = read(made(proj=(D, D), **{name.replace(".", "__"): (4, D) for name in names}), None)
    expected = torch.cat([weights[f"heads.{head}.key"] for head in (0, 2, 10)])
    assert one.heads == 3 and torch.equal(one.read(weights).key.weight, expected)


def test_fewer_key_heads():
    weights, [one] = read(made(wq=(D, D), wk=(4, D), wv=(4, D), wo=(D, D)))
    assert one.read(weights).key.weight.shape == (4, D)


@pytest.mark.parametrize("shapes", [{"wk": (5, D)}, {"wv": (D, D + 1)}, {"wo": (D, D + 1)}, {"wk": (2 * D, D)}])
def test_what_does_not_go_together_is_no_reading(shapes):
    assert read(made(**{"wq": (D, D), "wk": (D, D), "wv": (D, D), "wo": (D, D)} | shapes))[1] == []


def test_heads_that_nobody_says_are_any():
    _, found = read(square(*FOUR), None)
    assert [one.heads for one in found] == [1, 2, 4]  # of 12 elements; 3 nobody would guess


def test_what_is_not_there_is_a_mistake():
    weights, [one] = read(square("W_q", "W_k", "W_o"))
    assert one.mistakes == ("values not projected",)
    assert torch.equal(one.read(weights).value.weight, torch.eye(D, dtype=torch.float64))
    assert "values not projected" not in read(square("W_q", "W_k", "W_v"), 1)[1][0].mistakes


@pytest.mark.parametrize(
    "name, part",
    [
        ("attn.W_q.weight", "query"),
        ("b_q", "query"),
        ("kv_proj.weight", "pair"),
        ("norm.weight", None),
        ("embedding.weight", None),
        ("proj.weight", "output"),
        ("in_proj_weight", "fused"),
    ],
)
def test_the_part_of_a_name(name, part):
    assert part_of(name, {}) == part


def test_other_weights_are_nobodys():
    slots = slots_of({**square(*FOUR).weights, "norm.weight": Weight((D,), "LayerNorm")}, {})
    assert set(slots) == set(PARTS) and slots["query"].weights == ("W_q.weight",)


def test_numbers_are_counted():
    assert sorted(["h.10.q", "h.2.q"], key=natural) == ["h.2.q", "h.10.q"]


# --- writing --------------------------------------------------------------------------------------------

LAYOUTS = (
    made(bias=True, **dict.fromkeys(FOUR, (D, D))),
    made(bias=True, qkv=(3 * D, D), proj=(D, D)),
    made("", **dict.fromkeys(FOUR, (D, D))),
    made("conv1d", c_attn=(D, 3 * D), c_proj=(D, D)),
    made("", W_Q=(HEADS, D, 4), W_K=(HEADS, D, 4), W_V=(HEADS, D, 4), W_O=(HEADS, 4, D)),
    made(to_q=(D, D), to_kv=(2 * D, D), to_out=(D, D), norm__weight=(D,)),
)


@given(st.sampled_from(LAYOUTS), st.integers(0, 2), st.integers(0, 2**32))
def test_what_is_written_is_read(of, place, seed):
    found = readings(of, HEADS, {})
    one = found[place % len(found)]
    random = torch.Generator().manual_seed(seed)
    by = one.read(draw_weights(of))
    by = Projections(
        *(
            Linear(
                *(None if x is None else torch.randn(x.shape, dtype=torch.float64, generator=random) for x in linear)
            )
            for linear in by
        )
    )
    written = one.write(by, of.weights)
    assert {name: tuple(x.shape) for name, x in written.items()} == {name: x.shape for name, x in of.weights.items()}
    for theirs, ours in zip(one.read(written), by, strict=True):
        assert torch.equal(theirs.weight, ours.weight)
        assert (theirs.bias is None and ours.bias is None) or torch.equal(theirs.bias, ours.bias)
    assert all((x == 0).all() for name, x in written.items() if name.startswith("norm"))


def test_what_is_read_is_written():
    for of in LAYOUTS[:-1]:
        weights = draw_weights(of)
        for one in readings(of, HEADS, {}):
            written = one.write(one.read(weights), of.weights)
            assert all(torch.equal(written[name], weights[name]) for name in weights)


def test_a_bias_that_the_model_does_not_have_is_zero():
    of = square(*FOUR)
    [one] = readings(of, HEADS, {})
    by = Projections(*(Linear(linear.weight) for linear in one.read(draw_weights(of))))
    assert (one.write(by, of.weights)["W_k.bias"] == 0).all()


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"query": Linear(torch.ones(D, D + 1))}, r"the query is projected by \[12, 13\] in the model, by \[12, 12\]"),
        ({"value": Linear(torch.ones(D, D), torch.ones(D))}, "the model has a bias of the value, and there is none"),
        ({"output": None}, "one of both has no projection of the output"),
    ],
)
def test_what_does_not_fit_is_not_written(changed, said):
    of = square(*FOUR, bias=False)
    [one] = readings(of, HEADS, {})
    by = one.read(draw_weights(of))._replace(**changed)
    with pytest.raises(RequestError, match=said):
        one.write(by, of.weights)


def test_a_bias_of_zero_needs_no_place():
    of = square(*FOUR, bias=False)
    [one] = readings(of, HEADS, {})
    by = one.read(draw_weights(of))
    one.write(by._replace(key=Linear(by.key.weight, torch.zeros(D))), of.weights)
