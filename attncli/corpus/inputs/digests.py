"""By what one content of a file is told from another."""

import hashlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from attncli.base.addresses import is_address
from attncli.corpus.inputs.files import BadFile, Input, reading_of
from attncli.corpus.inputs.opening import stored
from attncli.corpus.inputs.stores import Here

Stamps = Mapping[tuple[str, str], str]  # (at, stamp) -> digest
AT_ONCE = 4  # files that are read at once
CHUNK = 2**20  # bytes


def digested(inputs: Iterable[Input], known: Stamps = {}) -> list[Input]:  # noqa: B006  (it is only read)
    """The same files with digests: SHA-256 of what is stored, or the tag of the store. A stream has none.

    known: digests of files from before, by where they are and what stamp they had; of these nothing is read.

    Raises BadFile for one that can't be read, or changes meanwhile.
    """
    found = [(one, digest_known(one, known)) for one in inputs]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        read = pool.map(content_digest, [one for one, digest in found if digest is None])
        return [replace(one, digest=next(read) if digest is None else digest) for one, digest in found]


def digest_known(one: Input, known: Stamps) -> str | None:
    """None where the file has to be read."""
    if one.is_stream:
        return ""
    if is_address(one.at):
        return one.stamp or None
    return known.get((one.at, one.stamp)) if one.stamp else None


def content_digest(one: Input) -> str:
    """SHA-256 of all its bytes. Raises BadFile as `digested`."""
    found = hashlib.sha256()
    with reading_of(one.name), stored(one) as file:
        while chunk := file.read(CHUNK):
            found.update(chunk)
    if one.stamp and not is_address(one.at):
        now = Here().file(one.at)
        if now is None or now.stamp != one.stamp:
            raise BadFile(f"{one.shown} has changed since it was found: run the command again")
    return found.hexdigest()
