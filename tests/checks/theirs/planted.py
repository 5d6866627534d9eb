"""What a planted mistake is. The mistakes themselves: `planted_formula.py`, `planted_masks.py`, `planted_layers.py`."""

from pathlib import Path
from typing import NamedTuple

BASES = Path(__file__).parent / "bases"


class Planted(NamedTuple):
    """In place of `old`, which stands once in the base of this style, `new`.

    options: of the command, more than the style needs, where the mistake is one only if something is declared.
    """

    mistake: str
    style: str
    old: str
    new: str
    options: tuple[str, ...] = ()


def base(style: str) -> str:
    """The right program of a style."""
    return (BASES / f"{style}.py").read_text(encoding="utf-8")


def source(*planted: Planted) -> str:
    """The wrong program, with one mistake or with several of one style."""
    program = base(planted[0].style)
    for one in planted:
        program = program.replace(one.old, one.new)
    return program
