"""Agreement: the project's own forward pass beside another program's, on the same tokens and the same weights.

What the two programs are made to compute is in `attncli.checks.passes`.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from attncli.base import choices
from attncli.base.printable import short
from attncli.checks.lost import Lost, merge_lost
from attncli.checks.passes import BothPasses, beside_torch, beside_transformers, is_half
from attncli.checks.rounding import LARGEST, Errors
from attncli.checks.tally import LayerAgreement, LayerTally, finite
from attncli.checks.tally import difference as difference
from attncli.checks.tally import worst as worst
from attncli.checks.tolerance import Tolerance, scaled_tolerance, vector_size
from attncli.models.engine import Engine
from attncli.models.model import require_own
from attncli.models.tapped import TappedModel
from attncli.models.transformers_peer import Reference
from attncli.record.selection import Selection, select
from attncli.text.tokens import Tokens

# A network with large weights multiplies rounding from layer to layer: seen up to 70 times past the tolerance. A
# difference further past it than this is a mistake in float32 already.
MAYBE_ROUNDING = 100
HIDDEN, OUTPUTS = "hidden states", "attention outputs"  # what is compared beside the weights
THEIR_OWN: dict[choices.Against, str] = {"transformers": "transformers' own", "torch": "torch's own"}


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
    ways: tuple[Way, ...] = ()
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
        """What was compared, the largest difference and what is allowed, in the order of the computation."""
        found = [] if self.embeddings is None else [("the embeddings", self.embeddings, self.embeddings_allowed)]
        for layer in self.layers:
            found.append((f"layer {layer.layer} weights", layer.weights, layer.allowed.weights))
            found.append((f"layer {layer.layer} {self.vectors}", layer.hidden, layer.allowed.hidden))
        return found + [
            (f"{way.name} ({way.of})", way.difference, way.allowed) for way in self.ways if way.difference is not None
        ]

    def faults(self) -> list[str]:
        """What is past the tolerance. NaN is past every tolerance."""
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
        """Whether float64 can tell more: every difference is past its tolerance by little, if at all."""
        return self.dtype == "float32" and all(most <= MAYBE_ROUNDING * allowed for _, most, allowed in self.measured())

    @property
    def vectors(self) -> str:
        """What is compared beside the weights: hidden states, if those before the first layer are."""
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
        """How near both programs are to each other, or to exact numbers."""
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
        """What `compare --json` prints, without the model. A difference that is no finite number is null."""
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


def compare(
    model: Engine,
    texts: Iterable[Tokens],
    mask: str | None = None,
    layers: Selection = "all",
    reference: Reference | None = None,
) -> Agreement:
    """Hold the model's layers against those of `reference`; without one, against `torch.nn.MultiheadAttention`.

    Raises RequestError for an unknown mask or a layer out of range, ValueError when there is no text.
    """
    model = require_own(model)
    mask = model.usual_mask(mask)
    chosen = select(layers, model.config.layers, "layer")
    if reference is None:
        both = beside_torch(model, chosen, mask)
    else:
        both = beside_transformers(model, chosen, mask, reference)
    return tally_up(model, both, texts, mask, chosen, reference)


def tally_up(
    model: TappedModel,
    both: BothPasses,
    texts: Iterable[Tokens],
    mask: str,
    chosen: Sequence[int],
    reference: Reference | None,
) -> Agreement:
    """Send each text through both programs, and add up what differs. Raises ValueError when there is no text."""
    against: choices.Against = "torch" if reference is None else "transformers"
    before = 0 if reference is None or model.part == "encoder" else model.depth - model.layers  # an encoder's layers
    embeddings: list[float] = []
    size, embedded = 1.0, Errors(torch.finfo(model.dtype).eps)
    tallies = [LayerTally(model.dtype) for _ in chosen]
    lost: list[Lost] = []
    texts_seen = tokens_seen = queries = 0
    for tokens in texts:
        rows = rows_that_count(tokens, model.dtype, reference)
        made = both(tokens)
        ours, theirs = made.ours.only(rows), made.theirs.only(rows)
        exact = None if made.exact is None else made.exact.only(rows)
        if ours.embeddings is not None and theirs.embeddings is not None:
            embeddings.append(difference(ours.embeddings, theirs.embeddings))
            size = max(size, vector_size(theirs.embeddings))
            if exact is not None and exact.embeddings is not None:
                embedded.add(ours.embeddings, theirs.embeddings, exact.embeddings)
        for place, tally in enumerate(tallies):
            tally.add(
                (ours.weights[place], ours.hidden[place]),
                (theirs.weights[place], theirs.hidden[place]),
                None if exact is None else (exact.weights[place], exact.hidden[place]),
            )
        if made.lost is not None and not any(bool(one.isnan().any()) for one in (*ours.weights, *ours.hidden)):
            lost.append(made.lost)
        texts_seen += 1
        tokens_seen += len(tokens)
        queries += len(rows)
    if not texts_seen:
        raise ValueError("there is no text to compare on")
    precision = precision_of(model, reference, lost)
    return Agreement(
        against=against,
        dtype=model.dtype_name,
        mask=mask,
        texts=texts_seen,
        tokens=tokens_seen,
        queries=queries,
        embeddings=worst(embeddings) if embeddings else None,
        embeddings_allowed=LARGEST * embedded.largest if is_half(precision) else scaled_tolerance(precision, 1, size),
        layers=[
            tally.found(layer, model.heads, 1 if reference is None else before + layer + 1, precision)
            for layer, tally in zip(chosen, tallies, strict=True)
        ],
        lost=merge_lost(lost),
    )


def precision_of(model: TappedModel, reference: Reference | None, lost: Iterable[Lost] = ()) -> torch.dtype:
    """The model's dtype; float32 where transformers computes some of it in that, or was run in it."""
    single = reference is not None and (not reference.exact or any(one.in_float32 for one in lost))
    return torch.float32 if model.dtype == torch.float64 and single else model.dtype


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
