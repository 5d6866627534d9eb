"""All heads as small maps: they fit the width, and a long text is pooled."""

import numpy as np
from hypothesis import given
from records import attention_records, cross_records, record_of
from rich.cells import cell_len
from terminals import canvases

from attncli.render.terminal.overview import overview
from attncli.report.canvas import Canvas


@given(attention_records(), canvases())
def test_small_maps_fit_the_width(record, canvas):
    wide = [line.plain for line in overview(record, canvas) if cell_len(line.plain.rstrip()) > canvas.width]
    assert all(line.startswith(("made-up", "weight 0", "a cell is")) for line in wide)  # words may fold


def test_long_texts_are_pooled_and_say_so():
    lines = overview(record_of(np.eye(200)), Canvas(80, colour=True, unicode=True))
    assert any("largest of the weights" in line.plain for line in lines)
    assert len(lines) < 120


@given(cross_records(), canvases())
def test_keys_of_another_text_are_named(record, canvas):
    shown = "\n".join(line.plain for line in overview(record, canvas))
    assert "cross attention" in shown
    assert "\nqueries\n" in shown and "\nkeys\n" in shown and f"{len(record.keys) - 1} [SEP]" in shown
