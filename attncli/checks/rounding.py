"""Half precision: are our errors those of rounding? transformers' own errors are the measure.

Rounding to half precision moves weights by up to 0.1, so the largest difference hides most mistakes. Three passes tell
more: ours, transformers' in the same dtype, and transformers' in float32 with the same rounded weights. The last one
is taken as exact. Correct programs are about equally far from it, and neither has scores that are larger throughout.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

# All measured on 11 families of random weights and on minilm, in bfloat16 and float16, on texts of 3 to 90 tokens.
RATIO = 2.0  # Our root mean square error divided by transformers': up to 1.96 from 40 tokens on, mostly 0.5 to 1.3.
FEW = 4.0  # Chance decides more for a few rows: n of them may have 1 + FEW / n times as much. 2.95 was seen for 3.
LARGEST = 6.0  # The largest difference divided by the largest error of transformers: up to 3.8.
SCALE = 1.25  # How far our scores may be larger throughout, in eps of the dtype. It is 1 % in bfloat16.
DEVIATIONS = 6.0  # How many standard errors of the measured scale count as chance.
LEAST = 1e-3  # of a weight: smaller ones say little of their score in half precision


@dataclass(frozen=True)
class Rounding:
    """What half precision does in one layer.

    weights, hidden: our root mean square error divided by transformers'. allowed: what chance explains of these two.
    scale: how much larger our scores are than exact ones, as a share. scale_allowed: what rounding explains of it.
    weights_allowed, hidden_allowed: what it explains of the largest difference.
    """

    weights: float
    hidden: float
    allowed: float
    scale: float
    scale_allowed: float
    weights_allowed: float
    hidden_allowed: float

    def document(self) -> dict[str, Any]:
        """As `compare --json` prints it. A number that is not finite is null."""
        numbers = {
            "weights": self.weights,
            "hidden": self.hidden,
            "allowed": self.allowed,
            "scale": self.scale,
            "scale_allowed": self.scale_allowed,
        }
        return {name: number if math.isfinite(number) else None for name, number in numbers.items()}

    def faults(self, vectors: str, theirs: str) -> list[str]:
        """What is more than rounding, in words. NaN always is."""
        errors = (("weights", self.weights), (vectors, self.hidden))
        found = [
            f"{what} have errors {ratio:.1f} times {theirs}, past {self.allowed:.1f}"
            for what, ratio in errors
            if not ratio <= self.allowed
        ]
        if not abs(self.scale) <= self.scale_allowed:
            found.append(f"scores are {self.scale:+.1%} off throughout, past {self.scale_allowed:.1%}")
        return found


@dataclass
class Errors:
    """Adds up errors of one kind of number: squares, and the largest one of transformers."""

    eps: float
    ours: float = 0.0
    theirs: float = 0.0
    exact: float = 0.0
    largest: float = 0.0

    def add(self, ours: Tensor, theirs: Tensor, exact: Tensor) -> None:
        ours, theirs, exact = (part.double().cpu() for part in (ours, theirs, exact))
        self.ours += float((ours - exact).square().sum())
        self.theirs += float((theirs - exact).square().sum())
        self.exact += float(exact.square().sum())
        self.largest = max(self.largest, float((theirs - exact).abs().max()), self.eps * float(exact.abs().max()))

    @property
    def ratio(self) -> float:
        """Our root mean square error divided by transformers'. Errors below a quarter of a step are not counted."""
        least = (self.eps / 4) ** 2 * self.exact
        return math.sqrt(self.ours / max(self.theirs, least)) if self.exact else 1.0


@dataclass
class Scores:
    """Adds up how our scores grow with exact ones: the slope of one on the other, row by row around its mean."""

    ours: float = 0.0
    theirs: float = 0.0
    exact: float = 0.0
    rest: float = 0.0
    rows: int = 0

    def add(self, ours: Tensor, theirs: Tensor, exact: Tensor) -> None:
        kept = exact > LEAST
        wanted, found, other = (scores_of(one, kept) for one in (exact, ours, theirs))
        self.ours += float(((found - wanted) * wanted).sum())
        self.theirs += float(((other - wanted) * wanted).sum())
        self.exact += float(wanted.square().sum())
        self.rest += float((other - wanted).square().sum())
        self.rows += math.prod(exact.shape[:-1])

    def scale(self, eps: float) -> tuple[float, float]:
        """Return how much larger our scores are, as a share, and what rounding explains of that."""
        if not self.exact:
            return 0.0, math.inf
        # Errors of one row go together, so a row counts once.
        error = DEVIATIONS * math.sqrt(self.rest / self.exact / self.rows)
        return self.ours / self.exact, SCALE * eps + 2 * abs(self.theirs / self.exact) + error


def scores_of(weights: Tensor, kept: Tensor) -> Tensor:
    """Return the scores behind the weights, less their mean in the row. The weights that are not kept are 0."""
    logarithms = torch.where(kept, weights.double().clamp(min=LEAST / 10).log(), 0.0)
    mean = logarithms.sum(dim=-1, keepdim=True) / kept.sum(dim=-1, keepdim=True).clamp(min=1)
    return torch.where(kept, logarithms - mean, 0.0).cpu()


@dataclass
class LayerErrors:
    """Adds up what half precision does in one layer, text by text."""

    dtype: torch.dtype
    weights: Errors = field(init=False)
    hidden: Errors = field(init=False)
    scores: Scores = field(default_factory=Scores)

    def __post_init__(self) -> None:
        eps = torch.finfo(self.dtype).eps
        self.weights, self.hidden = Errors(eps), Errors(eps)

    def rounding(self, rows: int) -> Rounding:
        """Return what was found in so many rows."""
        scale, allowed = self.scores.scale(self.weights.eps)
        return Rounding(
            self.weights.ratio,
            self.hidden.ratio,
            RATIO * (1 + FEW / rows),
            scale,
            allowed,
            LARGEST * self.weights.largest,
            LARGEST * self.hidden.largest,
        )
