"""Masked cells are drawn as hidden wherever maps are drawn, never as weight 0; a legend says so."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import picture_texts
from records import layered_records, record_of

from attncli.record.display import drawn_map, pool
from attncli.record.grouping import merge_words
from attncli.report.canvas import Canvas
from attncli.report.heads import one_head
from attncli.report.terminal import ASCII_HATCH, GREY, HATCH, LIGHT_GREY, cell_text, colour, picture

CANVASES = [Canvas(200, coloured, unicode) for coloured in (False, True) for unicode in (False, True)]


def hatches(lines):
    return sum(line.plain.count(HATCH) + line.plain.count(ASCII_HATCH) for line in lines)


@given(layered_records(padding=1), st.integers(1, 12), st.integers(1, 12))
def test_a_pooled_cell_is_hidden_where_all_of_it_is(record, rows, columns):
    for layer in record.layers:
        whole, hidden = drawn_map(record, layer, 0), ~record.mask_of(layer)
        small = pool(whole, rows, columns)
        every = pool(hidden.astype(np.float32) - 1, rows, columns)  # 0 where any is hidden, -1 where none
        seen = pool(1 - hidden.astype(np.float32), rows, columns)  # 1 where any may be attended to
        assert np.array_equal(np.isnan(small), seen == 0) and (every[np.isnan(small)] == 0).all()
        assert np.array_equal(np.nan_to_num(small), pool(record.map(layer, 0), rows, columns))


@pytest.mark.parametrize("canvas", CANVASES)
@pytest.mark.parametrize("words", [False, True])
@given(record=layered_records(padding=1))
@settings(max_examples=4)
def test_in_the_terminal_as_many_cells_are_hatched_as_are_hidden(canvas, words, record):
    """The legend has two more; half-blocks are grey where but one of the two is hidden."""
    record = merge_words(record) if words else record
    for layer in record.layers:
        hidden = ~record.mask_of(layer)
        large = one_head(record, layer, 0, canvas)
        assert hatches(large) == hidden.sum() + 2
        assert sum("hidden" in line.plain for line in large) == 1
        lines = picture(drawn_map(record, layer, 0), canvas, 99, 99)
        if canvas.queries_a_line == 1:
            assert hatches(lines) == hidden.sum()
        else:
            both = hidden[0 : len(hidden) - 1 : 2] & hidden[1::2]
            assert hatches(lines) == both.sum()
            grey = sum(str(span.style).count(GREY) for line in lines for span in line.spans)
            assert grey == hidden.sum() - both.sum()


def test_no_weight_looks_like_what_is_hidden():
    steps = [step / 1000 for step in range(1001)]
    for light, grey in ((False, GREY), (True, LIGHT_GREY)):
        assert grey not in {colour(weight, light) for weight in steps} and colour(math.nan, light) == grey
    for canvas in (*CANVASES, Canvas(80, colour=True, unicode=True, light=True)):
        for width in (1, 2, 4):
            assert cell_text(math.nan, width, canvas) not in {cell_text(weight, width, canvas) for weight in steps}


def test_lines_say_what_is_hidden_from_the_query_that_is_held():
    mask = abs(np.subtract.outer(range(6), range(6))) <= 1
    record = record_of(mask / mask.sum(axis=-1, keepdims=True), mask)
    held = record.figure(style="lines", query=2)
    hatched = [patch for patch in held.axes[0].patches if patch.get_hatch()]
    assert len(hatched) == 3 and any("hatched: hidden from this query" in text for text in picture_texts(held))
    assert "hidden keys have no line" in " ".join(picture_texts(record.figure(style="lines")))  # which may be wrapped
    everything = record.figure(style="lines", query=0).axes[0]
    assert len([patch for patch in everything.patches if patch.get_hatch()]) == 4
