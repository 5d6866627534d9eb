"""One layer of two programs, text by text: the largest differences, and what rounding explains of them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attncli.checks.rounding import LayerErrors, Rounding
from attncli.checks.tolerance import Tolerance, scaled_tolerance, vector_size, weight_size

EQUAL = 32  # steps of the dtype: two keys whose weights are no further apart are equally strong


@dataclass(frozen=True)
class LayerAgreement:
    """One layer, over all texts.

    weights, hidden: the largest absolute difference of a weight, and of a number in the vectors after the layer, or in
    the output of its attention (`Agreement.vectors`); NaN where either side has one.
    agreement: the share of queries, of all heads, whose strongest key is the same (see `same_strongest`).
    allowed: the differences that rounding explains. rounding: what half precision does; None in others.
    """

    layer: int
    weights: float
    hidden: float
    agreement: float
    allowed: Tolerance
    rounding: Rounding | None = None

    def document(self) -> dict[str, Any]:
        """As `compare --json` prints it."""
        return {
            "layer": self.layer,
            "weights": finite(self.weights),
            "hidden": finite(self.hidden),
            "agreement": self.agreement,
            "weights_allowed": self.allowed.weights,
            "hidden_allowed": self.allowed.hidden,
            "rounding": None if self.rounding is None else self.rounding.document(),
        }


@dataclass
class LayerTally:
    """Adds up what is found in one layer, text by text."""

    dtype: torch.dtype
    weights: list[float] = field(default_factory=list)
    hidden: list[float] = field(default_factory=list)
    sizes: list[tuple[float, float]] = field(default_factory=list)
    agreeing: int = 0
    rows: int = 0
    errors: LayerErrors | None = None

    def add(
        self, ours: tuple[Tensor, Tensor], theirs: tuple[Tensor, Tensor], exact: tuple[Tensor, Tensor] | None
    ) -> None:
        """Take one text's weights `[head, query, key]` and vectors `[token, size]`."""
        rows = rows_with_numbers(ours, theirs)
        if not len(rows):
            return
        kept = [(weights[:, rows], hidden[rows]) for weights, hidden in (ours, theirs)]
        (our_weights, our_hidden), (their_weights, their_hidden) = kept
        self.weights.append(difference(our_weights, their_weights))
        self.hidden.append(difference(our_hidden, their_hidden))
        self.sizes.append((weight_size(their_weights), vector_size(their_hidden)))
        self.agreeing += same_strongest(our_weights, their_weights)
        self.rows += len(rows)
        if exact is not None:
            self.errors = self.errors or LayerErrors(self.dtype)
            self.errors.weights.add(our_weights, their_weights, exact[0][:, rows])
            self.errors.hidden.add(our_hidden, their_hidden, exact[1][rows])
            self.errors.scores.add(our_weights, their_weights, exact[0][:, rows])

    def found(self, layer: int, heads: int, depth: int, precision: torch.dtype) -> LayerAgreement:
        """NaN where transformers gives numbers in no row at all."""
        if not self.rows:
            return LayerAgreement(layer, math.nan, math.nan, 0.0, Tolerance(0.0, 0.0))
        rounding = None if self.errors is None else self.errors.rounding(self.rows)
        if rounding is None:
            of_weights, of_hidden = (max(size) for size in zip(*self.sizes, strict=True))
            allowed = Tolerance(
                scaled_tolerance(precision, depth, of_weights), scaled_tolerance(precision, depth, of_hidden)
            )
        else:
            allowed = Tolerance(rounding.weights_allowed, rounding.hidden_allowed)
        agreement = self.agreeing / (self.rows * heads)
        return LayerAgreement(layer, worst(self.weights), worst(self.hidden), agreement, allowed, rounding)


def rows_with_numbers(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> list[int]:
    """The rows to compare: all, except those in which the other program alone gives NaN."""
    mine, other = (
        weights.isnan().any(dim=-1).any(dim=0) | hidden.isnan().any(dim=-1) for weights, hidden in (ours, theirs)
    )
    return [int(row) for row in (mine | ~other).nonzero()[:, 0]]


def difference(ours: Tensor, theirs: Tensor) -> float:
    """max |ours - theirs|; NaN where either has one, or both are infinite."""
    return float((ours.cpu().double() - theirs.cpu().double()).abs().max())


def same_strongest(ours: Tensor, theirs: Tensor) -> int:
    """In how many rows our strongest key is a strongest of theirs.

    A row may have several: all [PAD] of RoBERTa are one vector. So keys whose weights differ by no more than EQUAL
    are equally strong.
    """
    at_ours = theirs.gather(-1, ours.argmax(dim=-1, keepdim=True)).squeeze(-1)
    return int((at_ours >= theirs.amax(dim=-1) * (1 - EQUAL * torch.finfo(theirs.dtype).eps)).sum())


def worst(differences: Iterable[float]) -> float:
    """The largest; NaN if any is."""
    return float(torch.tensor(list(differences), dtype=torch.float64).max())


def finite(number: float | None) -> float | None:
    """JSON has no NaN and no infinity."""
    return number if number is not None and math.isfinite(number) else None
