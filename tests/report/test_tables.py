"""Tables on narrow terminals, and numbers with the digits that a place has room for."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text
from terminals import printed_lines

from attncli.report.parts import in_cell, signed, three_digits
from attncli.report.terminal import FittedTable, fold, plain_table

NAMES = st.one_of(
    st.text("abc", min_size=1, max_size=80),
    st.text("中文字漢", min_size=1, max_size=30),
    st.text("🙂🎉é", min_size=1, max_size=30),
    st.sampled_from(["[CLS]", "[bold]", "##ing", "a" * 500]),
)
NUMBERS = st.floats(-1000, 1000).map("{:.3f}".format)
WIDTHS = st.integers(44, 130)


@st.composite
def tables(draw) -> FittedTable:
    """Names first and perhaps once more, then numbers."""
    others = [f"figure {place}" for place in range(draw(st.integers(1, 6)))]
    table = plain_table("token", "key", *others, names=["key"], dropped_first=draw(st.permutations(others))[:2])
    for place in range(draw(st.integers(1, 6))):
        table.add_row(Text(f"{place} {draw(NAMES)}"), Text(draw(NAMES)), *(draw(NUMBERS) for _ in others))
    return table


def body(lines: list[str]) -> list[str]:
    """The rows: what stands between the line under the headings and the empty one."""
    start = next(place for place, line in enumerate(lines) if set(line.strip()) == {"─"}) + 1
    return lines[start : lines.index("", start)]


def gone(lines: list[str]) -> list[str]:
    """The columns that are said to be left out."""
    said = " ".join(line.strip() for line in lines if line)
    found = re.findall(r"no room for (.*): widen the terminal, or use --json", said)
    return found[0].split(", ") if found else []


@given(tables(), WIDTHS)
def test_a_row_is_a_line_and_numbers_are_whole(table, width):
    lines = printed_lines(table, width=width)
    assert all(cell_len(line) <= width for line in lines)
    found = body(lines)
    assert len(found) == table.row_count
    for place, line in enumerate(found):
        assert line.startswith(f" {place} ")
        numbers = [list(column.cells)[place] for column in table.columns[2:] if column.header not in gone(lines)]
        assert re.findall(r"-?\d+\.\d{3}(?!\d)", line) == numbers


@given(tables(), WIDTHS)
def test_columns_go_in_the_order_that_was_said_and_a_line_names_them(table, width):
    without = gone(printed_lines(table, width=width))
    going = [column.header for column in table.drop_order()]
    assert going[: len(table.dropped_first)] == list(table.dropped_first)
    assert "token" not in going and len(going) == len(table.columns) - 1
    assert without == [column.header for column in table.columns if column.header in going[: len(without)]]
    assert table.fits(width) == (not without)


@given(tables())
def test_in_a_pipe_everything_is_there_in_one_line_a_row(table):
    for place, line in enumerate(body(printed_lines(table, width=10_000, terminal=False))):
        cells = [str(list(column.cells)[place]) for column in table.columns]
        assert re.sub(r" {2,}", " ", line).strip() == re.sub(r" {2,}", " ", " ".join(cells)).strip()


def test_a_table_that_fits_is_as_it_is():
    table = plain_table("key", "weight", "norm", dropped_first=["norm"])
    table.add_row("cat", "0.614", "2.317")
    assert printed_lines(table, width=80) == [
        "",
        " key   weight    norm",
        " ────────────────────",
        " cat    0.614   2.317",
        "",
    ]
    assert printed_lines(table, width=18) == [
        "", " key weight  norm", " ────────────────", " cat  0.614 2.317", ""
    ]  # fmt: skip
    assert printed_lines(table, width=16)[1:4] == [" key   weight", " ────────────", " cat    0.614"]


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three", 8, ["one two", "  three"]),
        ("  (a note that is long)", 12, ["  (a note", "    that is", "    long)"]),
        ("4: 3.94 -> 0.985   16: 15.8 -> 0.990", 20, ["4: 3.94 -> 0.985", "  16: 15.8 -> 0.990"]),
        ("name  some words about it", 18, ["name  some words", "      about it"]),
        ("first\n\nsecond line", 7, ["first", "", "second", "  line"]),
        ("averyverylongword", 5, ["averyverylongword"]),
        ("中文 字", 5, ["中文", "  字"]),
    ],
)
def test_folding_by_hand(text, width, lines):
    assert list(fold(text, width)) == lines


@given(st.text("ab  中.\n", max_size=120), st.integers(10, 60))
def test_folding_keeps_words_whole_and_fits_where_it_can(text, width):
    lines = list(fold(text, width))
    assert [word for line in lines for word in line.split()] == text.split()
    if all(cell_len(word) <= width - 8 for word in text.split()) and not re.search(r"(^|\n) {3,}", text):
        assert all(cell_len(line.rstrip()) <= width for line in lines)


# --- numbers ---------------------------------------------------------------------------------------------


@given(st.floats(-50, 50))
def test_a_cell_has_two_decimals_or_says_on_which_side_of_zero_it_is(value):
    text = in_cell(value)
    if value == 0:
        assert text == "0"
    elif abs(value) < 0.005:
        assert text == ("<.01" if value > 0 else ">-.01")
    else:
        assert re.fullmatch(r"-?\d+\.\d\d", text) and abs(float(text) - value) <= 0.00501


@given(st.floats(1e-9, 5e4), st.sampled_from([-1, 1]))
def test_other_numbers_are_known_to_three_digits(size, sign):
    assert abs(float(three_digits(sign * size)) - sign * size) <= 0.00501 * size
    assert len(re.sub(r"^0\.0*|\.|e.*", "", three_digits(size))) >= 3
    assert signed(sign * size)[0] == "-+"[sign > 0] and float(signed(sign * size)) == float(three_digits(sign * size))
    assert three_digits(0.0) == signed(-0.0) == "0"
