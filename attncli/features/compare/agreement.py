"""Compare the project's own forward pass with another program's, layer by layer, on the same tokens and weights.

Half precision: rounding moves weights by up to 0.1, so the largest difference hides most mistakes. Three passes tell
more: ours, transformers' in the same dtype, and transformers' in float32 with the same rounded weights. The last one
is taken as exact. Correct programs are about equally far from it, and neither has scores that are larger throughout.

`attncli.features.compare.beside` runs both programs.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attncli.base import choices
from attncli.base.arrays import finite
from attncli.base.printable import short
from attncli.checks.passes import Lost, is_half, merge_lost
from attncli.checks.tolerance import Tolerance, scaled_tolerance, weight_size
from attncli.models.engine import Engine
from attncli.models.transformers_peer import Reference
from attncli.text.tokens import Tokens

if TYPE_CHECKING:
    from attncli.features.compare.beside import Peers

# All measured on 11 families of random weights and on minilm, in bfloat16 and float16, on texts of 3 to 90 tokens.
RATIO = 2.0  # Our root mean square error divided by transformers': up to 1.96 from 40 tokens on, mostly 0.5 to 1.3.
FEW = 4.0  # Chance decides more for a few rows: n of them may have 1 + FEW / n times as much. 2.95 was seen for 3.
LARGEST = 6.0  # The largest difference divided by the largest error of transformers: up to 3.8.
SCALE = 1.25  # How far our scores may be larger throughout, in eps of the dtype. It is 1 % in bfloat16.
DEVIATIONS = 6.0  # How many standard errors of the measured scale count as chance.
LEAST = 1e-3  # of a weight: smaller ones say little of their score in half precision


@dataclass(frozen=True)
class Rounding:
    """The rounding of half precision in one layer.

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
        """Return the document of `compare --json`. A number that is not finite is null."""
        names = ("weights", "hidden", "allowed", "scale", "scale_allowed")
        return {name: finite(getattr(self, name)) for name in names}

    def faults(self, vectors: str, theirs: str) -> list[str]:
        """Describe what is more than rounding. NaN always is."""
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
class _Errors:
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
class _Scores:
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
        """Return the share by which our scores are larger, and the part of it that rounding explains."""
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


# --- one layer, text by text -------------------------------------------------------------------------


EQUAL = 32  # steps of the dtype: two keys whose weights are no further apart are equally strong


@dataclass(frozen=True)
class LayerAgreement:
    """The differences in one layer, over all texts.

    weights, hidden: the largest absolute difference of a weight, and the largest difference (`vector_difference`)
    between the vectors after the layer, or of the output of its attention (`Agreement.vectors`); NaN where either side
    has one.
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
        """Return the document of `compare --json`."""
        return {
            "layer": self.layer,
            "weights": finite(self.weights),
            "hidden": finite(self.hidden),
            "agreement": self.agreement,
            "weights_allowed": self.allowed.weights,
            "hidden_allowed": self.allowed.hidden,
            "rounding": None if self.rounding is None else self.rounding.document(),
        }


class LayerTally:
    """Adds up the differences of one layer, text by text."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.eps = torch.finfo(dtype).eps
        self.weights: list[float] = []
        self.hidden: list[float] = []
        self.sizes: list[float] = []
        self.agreeing = self.rows = 0
        self.errors: tuple[_Errors, _Errors, _Scores] | None = None  # of weights, vectors and scores

    def add(
        self, ours: tuple[Tensor, Tensor], theirs: tuple[Tensor, Tensor], exact: tuple[Tensor, Tensor] | None = None
    ) -> None:
        """Take one text's weights `[head, query, key]` and vectors `[token, size]`."""
        rows = rows_with_numbers(ours, theirs)
        if not len(rows):
            return
        every = (ours, theirs) if exact is None else (ours, theirs, exact)
        weights, hidden = zip(*((weights[:, rows], hidden[rows]) for weights, hidden in every), strict=True)
        hidden = tuple(one / sizes(hidden[-1]) for one in hidden)
        self.weights.append(difference(weights[0], weights[1]))
        self.hidden.append(difference(hidden[0], hidden[1]))
        self.sizes.append(weight_size(weights[1]))
        self.agreeing += same_strongest(weights[0], weights[1])
        self.rows += len(rows)
        if exact is not None:
            self.errors = self.errors or (_Errors(self.eps), _Errors(self.eps), _Scores())
            of_weights, of_hidden, of_scores = self.errors
            of_weights.add(*weights)
            of_hidden.add(*hidden)
            of_scores.add(*weights)

    def rounding(self) -> Rounding | None:
        """Return the effect of half precision; None in other dtypes."""
        if self.errors is None:
            return None
        weights, hidden, scores = self.errors
        scale, allowed = scores.scale(self.eps)
        return Rounding(
            weights.ratio,
            hidden.ratio,
            RATIO * (1 + FEW / self.rows),
            scale,
            allowed,
            LARGEST * weights.largest,
            LARGEST * hidden.largest,
        )

    def layer_agreement(self, layer: int, heads: int, depth: int, precision: torch.dtype) -> LayerAgreement:
        """Return the layer's differences; NaN where transformers gives numbers in no row at all."""
        if not self.rows:
            return LayerAgreement(layer, math.nan, math.nan, 0.0, Tolerance(0.0, 0.0))
        rounding = self.rounding()
        if rounding is None:
            allowed = Tolerance(*(scaled_tolerance(precision, depth, size) for size in (max(self.sizes), 1.0)))
        else:
            allowed = Tolerance(rounding.weights_allowed, rounding.hidden_allowed)
        agreement = self.agreeing / (self.rows * heads)
        return LayerAgreement(layer, worst(self.weights), worst(self.hidden), agreement, allowed, rounding)


