"""Signed maps in the terminal: what is hidden has nothing, and where there is no room for numbers there is colour."""

import numpy as np

from attncli.report.canvas import Canvas
from attncli.report.terminal import signed_map

CELLS = np.array([[1.0, -1.0, 0.5], [0.0, np.nan, np.nan]])


def test_cells_without_numbers_have_their_colour_to_the_end_of_the_line():
    lines = signed_map(CELLS, 1.0, ["a", "b"], Canvas(9, colour=True, unicode=True))
    assert [line.plain for line in lines] == ["   0 1 2", "a       ", "b       "]
    grounds = [[(span.start, str(span.style)) for span in line.spans] for line in lines[1:]]
    assert grounds[0] == [
        (2, "white on rgb(178,24,43)"),
        (4, "white on rgb(33,102,172)"),
        (6, "white on rgb(89,12,22)"),
    ]
    assert [start for start, _ in grounds[1]] == [2]


def test_without_colour_no_line_ends_in_spaces():
    lines = signed_map(CELLS, 1.0, ["a", "b"], Canvas(9, colour=False, unicode=True))
    assert [line.plain for line in lines] == ["   0 1 2", "a  + - +", "b  ."]
