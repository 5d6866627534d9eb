"""The mistakes that people make in attention, each as a variant of the formula.

`formula` is multi-head attention with every step a field; `known` are the mistakes (`of_weights`, `of_vectors`,
`of_kinds`), each of which is another function in the place of a step (`steps`); `variants` puts them into the formula.
Whoever's attention equals a variant, on inputs of every kind, has made that mistake: `attncli check` looks for it,
`attncli mechanisms --mistakes` shows what each does to a trained head, and `compare` is tested with all of them.
"""

from attncli.attention.mistakes.formula import RIGHT, Formula, Inputs, Linear, Projections, Result, Seen, Sizes
from attncli.attention.mistakes.known import MISTAKES, Change, Mistake
from attncli.attention.mistakes.variants import changed, with_mistakes

__all__ = [
    "MISTAKES",
    "RIGHT",
    "Change",
    "Formula",
    "Inputs",
    "Linear",
    "Mistake",
    "Projections",
    "Result",
    "Seen",
    "Sizes",
    "changed",
    "with_mistakes",
]