def rows_with_numbers(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> list[int]:
    """Return the rows to compare: all, except those in which the other program alone gives NaN."""
    mine, other = (
        weights.isnan().any(dim=-1).any(dim=0) | hidden.isnan().any(dim=-1) for weights, hidden in (ours, theirs)
    )
    return [int(row) for row in (mine | ~other).nonzero()[:, 0]]


def difference(ours: Tensor, theirs: Tensor) -> float:
    """Return max |ours - theirs|; NaN where either has one, or both are infinite."""
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
    """Count the rows in which our strongest key is a strongest of theirs.

    A row may have several: all [PAD] of RoBERTa are one vector. So keys whose weights differ by no more than EQUAL
    are equally strong.
    """
    at_ours = theirs.gather(-1, ours.argmax(dim=-1, keepdim=True)).squeeze(-1)
    return int((at_ours >= theirs.amax(dim=-1) * (1 - EQUAL * torch.finfo(theirs.dtype).eps)).sum())


def worst(differences: Iterable[float]) -> float:
    """Return the largest; NaN if any is."""
    return float(torch.tensor(list(differences), dtype=torch.float64).max())


# --- all layers --------------------------------------------------------------------------------------


# A network with large weights multiplies rounding from layer to layer: seen up to 70 times past the tolerance. A
# difference further past it than this is a mistake in float32 already.
MAYBE_ROUNDING = 100
HIDDEN, OUTPUTS = "hidden states", "attention outputs"  # compared besides the weights
THEIR_OWN: dict[choices.Against, str] = {"transformers": "transformers' own", "torch": "torch's own"}


@dataclass(frozen=True)
class Comparison:
    """One comparison of numbers (`attncli.features.compare.ways`), over the first tokens of the first texts.

    of: what it is about, as the commands' options say it. difference: the largest absolute one that was found, NaN
    where something is no number; None where there was nothing to compare with, and `note` says why. allowed: what
    rounding explains.
    """

    name: str
    of: str
    difference: float | None
    allowed: float
    note: str = ""

    @property
    def same(self) -> bool:
        """True within the tolerance, which NaN never is, and without anything to compare with."""
        return self.difference is None or self.difference <= self.allowed

    def document(self) -> dict[str, Any]:
        """Return the document of `compare --json`. A difference that is no finite number is null."""
        return {
            "way": self.name,
            "of": self.of,
            "difference": finite(self.difference),
            "allowed": self.allowed,
            "same": self.same,
            "note": self.note,
        }


@dataclass(frozen=True)
class Agreement:
    """The result of `compare`.

    tokens: all of them; queries: those whose rows were compared (see `rows_that_count`).
    embeddings: as `hidden` of a layer, before the first; None where attention outputs are compared instead of hidden
    states: against torch, and in networks that transformers runs. embeddings_allowed: what rounding explains of it.
    ways: the other ways in which numbers are made; none against torch.
    lost: the rows in which transformers gives NaN.
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
    lost: tuple[Lost, ...] = ()

    @property
    def same(self) -> bool:
        return not self.faults()

    @property
    def tolerance(self) -> Tolerance:
        """The largest differences that are allowed in any layer."""
        allowed = [layer.allowed for layer in self.layers]
        return Tolerance(max(one.weights for one in allowed), max(one.hidden for one in allowed))

    def measured(self) -> list[tuple[str, float, float]]:
        """Return the name, largest difference and tolerance of all that was compared, in the order of computation."""
        found = [] if self.embeddings is None else [("the embeddings", self.embeddings, self.embeddings_allowed)]
        for layer in self.layers:
            found.append((f"layer {layer.layer} weights", layer.weights, layer.allowed.weights))
            found.append((f"layer {layer.layer} {self.vectors}", layer.hidden, layer.allowed.hidden))
        return found + [
            (f"{way.name} ({way.of})", way.difference, way.allowed) for way in self.ways if way.difference is not None
        ]

    def faults(self) -> list[str]:
        """Describe what is past the tolerance. NaN is past every tolerance."""
        faults = [
            f"{what} are not numbers" if math.isnan(most) else f"{what} differ by {most:.1e}, past {short(allowed)}"
            for what, most, allowed in self.measured()
            if not most <= allowed
        ]
        return faults + [
            f"layer {layer.layer} {fault}"
            for layer in self.layers
            if layer.rounding is not None
            for fault in layer.rounding.faults(self.vectors, THEIR_OWN[self.against])
        ]

    @property
    def may_be_rounding(self) -> bool:
        """True if float64 can tell more: every difference is past its tolerance by little, if at all."""
        return self.dtype == "float32" and all(most <= MAYBE_ROUNDING * allowed for _, most, allowed in self.measured())

    @property
    def vectors(self) -> str:
        """Name what is compared besides the weights: hidden states, if those before the first layer are."""
        return OUTPUTS if self.embeddings is None else HIDDEN

    @property
    def verdict(self) -> str:
        """One line. Only the first fault is described: in a network, the others follow from it."""
        faults = self.faults()
        lost = f"; {self.lost[0]}" if self.lost else ""
        if not faults:
            compared = sum(way.difference is not None for way in self.ways)
            ways = f", {compared} of {len(self.ways)} other ways too" if self.ways else ""
            return f"the same: {self.within}{ways}{lost}"
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return f"NOT the same: {faults[0]}{more}{lost}"

    @property
    def within(self) -> str:
        """Say how close both programs are to each other, or to exact numbers."""
        roundings = [layer.rounding for layer in self.layers if layer.rounding is not None]
        if roundings:
            weights, hidden = (max(getattr(one, name) for one in roundings) for name in ("weights", "hidden"))
            return (
                f"errors of weights are at most {weights:.2f} times {THEIR_OWN[self.against]}, "
                f"of {self.vectors} {hidden:.2f} times (allowed: {max(one.allowed for one in roundings):.1f})"
            )
        weights, hidden = self.tolerance
        return f"weights within {short(weights)}, {self.vectors} within {short(hidden)}"

    @property
    def unseen(self) -> str | None:
        """The mistakes that half precision hides, in one line; None in others."""
        scales = [layer.rounding.scale_allowed for layer in self.layers if layer.rounding is not None]
        if not scales:
            return None
        least = min(scales)
        change = f"shows from {least:.1%} on" if math.isfinite(least) else "does not show on this text"
        compared = any(way.difference is not None for way in self.ways)
        ways = "; other ways show gross mistakes only" if compared else ""
        return (
            f"{self.dtype} hides small mistakes: a change of the scores' scale {change}{ways}. "
            "--dtype float32 finds smaller ones."
        )

    def document(self) -> dict[str, Any]:
        """Return the document of `compare --json`, without the model. A difference that is no finite number is null."""
        return {
            "against": self.against,
            "dtype": self.dtype,
            "mask": self.mask,
            "texts": self.texts,
            "tokens": self.tokens,
            "queries": self.queries,
            "tolerance": self.tolerance._asdict(),
            "vectors": self.vectors,
            "embeddings": finite(self.embeddings),
            "embeddings_allowed": self.embeddings_allowed,
            "layers": [layer.document() for layer in self.layers],
            "ways": [way.document() for way in self.ways],
            "lost": [one._asdict() for one in self.lost],
            "same": self.same,
        }


def compare(peers: "Peers", texts: Iterable[Tokens]) -> Agreement:
    """Send each text through both programs, and add up what differs. Raises ValueError when there is no text."""
    model, layers, reference = peers.model, peers.layers, peers.reference
    embeddings, lost, half = list[float](), list[Lost](), is_half(model.dtype)
    embedded, tallies = _Errors(torch.finfo(model.dtype).eps), [LayerTally(model.dtype) for _ in layers]
    texts_seen = tokens_seen = queries = 0
    for tokens in texts:
        rows = peers.rows(tokens)
        [(_, taken)] = peers.run_model([tokens])
        ours = taken.weights, peers.our_vectors(tokens, peers.mask)
        theirs, lost_here = peers.run_finite(tokens, peers.mask)
        sides = [ours, peers.numbers(theirs)]
        if half:
            sides.append(peers.numbers(peers.in_float32.run_theirs(tokens, peers.mask)))
        weights = [one[:, :, rows] for one, _ in sides]
        vectors = [[one[rows] for one in every] for _, every in sides]
        if len(vectors[0]) > len(layers):
            first = [every.pop(0) for every in vectors]
            embeddings.append(vector_difference(*first[:2]))
            if half:
                embedded.add(*(one / sizes(first[1]) for one in first))
        for place, tally in enumerate(tallies):
            tally.add(*((one[place], every[place]) for one, every in zip(weights, vectors, strict=True)))
        if lost_here is not None and not any(bool(one.isnan().any()) for one in (weights[0], *vectors[0])):
            lost.append(lost_here)
        texts_seen += 1
        tokens_seen += len(tokens)
        queries += len(rows)
    if not texts_seen:
        raise ValueError("there is no text to compare on")
    precision = precision_of(model, reference, lost)
    before = 0 if model.part == "encoder" else model.depth - model.layers  # an encoder's layers
    return Agreement(
        against="torch" if reference is None else "transformers",
        dtype=model.dtype_name,
        mask=peers.mask,
        texts=texts_seen,
        tokens=tokens_seen,
        queries=queries,
        embeddings=worst(embeddings) if embeddings else None,
        embeddings_allowed=LARGEST * embedded.largest if is_half(precision) else scaled_tolerance(precision, 1, 1.0),
        layers=[
            tally.layer_agreement(layer, model.heads, 1 if reference is None else before + layer + 1, precision)
            for layer, tally in zip(layers, tallies, strict=True)
        ],
        lost=merge_lost(lost),
    )


def precision_of(model: Engine, reference: Reference | None, lost: Iterable[Lost] = ()) -> torch.dtype:
    """Return the model's dtype; float32 where transformers computes some of it in that, or was run in it."""
    single = reference is not None and (not reference.exact or any(one.in_float32 for one in lost))
    return torch.float32 if model.dtype == torch.float64 and single else model.dtype


def rows_that_count(tokens: Tokens, dtype: torch.dtype, reference: Reference | None) -> list[int]:
    """Return the tokens whose rows of weights and whose vectors are compared: all, with one exception.

    Training never shaped the rows of [PAD] itself, so rounding there can grow from layer to layer. In minilm,
    transformers' own hidden states in float32 are up to 1.6e-4 from exact ones at a [PAD], past the tolerance, and
    about 5e-6 at other tokens. So these rows count in float64, where there is room for it and where transformers has
    them, and against torch, layer by layer.
    """
    if reference is None or (dtype == torch.float64 and reference.has_padding_rows):
        return list(range(len(tokens)))
    return tokens.real
