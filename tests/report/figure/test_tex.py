r"""Words for TeX: nothing that a text says is a command, and nothing of it is lost."""

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attncli.report.figure.latex import COMMANDS, tex

GLYPH = r"\\attncliglyph\{([0-9A-F]{4,6})\}\{(.)\}"
# All that may be there: what stands for a character, and the two commands that turn.
ATOM = re.compile(rf"[A-Za-z0-9 ]|\\string([!-~])\{{\}}|{GLYPH}|\\attncli(?:rtl|ltr)\{{|\}}|" + "|".join(
    sorted(map(re.escape, COMMANDS.values()), key=len, reverse=True)
), re.DOTALL)  # fmt: skip
MEANT = {command: character for character, command in COMMANDS.items()}


def read(written):
    """The text that TeX prints, in the order of its letters. Fails at whatever is no letter of a text."""
    place, text, open_ = 0, [], 0
    while place < len(written):
        found = ATOM.match(written, place)
        assert found, written[place : place + 20]
        atom, place = found[0], found.end()
        if found[1]:
            text.append(found[1])
        elif found[2]:
            assert int(found[2], 16) == ord(found[3])
            text.append(found[3])
        elif atom.endswith("{") and atom not in MEANT:
            open_ += 1
        elif atom == "}":
            open_ -= 1
            assert open_ >= 0
        else:
            text.append(MEANT.get(atom, atom))
    assert open_ == 0
    return "".join(text)


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.text("\\{}$&#%_~^<>|-`'\"!?:;@ab\n", max_size=20)
)
@example(r"\input{/etc/passwd}")
@example("^^5cinput{x}")
@example("##ל")
@example("a שלום, 12 b")
def test_a_text_is_what_is_printed_and_nothing_is_obeyed(text):
    controls = {ord(one): " " for one in text if unicodedata.category(one) == "Cc"}
    assert read(tex(text)) == text.translate(controls)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("50% of $x_1", r"50\% of \$x\_1"),
        (r"\par", r"\textbackslash{}par"),
        ("--", r"\string-{}\string-{}"),  # no dash
        ('"a', r'\string"{}a'),  # no letter of babel's German
        ("−0.5", r"\ensuremath{-}0\string.{}5"),
        ("##ל", r"\attnclirtl{\#\#\attncliglyph{05DC}{ל}}"),
        ("ab ל", r"ab \attnclirtl{\attncliglyph{05DC}{ל}}"),
        ("ל 12", r"\attnclirtl{\attncliglyph{05DC}{ל} \attncliltr{12}}"),
    ],
)
def test_what_stands_for_what(text, expected):
    assert tex(text) == expected
