"""The features, a file each: a dataclass of its options, what it computes, and its report.

A feature is the class in its file that is named as the command is: `attncli align` is `align.Align`.
The command line, its help, its completion and the Python functions of `attncli` are made of these classes. The list of
commands is read from the text of the files, because importing them all takes a second.
"""

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attncli.features.feature import Feature

FOLDER = Path(__file__).parent
GROUPS = ("Look", "Understand", "Does it matter", "Corpora and comparisons", "The program itself")


def commands() -> dict[str, dict[str, str]]:
    """Return the groups of `attncli --help`: the line about each command, by its name."""
    found: dict[str, dict[str, str]] = {group: {} for group in GROUPS}
    for path in sorted(FOLDER.iterdir()):
        name = path.stem.replace("_", "-")
        if (stated := _group_and_summary(name)) is not None:
            found[stated[0]][name] = stated[1]
    return found


def is_command(name: str) -> bool:
    """Return whether there is a command of this name."""
    return re.fullmatch(r"[a-z-]+", name) is not None and _group_and_summary(name) is not None


def find_feature(name: str) -> "type[Feature]":
    """Import the feature of a command."""
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    found: type[Feature] = getattr(module, _class_of(name))
    return found


def _group_and_summary(name: str) -> tuple[str, str] | None:
    """Return the group of a command, and the first line of the docstring of its class."""
    path = FOLDER / name.replace("-", "_")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    stated = rf'^class {_class_of(name)}\([^)]*Feature[^)]*\):\n    """([^\n]+)\n.*?^    group = "(.+?)"$'
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = re.search(stated, text, re.MULTILINE | re.DOTALL)
    return None if found is None else (found[2], found[1])


def _class_of(name: str) -> str:
    return name.title().replace("-", "")
