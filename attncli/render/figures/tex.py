r"""Words for TeX: what a text says is printed, whatever it is, and never obeyed.

A token "\input{x}" is ten characters and no command. Characters beyond ASCII go through \attncliglyph, and what is
written from right to left through \attnclirtl, which `attncli.render.figures.latex` defines: what TeX or its font does
not have is printed as its number.
"""

import string
import unicodedata
from itertools import groupby

COMMANDS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{MINUS SIGN}": r"\ensuremath{-}",  # this and the next are our own, and fonts of text lack them
    "√": r"\ensuremath{\surd}",
    "Σ": r"\ensuremath{\Sigma}",
    "■": r"\rule{0.6em}{0.6em}",
    **{character: rf"\{character}" for character in "{}$&#%_"},
}
PLAIN = set(string.ascii_letters + string.digits + " ")
RIGHT, LEFT = ("R", "AL"), ("L", "EN", "AN")  # Unicode's classes of what has a direction


def tex(text: str) -> str:
    """`text` as TeX prints it, in any language of babel: there punctuation may be a command, and is none here."""
    base, *directions = directed(text)
    runs = groupby(zip(text, directions, strict=True), key=lambda pair: pair[1])
    pieces = []
    for direction, run in runs:
        inner = "".join(written(character) for character, _ in run)
        pieces.append(inner if direction == base else rf"\attncli{direction}{{{inner}}}")
    return "".join(pieces) if base == "ltr" else rf"\attnclirtl{{{''.join(pieces)}}}"


def directed(text: str) -> list[str]:
    """ "ltr" or "rtl": of the whole text, which is its first letter's, then of each character.

    What has no direction goes with what is on both sides of it, else with the whole.
    """
    classes = [unicodedata.bidirectional(character) for character in text]
    strong = ["rtl" if one in RIGHT else "ltr" if one in LEFT else "" for one in classes]
    base = next((way for one, way in zip(classes, strong, strict=True) if one in (*RIGHT, "L")), "ltr")
    directions = [base]
    for place, way in enumerate(strong):
        before = next((one for one in reversed(strong[:place]) if one), base)
        after = next((one for one in strong[place:] if one), base)
        directions.append(way or (before if before == after else base))
    return directions


def written(character: str) -> str:
    if character in COMMANDS:
        return COMMANDS[character]
    if character in PLAIN:
        return character
    if unicodedata.category(character) == "Cc":
        return " "
    return (
        rf"\string{character}{{}}" if character.isascii() else rf"\attncliglyph{{{ord(character):04X}}}{{{character}}}"
    )
