"""Shards of a corpus, the work that is done on each, and the folder in which its sums are kept.

A shard is some texts, one after the other. Nothing here knows what is counted: that is a `Work`.
"""

import hashlib
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from attncli.base.arrays import seal_of
from attncli.base.errors import RequestError
from attncli.base.files import write_whole
from attncli.corpus.files import file_errors
from attncli.corpus.texts import LinePlace
from attncli.models.opening import Opening

if TYPE_CHECKING:
    from attncli.models.engine import Engine

SHARD_BYTES = 2**20  # a quarter of a million tokens of English: about a minute of one core with minilm
VERSION = 5  # of sums in files
MOST_THREADS = 8  # cores that share a computation: more wait for each other
Arrays = dict[str, npt.NDArray[Any]]
Total = TypeVar("Total", bound=Any)  # sums, which add up


class Shard(NamedTuple):
    """Texts that are counted together; number: its place in the corpus. Each text has a `where` and a `text`."""

    number: int
    texts: list[Any]

    @property
    def where(self) -> str:
        """The place as messages name it."""
        first: LinePlace = self.texts[0].where
        last: LinePlace = self.texts[-1].where
        return f"{first} to {last.number if last.file == first.file else last}"

    @property
    def size(self) -> int:
        """The length of its texts."""
        return sum(len(one.text) for one in self.texts)

    def name(self, request: str) -> str:
        """Return the name of the file with its sums: a digest of its texts and the request."""
        read = hashlib.sha256(request.encode())
        for text in self.texts:
            read.update(repr(text).encode("utf-8", "surrogatepass"))
        return f"{read.hexdigest()[:40]}.npz"


def shards(texts: Iterable[Any], size: int) -> Iterator[Shard]:
    """Yield all texts in shards of about so many bytes."""
    number, some, room = 0, list[Any](), size
    for text in texts:
        some.append(text)
        room -= len(text.text) + 1
        if room <= 0:
            yield Shard(number, some)
            number, some, room = number + 1, [], size
    if some:
        yield Shard(number, some)


class CorpusSize(NamedTuple):
    """The number of texts and tokens that sums cover."""

    texts: int
    tokens: int

    def plus(self, other: "CorpusSize") -> "CorpusSize":
        return CorpusSize(self.texts + other.texts, self.tokens + other.tokens)


# Makes the sums of a shard: yields the sums so far after every step, the last time all of them.
Counts = Callable[[Shard], Iterator[Total]]


@dataclass(frozen=True)
class Work(ABC, Generic[Total]):
    """The sums to make of each shard, on a model. It is small, and is sent to the processes that count.

    opening: how to open the model. options: the request as JSON, by the names of options; another request has other
    sums. model: the open model, in this process only.
    """

    opening: Opening
    options: dict[str, Any]
    model: "Engine | None" = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def fixed(self) -> Mapping[str, int]:
        """The numbers besides the request that the last bit depends on, such as the size of batches."""

    @abstractmethod
    def begin(self, cores: int | None) -> Counts[Total]:
        """Return the function that counts a shard, on so many cores (all by default), and open the model.

        Its sums depend on the shard alone, not on `cores` or on earlier shards.
        """

    @abstractmethod
    def nothing(self) -> Total:
        """Return the sums of no shard."""

    @abstractmethod
    def corpus_size(self, total: Total) -> CorpusSize: ...

    @abstractmethod
    def saved(self, total: Total) -> tuple[dict[str, Any], Arrays]:
        """Return sums as JSON and arrays by name."""

    @abstractmethod
    def loaded(self, about: dict[str, Any], arrays: Arrays) -> Total:
        """Return the sums that `saved` returned."""

    def starting_with(self, first: Shard) -> "Work[Total]":
        """Return the same work, as it is done on a corpus that begins with this shard."""
        return self

    def on(self, device: str) -> "Work[Total]":
        """Return the same work on another device."""
        return replace(self, opening=replace(self.opening, device=device))

    @property
    def digest(self) -> str:
        request = json.dumps([VERSION, self.options, dict(self.fixed)], sort_keys=True)
        return hashlib.sha256(request.encode()).hexdigest()

    def open_model(self) -> "Engine":
        """Return the model. Raises RequestError as `Opening.open`, and for weights of another digest."""
        if self.model is not None:
            return self.model
        found = self.opening.open()
        if found.sha256 != self.options["model"]:
            raise RequestError(f"{self.opening.name} is a different model on this machine")
        return found


def model_options(command: str, model: "Engine", which: str | None) -> dict[str, Any]:
    """Return the options of a command that concern the model or a part of it, by name."""
    kind = model.kind(which)
    return {
        "command": command,
        "model": model.sha256,
        "--dtype": model.dtype_name,
        "--engine": model.name,
        "--which": None if kind == "encoder" else kind,
        "--without": model.info_of(which).changes or None,
    }


class Folder:
    """A folder in which sums are kept, on this machine or at an address: a file for each shard.

    A file appears whole or not at all. Writing one again changes nothing, because its content is the same.
    """

    def __init__(self, name: str) -> None:
        from fsspec.core import url_to_fs

        if not name.strip():
            raise RequestError("a folder for sums has to have a name")
        self.name = name
        with file_errors("can't keep sums in", name):
            self.files, self.path = url_to_fs(name)
            self.files.makedirs(self.path, exist_ok=True)

    def read(self, shard: str, work: Work[Total]) -> Total | None:
        """Return the sums of a shard; None if there are none, or if their file is damaged or another's."""
        with file_errors("can't read", f"{self.name}/{shard}"):
            if not self.files.isfile(f"{self.path}/{shard}"):
                return None
            content = self.files.cat_file(f"{self.path}/{shard}")
        try:
            arrays = dict(np.load(io.BytesIO(content), allow_pickle=False))
            seal, about = json.loads(str(arrays.pop("about")))
            return work.loaded(about, arrays) if seal == _seal(shard, about, arrays) else None
        except Exception:  # noqa: BLE001  (whatever is wrong with it, it is counted again)
            return None

    def write(self, shard: str, work: Work[Total], total: Total) -> None:
        about, arrays = work.saved(total)
        content = io.BytesIO()
        stated = np.array(json.dumps([_seal(shard, about, arrays), about]))
        np.savez(content, about=stated, **arrays)  # type: ignore[arg-type]
        with file_errors("can't write", f"{self.name}/{shard}"):
            if "file" in self.files.protocol:
                write_whole(Path(self.path) / shard, lambda temporary: temporary.write_bytes(content.getvalue()))
            else:
                self.files.pipe_file(f"{self.path}/{shard}", content.getvalue())


def _seal(shard: str, about: dict[str, Any], arrays: Arrays) -> str:
    return seal_of(f"{shard} {json.dumps(about, sort_keys=True)}", arrays)
