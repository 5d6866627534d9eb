"""Widths and sizes: what can be asked for, and what it means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli import RequestError
from attncli.report.paper import SMALLEST, inches, paper


@given(st.floats(0.1, 99))
def test_units_are_those_of_every_ruler(length):
    assert inches(length) == inches(f"{length}in") == pytest.approx(length)
    assert inches(f"{length * 2.54:.9f} cm") == pytest.approx(length)
    assert inches(f"{length * 25.4:.9f}mm") == pytest.approx(length)
    assert inches(f"{length * 72:.9f}PT") == pytest.approx(length)


@pytest.mark.parametrize(
    "wrong", ["", "cm", "8 furlongs", "-8cm", "0cm", "1e9cm", "nan", "inf", "8cm8", "101in", "٨cm"]
)
def test_what_is_no_width_is_refused_with_examples(wrong):
    with pytest.raises(RequestError, match='"8cm"'):
        inches(wrong)


@given(st.floats(0.5, 20))
def test_letters_for_print_are_at_least_six_points(width):
    assert SMALLEST == paper(width).smallest <= paper(width).label <= paper().label


def test_a_size_that_is_asked_for_is_kept():
    assert (paper("8cm", font_size=4).label, paper("8cm", font_size=4).smallest) == (4, 4)
    assert paper(font_size=20).label == 20
    for wrong in (0, -1, 1000, float("nan")):
        with pytest.raises(RequestError, match="--font-size"):
            paper(font_size=wrong)
