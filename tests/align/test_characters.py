"""Text <-> numbers."""

from hypothesis import given
from hypothesis import strategies as st

from attncli.align.characters import NONE, SOURCE, TARGET, UNKNOWN, targets


@given(st.text())
def test_every_text_has_a_number_a_character(text):
    numbers = SOURCE.encode(text)
    assert len(numbers) == len(text)
    assert all(UNKNOWN <= number < len(SOURCE) for number in numbers)  # never [PAD], [START] or [END]


def test_a_character_whose_plain_form_is_several_is_unknown():
    assert SOURCE.encode("İ㍐!") == [UNKNOWN] * 3


def test_targets_begin_with_start_and_end_with_end_and_then_padding():
    made = [[TARGET.names[number] for number in row] for row in targets(["2021-03-03", NONE]).tolist()]
    assert made == [["[START]", *"2021-03-03", "[END]"], ["[START]", *"none", "[END]", *["[PAD]"] * 6]]
