"""The parts of a head's scores in the terminal: their numbers, or their signs where there is no room."""

from dataclasses import replace

import numpy as np
from records import record_of

from attncli.analysis.terms import score_terms
from attncli.record import Vectors
from attncli.render.terminal.terms import terms_view
from attncli.report.canvas import Canvas

NUMBERS = np.random.default_rng(1).normal(size=(3, 1, 6, 6)).astype(np.float32)
RECORD = replace(
    record_of(np.tri(6)[None, None] / np.arange(1, 7)[:, None], mask=np.tri(6, dtype=bool)),
    vectors=Vectors([(0, 0)], NUMBERS[0], NUMBERS[1], np.array([0.5]), {"position": NUMBERS[2]}),
)


def blocks(canvas):
    """The lines of each part, without what stands above."""
    lines = [line.plain for line in terms_view(RECORD, canvas)]
    starts = [place for place, line in enumerate(lines) if not line]
    return [lines[start + 1 :][: 8 if canvas.width > 60 else 7] for start in starts]


def test_numbers_of_every_part_where_there_is_room():
    for block, (name, part) in zip(blocks(Canvas(100, False, True)), score_terms(RECORD).items(), strict=True):
        assert block[0].startswith(f"{name}  from -{np.nanmax(abs(part)):.2f} to ")
        for row, line in zip(part, block[2:], strict=True):
            numbers = [float(one) for one in line.split()[2:]]
            np.testing.assert_allclose(numbers, row[~np.isnan(row)], atol=0.0051)


def test_signs_of_what_is_large_where_there_is_not():
    for block, part in zip(blocks(Canvas(24, False, True)), score_terms(RECORD).values(), strict=True):
        large = np.nanmax(abs(part)) / 3
        for row, line in zip(part, block[1:], strict=True):
            signs = ["." if abs(one) <= large else "+" if one > 0 else "-" for one in row[~np.isnan(row)]]
            assert line[-2 * len(signs) :].split() == signs


def test_colours_are_of_the_sign_and_the_size():
    lines = terms_view(RECORD, Canvas(100, True, True))
    cells = [(span.style, line.plain[span.start : span.end]) for line in lines for span in line.spans]
    for style, said in cells:
        if " on rgb(" in str(style):
            red, _, blue = (int(one) for one in str(style).partition("rgb(")[2].rstrip(")").split(","))
            assert (red >= blue) == (float(said) >= 0) or abs(float(said)) < 0.05
