"""Queries, keys, values and masks of any shapes that fit together, and torch's attention on them."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class Case(NamedTuple):
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None

    def map(self, change) -> "Case":
        return Case(change(self.query), change(self.key), change(self.value), self.mask)

    def rounding(self) -> float:
        """Return the rounding error that the dtype allows: a score is off by some units in its last place, and the
        exponential turns that into a share of the weight.
        """
        query, key, value = (part.detach().double() for part in self[:3])
        scores = (query @ key.mT).abs().max().item() / key.shape[-1] ** 0.5
        return 4 * torch.finfo(self.query.dtype).eps * (1 + scores) * (1 + value.abs().max().item())


sizes = st.integers(1, 7)


@st.composite
def cases(draw, dtypes=DTYPES, leading=None) -> Case:
    """Queries, keys and values of any shapes that fit together; a mask of any shape that broadcasts."""
    leading = draw(st.lists(st.integers(1, 3), max_size=3)) if leading is None else draw(leading)
    queries, keys, d_k, d_v = draw(sizes), draw(sizes), draw(sizes), draw(sizes)
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from([0.1, 1.0, 3.0]))

    def tensor(*shape: int) -> Tensor:
        return scale * torch.randn(*shape, generator=random, dtype=torch.float64)

    whole = (*leading, queries, keys)
    shape = draw(st.sampled_from([None, (), (keys,), (1, keys), (queries, 1), whole[-2:], whole[-3:], whole]))
    share = draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))  # of what may be attended to
    mask = None if shape is None else torch.rand(shape, generator=random) < share
    case = Case(tensor(*leading, queries, d_k), tensor(*leading, keys, d_k), tensor(*leading, keys, d_v), mask)
    dtype = draw(st.sampled_from(dtypes))
    return case.map(lambda part: part.to(dtype))


def torchs_own(case: Case) -> Tensor:
    """torch's attention in float64; a row that may attend to nothing, which torch leaves open, is 0."""
    query, key, value, mask = case.map(lambda part: part.double())
    if mask is None:
        return F.scaled_dot_product_attention(query, key, value)
    mask = mask.expand(*query.shape[:-1], key.shape[-2])
    somewhere = mask.any(dim=-1, keepdim=True)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask | ~somewhere) * somewhere


def close(found: Tensor, expected: Tensor, case: Case) -> None:
    scale = max(1.0, expected.abs().max().item())
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=case.rounding() * scale)


def refuses_what_does_not_fit(function: Callable[..., object]) -> None:
    """Keys without a value, and masks that are not boolean."""
    query, key, value = torch.randn(2, 3), torch.randn(4, 3), torch.randn(5, 3)
    with pytest.raises(ValueError, match="4 keys, 5 values"):
        function(query, key, value)
    for mask in (torch.zeros(2, 5), torch.ones(2, 5, dtype=torch.int64)):
        with pytest.raises(ValueError, match=rf"boolean.*{mask.dtype}"):
            function(query, value, value, mask)
