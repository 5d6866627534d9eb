"""Which files of a checkpoint's directory matter, found by name alone: nothing is read but an index of shards."""

import os
import re
import reprlib
import stat
from collections.abc import Collection
from pathlib import Path

from attncli.base.errors import RequestError
from attncli.base.printable import first_line, quoted
from attncli.base.untrusted import kind_of, read_json

CONFIG_FILE = "config.json"
# Of sentence-transformers; of the last ones the first that is there is read, as it does.
MODULES_FILE, PROMPTS_FILE = "modules.json", "config_sentence_transformers.json"
SENTENCE_FILES = tuple(
    f"sentence_{family}_config.json"
    for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
EMBEDDING_FILES = (MODULES_FILE, PROMPTS_FILE, *SENTENCE_FILES)
MODULE_FOLDER = re.compile(r"\d+_\w+", re.ASCII)
OF_A_MODULE = re.compile(r"\d+_\w+/(config\.json|model\.safetensors|pytorch_model\.bin)", re.ASCII)
REMEDY = "put the file there, or a link to it"
LONGEST_SETTINGS = 2**26  # bytes of JSON: an index of the largest models has 10 million, a configuration fewer
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
    "generation_config.json",
)
# In the order of preference. An index names the shards that stand beside it.
WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)


READ_FILES = {CONFIG_FILE, *TOKENIZER_FILES, *EMBEDDING_FILES, *WEIGHT_FILES}
READ_FOLDERS = re.compile(rf"{MODULE_FOLDER.pattern}|additional_chat_templates", re.ASCII)


def check_directory(directory: Path) -> None:
    """Check that everything in a checkpoint's directory that could be opened as a file is a regular file.

    Libraries wait for pipes, or pass over what is no file and read another one. A link that leads nowhere is no file.

    Raises RequestError for a pipe, a socket or a device of any name, and for a directory where a file belongs.
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
            if name in READ_FILES:
                raise RequestError(f"{path} is a directory, not a regular file: {REMEDY}")
            if READ_FOLDERS.fullmatch(name):
                check_directory(path)
        elif not stat.S_ISREG(mode):
            raise RequestError(f"{path} is {kind_of(mode)}, not a regular file: {REMEDY}")


def wanted_files(files: Collection[str], where: str) -> list[str]:
    """Which files of a repository, or a folder, are fetched; the last is the weights, or the index of their shards,
    which are fetched besides.

    Raises RequestError when there are no weights.
    """
    wanted = [file for file in (CONFIG_FILE, *TOKENIZER_FILES, *EMBEDDING_FILES) if file in files]
    wanted += [file for file in sorted(files) if OF_A_MODULE.fullmatch(file)]
    weights = next((file for file in WEIGHT_FILES if file in files), None)
    if weights is None:
        raise RequestError(f"{where} has no weights that attncli reads: none of {', '.join(WEIGHT_FILES)}")
    return [*wanted, weights]


def weight_files(directory: Path) -> list[Path]:
    """The files that hold a model's weights, the index of shards not among them.

    Raises RequestError when there are none, or the index is garbled or leads out of the directory.
    """
    for name in WEIGHT_FILES:
        path = directory / name
        if path.is_file():
            return shards(path) if name.endswith(".json") else [path]
    raise RequestError(f"{directory} has no weights: none of {', '.join(WEIGHT_FILES)}")


def shards(index: Path) -> list[Path]:
    """The files that an index names. Raises RequestError as `weight_files` does."""
    names = shard_names(index)
    for name in names:
        if not (index.parent / name).is_file():
            raise RequestError(f"{index.parent} lacks the shard {quoted(name)} that {index.name} names")
    return [index.parent / name for name in names]


def shard_names(index: Path) -> list[str]:
    """Raises RequestError when an index is garbled, or a name in it leads out of the model's directory."""
    try:
        found = read_json(index, LONGEST_SETTINGS)
        weight_map = found.get("weight_map") if isinstance(found, dict) else None
        if not isinstance(weight_map, dict):
            raise ValueError("it has no weight_map, which says in which file a tensor lies")
    except (OSError, ValueError) as error:
        raise RequestError(f"{index} is not an index of shards: {first_line(error)}") from error
    names = list(weight_map.values())
    if not names:
        raise RequestError(f"{index} names no shards")
    for name in names:
        if not isinstance(name, str) or name != Path(name).name or "\\" in name or name in ("", ".", ".."):
            raise RequestError(f"{index} names {reprlib.repr(name)}: a shard lies in the model's own directory")
    return sorted(set(names))


def is_whole(directory: Path) -> bool:
    """Whether a configuration, a vocabulary, and all files of some form of the weights are there."""
    try:
        weights = weight_files(directory)
    except RequestError:
        return False
    vocabulary = any((directory / name).is_file() for name in VOCABULARY_FILES)
    return bool(weights) and vocabulary and (directory / CONFIG_FILE).is_file()
