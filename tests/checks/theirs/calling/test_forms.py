"""How it is called: layouts put and take the same, masks say what they are said to say."""

import pytest
import torch
from checks.theirs.examined import LAYOUTS
from einops import rearrange
from hypothesis import given
from hypothesis import strategies as st

from attncli.attention.mistakes import Inputs, Linear, Projections, Seen
from attncli.checks.code.subject import Answer, Parameter
from attncli.checks.theirs.calling.forms import (
    BY_HEADS,
    MEANINGS,
    PROJECTED,
    SHAPES,
    Encoding,
    Form,
    as_weights,
    encoded,
    encodings,
    expected_shape,
    in_words,
)
from attncli.checks.theirs.calling.roles import roles_of

BATCH, HEADS, QUERIES, KEYS, D = 2, 3, 4, 5, 6


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape)))


def of_heads(batch=BATCH, heads=HEADS, seen=None) -> Inputs:
    shape = (batch, heads, KEYS, D)
    return Inputs(numbers(batch, heads, QUERIES, D), numbers(*shape), numbers(*shape), heads, seen=seen or Seen())


def form(*names: str, layout="batch head token d", optional=(), **encodings: Encoding) -> Form:
    call = [Parameter(name, "positional", True) for name in names]
    call += [Parameter(name, "keyword", False) for name in optional]
    return Form(roles_of(call, {}), LAYOUTS[layout], encodings)


# --- layouts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [*PROJECTED, *BY_HEADS], ids=lambda layout: layout.name)
def test_a_layout_gives_back_what_it_put(layout):
    projected = layout in PROJECTED
    x = numbers(*(BATCH if layout.batch else 1,), *(() if projected else (HEADS if layout.heads else 1,)), QUERIES, D)
    assert torch.equal(layout.take(layout.put(x)), x)
    assert layout.put(x).dim() == len(layout.name.split())
    ours = "batch token d_model" if projected else "batch head token d"
    whole = ours if layout.batch else ours.replace("batch", "1")
    whole = whole if layout.heads or projected else whole.replace("head", "1")
    assert torch.equal(layout.put(x), rearrange(x, f"{whole} -> {layout.name}"))


# --- masks ----------------------------------------------------------------------------------------------

BACK = {
    "query key": "q k -> 1 1 q k",
    "batch 1 query key": "b 1 q k -> b 1 q k",
    "batch query key": "b q k -> b 1 q k",
    "batch 1 1 key": "b 1 1 k -> b 1 1 k",
    "batch key": "b k -> b 1 1 k",
    "batch 1 key": "b 1 k -> b 1 1 k",
    "1 1 query key": "1 1 q k -> 1 1 q k",
    "1 query key": "1 q k -> 1 1 q k",
    "batch head query key": "b h q k -> b h q k",
    "batch·head query key": "(b h) q k -> b h q k",
    "query key 1": "q k 1 -> 1 1 q k",
    "key": "k -> 1 1 1 k",
}


def test_every_shape_of_a_mask_is_read_here():
    assert set(BACK) == set(SHAPES)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("means, dtype", MEANINGS)
@given(seed=st.integers(0, 2**32))
def test_a_mask_says_what_it_is_said_to(shape, means, dtype, seed):
    of = "batch" in shape, "query" in shape
    drawn = torch.rand(BATCH if of[0] else 1, 1, QUERIES if of[1] else 1, KEYS, generator=torch.manual_seed(seed)) < 0.5
    mask = drawn.expand(BATCH, 1, QUERIES, KEYS)
    given = encoded(mask, Encoding(shape, means, dtype), HEADS)
    kinds = {"bool": torch.bool, "float": torch.float64, "int": torch.int64}
    assert given.dtype == kinds[dtype]
    allowed = given == 0 if means == "added" else given.bool() if means == "allowed" else ~given.bool()
    if means == "added":
        assert (given[~allowed] == -torch.inf).all()
    back = rearrange(allowed, BACK[shape], **({"h": HEADS} if "(b h)" in BACK[shape] else {}))
    assert torch.equal(back.expand(BATCH, HEADS, QUERIES, KEYS), mask.expand(-1, HEADS, -1, -1))


