"""Parts in the terminal: shades, maps beside each other, signed maps, and grids of heads."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from attncli.report.canvas import Canvas
from attncli.report.terminal import (
    ASCII_SHADES,
    SHADES,
    PanelSize,
    brightness,
    colour,
    head_grid,
    in_rows,
    panel_lines,
    picture,
    shade,
    signed_map,
)

# --- shades ----------------------------------------------------------------------------------------------


@given(st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_larger_weights_are_never_fainter(some, more, unicode):
    scale = SHADES if unicode else ASCII_SHADES
    small, large = sorted((some, more))
    assert brightness(small) <= brightness(large)
    assert scale.index(shade(small, unicode)) <= scale.index(shade(large, unicode))


# --- panels ----------------------------------------------------------------------------------------------


PLAIN = Canvas(80, colour=False, unicode=True)


def test_colours_of_a_picture_are_those_of_its_weights():
    weights = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]], dtype=np.float32)
    top, bottom = picture(weights, Canvas(80, colour=True, unicode=True), 3, 10)
    assert [span.style for span in top.spans] == [
        f"{colour(upper)} on {colour(lower)}" for upper, lower in zip(weights[0], weights[1], strict=True)
    ]
    assert [span.style for span in bottom.spans] == [colour(weight) for weight in weights[2]]


@given(st.integers(1, 5), st.integers(2, 12), st.integers(20, 90), st.booleans())
def test_panels_stand_in_rows_that_the_canvas_has_room_for(panels, tokens, width, coloured):
    canvas = Canvas(width, coloured, unicode=True)
    size = PanelSize.of(tokens, width)
    drawn = [panel_lines(f"panel {number}", np.eye(tokens), size, canvas, canvas.strong) for number in range(panels)]
    lines = in_rows(drawn, size.width, canvas)
    assert all(cell_len(line.plain) <= width for line in lines)
    captions = " ".join(line.plain for line in lines if "panel" in line.plain).split()
    assert captions == [word for number in range(panels) for word in ("panel", str(number))]


def test_queries_and_keys_have_their_numbers():
    weights = np.eye(12, dtype=np.float32)
    size = PanelSize.of(12, 40)
    plain = [line.plain for line in panel_lines("a head", weights, size, PLAIN)]
    assert plain[1] == "      012345678901" and plain[2].startswith("    0 █") and plain[-1].startswith("   11 ")
    coloured = panel_lines("a head", weights, size, Canvas(40, colour=True, unicode=True))
    assert [line.plain.split(" ")[-2] for line in coloured[2:]] == ["0,1", "2,3", "4,5", "6,7", "8,9", "10,11"]
    long = np.eye(80, dtype=np.float32)
    assert len(panel_lines("a head", long, PanelSize.of(80, 40), PLAIN)[1].plain) == 40


# --- signed maps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coloured", "lines"), [(True, ["   0 1 2", "a       ", "b       "]), (False, ["   0 1 2", "a  + - +", "b  ."])]
)
def test_cells_without_numbers_have_their_colour_to_the_end_of_the_line(coloured, lines):
    cells = np.array([[1.0, -1.0, 0.5], [0.0, np.nan, np.nan]])
    made = signed_map(cells, 1.0, ["a", "b"], Canvas(9, colour=coloured, unicode=True))
    assert [line.plain for line in made] == lines
    grounds = [[(span.start, str(span.style)) for span in line.spans] for line in made[1:]]
    if coloured:
        assert grounds[0] == [
            (2, "white on rgb(178,24,43)"),
            (4, "white on rgb(33,102,172)"),
            (6, "white on rgb(89,12,22)"),
        ]
        assert [start for start, _ in grounds[1]] == [2]


# --- grids of heads --------------------------------------------------------------------------------------


def drawn_grid(layers, heads, width, lines=None, widths=(7, 6)):
    canvas = Canvas(width, colour=False, unicode=True)
    cell = lambda row, place: Text(f"{layers[row]:02}.{heads[place]:02}")  # noqa: E731
    return [line.plain for line in head_grid(layers, heads, cell, canvas, widths, lines)]


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=24, unique=True),
    st.lists(st.integers(0, 30), min_size=1, max_size=16, unique=True),
    st.integers(20, 200),
    st.none() | st.integers(1, 40),
)
def test_every_head_is_there_once_and_nothing_is_wider_than_the_terminal(layers, heads, width, lines):
    grid = drawn_grid(layers, heads, width, lines)
    assert all(len(line) <= width for line in grid)
    found = re.findall(r"\d\d\.\d\d", "\n".join(grid))
    assert sorted(found) == sorted(f"{layer:02}.{head:02}" for layer in layers for head in heads)


def test_a_layers_name_stands_before_its_heads_and_numbers_above():
    assert drawn_grid([3, 10], [0, 11], 80) == [
        "head           0     11",
        "layer 3    03.00  03.11",
        "layer 10   10.00  10.11",
    ]
    assert drawn_grid([0, 1, 2], [0], 40, 2)[1] == "0   00.00  2   02.00"


def test_numbers_that_have_no_room_stand_above_every_second_head():
    canvas = Canvas(34, colour=False, unicode=True)
    [numbers, line] = head_grid([0], range(13), lambda row, place: Text("ab"), canvas, (4, 3, 2))
    assert numbers.plain == "head    0   2   4   6   8   10  12" and line.plain == "layer 0 " + "ab" * 13
