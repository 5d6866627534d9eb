"""Compare the project's own forward pass with another program's, layer by layer, on the same tokens and weights.

Half precision: rounding moves weights by up to 0.1, so the largest difference hides most mistakes. Three passes tell
more: ours, transformers' in the same dtype, and transformers' in float32 with the same rounded weights. The last one
is taken as exact. Correct programs are about equally far from it, and neither has scores that are larger throughout.

`attncli.features.compare.beside` runs both programs.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from attncli.base import choices
from attncli.base.arrays import finite
from attncli.base.printable import short
from attncli.checks.tolerance import Tolerance, scaled_tolerance, weight_size

# All measured on 11 families of random weights and on minilm, in bfloat16 and float16, on texts of 3 to 90 tokens.
RATIO = 2.0  # Our root mean square error divided by transformers': up to 1.96 from 40 tokens on, mostly 0.5 to 1.3.
FEW = 4.0  # Few rows vary more, so n rows are allowed 1 + FEW / n times the ratio. 2.95 was seen for 3.
LARGEST = 6.0  # The largest difference divided by the largest error of transformers: up to 3.8.
SCALE = 1.25  # How much larger our scores may be overall, in eps of the dtype: 1 % in bfloat16.
DEVIATIONS = 6.0  # How many standard errors of the measured scale count as chance.
LEAST = 1e-3  # smallest weight to use: smaller ones say little about their scores in half precision


def is_half(dtype: torch.dtype) -> bool:
    """Return whether a dtype is smaller than float32."""
    return dtype.itemsize < torch.float32.itemsize


@dataclass(frozen=True)
class Rounding:
    """The rounding of half precision in one layer.

    weights, hidden: our root mean square error divided by transformers'. allowed: the tolerance of these two. scale:
    how much larger our scores are than exact ones, as a share. scale_allowed: its tolerance.
    """

    weights: float
    hidden: float
    allowed: float
    scale: float
    scale_allowed: float


class Errors:
    """Adds up the squares of both programs' errors and of exact numbers, and keeps the largest error of transformers.

    In the ratio, transformers' error counts as at least a quarter of the dtype's eps.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self.eps = torch.finfo(dtype).eps
        self.squares = torch.zeros(3, dtype=torch.float64)  # of our errors, of theirs, of exact numbers
        self.largest = 0.0

    def add(self, ours: Tensor, theirs: Tensor, exact: Tensor) -> None:
        ours, theirs, exact = (part.double().cpu() for part in (ours, theirs, exact))
        self.squares += torch.stack([part.square().sum() for part in (ours - exact, theirs - exact, exact)])
        self.largest = max(self.largest, float((theirs - exact).abs().max()), self.eps * float(exact.abs().max()))

    @property
    def ratio(self) -> float:
        """Our root mean square error divided by transformers'."""
        ours, theirs, exact = self.squares.tolist()
        return math.sqrt(ours / max(theirs, (self.eps / 4) ** 2 * exact)) if exact else 1.0


class ScoreErrors:
    """Measures whether our scores are larger than exact ones overall: the slope of our errors over the exact scores,
    with the mean of each row removed.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self.eps = torch.finfo(dtype).eps
        self.sums = torch.zeros(4, dtype=torch.float64)
        self.rows = 0

    def add(self, ours: Tensor, theirs: Tensor, exact: Tensor) -> None:
        """Add weights. Their scores are recovered as logarithms minus the row's mean."""
        kept, scores = exact > LEAST, []
        for weights in (ours, theirs, exact):
            logarithms = torch.where(kept, weights.double().clamp(min=LEAST / 10).log(), 0.0)
            mean = logarithms.sum(dim=-1, keepdim=True) / kept.sum(dim=-1, keepdim=True).clamp(min=1)
            scores.append(torch.where(kept, logarithms - mean, 0.0).cpu())
        found, other, wanted = scores
        products = ((found - wanted) * wanted, (other - wanted) * wanted, wanted.square(), (other - wanted).square())
        self.sums += torch.stack([one.sum() for one in products])
        self.rows += math.prod(exact.shape[:-1])

    def scale(self) -> tuple[float, float]:
        """Return the share by which our scores are larger, and the part of it that rounding explains."""
        ours, theirs, exact, rest = self.sums.tolist()
        if not exact:
            return 0.0, math.inf
        # Errors within a row are correlated, so a row counts once.
        error = DEVIATIONS * math.sqrt(rest / exact / self.rows)
        return ours / exact, SCALE * self.eps + 2 * abs(theirs / exact) + error


# --- one layer, text by text -------------------------------------------------------------------------


EQUAL = 32  # keys whose weights differ by at most this many eps are equally strong


