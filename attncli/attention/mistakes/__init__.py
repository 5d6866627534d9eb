"""The mistakes that people make in attention, each as a variant of the formula.

`formula` is multi-head attention with every step a field. `known` lists the mistakes, each with other functions
(`steps`) in the place of some steps. Attention that equals a variant on inputs of every kind has made that mistake:
`attncli check` looks for it, `attncli mechanisms --mistakes` shows its effect on a trained head, and the tests of
`compare` use all of them.
"""

from attncli.attention.mistakes.formula import (
    RIGHT,
    Affine,
    Formula,
    FormulaResult,
    Inputs,
    Masking,
    Projections,
    Sizes,
)
from attncli.attention.mistakes.known import MISTAKES, Mistake, Replacement, change_steps, with_mistakes

__all__ = [
    "MISTAKES",
    "RIGHT",
    "Affine",
    "Formula",
    "FormulaResult",
    "Inputs",
    "Masking",
    "Mistake",
    "Projections",
    "Replacement",
    "Sizes",
    "change_steps",
    "with_mistakes",
]
