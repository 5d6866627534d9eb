"""Shards of a corpus, the work on each, and the folder that keeps its sums.

A shard is a run of consecutive texts. What is counted is defined by a `Work`, not here.
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
from attncli.models.parts import self_attention_kind

if TYPE_CHECKING:
    from attncli.models.engine import Engine

SHARD_BYTES = 2**20  # a quarter of a million tokens of English: about a minute of one core with minilm
VERSION = 6  # format of the files of sums
MOST_THREADS = 8  # cores that share a computation: more would wait for each other
Arrays = dict[str, npt.NDArray[Any]]
Total = TypeVar("Total", bound=Any)  # sums, which can be added


class Shard(NamedTuple):
    """Texts that are counted together. number: its index in the corpus. Each text has a `where` and a `text`."""

    number: int
    texts: list[Any]

    @property
    def where(self) -> str:
        """The shard's location, for messages."""
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
    """Yield all texts in shards of about `size` bytes."""
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


# Computes the sums of a shard: yields the sums so far after every step, and finally the complete ones.
Counts = Callable[[Shard], Iterator[Total]]


@dataclass(frozen=True)
class Work(ABC, Generic[Total]):
    """The sums to compute for each shard on a model.

    It is small, so that it can be sent to workers. opening: how to open the model. options: the request as JSON, by the
    names of options; different requests have different sums. model: the open model, in this process only.
    """

    opening: Opening
    options: dict[str, Any]
    model: "Engine | None" = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def fixed(self) -> Mapping[str, int]:
        """The numbers besides the request that affect the last bit, such as the size of batches."""

    @abstractmethod
    def begin(self, cores: int | None) -> Counts[Total]:
        """Open the model and return the function that counts a shard on `cores` cores (default: all).

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
        """Return the same work for a corpus that begins with this shard."""
        return self

    def on(self, device: str) -> "Work[Total]":
        """Return the same work on another device."""
        return replace(self, opening=replace(self.opening, device=device))

    @property
    def digest(self) -> str:
        request = json.dumps([VERSION, self.options, dict(self.fixed)], sort_keys=True)
        return hashlib.sha256(request.encode()).hexdigest()

    def open_model(self) -> "Engine":
        """Return the model. Raises RequestError as `Opening.open`, and if the digest of its weights differs."""
        if self.model is not None:
            return self.model
        found = self.opening.open()
        if found.sha256 != self.options["model"]:
            raise RequestError(f"{self.opening.name} is a different model on this machine")
        return found


def model_options(command: str, model: "Engine", which: str | None) -> dict[str, Any]:
    """Return a command's options about the model or a part of it, by name."""
    kind = self_attention_kind(model, which)
    return {
        "command": command,
        "model": model.sha256,
        "--dtype": model.dtype_name,
        "--engine": model.name,
        "--which": None if kind == "encoder" else kind,
        "--without": model.of_part(which).info.changes or None,
    }


class Folder:
    """A local or remote folder that keeps sums, with one file per shard.

    Files are written atomically. Writing one again changes nothing, because its content is the same.
    """

    def __init__(self, name: str) -> None:
        from fsspec.core import url_to_fs

        if not name.strip():
            raise RequestError("the name of the folder for sums is empty: give a path")
        self.name = name
        with file_errors("can't keep sums in", name):
            self.files, self.path = url_to_fs(name)
            self.files.makedirs(self.path, exist_ok=True)

    def read(self, shard: str, work: Work[Total]) -> Total | None:
        """Return the sums of a shard; None if there are none, or if their file is damaged or belongs to another
        shard."""
        with file_errors("can't read", f"{self.name}/{shard}"):
            if not self.files.isfile(f"{self.path}/{shard}"):
                return None
            content = self.files.cat_file(f"{self.path}/{shard}")
        try:
            arrays = dict(np.load(io.BytesIO(content), allow_pickle=False))
            seal, about = json.loads(str(arrays.pop("about")))
            return work.loaded(about, arrays) if seal == _seal(shard, about, arrays) else None
        except Exception:  # noqa: BLE001  (whatever is wrong with the file, the shard is counted again)
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
