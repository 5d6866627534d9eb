"""Tolerances: what rounding alone does is within them, and not far within."""

from itertools import pairwise

import pytest
import torch

from attncli.checks.agreement import difference, worst
from attncli.checks.tolerance import TOLERANCES
from attncli.models.transformers_peer import load_reference


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_allowed_what_its_own_rounding_does(minilm, dtype):
    """transformers against itself in float32 is within the tolerance, and not far within it."""
    tokens = minilm.tokenizer.encode("The trophy does not fit in the suitcase because it is too big.")
    exact, rounded = (
        load_reference(minilm.place.path, minilm.device, number).run(tokens, "padding")
        for number in (torch.float32, getattr(torch, dtype))
    )
    for part, allowed in enumerate(TOLERANCES[dtype]):
        off = worst(difference(one, other) for one, other in zip(exact[part], rounded[part], strict=True))
        assert allowed / 50 < off < allowed


def test_the_coarser_the_dtype_the_more_is_allowed():
    order = ("float64", "float32", "float16", "bfloat16")
    for finer, coarser in pairwise(order):
        assert all(less < more for less, more in zip(TOLERANCES[finer], TOLERANCES[coarser], strict=True))
