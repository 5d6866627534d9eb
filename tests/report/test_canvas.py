"""The canvas: whatever is drawn, it keeps to the colours, characters and columns that there are."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import attention_records
from rich.cells import cell_len
from terminals import canvases

from attncli.report.canvas import Canvas, to_width
from attncli.report.heads import glyph_table, one_head, small_maps

VIEWS = {
    "small_maps": small_maps,
    "one_head": lambda record, canvas: one_head(record, record.layers[0], record.heads[0], canvas, top_k=1),
    "glyph_table": glyph_table,
}


@given(attention_records(), canvases(), st.sampled_from(sorted(VIEWS)))
def test_ascii_means_ascii_and_no_colour_no_styles(record, canvas, view):
    texts = [f"t{place}" for place in range(len(record.tokens))]
    record = replace(record, tokens=replace(record.tokens, shown=[], text=texts))
    for line in VIEWS[view](record, replace(canvas, unicode=False, colour=False)):
        assert line.plain.isascii()
        assert not line.style and not any(span.style for span in line.spans)


@given(st.text("Wi 中é\u0301"), st.integers(1, 20), canvases())
def test_a_text_takes_its_columns_and_says_where_it_was_cut(text, width, canvas):
    made = to_width(text, width, canvas)
    assert cell_len(made) == width
    if cell_len(text) <= width:
        assert made == text + " " * (width - cell_len(text))
    else:
        mark = "…" if canvas.unicode else "~"
        assert text.startswith(made.rstrip()[:-1].rstrip()) and mark in made


@pytest.mark.parametrize("text", ["\u200d\u200d中", "\ufe0f中中", "\u0301\u0301"])
def test_a_text_that_is_no_text_has_a_width_too(text):
    """rich's own functions fail on some of these."""
    for width in range(1, 5):
        assert cell_len(to_width(text, width, Canvas(80, False, True))) == width
