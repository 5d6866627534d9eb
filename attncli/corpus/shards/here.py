"""Shards counted in this process, one after the other, on all its cores."""

from collections.abc import Iterator
from typing import Any

from attncli.corpus.shards.engine import TRIES, Engine, Event, count, failed
from attncli.corpus.shards.folder import Folder
from attncli.corpus.shards.plan import Shard
from attncli.corpus.shards.work import Work


def here(cores: int | None = None) -> Engine:
    """The engine of a single process."""

    def engine(work: Work[Any], shards: Iterator[Shard], folder: Folder | None) -> Iterator[Event]:
        counts = None
        for shard in shards:
            counts = counts or work.begin(cores)
            for tried in range(1, TRIES + 1):
                try:
                    yield from count(work, counts, shard, folder)
                    break
                except Exception as error:  # noqa: BLE001  (`failed` says which may not be again)
                    if (given_up := failed(shard, error, tried)) is not None:
                        yield given_up
                        break

    return engine
