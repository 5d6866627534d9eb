"""Access files by address, such as `s3://bucket/name`, `gs://`, `hf://` or `memory://`, through fsspec.

A name without `://`, or with `file://` or `local://`, is a local file and does not import fsspec.
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
LOCAL_SCHEMES = ("file://", "local://")  # fsspec uses the same names


def is_address(name: str) -> bool:
    """Return True if a name refers to a file that is not on this machine."""
    return ADDRESS.match(name) is not None and not name.lower().startswith(LOCAL_SCHEMES)


def local_path(name: str) -> Path:
    """Return the path of a local file. Raises RequestError for an incomplete address."""
    if name.startswith("://"):
        raise RequestError(f"{shorten(printable(name), 100)}: the scheme before :// is missing, as in s3://")
    scheme = next((scheme for scheme in LOCAL_SCHEMES if name.lower().startswith(scheme)), "")
    if scheme and name.lower() == scheme:
        raise RequestError(f"{name}: the path is missing, as in file:///tmp/a")
    return Path(name[len(scheme) :])


def filesystem(address: str) -> tuple["AbstractFileSystem", str]:
    """Return the filesystem of an address, and the path within it.

    Raises RequestError for an invalid address, or a scheme whose package is not installed.
    """
    from fsspec.core import url_to_fs

    if "::" in address:
        raise RequestError(f"{shorten(printable(address), 100)}: chained addresses (::) are not supported")
    with convert_errors("can't reach", address):
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
def convert_errors(action: str, address: str) -> Iterator[None]:
    """Convert any exception inside the block to a RequestError that names the failed action and the address."""
    try:
        yield
    except RequestError:
        raise
    except Exception as error:
        raise RequestError(f"{action} {shorten(printable(address), 100)}: {describe_file_error(error)}") from error


def describe_file_error(error: Exception) -> str:
    """Describe a file error in the system's words if there are any: some stores name no more than the file."""
    if isinstance(error, FileNotFoundError):
        return "No such file or directory"
    return shorten(printable(getattr(error, "strerror", None) or ""), 150) or first_line(error)
