"""Selections of layers, heads, tokens, and sides of a map."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import tokens as pieces_of
from records import tokens_of

from attncli.base.errors import Notice, RequestError
from attncli.record.selection import (
    name_of,
    select,
    select_pieces,
    select_queries,
    select_token,
    selected_places,
)
from attncli.text.tokens import Tokens

counts = st.integers(1, 30)


@st.composite
def selections(draw) -> tuple[int, str, list[int]]:
    """A count, a selection as a user writes it, and the numbers that it means."""
    count = draw(counts)
    numbers = st.integers(-count, count - 1)
    space = st.sampled_from(["", " ", "  "])
    parts, meant = [], []
    for _ in range(draw(st.integers(1, 5))):
        first, last = sorted((draw(numbers), draw(numbers)), key=lambda number: number % count)
        if draw(st.booleans()):
            parts.append(f"{draw(space)}{first}{draw(space)}")
            meant.append(first % count)
        else:
            parts.append(f"{draw(space)}{first}{draw(space)}-{draw(space)}{last}{draw(space)}")
            meant.extend(range(first % count, last % count + 1))
    return count, ",".join(parts), list(dict.fromkeys(meant))


@given(selections())
def test_what_is_written_is_what_is_meant(case):
    count, text, meant = case
    assert select(text, count, "layer") == meant


@given(counts, st.data())
def test_numbers_are_positions_each_once_in_their_order(count, data):
    numbers = data.draw(st.lists(st.integers(-count, count - 1), min_size=1))
    chosen = select(numbers, count, "head")
    assert chosen == list(dict.fromkeys(list(range(count))[number] for number in numbers))
    assert select(",".join(map(str, numbers)), count, "head") == chosen
    assert select(tuple(numbers), count, "head") == chosen
    assert select(numbers[0], count, "head") == chosen[:1]


@given(counts, st.integers(-100, 100), st.sampled_from(["{}", "0,{}", "{}-{}", "0-{}"]))
def test_out_of_range_says_the_range(count, number, form):
    if -count <= number < count:
        return
    for selection in (form.format(number, number), number, [0, number]):
        with pytest.raises(RequestError, match=rf"layer {number} is out of range: layers are 0 to {count - 1}"):
            select(selection, count, "layer")


@pytest.mark.parametrize("text", ["", "1,", ",1", "x", "1.5", "1-", "--1", "1-2-3", "1e1", "alle", "9" * 40, "3-1"])
def test_no_number_says_what_is(text):
    with pytest.raises(RequestError, match=r"backwards|is not a number: heads are 0 to 11"):
        select(text, 12, "head")


@given(st.text(max_size=12) | st.text("0123456789-, al", max_size=9), counts)
def test_any_text_is_numbers_in_range_or_a_refusal_in_one_line(text, count):
    try:
        chosen = select(text, count, "layer")
    except RequestError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert chosen and all(0 <= number < count for number in chosen) and len(set(chosen)) == len(chosen)


# --- tokens by name -------------------------------------------------------------------------------------


def named(pieces, shown=()) -> Tokens:
    return replace(pieces_of(pieces, [0] * len(pieces)), shown=list(shown or pieces))


TOKENS = ["[CLS]", "It", "said", "it", "7", "it", "#", "a#2", "[SEP]"]


# What the vocabulary writes, and what a reader sees of it.
SEEN = {
    "<s>": "<s>",
    "BÃ¤r": "Bär",
    "ĠgrÃ¼ÃŁt": " grüßt",
    "it": "it",
    "Ġit": " it",
    "ĠIt": " It",
    "Ġ": " ",
    "Ċ": "\n",
    "<unk>": "<unk:猫>",
    "ðŁĻ": "🙂[1/2]",
}


NAMES = {"it": 3, "it#2": 5, "It": 1, "SAID": 2, "7": 7, "-1": 8, "7#1": 4, "a#2": 7}  # in TOKENS
NAMES_SEEN = {
    "ĠgrÃ¼ÃŁt": 2, "GRÜSST": 2, "␣grüßt": 2, " bär ": 1, "it": 3, " it": 4, "It": 5, "IT#3": 5, " it#1": 4, " ": 6,
    "\\n": 7, "猫": 8,
}  # fmt: skip


def test_a_token_is_named_by_its_number_as_it_is_written_or_as_it_is_seen():
    seen = named(list(SEEN), list(SEEN.values()))
    assert {name: select_token(name, named(TOKENS)) for name in NAMES} == NAMES
    assert {name: select_token(name, seen) for name in NAMES_SEEN} == NAMES_SEEN


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("it#3", "'it' occurs 2 times"),
        ("sayd", "no token 'sayd' in the text: it has said"),
        ("zebra", "no token 'zebra' in the text: it has .*It"),
        ("9", "token 9 is out of range: tokens are 0 to 8"),
        ("-10", "token -10 is out of range"),
        ("", "no token ''"),
        ("it#0", "no token 'it#0'"),
    ],
)
def test_a_token_that_is_not_there_is_refused(name, line):
    with pytest.raises(RequestError, match=line):
        select_token(name, named(TOKENS))


WORD = replace(
    named(["ĠIt", "Ġdam", "aged", "Ġit", ".", "Ġdam", "aged"], [" It", " dam", "aged", " it", ".", " dam", "aged"]),
    words=[0, 1, 1, 2, 3, 4, 4],
)


@pytest.mark.parametrize(
    ("name", "places"),
    [("damaged", [1, 2]), ("damaged#2", [5, 6]), ("DAMAGED", [1, 2]), (" damaged", [1, 2]), ("aged", [2]), ("It", [0])],
)
def test_a_word_of_several_tokens_is_all_of_them_or_refused_where_one_is_needed(name, places):
    if len(places) == 1:
        assert select_pieces(name, WORD) == places == [select_token(name, WORD)]
        return
    with pytest.warns(Notice, match="is 2 tokens: ␣dam, aged \\(all are used\\)$"):
        assert select_pieces(name, WORD) == places
    with pytest.raises(RequestError, match=f"'{name}' is 2 tokens: ␣dam, aged: name one of them$"):
        select_token(name, WORD)


def test_queries_are_numbers_ranges_and_tokens():
    padded = replace(WORD, padding=[False] * 6 + [True])
    for written, places in {
        "LAST": [5], "-1": [6], "2-4": [2, 3, 4], "It, damaged,LAST": [0, 1, 2, 5], "damaged#2,-2": [5, 6],
    }.items():  # fmt: skip
        assert select_queries(written, padded) == list(places)
    assert select_queries([-1, 0], padded) == [0, 6] and select_queries(3, padded) == [3]
    comma = pieces_of(["a", ",", "b", "LAST", "a,b", "."], range(6))
    assert [select_queries(one, comma) for one in (",", "LAST", "a,b", "a,.")] == [[1], [3], [4], [0, 5]]
    for written, said in {"7": "token 7 is out of range", "It,zebra": "no token 'zebra'", "": "no token ''"}.items():
        with pytest.raises(RequestError, match=said):
            select_queries(written, padded)
    assert select_token("LAST", padded) == 5 == select_pieces("LAST", padded)[0]


def test_a_number_that_is_too_large_offers_tokens_that_read_alike():
    one = named(["one", "Ġone", "Ġone", "a"], ["one", " one", " one", "a"])
    with pytest.raises(RequestError, match=r"'one' occurs 1 time; there is ␣one too$"):
        select_token("one#2", one)
    with pytest.raises(RequestError, match=r"'a' occurs 1 time$"):
        select_token("a#2", one)
    with pytest.raises(RequestError, match=r"'damaged' occurs 2 times$"):
        select_token("damaged#3", WORD)


@given(
    st.lists(st.sampled_from(["the", "The", " the", "7", "cat#2", "[UNK]", "é", "#", "it#1", " ", "-1"]), min_size=1)
)
def test_a_name_of_a_token_means_that_token(texts):
    tokens = pieces_of(texts, range(len(texts)))
    for place in range(len(texts)):
        assert select_token(name_of(place, tokens), tokens) == place


# --- queries and keys --------------------------------------------------------------------------------


# [CLS] cat ##s [SEP] [x] é [SEP]
PAIR = replace(
    tokens_of(7),
    special=[True, False, False, True, False, False, True],
    segments=[0, 0, 0, 0, 1, 1, 1],
)


def test_special_tokens_go_on_both_sides():
    assert selected_places(PAIR, special=False) == ([1, 2, 4, 5], [1, 2, 4, 5])


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
    assert selected_places(PAIR, segments=segments) == (queries, keys)


@pytest.mark.parametrize("segments", ["C", "A", "ABA", "", "a-b"])
def test_other_segments_are_refused(segments):
    with pytest.raises(RequestError, match="use one of all, AA, AB, BA, BB"):
        selected_places(PAIR, segments=segments)


def test_a_text_without_a_second_segment_or_of_special_tokens_alone_is_refused():
    with pytest.raises(RequestError, match="no second segment; give one with --pair"):
        selected_places(tokens_of(5), segments="AB")

    with pytest.raises(RequestError, match="nothing to draw"):
        selected_places(tokens_of(2), special=False)


def test_keys_of_another_text_are_filtered_by_themselves():
    other = tokens_of(4)
    assert selected_places(PAIR, special=False, keys=other) == ([1, 2, 4, 5], [1, 2])
    assert selected_places(PAIR, segments="BA", keys=other) == ([4, 5, 6], [0, 1, 2, 3])
    with pytest.raises(RequestError, match="nothing to draw"):
        selected_places(PAIR, segments="AB", keys=other)
