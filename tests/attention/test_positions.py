"""Positions against the paper's formula, computed by numpy in double precision."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attncli.attention import LearnedPositions, SinusoidalPositions

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


@given(d_model=even, position=st.integers(0, 10_000), step=st.integers(0, 1000))
def test_a_step_is_a_rotation(d_model, position, step):
    """PE(pos + k) is a linear function of PE(pos) that depends on k alone (section 3.5)."""
    encode = SinusoidalPositions(d_model)
    here, there = (encode(torch.tensor([p]))[0].double().reshape(-1, 2) for p in (position, position + step))
    sine, cosine = encode(torch.tensor([step]))[0].double().reshape(-1, 2).unbind(-1)
    turned = torch.stack([cosine * here[:, 0] + sine * here[:, 1], cosine * here[:, 1] - sine * here[:, 0]], dim=-1)
    torch.testing.assert_close(turned, there, rtol=0, atol=1e-6)


def test_position_zero_and_leading_dimensions():
    assert SinusoidalPositions(6)(torch.tensor([0])).tolist() == [[0, 1, 0, 1, 0, 1]]
    assert SinusoidalPositions(6)(torch.zeros(2, 3, dtype=torch.int64)).shape == (2, 3, 6)
    assert not list(SinusoidalPositions(6).parameters())


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
