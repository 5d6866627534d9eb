"""The largest difference between two correct programs in float32 and float64: the scaled tolerance.

Half precision is in `attncli.features.compare.agreement`.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Each layer rounds its sums again, so errors grow with the depth and with the size of what is added up. Measured on 19
# families, of 32 to 768 numbers a vector and 4 to 12 layers: at most 13 eps x depth x size. STEPS leaves room for 2.5
# times that.
STEPS = 32
# A weight w moves by w (1 - w), at most a quarter, of what its score moves. A score adds up one head's numbers, a
# vector all heads', which is another quarter: measured weights are at most 13 eps x depth x this size too.
OF_A_SCORE = 1 / 16


class Tolerance(NamedTuple):
    """The largest absolute difference that rounding explains, of a weight and of a number in a vector."""

    weights: float
    hidden: float


# The flat tolerances of the laws of masks (`attncli mask`) and of somebody else's attention in one layer.
HALF_STEPS = 32
TOLERANCES = {
    "float64": Tolerance(1e-10, 1e-10),
    "float32": Tolerance(1e-5, 1e-4),
    "float16": Tolerance(HALF_STEPS * 2**-10, 2 * HALF_STEPS * 2**-10),
    "bfloat16": Tolerance(HALF_STEPS * 2**-7, 2 * HALF_STEPS * 2**-7),
}


def scaled_tolerance(dtype: "torch.dtype", depth: int, size: float) -> float:
    """Return the largest difference that rounding explains, between numbers computed by two correct programs.

    depth: how many layers made the numbers. size: of the numbers, from `vector_size` or `weight_size`; 1 for shares of
    a size.
    """
    import torch

    return STEPS * torch.finfo(dtype).eps * depth * size


def vector_size(vectors: "Tensor") -> float:
    """Return the largest absolute number of vectors, or 1: norms inside a layer make numbers of about 1."""
    numbers = vectors.abs()
    return max(1.0, float(numbers[numbers.isfinite()].max())) if numbers.isfinite().any() else 1.0


def weight_size(weights: "Tensor") -> float:
    """Return OF_A_SCORE of the range of the scores behind the weights, or 1. That range is -log of the least weight.

    Rounding happens in the scores: a weight of 1e-9 beside one of 1 comes from scores that are 20 apart.
    """
    seen = weights[weights > 0]
    return max(1.0, -OF_A_SCORE * float(seen.double().min().log())) if len(seen) else 1.0
