"""Files by address, `s3://bucket/name`, `gs://`, `hf://`, `memory://`: wherever fsspec has a filesystem for.

A name without `://`, or with `file://` or `local://`, is a file of this machine, and fsspec is not imported for it.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.base.errors import RequestError
from attncli.base.printable import first_line, printable, shorten

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://", re.ASCII | re.IGNORECASE)
HERE = ("file://", "local://")  # by which fsspec too knows files of this machine


def is_address(name: str) -> bool:
    """Whether a file of this name is not on this machine."""
    return ADDRESS.match(name) is not None and not name.lower().startswith(HERE)


def local_path(name: str) -> Path:
    """Where a file of this machine is. Raises RequestError for half an address."""
    if name.startswith("://"):
        raise RequestError(f"{shorten(printable(name), 100)}: what stands before ://, as in s3://?")
    scheme = next((scheme for scheme in HERE if name.lower().startswith(scheme)), "")
    if scheme and name.lower() == scheme:
        raise RequestError(f"{name}: what stands after it, as in file:///tmp/a?")
    return Path(name[len(scheme) :])


def filesystem(address: str) -> tuple["AbstractFileSystem", str]:
    """What reads and writes there, and the path that it knows this address by.

    Raises RequestError for a scheme that nothing is installed for, and what is no address.
    """
    from fsspec.core import url_to_fs

    if "::" in address:
        raise RequestError(f"{shorten(printable(address), 100)}: one address at a time, without ::")
    with told("can't reach", address):
        try:
            found, path = url_to_fs(address)
        except ImportError as error:
            missing = getattr(error.__cause__, "name", None) or error.name
            if missing is None:
                raise
            scheme = address.partition("://")[0]
            raise RequestError(f"{scheme}:// needs {missing}: pip install {missing}") from error
        return found, str(path)


@contextmanager
def told(what: str, address: str) -> Iterator[None]:
    """Around what is done with an address: what goes wrong there is a RequestError that says so."""
    try:
        yield
    except RequestError:
        raise
    except Exception as error:
        raise RequestError(f"{what} {shorten(printable(address), 100)}: {said(error)}") from error


def said(error: Exception) -> str:
    """What went wrong with a file, in the system's words where it has some: stores name no more than the file."""
    if isinstance(error, FileNotFoundError):
        return "No such file or directory"
    return shorten(printable(getattr(error, "strerror", None) or ""), 150) or first_line(error)
