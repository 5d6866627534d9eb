"""Convert a .gguf file to a checkpoint's directory: config.json, tokenizer.json and model.safetensors in float32.

The directory is kept in the cache, under the hash of the file.
"""

import json
import math
import tempfile
import warnings
from pathlib import Path
from typing import Any

from attncli.base.cache import cache_directory
from attncli.base.errors import Notice, RequestError
from attncli.base.files import UNDER_WAY, making
from attncli.base.printable import printable
from attncli.models.gguf.architectures import Translation
from attncli.models.gguf.file import GGUFFile
from attncli.models.gguf.vocabulary import Vocabulary

FORMAT = 1  # of the directory: raise it when the same file gives another one
SIZES = "sizes.json"  # the bytes of each file of the directory, written last
FLOAT = 4  # bytes of a number


_TEMPORARY: dict[str, tempfile.TemporaryDirectory[str]] = {}  # by name: those that the cache can't hold


def convert_once(source: Path, sha256: str) -> Path:
    """Return the directory to which a file has been converted, now or earlier. It appears complete or not at all.

    It is in the cache, or, if that can't be written, in a temporary folder that is removed when this process ends.

    sha256: of the file. Raises RequestError as `convert`, and if there is no room for it.
    """
    name = f"{sha256}-{FORMAT}"
    kept = cache_directory() / "models" / "gguf" / name
    if is_whole(kept):
        return kept
    try:
        if name not in _TEMPORARY:
            try:
                _convert_into(source, kept)
                return kept
            except OSError:  # the cache can't be written
                _convert_for_now(source, name)
        return Path(_TEMPORARY[name].name) / name
    except OSError as error:
        raise RequestError(f"can't convert {source}: {error.strerror or error}") from error


def _convert_into(source: Path, directory: Path) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    with making(directory.parent) as work:
        made = work / "made"
        convert(source, made)
        if directory.exists() and not is_whole(directory):  # someone removed its files
            directory.rename(work / "damaged")
        try:
            made.rename(directory)
        except OSError:
            if not is_whole(directory):  # else another process was faster
                raise
    _notify(source, directory, "converted once")


def _convert_for_now(source: Path, name: str) -> None:
    folder = tempfile.TemporaryDirectory(prefix="attncli-", ignore_cleanup_errors=True)
    UNDER_WAY.add(Path(folder.name))
    convert(source, Path(folder.name) / name)
    _TEMPORARY[name] = folder
    _notify(source, Path(folder.name), "converted for this run, because the cache can't be written")


def _notify(source: Path, directory: Path, what: str) -> None:
    size = sum(path.stat().st_size for path in directory.rglob("*"))
    text = f"{printable(source.name)} is {what}: {size / 1e6:,.0f} MB in {printable(str(directory))}"
    warnings.warn(text, Notice, stacklevel=4)


def convert(source: Path, directory: Path) -> None:
    """Write the new directory. A progress bar on stderr appears after 2 seconds.

    Raises RequestError if the file is damaged or of a kind that attncli does not read.
    """
    file = GGUFFile(source)
    translation, vocabulary = Translation(file), Vocabulary(file)
    directory.mkdir()
    vocabulary.save(directory / "tokenizer.json")
    ids = vocabulary.token_ids()
    write_json(directory / "config.json", {**translation.config, **ids})
    longest = {"model_max_length": translation.facts.whole("context_length")}
    write_json(directory / "tokenizer_config.json", {**vocabulary.document(), **longest})
    write_json(directory / "generation_config.json", {**ids, "eos_token_id": vocabulary.ends() or None})
    _write_tensors(directory / "model.safetensors", translation)
    write_json(directory / SIZES, {path.name: path.stat().st_size for path in directory.iterdir()})


def is_whole(directory: Path) -> bool:
    """Return True if a directory has all files of a conversion, none of them cut short."""
    try:
        sizes = json.loads((directory / SIZES).read_text(encoding="utf-8"))
        return bool(sizes) and all((directory / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError, TypeError):
        return False


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")


def _write_tensors(path: Path, translation: Translation) -> None:
    """Write the tensors as .safetensors, one at a time: together they may exceed the memory."""
    from huggingface_hub.utils import tqdm  # as for models that are fetched, and switched off by the same

    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, renamed in translation.names.items():
        shape = translation.shape(name)
        start, end = end, end + FLOAT * math.prod(shape)
        header[renamed] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    written = json.dumps(header, separators=(",", ":")).encode()
    written += b" " * (-len(written) % 8)
    with (
        path.open("wb") as opened,
        tqdm(
            total=end, unit="B", unit_scale=True, desc=f"converting {translation.file.path.name}", delay=2, disable=None
        ) as bar,
    ):
        opened.write(len(written).to_bytes(8, "little") + written)
        for name in translation.names:
            values = translation.values(name).astype("<f4", copy=False)
            opened.write(values.data)
            bar.update(values.nbytes)
