"""`attncli.capture` on the networks of tests/networks.py, against the maps that their libraries compute themselves."""

import copy
import math
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import networks
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import Case, Row
from own_networks import HEADS, WIDTH, Annotated, Block, InBlocks, Lucidrains, Projections, Stack, joined, split
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
pytestmark = pytest.mark.filterwarnings("ignore")


def case_of(row: Row, dtype: torch.dtype = torch.float32) -> Case:
    """Return a row's case; skip the test where its library is not installed."""
    if not networks.is_here(row.library):
        pytest.skip(f"{row.library} is not installed")
    return row.case().to(dtype)


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
    assert all(name for name in dict.fromkeys(call.name for call in seen.calls)) or len(seen.calls) == 1


@pytest.mark.slow
@pytest.mark.parametrize("way", ["train", "inference_mode", "autocast"])
@pytest.mark.parametrize("row", ROWS)
def test_maps_and_bits_in_other_modes(row: Row, way: str) -> None:
    case = case_of(row)
    case.network.train(way == "train")
    modes = {"inference_mode": torch.inference_mode, "autocast": lambda: torch.autocast("cpu", torch.bfloat16)}
    with modes.get(way, nullcontext)():
        torch.manual_seed(1)
        bare = case.call()
        torch.manual_seed(1)
        with attncli.capture(case.network) as seen:
            assert_same_bits(case.call(), bare)
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
    """Compare the gradient of a factor in all blocks with a difference. Attention by hand can't be changed: refused."""
    case = case_of(row, torch.float64)
    case.network.train()  # torch's kernels for whole modules give 0 for padding, what stands in their place does not

    def loss(factor: float | Tensor) -> Tensor:
        with attncli.capture(case.network, taps=[Scaled(factor)]):
            return some_number()

    def some_number() -> Tensor:
        torch.manual_seed(1)
        found = [one.flatten() for one in tensors(case.call()) if one.is_floating_point()]
        return sum((one * torch.arange(len(one)).cos()).mean() for one in found)

    with torch.no_grad(), attncli.capture(case.network) as seen:
        bare = some_number()
    if any(call.allowed is None for call in seen.calls):
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
