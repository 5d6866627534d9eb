"""The look of one weight: the larger, the brighter, in colour and without."""

from hypothesis import given
from hypothesis import strategies as st

from attncli.report.terminal import (
    ASCII_SHADES,
    SHADES,
    brightness,
    shade,
)


@given(st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_larger_weights_are_never_fainter(some, more, unicode):
    scale = SHADES if unicode else ASCII_SHADES
    small, large = sorted((some, more))
    assert brightness(small) <= brightness(large)
    assert scale.index(shade(small, unicode)) <= scale.index(shade(large, unicode))
