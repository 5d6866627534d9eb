"""The mistakes that people make in attention, all of them; where two fit, the first of them is the diagnosis."""

from attncli.attention.mistakes.mistake import Change, Mistake
from attncli.attention.mistakes.of_kinds import DROPOUT, KINDS, TEMPERATURE
from attncli.attention.mistakes.of_vectors import VECTORS
from attncli.attention.mistakes.of_weights import WEIGHTS

__all__ = ["DROPOUT", "MISTAKES", "TEMPERATURE", "Change", "Mistake"]

MISTAKES: tuple[Mistake, ...] = (*WEIGHTS, *VECTORS, *KINDS)
