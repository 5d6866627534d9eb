"""The look of one weight: the larger, the brighter, in colour and without."""

from hypothesis import given
from hypothesis import strategies as st

from attncli.report.canvas import Canvas
from attncli.report.terminal import (
    ASCII_SHADES,
    SHADES,
    VALUE_WIDTH,
    brightness,
    cell_text,
    colour,
    ground,
    shade,
    two_digits,
)


@given(st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_larger_weights_are_never_fainter(some, more, unicode):
    scale = SHADES if unicode else ASCII_SHADES
    small, large = sorted((some, more))
    assert brightness(small) <= brightness(large)
    assert scale.index(shade(small, unicode)) <= scale.index(shade(large, unicode))


@given(st.floats(0, 1), st.sampled_from([VALUE_WIDTH, 2, 1]), st.booleans(), st.booleans())
def test_a_cell_is_as_wide_as_asked_and_coloured_where_there_is_colour(weight, width, coloured, unicode):
    content, style = cell_text(weight, width, Canvas(80, coloured, unicode))
    assert len(content) == width
    assert style == ground(weight, Canvas(80, coloured, unicode)) == (style if coloured else "")
    assert colour(weight) in style or not coloured
    if width == VALUE_WIDTH:
        assert content.strip() in (two_digits(weight), "·", ".")
