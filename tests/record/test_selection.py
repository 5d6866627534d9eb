"""The words for layers and heads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.base.errors import RequestError
from attncli.record.selection import select, select_token

counts = st.integers(1, 30)


@st.composite
def written(draw) -> tuple[int, str, list[int]]:
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


@given(written())
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


@given(counts, st.sampled_from(["all", "ALL", " all "]))
def test_all_is_all(count, text):
    assert select(text, count, "layer") == select(f"0-{count - 1}", count, "layer") == list(range(count))


def test_by_hand():
    assert select("3", 12, "layer") == [3]
    assert select("0,3,5", 12, "layer") == [0, 3, 5]
    assert select("0-3", 12, "layer") == [0, 1, 2, 3]
    assert select("-1", 12, "layer") == [11]
    assert select("-3--1", 12, "layer") == [9, 10, 11]
    assert select("5,0-2,1", 12, "layer") == [5, 0, 1, 2]
    assert select(range(2, 4), 12, "layer") == [2, 3]


@given(counts, st.integers(-100, 100), st.sampled_from(["{}", "0,{}", "{}-{}", "0-{}"]))
def test_out_of_range_says_the_range(count, number, form):
    if -count <= number < count:
        return
    for selection in (form.format(number, number), number, [0, number]):
        with pytest.raises(RequestError, match=rf"layer {number} is out of range: layers are 0 to {count - 1}"):
            select(selection, count, "layer")


@pytest.mark.parametrize(
    "text",
    ["", " ", ",", "1,", ",1", "x", "1.5", "1-", "-", "--1", "1--", "1-2-3", "1;2", "0x1", "1e1", "alle", "9" * 40],
)
def test_no_number_says_what_is(text):
    with pytest.raises(RequestError, match=r"is no number: heads are 0 to 11"):
        select(text, 12, "head")


@pytest.mark.parametrize("text", ["3-1", "-1-0", "0,5-4"])
def test_backwards_is_refused(text):
    with pytest.raises(RequestError, match="backwards"):
        select(text, 12, "layer")


def test_nothing_chosen():
    with pytest.raises(RequestError, match="no head is chosen"):
        select([], 12, "head")


@given(st.text(max_size=12) | st.text("0123456789-, al", max_size=9), counts)
def test_any_text_is_numbers_in_range_or_a_refusal_in_one_line(text, count):
    try:
        chosen = select(text, count, "layer")
    except RequestError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert chosen and all(0 <= number < count for number in chosen) and len(set(chosen)) == len(chosen)


# --- tokens by name -------------------------------------------------------------------------------------

TOKENS = ["[CLS]", "It", "said", "it", "7", "it", "#", "a#2", "[SEP]"]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("it", 3),
        ("it#2", 5),
        ("It", 1),
        ("SAID", 2),
        ("[CLS]", 0),
        ("4", 4),
        ("7", 7),
        ("-1", 8),
        ("7#1", 4),
        ("#", 6),
        ("a#2", 7),
    ],
)
def test_a_token_is_named_by_its_text_or_its_number(name, place):
    assert select_token(name, TOKENS) == place


@given(st.lists(st.text(), min_size=1, max_size=8))
def test_every_token_has_a_number(tokens):
    for place in range(len(tokens)):
        assert select_token(str(place), tokens) == place
        assert select_token(str(place - len(tokens)), tokens) == place


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("it#3", "'it' is there 2 times"),
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
        select_token(name, TOKENS)
