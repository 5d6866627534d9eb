"""A grid of heads: every one is there once, in the columns and lines that there are."""

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from attncli.report.canvas import Canvas
from attncli.report.terminal import head_grid


def drawn(layers, heads, width, lines=None, widths=(7, 6)):
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
    grid = drawn(layers, heads, width, lines)
    assert all(len(line) <= width for line in grid)
    found = re.findall(r"\d\d\.\d\d", "\n".join(grid))
    assert sorted(found) == sorted(f"{layer:02}.{head:02}" for layer in layers for head in heads)


def test_a_layers_name_stands_before_its_heads_and_numbers_above():
    assert drawn([3, 10], [0, 11], 80) == [
        "head           0     11",
        "layer 3    03.00  03.11",
        "layer 10   10.00  10.11",
    ]
    assert drawn([0, 1, 2], [0], 40, 2)[1] == "0   00.00  2   02.00"


def test_numbers_that_have_no_room_stand_above_every_second_head():
    canvas = Canvas(34, colour=False, unicode=True)
    [numbers, line] = head_grid([0], range(13), lambda row, place: Text("ab"), canvas, (4, 3, 2))
    assert numbers.plain == "head    0   2   4   6   8   10  12" and line.plain == "layer 0 " + "ab" * 13
