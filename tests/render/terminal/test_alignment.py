"""An alignment in the terminal: what was read above, what was written beside, and no line wider than there is room."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from terminals import PLAIN, canvases

from attncli.render.terminal.alignment import alignment_map, alignment_view
from attncli.report.terminal import shade

END = "END"


def aligned(text="三月 3", output="03", heads=1):
    weights = np.random.default_rng(0).dirichlet(np.ones(len(text) + 1), (1, heads, len(output) + 1))
    return SimpleNamespace(
        text=text,
        output=output,
        attention="dot",
        probability=0.98765,
        characters=[*text, END],
        emitted=[*output, END],
        probabilities=[1.0, 0.5, 0.25],
        cross=weights.astype(np.float32),
    )


def test_a_row_is_a_character_written_with_its_probability_and_its_weights():
    one = aligned()
    names, *lines = [line.plain for line in alignment_map(one, one.cross[0, 0], PLAIN)]
    assert names == " " * 12 + "三月  3 END"
    for line, name, row in zip(lines, ["  0 1.000", "  3 0.500", "END 0.250"], one.cross[0, 0], strict=True):
        assert line.startswith(f"{name} ")
        assert line[-10:] == "".join(2 * shade(float(weight), unicode=True) for weight in row)


@given(st.integers(1, 40), canvases(20, 60))
def test_a_long_text_comes_in_parts_that_fit_the_width(length, canvas):
    one = aligned("x" * length)
    lines = alignment_map(one, one.cross[0, 0], canvas)
    assert all(cell_len(line.plain) <= canvas.width for line in lines)
    assert "".join(line.plain for line in lines).count("x") == length


def test_the_title_says_what_came_out_and_which_map_it_is():
    first, second, *_ = alignment_view(aligned("3\x1b", heads=2), PLAIN)
    assert first.plain == "3\\x1b → 03 · probability 0.9877"
    assert second.plain == "dot attention · layer 0, the mean of 2 heads"