@dataclass(frozen=True)
class LayerAgreement:
    """The differences in one layer, over all texts.

    weights, hidden: the largest absolute difference of a weight, and the largest difference (`vector_difference`)
    between the vectors after the layer, or of the output of its attention (`Agreement.vectors`); NaN if either side has
    a NaN. agreement: the share of queries, over all heads, whose strongest key is the same (see `same_strongest`).
    weights_allowed, hidden_allowed: their tolerances. rounding: the errors in half precision; None in other dtypes.
    """

    layer: int
    weights: float
    hidden: float
    agreement: float
    weights_allowed: float
    hidden_allowed: float
    rounding: Rounding | None


class LayerTally:
    """Adds up the differences of one layer, text by text."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.weights: list[float] = []
        self.hidden: list[float] = []
        self.sizes: list[float] = []
        self.agreeing = self.rows = 0
        self.half = is_half(dtype)
        self.errors, self.scores = (Errors(dtype), Errors(dtype)), ScoreErrors(dtype)  # of weights and vectors

    def add(self, *sides: tuple[Tensor, Tensor]) -> None:
        """Take one text's weights `[head, query, key]` and vectors `[token, size]`: ours, theirs, exact ones."""
        weights, hidden = zip(*sides, strict=True)
        hidden = tuple(one / sizes(hidden[-1]) for one in hidden)
        self.weights.append(difference(weights[0], weights[1]))
        self.hidden.append(difference(hidden[0], hidden[1]))
        self.sizes.append(weight_size(weights[1]))
        self.agreeing += same_strongest(weights[0], weights[1])
        self.rows += len(hidden[0])
        if self.half:
            self.errors[0].add(*weights)
            self.errors[1].add(*hidden)
            self.scores.add(*weights)

    def agreement(self, layer: int, heads: int, depth: int, precision: torch.dtype) -> LayerAgreement:
        rounding = None
        allowed = Tolerance(*(scaled_tolerance(precision, depth, size) for size in (max(self.sizes), 1.0)))
        if self.half:
            of_weights, of_hidden = self.errors
            chance = RATIO * (1 + FEW / self.rows)
            rounding = Rounding(of_weights.ratio, of_hidden.ratio, chance, *self.scores.scale())
            allowed = Tolerance(LARGEST * of_weights.largest, LARGEST * of_hidden.largest)
        agreement = self.agreeing / (self.rows * heads)
        return LayerAgreement(layer, worst(self.weights), worst(self.hidden), agreement, *allowed, rounding)


def difference(ours: Tensor, theirs: Tensor) -> float:
    """Return max |ours - theirs|; NaN if either has a NaN, or both are infinite."""
    return float((ours.cpu().double() - theirs.cpu().double()).abs().max())


def vector_difference(ours: Tensor, theirs: Tensor, axes: int | tuple[int, ...] = -1) -> float:
    """Return the largest difference between vectors `[..., size]`, as a share of the size of their vector (`sizes`).

    One token of a decoder may have numbers 1,000 times those of all others, and so much more rounding.
    """
    like = sizes(theirs.double(), axes)
    return difference(ours.double() / like.to(ours.device), theirs.double() / like)


def sizes(vectors: Tensor, axes: int | tuple[int, ...] = -1) -> Tensor:
    """Return the largest absolute number of each vector, or 1: norms inside a layer make numbers of about 1."""
    numbers = vectors.detach().abs()
    return numbers.where(numbers.isfinite(), 1.0).amax(dim=axes, keepdim=True).clamp(min=1.0)


def same_strongest(ours: Tensor, theirs: Tensor) -> int:
    """Count the rows in which our strongest key is one of their strongest.

    A row may have several, since all [PAD] of RoBERTa have the same vector. So keys whose weights differ by no more
    than EQUAL are equally strong.
    """
    at_ours = theirs.gather(-1, ours.argmax(dim=-1, keepdim=True)).squeeze(-1)
    return int((at_ours >= theirs.amax(dim=-1) * (1 - EQUAL * torch.finfo(theirs.dtype).eps)).sum())


def worst(differences: Iterable[float]) -> float:
    """Return the largest; NaN if any is."""
    return float(torch.tensor(list(differences), dtype=torch.float64).max())


# --- all layers --------------------------------------------------------------------------------------


# Networks with large weights amplify rounding from layer to layer, up to 70 times the tolerance in measurements. A
# larger difference is a mistake even in float32.
MAYBE_ROUNDING = 100
HIDDEN, OUTPUTS = "hidden states", "attention outputs"  # compared besides the weights
THEIR_OWN: dict[choices.Against, str] = {"transformers": "transformers' own", "torch": "torch's own"}


@dataclass(frozen=True)
class Comparison:
    """One comparison of numbers (`attncli.features.compare.ways`), over the first tokens of the first texts.

    of: the option or output that it covers. difference: the largest absolute difference, NaN if either side has a NaN,
    None if there was nothing to compare (`note` says why). allowed: the tolerance. same: True within the tolerance or
    if there was nothing to compare; False for NaN.
    """

    way: str
    of: str
    difference: float | None
    allowed: float
    same: bool
    note: str = ""


