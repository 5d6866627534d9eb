"""Agreement: the project's own forward pass beside another program's, on the same tokens and the same weights.

What the two programs are made to compute is in `attncli.checks.passes`.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attncli.base import choices
from attncli.base.printable import short
from attncli.checks.passes import beside_torch, beside_transformers
from attncli.checks.tolerance import STEPS, TOLERANCES, Tolerance
from attncli.models.model import Model
from attncli.models.transformers_peer import Reference
from attncli.record.selection import Selection, select
from attncli.text.tokens import Tokens

# Against whom, and what is compared beside the weights.
VECTORS: dict[choices.Against, str] = {"transformers": "hidden states", "torch": "attention outputs"}


@dataclass(frozen=True)
class LayerAgreement:
    """One layer, over all texts.

    weights, hidden: the largest absolute difference of a weight, and of a number in the vectors after the layer
    (against torch: in the output of its attention); NaN where either side has one.
    agreement: the share of queries, of all heads, whose strongest key is the same (see `same_strongest`).
    """

    layer: int
    weights: float
    hidden: float
    agreement: float


@dataclass(frozen=True)
class Way:
    """A way in which numbers are made (`attncli.checks.ways`), over the first tokens of the first texts.

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
        """NaN is past every tolerance."""
        return self.difference is None or self.difference <= self.allowed

    def document(self) -> dict[str, Any]:
        """As `compare --json` prints it. A difference that is no finite number is null."""
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
    """What `compare` found.

    tokens: all of them; queries: those whose rows were compared (see `rows_that_count`).
    embeddings: as `hidden` of a layer, before the first; None against torch.
    ways: the other ways in which numbers are made; none against torch.
    """

    against: choices.Against
    dtype: str
    mask: str
    texts: int
    tokens: int
    queries: int
    tolerance: Tolerance
    embeddings: float | None
    layers: list[LayerAgreement]
    ways: tuple[Way, ...] = ()

    @property
    def same(self) -> bool:
        return not self.faults()

    def faults(self) -> list[str]:
        """What is past the tolerance, in the order of the computation. NaN is past every tolerance."""
        weights, hidden = self.tolerance
        measured = [] if self.embeddings is None else [("the embeddings", self.embeddings, hidden)]
        for layer in self.layers:
            measured.append((f"layer {layer.layer} weights", layer.weights, weights))
            measured.append((f"layer {layer.layer} {self.vectors}", layer.hidden, hidden))
        measured += [
            (f"{way.name} ({way.of})", way.difference, way.allowed) for way in self.ways if way.difference is not None
        ]
        return [
            f"{what} are not numbers" if math.isnan(most) else f"{what} differ by {most:.1e}, past {short(allowed)}"
            for what, most, allowed in measured
            if not most <= allowed
        ]

    @property
    def vectors(self) -> str:
        """What is compared beside the weights."""
        return VECTORS[self.against]

    @property
    def verdict(self) -> str:
        """One line. Only the first fault is described: in a network, the others follow from it."""
        faults = self.faults()
        if not faults:
            weights, hidden = self.tolerance
            compared = sum(way.difference is not None for way in self.ways)
            ways = f", {compared} of {len(self.ways)} other ways too" if self.ways else ""
            return f"the same: weights within {short(weights)}, {self.vectors} within {short(hidden)}{ways}"
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return f"NOT the same: {faults[0]}{more}"

    def document(self) -> dict[str, Any]:
        """What `compare --json` prints, without the model. A difference that is no finite number is null."""
        return {
            "against": self.against,
            "dtype": self.dtype,
            "mask": self.mask,
            "texts": self.texts,
            "tokens": self.tokens,
            "queries": self.queries,
            "tolerance": self.tolerance._asdict(),
            "embeddings": finite(self.embeddings),
            "layers": [
                {
                    "layer": layer.layer,
                    "weights": finite(layer.weights),
                    "hidden": finite(layer.hidden),
                    "agreement": layer.agreement,
                }
                for layer in self.layers
            ],
            "ways": [way.document() for way in self.ways],
            "same": self.same,
        }


