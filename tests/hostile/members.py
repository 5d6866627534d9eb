"""The members of a .npz: read as text, put back as text, and whole archives written in one go."""

import io
import warnings
import zipfile

import numpy as np


def arrays(archive: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(archive), allow_pickle=False) as found:
        return dict(found)


def archive_of(named: dict[str, np.ndarray]) -> bytes:
    written = io.BytesIO()
    np.savez_compressed(written, **named)
    return written.getvalue()


def member(archive: bytes, name: str) -> str:
    """An array that is one text."""
    return str(arrays(archive)[name])


def with_member(archive: bytes, name: str, text: str) -> bytes:
    """The archive with another text under this name."""
    return archive_of({**arrays(archive), name: np.array(text)})


def raw_members(archive: bytes) -> dict[str, bytes]:
    """Return the members of a zip file as stored."""
    with zipfile.ZipFile(io.BytesIO(archive)) as found:
        return {name: found.read(name) for name in found.namelist()}


def zipped(members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip file of these members, in this order; a name may be there twice."""
    written = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(written, "w", compression) as file:
        warnings.simplefilter("ignore")
        for name, content in members:
            file.writestr(zipfile.ZipInfo(name), content, compression)
    return written.getvalue()
