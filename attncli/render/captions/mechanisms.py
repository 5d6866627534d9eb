"""What is said of one head under every scoring function and normaliser."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Protocol

from attncli.base.arrays import Floats
from attncli.record import AttentionRecord

OWN_SCORE = "scaled_dot"
ROUNDING = 1e-6  # of a scale


class VariantLike(Protocol):
    """What is shown of a variant (`attncli.checks.variants.Variant`)."""

    @property
    def score(self) -> str: ...
    @property
    def normaliser(self) -> str: ...
    @property
    def trained(self) -> bool: ...
    @property
    def weights(self) -> Floats: ...
    @property
    def entropy(self) -> float: ...
    @property
    def moved(self) -> float: ...
    @property
    def same_key(self) -> float: ...


def has_own_score(record: AttentionRecord) -> bool:
    """Say whether a head's own score is OWN_SCORE: q·k / √d_k, to which nothing is added."""
    vectors = record.vectors
    if vectors is None:
        return True
    return not vectors.terms and abs(float(vectors.scale[0]) * vectors.query.shape[-1] ** 0.5 - 1) < ROUNDING


def by_score(
    variants: Sequence[VariantLike], seed: int, own_score: bool = True
) -> Iterator[tuple[str, list[VariantLike]]]:
    """The variants of each score, with what is said at the head of their row.

    own_score: whether OWN_SCORE is the head's own.
    """
    for score, group in groupby(variants, key=lambda variant: variant.score):
        row = list(group)
        own = ", the head's own score" if own_score and score == OWN_SCORE else ""
        yield score + (own if row[0].trained else f", {untrained(seed)}"), row


def normaliser_name(normaliser: str, temperature: float) -> str:
    """A normaliser, with its temperature where it has one that is not 1."""
    return f"softmax, T = {temperature:g}" if normaliser == "softmax" and temperature != 1 else normaliser


def untrained(seed: int) -> str:
    """What is said of a score whose parameters the model never learned."""
    return f"untrained (seed {seed})"