@dataclass(frozen=True)
class Agreement:
    """The result of `compare`.

    tokens: all of them; queries: those whose rows were compared (see `Peers.rows`).
    embeddings: like `hidden` of a layer, before the first layer; None if attention outputs are compared instead of
    hidden states, which is so against torch and in networks of transformers. embeddings_allowed: its tolerance. ways:
    the other code paths; none against torch.
    """

    against: choices.Against
    dtype: str
    mask: str
    texts: int
    tokens: int
    queries: int
    embeddings: float | None
    embeddings_allowed: float
    layers: list[LayerAgreement]
    ways: tuple[Comparison, ...] = ()

    @property
    def same(self) -> bool:
        return not self.faults()

    @property
    def vectors(self) -> str:
        """Name what is compared besides the weights: hidden states, if those before the first layer are."""
        return OUTPUTS if self.embeddings is None else HIDDEN

    @property
    def tolerance(self) -> Tolerance:
        """The largest differences that are allowed in any layer."""
        return Tolerance(*(max(getattr(one, f"{name}_allowed") for one in self.layers) for name in Tolerance._fields))

    def measured(self) -> list[tuple[str, float, float]]:
        """Return the name, largest difference and tolerance of all that was compared, in the order of computation."""
        found = [] if self.embeddings is None else [("the embeddings", self.embeddings, self.embeddings_allowed)]
        for layer in self.layers:
            found.append((f"layer {layer.layer} weights", layer.weights, layer.weights_allowed))
            found.append((f"layer {layer.layer} {self.vectors}", layer.hidden, layer.hidden_allowed))
        return found + [
            (f"{one.way} ({one.of})", one.difference, one.allowed) for one in self.ways if one.difference is not None
        ]

    def faults(self) -> list[str]:
        """Describe the differences above their tolerance. NaN is above every tolerance."""
        faults = [
            f"{what} are NaN"
            if math.isnan(most)
            else f"{what} differ by {most:.1e}, above the tolerance {short(allowed)}"
            for what, most, allowed in self.measured()
            if not most <= allowed
        ]
        for layer in self.layers:
            if (rounding := layer.rounding) is None:
                continue
            allowed, off = rounding.allowed, rounding.scale
            for what, ratio in (("weights", rounding.weights), (self.vectors, rounding.hidden)):
                if not ratio <= allowed:
                    theirs = THEIR_OWN[self.against]
                    faults.append(
                        f"layer {layer.layer} {what} have errors {ratio:.1f} times {theirs}, above the tolerance "
                        f"{allowed:.1f}"
                    )
            if not abs(off) <= rounding.scale_allowed:
                past = f"{off:+.1%} off overall, above the tolerance {rounding.scale_allowed:.1%}"
                faults.append(f"layer {layer.layer} scores are {past}")
        return faults

    @property
    def may_be_rounding(self) -> bool:
        """True if float64 can tell: every difference is within its tolerance or only slightly above."""
        return self.dtype == "float32" and all(most <= MAYBE_ROUNDING * allowed for _, most, allowed in self.measured())

    @property
    def verdict(self) -> str:
        """The verdict in one line. It describes the first fault only, because the others follow from it."""
        if faults := self.faults():
            more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
            return f"NOT the same: {faults[0]}{more}"
        within = f"weights within {short(self.tolerance.weights)}, {self.vectors} within {short(self.tolerance.hidden)}"
        if roundings := self._roundings:
            weights, hidden = (max(getattr(one, name) for one in roundings) for name in ("weights", "hidden"))
            within = (
                f"errors of weights are at most {weights:.2f} times {THEIR_OWN[self.against]}, "
                f"of {self.vectors} {hidden:.2f} times (allowed: {max(one.allowed for one in roundings):.1f})"
            )
        compared = sum(way.difference is not None for way in self.ways)
        ways = f"; {compared} other code paths agree too" if self.ways else ""
        if others := len(self.ways) - compared:
            ways += f" ({others} {'does' if others == 1 else 'do'} not apply)"
        return f"the same: {within}{ways}"

    @property
    def hidden_mistakes(self) -> str | None:
        """The mistakes that half precision hides, in one line; None in other dtypes."""
        if not self._roundings:
            return None
        least = min(one.scale_allowed for one in self._roundings)
        change = f"shows only from {least:.1%} on" if math.isfinite(least) else "does not show on this text"
        compared = any(way.difference is not None for way in self.ways)
        ways = "; other code paths show only gross mistakes" if compared else ""
        return (
            f"{self.dtype} hides small mistakes: a change in the scale of scores {change}{ways}. "
            "--dtype float32 finds smaller ones."
        )

    @property
    def _roundings(self) -> list[Rounding]:
        return [layer.rounding for layer in self.layers if layer.rounding is not None]

    def document(self) -> dict[str, Any]:
        """Return the document of `compare --json`, without the model. A difference that is not finite is null."""
        more = {"tolerance": self.tolerance._asdict(), "vectors": self.vectors, "same": self.same}
        return _as_json(asdict(self)) | more


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(one) for one in value]
    return finite(value) if isinstance(value, float) else value
