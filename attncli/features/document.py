"""The documents of commands as tables of fields, and as JSON Schemas.

A measure's document is a TypedDict in its file, named like the command: `Annotated[float, "meaning", "shape or unit"]`.
If a field is itself a TypedDict, the docstring of that is the field's meaning. `attncli/cli/README.md` explains the
types, and has the tables.
"""

import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints, is_typeddict

from attncli import features
from attncli.base import choices
from attncli.base.typed import NotRequired
from attncli.corpus.statistics import PatternDocument
from attncli.effects.asking import OutputDocument
from attncli.features.models import NetworkDocument
from attncli.features.probe.tally import TreebankDocument
from attncli.record.parts import HeadDocument, ModelDocument, PlaceDocument, RecordDocument

# Parts of documents that have sections of their own.
SHARED: dict[Any, str] = {
    **{ModelDocument: "model", PlaceDocument: "place", OutputDocument: "output"},
    **{HeadDocument: "head", RecordDocument: "record", PatternDocument: "pattern"},
    **{NetworkDocument: "network", TreebankDocument: "treebank"},
}
PLAIN = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "null": "null"}


class Field(NamedTuple):
    """A field of a document. name: its path in the document, as in "query.x"."""

    name: str
    type: str
    unit: str = ""
    meaning: str = ""


class Section(NamedTuple):
    """A document or a part: its fields, with the prose before and after them."""

    before: str
    fields: tuple[Field, ...]
    after: str


def section_of(document: Any) -> Section:
    """Return the section of a TypedDict: its fields, and those of the objects in them, by their paths."""
    about = inspect.cleandoc(document.__doc__ or "")
    before, after = (about, "") if document in SHARED else ("", about)
    return Section(before, tuple(_fields_of(document)), after)


def _fields_of(document: Any, above: str = "") -> Iterator[Field]:
    for name, hint in get_type_hints(document, include_extras=True).items():
        optional = get_origin(hint) is NotRequired or name in document.__optional_keys__
        [hint] = get_args(hint) if get_origin(hint) is NotRequired else [hint]
        hint, *said = get_args(hint) if get_origin(hint) is Annotated else [hint]
        meaning, unit = (*said, "", "")[:2]
        if get_origin(hint) is Literal:
            meaning = ": ".join(filter(None, [meaning, choices.one_of(hint)]))
        below = next((one for one in _types_in(hint) if is_typeddict(one) and one not in SHARED), None)
        if below is not None and not meaning:
            sentence = inspect.cleandoc(below.__doc__ or "").replace("\n", " ").rstrip(".")
            meaning = sentence[:1].lower() + sentence[1:]
        yield Field(f"{above}{name}", _type_name(hint) + "?" * optional, unit, meaning)
        if below is not None:
            yield from _fields_of(below, f"{above}{name}.")


def _types_in(hint: Any) -> Iterator[Any]:
    """Yield the types in a type."""
    for one in get_args(hint) or [hint]:
        yield from _types_in(one) if get_args(one) else [one]


def _type_name(hint: Any) -> str:
    """Return the name of a type in the table of fields: "int or null", "[[float]]", "place"."""
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(_type_name, get_args(hint)))
    if get_origin(hint) is Literal:
        return "str"
    if get_origin(hint) is list:
        return f"[{_type_name(get_args(hint)[0])}]"
    if get_origin(hint) is dict:
        return f"{{{_type_name(get_args(hint)[1])}}}"
    if is_typeddict(hint):
        return SHARED.get(hint, "object")
    return "null" if hint is type(None) else str(hint.__name__)


@cache
def sections() -> dict[str, Section]:
    """Return the sections of all features: the shared parts, then each command's by the name of its file."""
    found = {name: section_of(one) for one, name in SHARED.items()}
    for name in features.NAMES:
        module = importlib.import_module(f"{features.__name__}.{name}")
        for heading in (name, f"{name} show"):  # `models show` is the only one
            if (one := getattr(module, f"{heading.title().replace(' ', '')}Document", None)) is not None:
                found[heading] = section_of(one)
    return found


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 4) of a document of this version."""
    named = {kind for section in sections().values() for one in section.fields for kind in re.findall(r"\w+", one.type)}
    parts = {part: _object(sections()[part].fields) for part in sorted(named & sections().keys())}
    return {**_object(sections()[name].fields), "definitions": parts}


def _object(fields: Sequence[Field]) -> dict[str, Any]:
    properties, needed = {}, []
    for one in fields:
        if "." in one.name:
            continue
        prefix = f"{one.name}."
        below = [more._replace(name=more.name.removeprefix(prefix)) for more in fields if more.name.startswith(prefix)]
        properties[one.name] = _value(one.type.removesuffix("?"), below)
        if not one.type.endswith("?"):
            needed.append(one.name)
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": needed} if needed else {}),
    }


def _value(kind: str, below: Sequence[Field]) -> dict[str, Any]:
    if kind[0] == "[" and kind[-1] == "]":
        return {"type": "array", "items": _value(kind[1:-1], below)}
    if " or " in kind:
        return {"anyOf": [_value(one, below) for one in kind.split(" or ")]}
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if kind[0] == "{":
        return {"type": "object", "additionalProperties": _value(kind[1:-1], below)}
    if not below:
        return {"$ref": f"#/definitions/{kind}"}
    return _object([*(sections()[kind].fields if kind != "object" else ()), *below])
