"""Nothing from outside can command a terminal."""

import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from attncli.base.printable import INVISIBLE, printable, quoted, visible

JOINER = "\u200d"
anything = st.text(st.characters())
EVERY = [chr(number) for number in range(sys.maxunicode + 1)]


@given(anything)
@example("\u2066a\u2069")
def test_no_character_is_left_that_commands(text):
    safe = printable(text)
    assert not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in safe)
    assert not any(unicodedata.bidirectional(character) in BIDI for character in safe)
    assert len(safe.splitlines()) <= 1
    safe.encode("utf-8")
    assert printable(safe) == safe


@given(anything)
def test_what_was_typed_is_quoted_in_one_short_harmless_line(text):
    written = quoted(text)
    assert printable(written) == written and len(written) <= 42 and written[0] == written[-1]
    assert "…" in written or eval(written) == text


def test_a_long_value_is_cut_where_it_is_written():
    """Not before: of such characters each is written as ten."""
    assert quoted("\U000e0051" * 60) == "'" + ("\\U000e0051" * 4)[:39] + "…'"
    assert quoted("aa") == "'aa'" and quoted("a" * 40) == f"'{'a' * 40}'" and quoted("a" * 41) == f"'{'a' * 39}…'"


@given(anything)
def test_the_spaces_around_a_token_can_be_seen(token):
    shown = visible(token)
    assert shown == printable(shown) and shown == shown.strip(" ")
    inner = printable(token.strip(" "))
    if not INVISIBLE.search(inner):
        assert shown.strip("␣") == inner.strip("␣")
    assert shown.startswith("␣" * (len(token) - len(token.lstrip(" "))))


@pytest.mark.parametrize(
    "token", [JOINER, JOINER * 2, f"{JOINER}a", f"a{JOINER}", f" {JOINER}[1/2]", f"{JOINER}👩", "a"]
)
def test_a_token_joins_nothing_beside_it(token):
    """A row is as wide as its parts."""
    shown = visible(token)
    assert cell_len(f"  3 {shown} x") == 6 + cell_len(shown) and cell_len(shown) >= len(token.strip())
    assert shown.strip("␣") == token.strip().replace(JOINER, r"\u200d")


def test_a_space_that_looks_like_the_usual_one_is_escaped():
    assert visible("\xa0") == r"\xa0" and visible(" \u3000a") == r"␣\u3000a" and visible("1\xa0000") == "1\xa0000"


def test_a_joiner_inside_a_token_is_left():
    assert visible("👩‍🔬") == "👩‍🔬"


# What reorders a line beyond its own characters: embeddings, overrides, isolates, and their ends.
BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text(st.characters(exclude_categories=["C", "Zl", "Zp"])))
def test_ordinary_text_is_left_as_it_is(text):
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b2J", r"\x9b2J"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("\x00\x7f", r"\x00\x7f"),
        ("a\u2028b\u2029", r"a\u2028b\u2029"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("half \ud83d", r"half \ud83d"),
    ],
)
def test_by_hand(text, safe):
    assert printable(text) == safe