def test_what_a_shape_cannot_say_is_no_mask():
    mask = torch.ones(BATCH, 1, QUERIES, KEYS, dtype=torch.bool)
    mask[0, 0, 0, 0] = False  # of one query of one text
    kept = [shape for shape in SHAPES if encoded(mask, Encoding(shape, "allowed"), HEADS) is not None]
    assert kept == [shape for shape in SHAPES if "batch" in shape and "query" in shape]


def test_lengths_are_numbers_of_keys_from_the_first():
    lengths = Encoding("lengths", "allowed", "int")
    prefix = (torch.arange(KEYS) < torch.tensor([[3], [5]]))[:, None, None].expand(BATCH, 1, QUERIES, KEYS)
    assert encoded(prefix, lengths, HEADS).tolist() == [3, 5]
    assert encoded(prefix.flip(-1), lengths, HEADS) is None  # [PAD] that comes first


def test_a_mask_is_a_copy():
    mask = torch.ones(BATCH, 1, QUERIES, KEYS, dtype=torch.bool)
    encoded(mask, Encoding("batch 1 query key", "allowed"), HEADS).zero_()
    assert mask.all()


@pytest.mark.parametrize("means", ["allowed", "forbidden", "added"])
def test_a_declared_meaning_is_the_only_one(means):
    assert {one.means for one in encodings("mask", means)} == {means}
    assert {one.means for one in encodings("mask", None)} == {"allowed", "forbidden", "added"}


def test_padding_says_nothing_of_queries():
    assert all("query" not in one.shape for one in encodings("padding", None))
    assert [one.shape for one in encodings("lengths", "forbidden")] == ["lengths"]


# --- calls ----------------------------------------------------------------------------------------------

PADDING = torch.arange(KEYS) < torch.tensor([[3], [5]])
CAUSAL = torch.ones(QUERIES, KEYS, dtype=torch.bool).tril()


def test_arguments_stand_where_their_parameters_do():
    inputs = of_heads()
    call = form("v", "k", "q").call(inputs, "float64")
    assert [one is other for one, other in zip(call.arguments, (inputs.value, inputs.key, inputs.query), strict=True)]
    call = form("q", "k", "v", optional=("is_causal", "need_weights", "mask")).call(inputs, "float32", strided=True)
    assert call.keywords == {"is_causal": False, "need_weights": True} and call.strided and call.dtype == "float32"


def test_a_mask_that_is_needed_is_given_where_nothing_is_hidden():
    asked = form("q", "k", "v", "mask", mask=Encoding("query key", "forbidden"))
    mask = asked.call(of_heads(), "float64").arguments[3]
    assert mask.shape == (QUERIES, KEYS) and not mask.any()
    assert form("q", "k", "v", "mask").call(of_heads(), "float64").arguments[3] is None


def test_what_is_hidden_goes_to_the_parameter_that_can_say_it():
    asked = form(
        "q", "k", "v", optional=("mask", "key_padding_mask"),
        mask=Encoding("query key", "allowed"), padding=Encoding("batch key", "forbidden"),
    )  # fmt: skip
    masks = asked.call(of_heads(seen=Seen(padding=PADDING, pairs=CAUSAL)), "float64").keywords
    assert torch.equal(masks["mask"], CAUSAL) and torch.equal(masks["key_padding_mask"], ~PADDING)
    assert asked.call(of_heads(), "float64").keywords == {}


def test_one_mask_says_both():
    asked = form("q", "k", "v", optional=("mask",), mask=Encoding("batch query key", "allowed"))
    [mask] = asked.call(of_heads(seen=Seen(padding=PADDING, pairs=CAUSAL)), "float64").keywords.values()
    assert torch.equal(mask, CAUSAL & PADDING[:, None, :])


