"""One row of one head from beginning to end, every number on the way.

    score_j  = q · k_j                    scaled_j = score_j / √d_k
    raised_j = exp(scaled_j - m), m the largest scaled score that the mask allows; 0 where it hides the key
    weight_j = raised_j / Σ_l raised_l    output   = Σ_j weight_j v_j

(Vaswani et al. 2017, equation 1. Subtracting m changes no weight, and keeps exp from overflowing.)
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attncli.record import Bools, Floats

Wide = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RowSteps:
    """The steps of one query; arrays are by key `[key]`, computed in float64 from the head's own vectors.

    score, scaled, raised: as in the formulas above; largest is m, total the sum of raised.
    weight: the head's own, as the model computed it; computed: raised / total, which differs from it by rounding.
    value_norm: |v_j|; contribution: |weight_j v_j|, how much a token brings to the output (Kobayashi et al. 2020,
    equation 3, without the output projection). output: Σ_j weight_j v_j `[head_dim]`.
    """

    allowed: Bools
    score: Wide
    scaled: Wide
    largest: float
    raised: Wide
    total: float
    weight: Floats
    computed: Wide
    value_norm: Wide
    contribution: Wide
    output: Wide


def row_steps(query: Floats, key: Floats, value: Floats, allowed: Bools, weight: Floats) -> RowSteps:
    """The steps from q `[head_dim]`, k and v `[key, head_dim]`, what may be attended to and the weights `[key]`.

    Where nothing may be attended to all weights and the output are 0.
    """
    score = key.astype(np.float64) @ query.astype(np.float64)
    scaled = score / np.sqrt(len(query))
    largest = float(scaled[allowed].max()) if allowed.any() else 0.0
    raised = np.where(allowed, np.exp(np.where(allowed, scaled - largest, 0.0)), 0.0)
    total = float(raised.sum())
    weighted = weight.astype(np.float64)[:, None] * value.astype(np.float64)  # [key, head_dim]
    return RowSteps(
        allowed=allowed,
        score=score,
        scaled=scaled,
        largest=largest,
        raised=raised,
        total=total,
        weight=weight,
        computed=raised / total if total else raised,
        value_norm=np.linalg.norm(value.astype(np.float64), axis=-1),
        contribution=np.linalg.norm(weighted, axis=-1),
        output=weighted.sum(axis=0),
    )
