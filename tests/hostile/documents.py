"""JSON with other things in it than a program would write: NaN, numbers beyond all sizes, nesting without an end."""

import json
from typing import Any

DEEP = "[" * 100_000 + "]" * 100_000
MARK = "\ue000put\ue000"  # stands where a text is put that no JSON writer would write


def put(text: str, changes: dict[str, str]) -> str:
    """The document with other values, as JSON is written, at these places ("heads.0.layer"; "" is the whole of it).

    A value of "..." stands for 100,000 brackets, and "-" takes the place away.
    """
    document = json.loads(text)
    raw: dict[str, str] = {}
    for number, (place, value) in enumerate(changes.items()):
        mark = f"{MARK}{number}{MARK}"
        raw[json.dumps(mark)] = DEEP if value == "..." else value
        document = changed(document, place.split(".") if place else [], mark if value != "-" else None)
    made = json.dumps(document)
    for mark, value in raw.items():
        made = made.replace(mark, value)
    return made


def swapped(text: str, one: str, other: str) -> str:
    """The document with what stands at two places exchanged."""
    found = {place: json.dumps(value_at(json.loads(text), steps(place))) for place in (one, other)}
    return put(text, {one: found[other], other: found[one]})


def steps(place: str) -> tuple[Any, ...]:
    """ "heads.0" -> ("heads", 0)"""
    return tuple(int(step) if step.isdigit() else step for step in place.split("."))


def changed(document: Any, place: list[str], value: Any) -> Any:
    """The document with the value at a place; None takes it away."""
    if not place:
        return value
    inner = document
    for name in place[:-1]:
        inner = inner[int(name) if isinstance(inner, list) else name]
    last: Any = int(place[-1]) if isinstance(inner, list) else place[-1]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return document


def places(document: Any, so_far: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document, the whole first."""
    found = [so_far]
    if isinstance(document, dict):
        for name, value in document.items():
            found += places(value, (*so_far, name))
    elif isinstance(document, list):
        for number, value in enumerate(document):
            found += places(value, (*so_far, number))
    return found


def value_at(document: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        document = document[step]
    return document