@pytest.mark.parametrize(
    "seen, encodings, can",
    [
        (Seen(), {}, True),
        (Seen(padding=PADDING), {}, False),
        (Seen(pairs=CAUSAL), {}, False),
        (Seen(pairs=torch.ones_like(CAUSAL)), {}, True),
        (Seen(pairs=CAUSAL), {"mask": Encoding("query key", "allowed")}, True),
        (Seen(padding=PADDING), {"mask": Encoding("query key", "allowed")}, False),
        (Seen(padding=PADDING), {"mask": Encoding("batch 1 1 key", "allowed")}, True),
        (Seen(padding=PADDING), {"padding": Encoding("batch key", "allowed")}, True),
        (Seen(padding=PADDING), {"lengths": Encoding("lengths", "allowed", "int")}, True),
        (Seen(pairs=CAUSAL), {"padding": Encoding("batch key", "allowed")}, False),
    ],
)
def test_what_can_be_given(seen, encodings, can):
    asked = form("q", "k", "v", optional=("mask", "key_padding_mask", "lengths"), **encodings)
    assert asked.can(of_heads(seen=seen)) == can


def test_what_has_no_dimension_for_it_cannot_be_given():
    assert not form("q", "k", "v", layout="head token d").can(of_heads())
    assert form("q", "k", "v", layout="head token d").can(of_heads(batch=1))
    assert not form("q", "k", "v", layout="batch token d").can(of_heads())
    assert form("q", "k", "v", layout="batch token d").can(of_heads(heads=1))
    assert not form("x").can(of_heads())  # keys of another length


# --- answers --------------------------------------------------------------------------------------------


def test_output_and_weights_are_known_by_their_shapes():
    inputs = of_heads()
    output, weights = numbers(BATCH, HEADS, QUERIES, D), numbers(BATCH, HEADS, QUERIES, KEYS)
    for answer in (Answer((output, weights)), Answer((weights, output))):
        found = form("q", "k", "v").read(answer, inputs)
        assert torch.equal(found.output, output) and torch.equal(found.weights, weights)
    assert form("q", "k", "v").read(Answer((output,)), inputs).weights.numel() == 0
    assert form("q", "k", "v").read(Answer((weights,)), inputs) is None


def test_heads_may_come_back_joined():
    output = numbers(BATCH, HEADS, QUERIES, D)
    joined = rearrange(output, "b h t d -> b t (h d)")
    assert torch.equal(form("q", "k", "v").read(Answer((joined,)), of_heads()).output, output)


@pytest.mark.parametrize(
    "batch, order",
    [
        (BATCH, "b h q k"),
        (BATCH, "b q k h"),
        (BATCH, "(b h) q k"),
        (1, "(b h) q k"),
    ],
)
def test_weights_in_any_order(batch, order):
    weights = numbers(batch, HEADS, QUERIES, KEYS)
    [found] = as_weights(rearrange(weights, f"b h q k -> {order}"), of_heads(batch))
    assert torch.equal(found, weights)


def test_weights_may_be_a_mean_over_heads():
    mean = numbers(BATCH, QUERIES, KEYS)
    [found] = as_weights(mean, of_heads())
    assert torch.equal(found, mean[:, None])


def test_the_shape_that_an_output_should_have():
    assert expected_shape(of_heads()) == (BATCH, HEADS, QUERIES, D)
    x = numbers(BATCH, QUERIES, D)
    by = Projections(*(Linear(numbers(n, D)) for n in (6, 2, 2)), Linear(numbers(9, 6)))
    assert expected_shape(Inputs(x, x, x, 3, by)) == (BATCH, QUERIES, 9)
    assert expected_shape(Inputs(x, x, x, 3, by._replace(output=None))) == (BATCH, QUERIES, 6)


@pytest.mark.parametrize(("shapes", "ending"), [(3, ""), (4, " or 1 other way"), (5, " or 2 other ways")])
def test_other_ways_are_counted_in_words(shapes, ending):
    understood = [Encoding(shape, "allowed") for shape in list(SHAPES)[:shapes]]
    told = "mask: True = allowed, as [query, key] or [batch, 1, query, key] or [batch, query, key]"
    assert in_words("mask", understood) == [told + ending]
