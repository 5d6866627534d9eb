"""Maps as pictures of characters, beside each other."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from attncli.report.canvas import Canvas
from attncli.report.terminal import PanelSize, colour, in_rows, panel_lines, picture

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
