"""Text <-> numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.align.characters import END, NONE, PAD, SOURCE, TARGET, UNKNOWN, sources, targets

known = st.text(st.sampled_from(SOURCE.characters), min_size=1)


@given(known)
def test_known_characters_come_back(text):
    assert "".join(SOURCE.names[number] for number in SOURCE.encode(text)) == text


@pytest.mark.parametrize("text", ["3 MARCH 2021", "3 march 2021", "３ Ｍarch\u00a02021"])
def test_case_width_and_kinds_of_spaces_make_no_difference(text):
    assert SOURCE.encode(text) == SOURCE.encode("3 March 2021")


def test_a_character_whose_plain_form_is_several_is_unknown():
    assert SOURCE.encode("İ㍐!") == [UNKNOWN] * 3


@given(st.lists(known, min_size=1, max_size=5))
def test_a_batch_is_the_texts_their_ends_and_padding(texts):
    made = sources(texts)
    assert made.shape[1] == max(map(len, texts)) + 1
    for text, row in zip(texts, made.tolist(), strict=True):
        assert row == [*SOURCE.encode(text), END] + [PAD] * (len(row) - len(text) - 1)


def test_targets_begin_with_start_and_end_with_end_and_then_padding():
    made = [[TARGET.names[number] for number in row] for row in targets(["2021-03-03", NONE]).tolist()]
    assert made == [["[START]", *"2021-03-03", "[END]"], ["[START]", *"none", "[END]", *["[PAD]"] * 6]]
