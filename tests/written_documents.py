"""The documents as attncli/cli/README.md has them, and what a document has that is not written there."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

README = Path(__file__).parent.parent / "attncli" / "cli" / "README.md"
SECTION = re.compile(r"^### `([^`]+)`\n(.*?)(?=^##|\Z)", flags=re.DOTALL | re.MULTILINE)
ROW = re.compile(r"^\| `([\w.]+)` \| `(.+?)` \| (.*?) ?\| (.*?) ?\|$", flags=re.MULTILINE)
PLAIN = {"str": str, "int": int, "bool": bool, "float": float}

Fields = dict[str, str]  # types by field, of fields of fields by "query.x"


def sections() -> dict[str, Fields]:
    """The fields of every shared part and of every document, by its name."""
    return {name: {row[1]: row[2] for row in ROW.finditer(body)} for name, body in SECTION.findall(text())}


def text() -> str:
    return README.read_text(encoding="utf-8")


class Reader:
    """Reads documents; `met` are the fields that were there, as (section, field)."""

    def __init__(self) -> None:
        self.sections = sections()
        self.met: set[tuple[str, str]] = set()

    def read(self, name: str, document: Any) -> list[str]:
        """Every way in which a document is not as it is written."""
        return list(self.fields(document, [(name, "", self.sections[name])], name))

    def fields(self, value: Any, tables: list[tuple[str, str, Fields]], where: str) -> Iterator[str]:
        """tables: (section, prefix, fields after the prefix): a part, and what is written below a field of its kind."""
        if not isinstance(value, dict):
            yield f"{where} is no object"
            return
        expected = {name for *_, fields in tables for name in fields if "." not in name}
        yield from (f"{where}.{name} is not written down" for name in value.keys() - expected)
        for name in expected:
            below = []
            kind = ""
            for section, prefix, fields in tables:
                if name in fields:
                    kind = fields[name]
                    if name in value:
                        self.met.add((section, prefix + name))
                inner = {path[len(name) + 1 :]: one for path, one in fields.items() if path.startswith(f"{name}.")}
                below += [(section, f"{prefix}{name}.", inner)] if inner else []
            if name in value:
                yield from self.value(value[name], kind.removesuffix("?"), below, f"{where}.{name}")
            elif not kind.endswith("?"):
                yield f"{where}.{name} is missing"

    def value(self, value: Any, kind: str, below: list[tuple[str, str, Fields]], where: str) -> Iterator[str]:
        """kind: a type as it is written."""
        kinds = kind.split(" or ")
        fitting = [one for one in kinds if self.fits(value, one)]
        if not fitting:
            yield f"{where} is no {kind}: {value!r:.40}"
            return
        [one] = fitting
        if one[0] in "[{":
            entries = value if one[0] == "[" else value.values()
            for number, entry in enumerate(entries):
                yield from self.value(entry, one[1:-1], below, f"{where}[{number}]")
        elif one not in (*PLAIN, "null"):
            part = [] if one == "object" else [(one, "", self.sections[one])]
            yield from self.fields(value, [*part, *below], where)

    def fits(self, value: Any, kind: str) -> bool:
        """Whether it is of the type, from outside. A whole number may stand where numbers do."""
        if kind == "null":
            return value is None
        if kind == "float":
            return type(value) in (int, float)
        outside = list if kind[0] == "[" else PLAIN.get(kind, dict)
        return type(value) is outside
