"""Checks take what they are for, and say of all else where it is and what is wanted."""

import pytest

from attncli.base.schema import fields, flag, integer, list_of, maybe, name, one_of, real, text

PERSON = fields(
    {"name": text(5), "born": integer(1800, 2100)}, {"tall": maybe(real()), "of": list_of(one_of(("a", "b")))}
)


@pytest.mark.parametrize(
    "value",
    [
        {"name": "Ada", "born": 1815},
        {"name": "", "born": 2100, "tall": None, "of": []},
        {"name": "größe", "born": 1900, "tall": 1.5, "of": ["a", "b"]},
    ],
)
def test_what_it_is_for(value):
    PERSON(value, "it")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (3, "it is 3, not an object with name, born"),
        ({"name": "Ada"}, "it has no born"),
        ({"name": "Ada", "born": 1815, "\x1b": 1}, r"it has '\x1b', which this version does not know"),
        ({"name": "Ada", "born": True}, "born is True, not a whole number from 1800 to 2100"),
        ({"name": "Ada", "born": 1900.0}, "born is 1900.0"),
        ({"name": "Ada", "born": 10**400}, "born is 1000"),
        ({"name": "Ada Lovelace", "born": 1815}, "name is 'Ada Lovelace', not text of at most 5 characters"),
        ({"name": "\ud800", "born": 1815}, "half of a surrogate pair"),
        ({"name": b"Ada", "born": 1815}, "name is b'Ada', not text"),
        ({"name": "Ada", "born": 1815, "tall": float("inf")}, "tall is inf, not a number"),
        ({"name": "Ada", "born": 1815, "tall": float("nan")}, "tall is nan, not a number"),
        ({"name": "Ada", "born": 1815, "tall": 10**400}, "not a number"),
        ({"name": "Ada", "born": 1815, "of": ["a", "c"]}, "of 1 is 'c', not one of a, b"),
        ({"name": "Ada", "born": 1815, "of": ["a", ["a"]]}, "of 1 is ['a'], not one of a, b"),
        ({"name": "Ada", "born": 1815, "of": "ab"}, "of is 'ab', not a list"),
    ],
)
def test_all_else(value, said):
    with pytest.raises(ValueError) as caught:
        PERSON(value, "it")
    assert said in str(caught.value) and len(str(caught.value)) < 200


def test_a_name_need_be_no_utf_8_and_a_flag_is_no_number():
    name()("folder \udcff", "path")
    flag()(False, "partial")
    with pytest.raises(ValueError, match=r"partial is 0, not true or false"):
        flag()(0, "partial")
