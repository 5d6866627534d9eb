"""`attncli.capture` on the networks of tests/networks.py, against the maps that their libraries compute themselves."""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import networks
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from networks import Case, Row
from own_networks import HEADS, WIDTH, Block, InBlocks, Projections, joined, split
from torch import Tensor, nn

import attncli
from attncli.base.errors import RequestError
from attncli.models.block import Block as Attention
from attncli.models.block import Tap
from attncli.models.capture import Capture

QUICK = {"torch.nn", "transformers", "by hand"}
EXACT = {torch.float32: 1e-5, torch.float64: 1e-10}
ROWS = [
    pytest.param(one, id=f"{one.library}: {one.name}", marks=[] if one.library in QUICK else pytest.mark.slow)
    for one in networks.ROWS
]
# Taps are refused: padding that sees everything, a key that is no token, values or keys as the first operand.
REFUSED = {"deberta-v2", "gpt_oss", "after lucidrains", "after CompVis' autoencoder"}
pytestmark = pytest.mark.filterwarnings("ignore")


def case_of(row: Row, dtype: torch.dtype = torch.float32, dropout: bool = False) -> Case:
    """Return a row's case; skip the test where its library is not installed."""
    if not networks.is_here(row.library):
        pytest.skip(f"{row.library} is not installed")
    return row.case(dropout).to(dtype)


def tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors(one)


def assert_same_bits(value: Any, other: Any) -> None:
    pairs = list(zip(tensors(value), tensors(other), strict=True))
    assert pairs and all(torch.equal(one.nan_to_num(), two.nan_to_num()) for one, two in pairs)


def assert_maps(seen: Capture, expected: list[Tensor], tolerance: float) -> None:
    assert len(seen.calls) == len(expected) > 0 and not seen.missed
    for call, theirs in zip(seen.calls, expected, strict=True):
        np.testing.assert_allclose(
            call.weights, theirs.float() if theirs.dtype.itemsize < 4 else theirs, atol=tolerance
        )


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("row", ROWS)
def test_maps_are_those_of_the_library_and_outputs_have_the_same_bits(row: Row, dtype: torch.dtype) -> None:
    case = case_of(row, dtype)
    with torch.no_grad():
        bare = case.call()
        with attncli.capture(case.network) as seen:
            assert_same_bits(case.call(), bare)
        assert_maps(seen, networks.expected_maps(case), EXACT[dtype])
    lines = [line.split(" | ") for line in networks.README.read_text(encoding="utf-8").splitlines()]
    assert any(
        line[0] == f"| {row.library}" and row.name in line[1].split("; ") and line[2] == f"{networks.kinds_of(seen)} |"
        for line in lines
        if len(line) == 3
    )


@pytest.mark.slow
@pytest.mark.parametrize("way", ["train", "dropout", "inference_mode", "autocast"])
@pytest.mark.parametrize("row", ROWS)
def test_maps_and_bits_in_other_modes(row: Row, way: str) -> None:
    case = case_of(row, dropout=way == "dropout")
    case.network.train(way in ("train", "dropout"))
    modes = {"inference_mode": torch.inference_mode, "autocast": lambda: torch.autocast("cpu", torch.bfloat16)}
    with modes.get(way, nullcontext)():
        torch.manual_seed(1)
        bare = case.call()
        torch.manual_seed(1)
        with attncli.capture(case.network) as seen:
            assert_same_bits(case.call(), bare)
        if way == "dropout":
            return
        torch.manual_seed(1)
        expected = networks.expected_maps(case)
    assert_maps(seen, expected, 0.02 if way == "autocast" else 1e-5)


