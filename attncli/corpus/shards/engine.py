"""An engine: what makes sums of shards, wherever it does so. Every engine counts a shard by `count` here.

There are three: this process (`here`), processes of this machine (`processes`), and Ray (`on_ray`).
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple

from attncli.base.errors import Notice, RequestError
from attncli.corpus.inputs.files import BadFile
from attncli.corpus.shards.folder import Folder
from attncli.corpus.shards.plan import Shard
from attncli.corpus.shards.work import Counts, Seen, Total, Work

TRIES = 3  # of a shard, before it is reported


class Going(NamedTuple, Generic[Total]):
    """What there is of the shard that this process is counting."""

    total: Total


class Counted(NamedTuple):
    """A shard is done. content: its sums, sealed; None where they are in the folder. tries: how many it took."""

    shard: Shard
    content: bytes | None
    seen: Seen
    notices: tuple[str, ...] = ()
    tries: int = 1


class Failed(NamedTuple):
    """A shard that can't be counted, after so many tries."""

    shard: Shard
    error: BaseException
    tries: int = 1


Event = Going[Any] | Counted | Failed
# From shards, of which it takes another when it has room, to what becomes of them, in any order.
Engine = Callable[[Work[Any], Iterator[Shard], Folder | None], Iterator[Event]]


def count(work: Work[Total], counts: Counts[Total], shard: Shard, folder: Folder | None) -> Iterator[Event]:
    """A shard's sums, step by step; then they are kept in the folder, if there is one."""
    total = work.nothing()
    for total in counts(shard):
        yield Going(total)
    content = work.sealed(total)
    if folder is not None:
        folder.write(shard.name(work.digest), content)
    yield Counted(shard, content if folder is None else None, work.seen(total))


def failed(shard: Shard, error: BaseException, tries: int) -> Failed | None:
    """What becomes of a shard after so many tries, of which this error ended the last: None where it is tried again, as
    whatever it was may not be again. Raises the error where something is wrong with the request.
    """
    if isinstance(error, BadFile):
        return Failed(shard, error, tries)
    if isinstance(error, RequestError):
        raise error
    return Failed(shard, error, tries) if tries == TRIES else None


def count_quietly(work: Work[Total], counts: Counts[Total], shard: Shard, folder: Folder | None) -> Counted:
    """The same at once, with what it has to say to the user, who is in another process."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Notice)
        *_, done = count(work, counts, shard, folder)
    assert isinstance(done, Counted)
    return done._replace(notices=tuple(str(one.message) for one in caught if issubclass(one.category, Notice)))