def compare(
    model: Model,
    texts: Iterable[Tokens],
    mask: str = "padding",
    layers: Selection = "all",
    reference: Reference | None = None,
) -> Agreement:
    """Hold the model's layers against those of `reference`; without one, against `torch.nn.MultiheadAttention`.

    Raises RequestError for an unknown mask or a layer out of range, ValueError when there is no text.
    """
    choices.check("mask", mask, choices.Mask)
    chosen = select(layers, model.config.layers, "layer")
    against: choices.Against = "torch" if reference is None else "transformers"
    if reference is None:
        both = beside_torch(model, chosen, mask)
    else:
        both = beside_transformers(model, chosen, mask, reference)
    embeddings: list[float] = []
    weights: list[list[float]] = [[] for _ in chosen]
    hidden: list[list[float]] = [[] for _ in chosen]
    agreeing = [0 for _ in chosen]
    texts_seen = tokens_seen = queries = 0
    for tokens in texts:
        rows = rows_that_count(tokens, model.dtype, reference)
        ours, theirs = (one.only(rows) for one in both(tokens))
        if ours.embeddings is not None and theirs.embeddings is not None:
            embeddings.append(difference(ours.embeddings, theirs.embeddings))
        for place in range(len(chosen)):
            weights[place].append(difference(ours.weights[place], theirs.weights[place]))
            hidden[place].append(difference(ours.hidden[place], theirs.hidden[place]))
            agreeing[place] += same_strongest(ours.weights[place], theirs.weights[place])
        texts_seen += 1
        tokens_seen += len(tokens)
        queries += len(rows)
    if not texts_seen:
        raise ValueError("there is no text to compare on")
    return Agreement(
        against=against,
        dtype=model.dtype_name,
        mask=mask,
        texts=texts_seen,
        tokens=tokens_seen,
        queries=queries,
        tolerance=tolerance_beside(model, reference),
        embeddings=worst(embeddings) if embeddings else None,
        layers=[
            LayerAgreement(
                layer, worst(weights[place]), worst(hidden[place]), agreeing[place] / (queries * model.config.heads)
            )
            for place, layer in enumerate(chosen)
        ],
    )


def tolerance_beside(model: Model, reference: Reference | None) -> Tolerance:
    """That of the model's dtype; of float32, where transformers computes some of it in that whatever it is asked."""
    single = model.dtype == torch.float64 and reference is not None and not reference.exact
    return TOLERANCES["float32" if single else model.dtype_name]


def rows_that_count(tokens: Tokens, dtype: torch.dtype, reference: Reference | None) -> list[int]:
    """The tokens whose rows of weights and whose vectors are compared: all, with one exception.

    Training has never shaped what becomes of the rows of [PAD] itself, and layer upon layer of it can blow
    rounding up. In minilm, transformers' own hidden states in float32 are up to 1.6e-4 from exact ones at a [PAD],
    past the tolerance, and about 5e-6 at other tokens. So these rows count in float64, where there is room for it and
    where transformers has them, and against torch, layer by layer.
    """
    if reference is None or (dtype == torch.float64 and reference.has_padding_rows):
        return list(range(len(tokens)))
    return [place for place, padding in enumerate(tokens.padding) if not padding]


def difference(ours: Tensor, theirs: Tensor) -> float:
    """max |ours - theirs|; NaN where either has one, or both are infinite."""
    return float((ours.cpu().double() - theirs.cpu().double()).abs().max())


def same_strongest(ours: Tensor, theirs: Tensor) -> int:
    """In how many rows our strongest key is a strongest of theirs.

    A row may have several: all [PAD] of RoBERTa are one vector. So keys whose weights differ by no more than STEPS
    are equally strong.
    """
    at_ours = theirs.gather(-1, ours.argmax(dim=-1, keepdim=True)).squeeze(-1)
    return int((at_ours >= theirs.amax(dim=-1) * (1 - STEPS * torch.finfo(theirs.dtype).eps)).sum())


def worst(differences: Iterable[float]) -> float:
    """The largest; NaN if any is."""
    return float(torch.tensor(list(differences), dtype=torch.float64).max())


def finite(number: float | None) -> float | None:
    """JSON has no NaN and no infinity."""
    return number if number is not None and math.isfinite(number) else None
