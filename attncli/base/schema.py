"""Schemas of untrusted documents, written as tables: `fields({"name": text(), "layers": integer(1)})`.

Each function returns a check. A check takes a value and its name, and raises ValueError if the value is invalid. It
changes nothing. msgspec is not used: importing it takes 25 ms, and its errors don't state the value.
"""

import reprlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

FieldCheck = Callable[[Any, str], None]

LARGEST = 2**53  # every reader of JSON represents whole numbers up to this exactly
LONGEST_NAME = 5000  # characters: longer than any path


def refuse(value: Any, what: str, wanted: str) -> None:
    """Raises ValueError: "texts is -3, not a whole number from 1"."""
    raise ValueError(f"{what} is {reprlib.repr(value)}, not {wanted}")


def integer(least: int = 0, most: int = LARGEST) -> FieldCheck:
    """Accept a whole number from `least` to `most`. True is not a number here, nor is 3.0."""

    def check(value: Any, what: str) -> None:
        if type(value) is not int or not least <= value <= most:
            refuse(value, what, f"a whole number from {least}" + ("" if most == LARGEST else f" to {most}"))

    return check


def anything(value: Any, what: str) -> None:
    """Accept any value: it is checked elsewhere."""


def real() -> FieldCheck:
    """Accept a number with an absolute value of at most LARGEST."""

    def check(value: Any, what: str) -> None:
        if type(value) not in (int, float) or not abs(value) <= LARGEST:
            refuse(value, what, "a number")

    return check


def flag() -> FieldCheck:
    """Accept True or False."""

    def check(value: Any, what: str) -> None:
        if type(value) is not bool:
            refuse(value, what, "true or false")

    return check


def text(longest: int | None = None) -> FieldCheck:
    """Accept text of at most `longest` characters that can be written as UTF-8."""

    def check(value: Any, what: str) -> None:
        name(longest)(value, what)
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            refuse(value, what, "text: it has half of a surrogate pair")

    return check


def name(longest: int | None = LONGEST_NAME) -> FieldCheck:
    """Accept a name from a system, such as a file name, which on some systems need not be UTF-8."""

    def check(value: Any, what: str) -> None:
        if type(value) is not str:
            refuse(value, what, "text")
        if longest is not None and len(value) > longest:
            refuse(value, what, f"text of at most {longest} characters")

    return check


def one_of(names: Collection[str]) -> FieldCheck:
    """Accept one of these names."""

    def check(value: Any, what: str) -> None:
        if type(value) is not str or value not in names:
            refuse(value, what, f"one of {', '.join(names)}")

    return check


def maybe(inner: FieldCheck) -> FieldCheck:
    """Accept null, or any value that `inner` accepts."""

    def check(value: Any, what: str) -> None:
        if value is not None:
            inner(value, what)

    return check


def list_of(inner: FieldCheck, count: int | None = None) -> FieldCheck:
    """Accept a list whose values `inner` accepts: `count` of them, by default any number."""

    def check(value: Any, what: str) -> None:
        if type(value) is not list or count not in (None, len(value)):
            refuse(value, what, "a list" if count is None else f"a list of {count}")
        for place, one in enumerate(value):
            inner(one, f"{what} {place}")

    return check


def fields(inside: Mapping[str, FieldCheck], also: Mapping[str, FieldCheck] | None = None) -> FieldCheck:
    """Accept an object with the `inside` fields, optionally the `also` fields, and no others."""
    known = {**inside, **(also or {})}

    def check(value: Any, what: str) -> None:
        if type(value) is not dict:
            refuse(value, what, f"an object with {', '.join(inside)}")
        for field in inside:
            if field not in value:
                raise ValueError(f"{what} has no {field}")
        for field, one in value.items():
            if field not in known:
                raise ValueError(f"{what} has {reprlib.repr(field)}, which this version does not know")
            known[field](one, field if what == "it" else f"{what}: {field}")

    return check
