"""A number is the same in a cell and elsewhere, with the digits that its place has room for."""

import re

from hypothesis import given
from hypothesis import strategies as st

from attncli.report.parts import in_cell, signed, three_digits


@given(st.floats(-50, 50))
def test_a_cell_has_two_decimals_or_says_on_which_side_of_zero_it_is(value):
    text = in_cell(value)
    if value == 0:
        assert text == "0"
    elif abs(value) < 0.005:
        assert text == ("<.01" if value > 0 else ">-.01")
    else:
        assert re.fullmatch(r"-?\d+\.\d\d", text) and abs(float(text) - value) <= 0.00501


@given(st.floats(1e-9, 5e4), st.sampled_from([-1, 1]))
def test_other_numbers_are_known_to_three_digits(size, sign):
    assert abs(float(three_digits(sign * size)) - sign * size) <= 0.00501 * size
    assert len(re.sub(r"^0\.0*|\.|e.*", "", three_digits(size))) >= 3
    assert signed(sign * size)[0] == "-+"[sign > 0] and float(signed(sign * size)) == float(three_digits(sign * size))
    assert three_digits(0.0) == signed(-0.0) == "0"
