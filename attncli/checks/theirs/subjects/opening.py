"""What stands under a name in somebody's file, which is run as their own program would be."""

import importlib
import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from attncli.base.errors import RequestError
from attncli.base.printable import printable, quoted, shorten
from attncli.base.untrusted import kind_of as named
from attncli.base.untrusted import read_regular
from attncli.checks.theirs.subjects.failing import in_words, shown

LISTED = 120  # characters of the names that are offered
MISSING = object()


def opened(what: str) -> Any:
    """What "file.py:Name" or "package.module:Name" names, or the one function or class that stands there.

    The file is run in this process, which is its program from then on: its folder comes first where modules are looked
    for, and it is told by `sys.argv` that nothing else was asked. Its name is that of the file and not "__main__".
    Raises RequestError where there is no such file or name, or it can't be run.
    """
    place, name = split(what)
    module = from_file(place) if place.endswith(".py") or kind_of(place) == "file" else from_module(place)
    name = name or only(module, place)
    thing: Any = module
    for part in name.split("."):
        with running(f"{place}:{name}", module.__file__ or ""):
            thing = getattr(thing, part, MISSING)
        if thing is MISSING:
            there = shorten(", ".join(candidates(module)) or "no function and no class of its own", LISTED)
            raise RequestError(f"{shown(place)} has no {quoted(name)}: it has {there}")
    if not callable(thing):
        raise RequestError(f"{shown(what)} is no function, class or module, but of type {type(thing).__name__}")
    return thing


def split(what: str) -> tuple[str, str]:
    """("file.py", "Name") of "file.py:Name"; the name is "" where there is none."""
    place, colon, name = what.rpartition(":")
    named = colon and "/" not in name and os.sep not in name  # C:\file.py has none
    return (place, name) if named else (what, "")


def only(module: ModuleType, place: str) -> str:
    own = candidates(module)
    if not own:
        raise RequestError(f"{shown(place)} has no functions and classes of its own: FILE.py:NAME says what to check")
    if len(own) > 1:
        others = shorten(", ".join(own[1:]), LISTED)
        raise RequestError(
            f"{shown(place)} has {len(own)} functions and classes: {shown(place)}:{own[0]}, or {others}?"
        )
    return own[0]


def candidates(module: ModuleType) -> list[str]:
    """Functions and classes that were made in this module and are not private."""
    return [
        printable(name)
        for name, value in list(vars(module).items())
        if (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]


def kind_of(place: str) -> str:
    """ "file", or what else it is."""
    try:
        path = Path(place)
        if path.is_file():
            return "file"
        if path.is_dir():
            return "a folder, and no file"
        return f"{named(path.stat().st_mode)}, and no file" if path.exists() else "no file that is there"
    except OSError:
        return "no name that a file can have"


def from_file(place: str) -> ModuleType:
    if (kind := kind_of(place)) != "file":
        raise RequestError(f"{quoted(place)} is {kind}: FILE.py:NAME says what to check")
    path = Path(place).absolute()
    name = path.stem
    while name in sys.modules:  # a file called random.py is not to take the place of Python's
        name += "_"
    loader = SourceFileLoader(name, str(path))
    spec = spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    sys.argv[:] = [place]
    with running(place, str(path)):  # not by the loader, which would leave a file beside theirs
        exec(loader.source_to_code(read_regular(path), str(path)), vars(module))
    return module


def from_module(place: str) -> ModuleType:
    if not all(part.isidentifier() for part in place.split(".")):
        raise RequestError(f"{quoted(place)} is neither a file nor a module: FILE.py:NAME or MODULE:NAME")
    sys.path.insert(0, str(Path.cwd()))
    sys.argv[:] = [place]
    with running(place, ""):
        try:
            spec = find_spec(place)
        except ModuleNotFoundError:
            spec = None
    if spec is None:
        raise RequestError(f"no module {quoted(place)} is in this folder or installed; a file is FILE.py:NAME")
    with running(place, spec.origin or ""):
        module = importlib.import_module(place)
    return module


@contextmanager
def running(what: str, file: str) -> Iterator[None]:
    """Raises RequestError for whatever is raised in it."""
    try:
        yield
    except BaseException as error:
        verb = "read" if isinstance(error, SyntaxError) else "run"
        raise RequestError(f"{shown(what)} can't be {verb}: {in_words(error, file)}") from error
