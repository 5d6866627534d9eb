"""Differences in the terminal: a number for every head, and a row for every cell that is named."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from records import attention_records, record_of
from rich.cells import cell_len
from rich.text import Text
from terminals import PLAIN, canvases

from attncli.analysis.difference import difference
from attncli.render.terminal import difference as view


def two(record):
    """The record, and one with its keys in the other order."""
    return difference(record, replace(record, weights=np.ascontiguousarray(record.weights[..., ::-1])))


@given(attention_records(), canvases(80, 160))
def test_every_head_has_its_number_and_lines_fit(record, canvas):
    found = two(record)
    header, *lines = view.heads_grid(found, canvas)
    assert header.plain.split() == ["head", *map(str, record.heads)]
    for layer, row, line in zip(record.layers, found.moved, lines, strict=True):
        assert line.plain.split() == ["layer", str(layer), *(f"{moved:.2f}" for moved in row)]
        assert cell_len(line.plain) == cell_len(header.plain)


@given(attention_records(), st.integers(1, 9))
def test_cells_are_those_that_differ_most_with_both_numbers(record, top):
    found = two(record)
    table = view.cells_table(found, top)
    rows = list(zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True))
    for row, cell in zip(rows, found.largest(top), strict=True):
        assert row[0] == f"{cell.layer}.{cell.head}"
        assert row[3:] == (f"{cell.first:.3f}", f"{cell.second:.3f}", f"{cell.change:+.3f}")
        assert row[1].startswith(f"{cell.query} ") and row[2].startswith(f"{cell.key} ")


@given(attention_records(), canvases(80, 160))
def test_what_does_not_differ_is_said_to_be_the_same(record, canvas):
    *_, last = view.difference_view(difference(record, record), 5, canvas)
    assert isinstance(last, Text) and last.plain == "the maps are the same"


def test_the_two_are_told_apart_and_a_long_text_is_cut():
    long = record_of(np.full((60, 60), 1 / 60))
    lines = [line.plain for line in view.sides(difference(long, replace(long, mask_name="causal")), PLAIN)]
    assert lines[0].startswith("A  made-up · mask padding · 60 tokens · cat ##s")
    assert lines[1].startswith("B  made-up · mask causal · 60 tokens")
    assert all(line.endswith(" ...") and len(line) < 130 for line in lines)
