"""A cosine that was taken apart, in the terminal: every cell, the sums, the pairs and heads, and what has no room."""

from dataclasses import replace

import numpy as np
import pytest
from records import similarity_of, tokens, tokens_of
from rich.console import Console

from attncli.analysis.similarity import Cosines, References
from attncli.render.terminal.similarity import cosines_view, similarity_view
from attncli.report.canvas import Canvas

CELLS = np.array([[0.1, 0.02, 0.0], [0.2, -0.3, 0.05]])
FOUND = similarity_of(CELLS, tokens(["un", "##able"], [0, 0]), tokens(["the", "\x1b[31m", "##s"], [0, 1, 1]))
PIPE = Canvas(100, colour=False, unicode=True)


def printed(parts, width=100) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(*parts, sep="\n")
    return capture.get()


def test_every_cell_stands_in_the_map_with_its_unit():
    text = printed(similarity_view(FOUND, 2, PIPE))
    assert "in units of 1e-2" in text
    rows = [line.split() for line in text.splitlines() if line.startswith(("  0 un", "  1 ##able"))]
    np.testing.assert_allclose([[float(one) / 100 for one in row[2:]] for row in rows], CELLS)
    assert "\x1b" not in text


def test_the_pairs_and_heads_that_do_most_come_first():
    lines = [line.split() for line in printed(similarity_view(FOUND, 2, PIPE)).splitlines()]
    assert [line[-1] for line in lines if len(line) > 2 and line[-1] in ("-0.300", "+0.200", "+0.100")] == [
        "-0.300",
        "+0.200",
    ]
    assert ["0.1", "-0.200"] in lines and ["0.0", "+0.100"] in lines and ["1.1", "+0.050"] not in lines


def test_a_map_that_does_not_fit_a_terminal_is_left_out_and_that_is_said():
    wide = similarity_of(np.ones((3, 60)), tokens_of(3), tokens_of(60))
    assert "no room for the map" in printed(similarity_view(wide, 2, Canvas(44, True, True, height=30)), 44)
    assert "no room" not in printed(similarity_view(wide, 2, Canvas(44, True, True)), 44)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "contextual"),
        ({"pooling": ["cls"]}, "one term"),
        ({"pooling": ["lasttoken"]}, "one term"),
        ({"pooling": ["max"]}, "where it is largest"),
        ({"biased": True}, "a convention"),
        ({"references": References(0.4, -0.3, 0.25, 8, 0.125)}, "[PAD]'s vector in place"),
    ],
)
def test_what_is_credited_is_said(changes, said):
    words = "a convention", "one term", "where it is largest", "[PAD]'s vector in place", "contextual"
    text = " ".join(
        printed(similarity_view(similarity_of(CELLS, FOUND.tokens, FOUND.key_tokens, **changes), 1, PIPE)).split()
    )
    expected = {said, *({"contextual"} if "references" not in changes else set())}
    assert {one for one in words if one in text} == expected


def test_references_and_what_is_missing_are_printed():
    references = References(0.4, -0.3, 0.25, 8, 0.125)
    text = " ".join(
        printed(
            similarity_view(
                similarity_of(CELLS, FOUND.tokens, FOUND.key_tokens, references=references, cosine=0.0), 1, PIPE
            )
        ).split()
    )
    assert "cos(reference of A, B) +0.400000, cos(A, reference of B) -0.300000, cos(both references) +0.250000" in text
    assert "cells +0.070000" in text and "-0.080000, cosine 0.000000, difference -8.0e-02 with 8 steps, 1.2e-01" in text


def test_cosines_of_texts():
    found = Cosines(FOUND.model, ["one", "the other \x1b[0m"], np.array([[1, -0.25], [-0.25, 1]]))
    lines = printed(cosines_view(found, PIPE)).splitlines()
    assert lines[0] == "made-up · cosines of 2 texts" and lines[2].split() == ["0", "one", "1.00", "-0.25"]
    assert "\x1b" not in "".join(lines)


def test_heads_that_were_silenced_are_named():
    model = replace(FOUND.model, changes="without 3.1")
    assert printed(similarity_view(replace(FOUND, model=model), 1, PIPE)).startswith("made-up without 3.1 · cosine")
    several = Cosines(model, ["one", "other"], np.eye(2))
    assert printed(cosines_view(several, PIPE)).startswith("made-up without 3.1 · cosines of 2 texts")