class Scaled(Tap):
    """Multiplies the output of each block with a number that has a gradient."""

    def __init__(self, factor: float | Tensor) -> None:
        self.factor = factor

    def output(self, block: Attention, output: Tensor) -> Tensor:
        return output * self.factor


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_a_changed_block_has_gradients(row: Row) -> None:
    """Compare the gradient of a factor in all blocks with a difference."""
    case = case_of(row, torch.float64)
    case.network.train()  # torch's kernels for whole modules give 0 for padding, what stands in their place does not

    def loss(factor: float | Tensor) -> Tensor:
        with attncli.capture(case.network, taps=[Scaled(factor)]):
            return some_number()

    def some_number() -> Tensor:
        torch.manual_seed(1)
        found = [one.flatten() for one in tensors(case.call()) if one.is_floating_point()]
        return sum((one * torch.arange(len(one)).cos()).mean() for one in found)

    with torch.no_grad():
        bare = some_number()
    if row.name in REFUSED:
        with pytest.raises(RequestError, match="written by hand"):
            loss(1.0)
        return
    factor = torch.ones((), dtype=torch.float64, requires_grad=True)
    found = loss(factor)
    torch.testing.assert_close(found.detach(), bare, rtol=1e-6, atol=1e-6)
    [slope] = torch.autograd.grad(found, factor)
    with torch.no_grad():
        step = 1e-3  # networks have norms in float32
        torch.testing.assert_close(slope, (loss(1 + step) - loss(1 - step)) / (2 * step), rtol=0.01, atol=1e-5)


def draw_mask(data: st.DataObject, *shape: int) -> Tensor:
    """Draw a mask, True = may attend, under which every query sees a key."""
    seen = torch.tensor(data.draw(st.lists(st.booleans(), min_size=math.prod(shape), max_size=math.prod(shape))))
    seen = seen.reshape(shape)
    seen[..., 0] |= ~seen.any(-1)
    return seen


def as_form(data: st.DataObject, seen: Tensor, hidden: bool) -> Tensor:
    """Return a mask as bool, of what is hidden or of what is seen, or as float: -inf, or other numbers, are added."""
    if data.draw(st.booleans()):
        return ~seen if hidden else seen
    return torch.randn(seen.shape, dtype=torch.float64).masked_fill(~seen, -math.inf)


@given(st.data())
def test_masks_of_torch_in_all_forms(data: st.DataObject) -> None:
    torch.manual_seed(data.draw(st.integers(0, 99)))
    queries, keys = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    layer = networks.layer(nn.TransformerDecoderLayer, norm_first=data.draw(st.booleans()))
    network = nn.TransformerDecoder(layer, 2).train(data.draw(st.booleans()))
    networks.without_dropout(network)
    x, memory = torch.randn(2, queries, WIDTH), torch.randn(2, keys, WIDTH)
    inputs: dict[str, Any] = {"": (x, memory)}
    for name, rows, columns in (("tgt", queries, queries), ("memory", queries, keys)):
        padding = draw_mask(data, 2, columns)
        padding[:, 0] = True
        if data.draw(st.booleans()):
            inputs[f"{name}_key_padding_mask"] = as_form(data, padding, True)
        if data.draw(st.booleans()):
            shape = (rows, columns) if data.draw(st.booleans()) else (2 * HEADS, rows, columns)
            seen = draw_mask(data, *shape)
            seen[..., 0] = True
            inputs[f"{name}_mask"] = as_form(data, seen, True)
    case = Case(network, inputs).to(torch.float64)
    with torch.no_grad(), attncli.capture(case.network) as seen_maps:
        case.call()
    assert_maps(seen_maps, networks.by_heads(case.network, case.inputs), 1e-10)


@given(st.data())
def test_masks_of_transformers_in_all_forms(data: st.DataObject) -> None:
    row = data.draw(st.sampled_from([one for one in networks.ROWS if one.name in ("bert", "llama", "gpt2")]))
    case = row.case().to(torch.float64)
    tokens = networks.TOKENS
    form = data.draw(st.sampled_from(["tokens", "bool", "float"]))
    seen = draw_mask(data, 2, tokens) if form == "tokens" else draw_mask(data, 2, 1, tokens, tokens)
    seen[..., 0] = True
    mask = seen.double().log() if form == "float" else seen.long() if form == "tokens" else seen
    case = case._replace(inputs={**case.inputs, "attention_mask": mask})
    with torch.no_grad(), attncli.capture(case.network) as found:
        case.call()
    assert_maps(found, networks.by_eager(case.network, {**case.inputs, "attention_mask": as_numbers(mask)}), 1e-10)


def as_numbers(mask: Tensor) -> Tensor:
    """Return what eager attention of transformers takes: a bool mask of all cells as numbers that are added."""
    return mask.double().log() if mask.dtype == torch.bool else mask


