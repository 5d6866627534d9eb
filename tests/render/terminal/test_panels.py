"""Maps as pictures of characters, beside each other."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from records import record_of
from rich.cells import cell_len

from attncli.render.terminal.canvas import Canvas
from attncli.render.terminal.panels import PanelSize, beside, in_rows, panel, picture
from attncli.render.terminal.shades import colour

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
    size = PanelSize.of(record_of(np.eye(tokens)), width)
    drawn = [panel(f"panel {number}", np.eye(tokens), size, canvas, canvas.strong) for number in range(panels)]
    lines = in_rows(drawn, size.width, canvas)
    assert all(cell_len(line.plain) <= width for line in lines)
    captions = " ".join(line.plain for line in lines if "panel" in line.plain).split()
    assert captions == [word for number in range(panels) for word in ("panel", str(number))]


def test_lines_end_where_their_text_does():
    first, second = (panel(name, np.zeros((2, 3)), PanelSize(3, 8), PLAIN) for name in ("中文", "b"))
    assert [line.plain for line in beside([first, second], 8)] == ["中文      b", "", ""]
