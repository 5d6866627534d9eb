"""Shards of a corpus, the work that is done on each, and the folder in which its sums are kept.

A shard is some texts, one after the other. Nothing here knows what is counted: that is a `Work`.
"""

import hashlib
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from attncli.base.addresses import convert_errors, filesystem, is_address, local_path
from attncli.base.arrays import seal_of
from attncli.base.errors import RequestError
from attncli.base.files import write_whole
from attncli.base.printable import first_line
from attncli.base.untrusted import parse_json, read_regular
from attncli.corpus.texts import LinePlace
from attncli.models.opening import Opening

if TYPE_CHECKING:
    from attncli.models.engine import Engine

SHARD_BYTES = 2**20  # a quarter of a million tokens of English: about a minute of one core with minilm
VERSION = 4  # of sums in files
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


@dataclass(frozen=True)
class Folder:
    """A folder in which sums are kept, on this machine or at an address: a file for each shard.

    A file appears whole or not at all. Writing one again changes nothing, because its content is the same.
    """

    name: str

    def __post_init__(self) -> None:
        """Raises RequestError for a name that can't be a folder."""
        if not self.name.strip():
            raise RequestError("a folder for sums has to have a name")
        if not is_address(self.name) and local_path(self.name).is_file():
            raise RequestError(f"{self.name} is a file, and sums are kept in a folder: name another place")

    def read(self, shard: str, work: Work[Total]) -> Total | None:
        """Return the sums of a shard; None if there are none."""
        path = self._path(shard)
        with convert_errors("can't read", path):
            try:
                content = filesystem(path)[0].cat_file(path) if is_address(path) else read_regular(local_path(path))
            except FileNotFoundError:
                return None
        try:
            arrays = dict(np.load(io.BytesIO(content), allow_pickle=False))
            stated, seal, about = parse_json(str(arrays.pop("about")))
            if seal != seal_of(json.dumps(about, sort_keys=True), arrays):
                raise ValueError("its numbers are not those that were written")
            if stated == shard:
                return work.loaded(about, arrays)
        except Exception as error:
            raise RequestError(f"{path} is damaged ({first_line(error)}): remove it") from error
        raise RequestError(f"{path} has the sums of other texts, or of another request: remove it")

    def write(self, shard: str, work: Work[Total], total: Total) -> None:
        about, arrays = work.saved(total)
        content = io.BytesIO()
        stated = [shard, seal_of(json.dumps(about, sort_keys=True), arrays), about]
        made: dict[str, Any] = {"about": np.array(json.dumps(stated)), **arrays}
        np.savez(content, **made)
        path = self._path(shard)
        with convert_errors("can't write", path):
            if is_address(path):
                files, place = filesystem(path)
                files.makedirs(filesystem(self.name)[1], exist_ok=True)
                files.pipe_file(place, content.getvalue())
            else:
                target = local_path(path)
                target.parent.mkdir(parents=True, exist_ok=True)
                write_whole(target, lambda temporary: temporary.write_bytes(content.getvalue()))

    def _path(self, shard: str) -> str:
        return f"{self.name.rstrip('/')}/{shard}"
