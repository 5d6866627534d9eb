"""Parts in the terminal: shades, maps beside each other, signed maps, and grids of heads."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text
from terminals import printed_lines

from attncli.cli import output
from attncli.report.canvas import Canvas, is_light_terminal
from attncli.report.parts import Column, HeadGrid, MapAxis, Maps, Panel, Table, TextLine
from attncli.report.terminal import (
    ASCII_SHADES,
    SHADES,
    PanelSize,
    Prose,
    brightness,
    colour,
    ground,
    head_grid,
    in_rows,
    lines_of,
    panel_lines,
    picture,
    scale,
    shade,
    signed_ground,
    signed_map,
    text_of,
    title,
)

# --- shades ----------------------------------------------------------------------------------------------


@given(st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_larger_weights_are_never_fainter(some, more, unicode):
    scale = SHADES if unicode else ASCII_SHADES
    small, large = sorted((some, more))
    assert brightness(small) <= brightness(large)
    assert scale.index(shade(small, unicode)) <= scale.index(shade(large, unicode))


def luminance(red, green, blue):
    """The relative luminance of WCAG 2."""
    parts = [part / 3294.6 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("light", [False, True])
@pytest.mark.parametrize("style", [ground, signed_ground, lambda share, canvas: signed_ground(-share, canvas)])
def test_numbers_can_be_read_on_dark_and_light_colours(style, light):
    canvas = Canvas(80, colour=True, unicode=True, light=light)
    for share in np.linspace(0, 1, 101):
        text, _, on = style(share, canvas).partition(" on ")
        levels = sorted([luminance(*map(int, re.findall(r"\d+", on))), 0.0 if text == "black" else 1.0])
        assert (levels[1] + 0.05) / (levels[0] + 0.05) > 3.8
    first = luminance(*map(int, re.findall(r"\d+", style(0, canvas).partition(" on ")[2])))
    assert first > 0.99 if light else first < 0.01, "0 has the colour of the background"


def test_a_light_terminal_says_so(monkeypatch):
    for said, light in (("0;15", True), ("0;default;7", True), ("15;0", False), ("", False)):
        monkeypatch.setenv("COLORFGBG", said)
        assert is_light_terminal() == output.canvas().light == light


def test_the_scale_has_the_colours_of_the_map():
    for light in (False, True):
        canvas = Canvas(80, colour=True, unicode=True, light=light)
        grounds = [str(span.style) for span in scale(canvas, np.ones((1, 1), np.float32)).spans]
        assert grounds[0] == f"on {colour(0, light)}" and grounds[12] == f"on {colour(1, light)}"


# --- titles and sentences --------------------------------------------------------------------------------


def test_a_title_folds_between_its_parts():
    parts = ["minilm", "by weight", "mask padding", "16 tokens"]
    lines = title(parts, Canvas(30, colour=True, unicode=True, height=24)).plain.split("\n")
    assert lines == ["minilm · by weight ·", "  mask padding · 16 tokens"]
    long = title(["minilm", "a part that is longer than a line"], Canvas(20, colour=False, unicode=False, height=24))
    assert long.plain.split("\n") == ["minilm | a part that", "  is longer than a", "  line"]
    assert "\n" not in title(parts, Canvas(30, colour=True, unicode=True)).plain, "a pipe gets one line"


def test_sentences_are_narrower_than_a_wide_terminal():
    assert max(map(len, printed_lines(Prose("word " * 80), width=200))) == 119


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
    for line in coloured[2:]:
        assert not line.style, "the faint style of the numbers would dim the map"


# --- signed maps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coloured", "lines"), [(True, ["   0 1 2", "a       ", "b       "]), (False, ["   0 1 2", "a  + - +", "b  ."])]
)
def test_cells_without_numbers_have_their_colour_to_the_end_of_the_line(coloured, lines):
    cells = np.array([[1.0, -1.0, 0.5], [0.0, np.nan, np.nan]])
    made = signed_map(cells, 1.0, ["a", "b"], Canvas(9, colour=coloured, unicode=True))
    assert [line.plain for line in made[:3]] == lines
    said = " ".join("".join(line.plain for line in made[3:]).split())
    assert said.startswith("no room for the numbers") and ("red is" if coloured else "0.333 from 0") in said
    grounds = [[(span.start, str(span.style)) for span in line.spans] for line in made[1:3]]
    if coloured:
        assert grounds[0] == [
            (2, "white on rgb(178,24,43)"),
            (4, "white on rgb(33,102,172)"),
            (6, "white on rgb(89,12,22)"),
        ]
        assert [start for start, _ in grounds[1]] == [2]


def test_weights_among_signed_numbers_are_written_as_in_maps_of_weights():
    cells = np.array([[1.0, 0.42, 0.004]])
    weights = signed_map(cells, 1.0, ["a"], PLAIN, weights=True)
    assert weights[1].plain.split() == ["a", "1.0", ".42", "·"]
    assert signed_map(cells, 1.0, ["a"], PLAIN)[1].plain.split() == ["a", "1.00", "0.42", "<.01"]


def test_a_wide_terminal_has_maps_beside_each_other():
    maps = Maps(
        [[Panel("one", np.eye(2)), Panel("two", np.eye(2))]], MapAxis("A", "ab"), MapAxis("B", "cd"), numbered=True
    )
    wide, narrow = (
        [line.plain for line in lines_of([], [maps], Canvas(width, colour=False, unicode=True, height=24))]
        for width in (80, 40)
    )
    assert wide[1].split("  ") == ["one, A down and B across", "two, A down and B across"] and len(wide) == 5
    assert len(narrow) == 10


def test_a_map_of_shares_is_scaled_where_two_decimals_would_lose_many():
    axis, heads = MapAxis("A", "abcd", range(4)), range(2)
    small = np.array([[0.82, 0.003], [-0.004, 0.03]])
    assert Maps([[Panel("", small)]], axis, axis, signed=True).power == 3
    assert HeadGrid([Panel("", small)], heads, heads, "", most=1.0).power == 3
    assert HeadGrid([Panel("", np.array([[0.82, 0.003], [0.2, 0.3], [0.1, 0.1]]))], heads, heads, "").power == 0
    assert HeadGrid([Panel("", small + 0.5)], heads, heads, "").power == 0


# --- reports ---------------------------------------------------------------------------------------------


def test_one_empty_line_stands_between_tables():
    table = Table([Column("head"), Column("effect")], [["3.1", "+0.2"]])
    lines = text_of([], [table, table]).splitlines()
    headings = [place for place, line in enumerate(lines) if "head" in line]
    assert [lines[place - 1] for place in headings] == ["", ""] and headings[1] - headings[0] == 4
    [heading] = [at for at, line in enumerate(text_of([], [TextLine(""), table]).splitlines()) if "head" in line]
    assert heading == 1


def test_maps_wrap_before_they_lose_their_numbers():
    """Three maps of 16 keys have room for their numbers in rows of two, where each row has 60 columns."""
    axis = MapAxis("token", [f"t{number}" for number in range(16)])
    panels = [Panel(name, np.eye(16)) for name in ("one", "two", "another one with a long name")]
    lines = [getattr(line, "plain", "") for line in lines_of([], [Maps([panels], axis, axis)], Canvas(60, False, True))]
    assert sum("0123456789012345" in line for line in lines) == 2
    assert any("another one with a long name" in line for line in lines)


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