class Masked(Projections):
    """Attention by hand, whose mask comes to the scores in one of the ways that people write."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Tensor, allowed: Tensor) -> Tensor:
        q, k, v = map(split, (self.q(x), self.k(x), self.v(x)))
        scores, least = q @ k.mT / 3, torch.finfo(x.dtype).min
        if self.way == "masked_fill_":
            scores.masked_fill_(~allowed, -math.inf)
        elif self.way == "where":
            scores = torch.where(allowed, scores, scores.new_tensor(least))
        elif self.way == "added":
            scores = scores + allowed.to(x.dtype).log()
        elif self.way == "in place":
            scores += (~allowed).to(x.dtype) * least
        elif self.way == "multiplied":
            scores = scores * allowed - 1e9 * (~allowed).to(x.dtype)
        elif self.way == "item":
            scores[(~allowed).expand_as(scores)] = -math.inf
        weights = torch.exp(scores - scores.amax(-1, keepdim=True))
        self.seen = weights / weights.sum(-1, keepdim=True) if self.way == "exp" else scores.softmax(-1)
        weights = F.dropout(self.seen, 0.5) if self.way == "dropout" else self.seen
        return self.o(joined(weights @ v))


@pytest.mark.parametrize("way", ["masked_fill_", "where", "added", "in place", "multiplied", "item", "exp", "dropout"])
@given(st.data())
def test_masks_by_hand(way: str, data: st.DataObject) -> None:
    torch.manual_seed(data.draw(st.integers(0, 99)))
    tokens = data.draw(st.integers(1, 6))
    allowed = draw_mask(data, data.draw(st.sampled_from([1, 2])), 1, tokens, tokens)
    network, x = Masked(way).double(), torch.randn(2, tokens, WIDTH, dtype=torch.float64)
    with attncli.capture(network) as seen:
        network(x, allowed)
    assert_maps(seen, [network.seen.detach()], 1e-10)


@pytest.mark.parametrize("way", ["running maximum", "logsumexp"])
def test_attention_in_blocks_of_keys_says_that_its_maps_are_not_to_be_seen(way: str) -> None:
    torch.manual_seed(0)
    x, whole = torch.randn(2, 6, WIDTH), Block(InBlocks(way))
    with attncli.capture(whole) as seen:
        found = whole(x)
    assert torch.equal(found, whole(x)) and not seen.calls
    expected = F.scaled_dot_product_attention(
        *(split(part(whole.norm(x))) for part in (whole.attn.q, whole.attn.k, whole.attn.v))
    )
    torch.testing.assert_close(whole.attn(whole.norm(x)), whole.attn.o(joined(expected)))
    assert (
        repr(seen)
        == "<no map could be made of attn: its softmax is computed in blocks of keys, so there is no complete map>"
    )
    with pytest.raises(RequestError, match="attn: its softmax is computed in blocks of keys"):
        seen.record()
    with pytest.raises(RequestError, match="written by hand in this way"), attncli.capture(taps=[Scaled(1.0)]):
        whole(x)


class NoAttention(nn.Module):
    """Products of activations and softmaxes that are no attention."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.q, self.k, self.v, self.gate = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.experts = nn.Parameter(torch.randn(WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.way == "linear attention":  # softmaxes over features, and over tokens, before the product
            return self.gate(q.softmax(-1) @ (k.softmax(-2).mT @ v)).softmax(-1) @ self.experts
        if self.way == "slots":  # a softmax over queries
            return (k @ q.mT).softmax(-1).mT @ v
        if self.way == "slots of the first axis":
            return (q @ k.mT).softmax(-2) @ v
        if self.way == "slots by einsum":
            return torch.einsum("bkq,bkd->bqd", torch.einsum("bkd,bqd->bkq", k, q).softmax(-1), v)
        if self.way == "similarities":  # which multiply no values
            return (q @ k.mT).softmax(-1).sum(1)
        if self.way == "keys of parameters":
            return (q @ self.gate.weight.T).softmax(-1) @ v
        return self.gate(q @ (k.mT @ v)).softmax(-1) @ v  # a router behind a product


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize(
    "way",
    [
        "linear attention",
        "slots",
        "slots of the first axis",
        "slots by einsum",
        "similarities",
        "keys of parameters",
        "router",
    ],
)
def test_what_is_no_attention_is_not_shown(way: str, mode: type) -> None:
    network = NoAttention(way)
    with mode(), attncli.capture(network) as seen:
        network(torch.randn(2, WIDTH, WIDTH))  # as many tokens as features: sizes tell nothing
    assert not seen.calls
