"""Which queries and keys are looked at."""

from dataclasses import replace

import pytest
from records import tokens_of

from attncli.base.errors import RequestError
from attncli.record.selection import kept

# [CLS] cat ##s [SEP] [x] é [SEP]
PAIR = replace(
    tokens_of(7),
    special=[True, False, False, True, False, False, True],
    segments=[0, 0, 0, 0, 1, 1, 1],
)


def test_without_a_filter_every_token_is_both():
    assert kept(PAIR) == (list(range(7)), list(range(7)))


def test_special_tokens_go_on_both_sides():
    assert kept(PAIR, special=False) == ([1, 2, 4, 5], [1, 2, 4, 5])


@pytest.mark.parametrize(
    ("segments", "queries", "keys"),
    [
        ("AA", [0, 1, 2, 3], [0, 1, 2, 3]),
        ("AB", [0, 1, 2, 3], [4, 5, 6]),
        ("BA", [4, 5, 6], [0, 1, 2, 3]),
        ("bb", [4, 5, 6], [4, 5, 6]),
    ],
)
def test_the_first_letter_is_of_the_queries_and_the_second_of_the_keys(segments, queries, keys):
    assert kept(PAIR, segments=segments) == (queries, keys)


def test_both_filters_at_once():
    assert kept(PAIR, special=False, segments="AB") == ([1, 2], [4, 5])


@pytest.mark.parametrize("segments", ["C", "A", "ABA", "", "a-b"])
def test_other_segments_are_refused(segments):
    with pytest.raises(RequestError, match="it is one of all, AA, AB, BA, BB"):
        kept(PAIR, segments=segments)


def test_a_text_without_a_second_segment_is_refused():
    with pytest.raises(RequestError, match="no second segment; give one with --pair"):
        kept(tokens_of(5), segments="AB")


def test_a_text_of_special_tokens_alone_is_refused():
    with pytest.raises(RequestError, match="nothing to draw"):
        kept(tokens_of(2), special=False)


def test_keys_of_another_text_are_filtered_by_themselves():
    other = tokens_of(4)
    assert kept(PAIR, special=False, keys=other) == ([1, 2, 4, 5], [1, 2])
    assert kept(PAIR, segments="BA", keys=other) == ([4, 5, 6], [0, 1, 2, 3])
    with pytest.raises(RequestError, match="nothing to draw"):
        kept(PAIR, segments="AB", keys=other)
