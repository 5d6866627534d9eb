"""modules.json: what sentence-transformers does with a text, one module after the other, each with a folder of its own.

Files of its versions 2 to 6 are read. No code that they name is run, and nothing in them is believed.
"""

import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attncli.base.errors import RequestError
from attncli.base.printable import first_line
from attncli.base.schema import LONGEST_NAME, anything, each, fields, text
from attncli.base.untrusted import read_json
from attncli.models.checkpoint_files import CONFIG_FILE, LONGEST_SETTINGS, MODULES_FILE, check_directory

OWN = "sentence_transformers."  # its classes, in whatever module they lie
LARGEST = 10**6  # elements of a vector
MODULES = each(
    fields(
        {"path": text(LONGEST_NAME), "type": text(LONGEST_NAME)},
        {"idx": anything, "name": anything, "kwargs": anything},
    )
)


class Module(NamedTuple):
    """name: of its class; folder: where its files lie; settings: what its config.json says."""

    name: str
    folder: Path
    settings: Mapping[str, Any]

    def flag(self, key: str, default: bool = False) -> bool:
        """Raises RequestError when it is not true or false."""
        stated = self.settings.get(key, default)
        if not isinstance(stated, bool):
            raise self.refused(f"{key} is {reprlib.repr(stated)}, not true or false")
        return stated

    def size(self, *keys: str) -> int:
        """By the first of these names that is there. Raises RequestError when it can't be the size of a vector."""
        stated = next((self.settings[key] for key in keys if key in self.settings), None)
        if type(stated) is not int or not 1 <= stated <= LARGEST:
            raise self.refused(f"{keys[0]} is {reprlib.repr(stated)}, not a whole number from 1 to {LARGEST:,}")
        return stated

    def refused(self, why: str) -> RequestError:
        return RequestError(f"{self.folder}: {why}")


def modules_of(directory: Path) -> list[Module]:
    """Those that modules.json names, the encoder first.

    Raises RequestError where it is garbled, begins with something else, or a folder leads out of the model's.
    """
    path = directory / MODULES_FILE
    try:
        stated = read_json(path, LONGEST_SETTINGS)
        MODULES(stated, "it")
        made = [module(directory, one["type"], one["path"]) for one in stated]
    except (OSError, ValueError) as error:
        raise RequestError(f"{path} does not say how texts are embedded: {first_line(error)}") from error
    if not made or (made[0].name, made[0].folder) != ("Transformer", directory):
        raise RequestError(f"{path}: it does not begin with the encoder beside it")
    return made


def module(directory: Path, kind: str, path: str) -> Module:
    """Raises ValueError for a class or a folder that is not one of theirs; OSError and ValueError for its settings."""
    if not kind.startswith(OWN):
        raise ValueError(f"{reprlib.repr(kind)} is code of the model's own, which is not run")
    if path != Path(path).name or "\\" in path or path == "..":
        raise ValueError(f"{reprlib.repr(path)} is no folder in the model's own directory")
    folder = directory / path if path else directory
    settings: Any = {}
    if path and folder.is_dir():
        check_directory(folder)
    if path and (folder / CONFIG_FILE).is_file():
        settings = read_json(folder / CONFIG_FILE, LONGEST_SETTINGS)
        if not isinstance(settings, dict):
            raise ValueError(f"{folder / CONFIG_FILE} is not a JSON object")
    return Module(kind.rpartition(".")[2], folder, settings)
