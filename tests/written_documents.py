"""Documents beside what the features say of their fields (`attncli.features.document`)."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from jsonschema import Draft4Validator

from attncli.features.document import schema_of, sections


@cache
def _validator(name: str) -> Draft4Validator:
    return Draft4Validator(schema_of(name))  # in a later draft 1.0 would be an integer


def problems(name: str, document: Any) -> list[str]:
    """Return every way in which a document is not as it is written."""
    return [f"{name}{error.json_path[1:]}: {error.message:.200}" for error in _validator(name).iter_errors(document)]


def paths(document: Any, above: str = "") -> Iterator[str]:
    """Yield the path of every field of a document, as in "query.x"."""
    for entry in document if isinstance(document, list) else [document]:
        if isinstance(entry, list):
            yield from paths(entry, above)
        elif isinstance(entry, dict):
            for name, value in entry.items():
                yield f"{above}{name}"
                yield from paths(value, f"{above}{name}.")


def unseen(name: str, found: dict[str, set[str]]) -> set[str]:
    """Return the fields of a document or a part that no document has. found: paths by the name of the document."""
    places = [(name, "")] if name in found else []
    for document in found:
        for one in sections()[document].fields:
            if re.search(rf"\b{name}\b", one.type):
                places.append((document, f"{one.name}.".replace(".", r"\.") + (r"[^.]+\." if "{" in one.type else "")))
    return {
        one.name
        for one in sections()[name].fields
        if not any(
            re.fullmatch(f"{prefix}{re.escape(one.name)}", path)
            for document, prefix in places
            for path in found[document]
        )
    }
