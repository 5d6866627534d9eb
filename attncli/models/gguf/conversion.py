"""Convert a .gguf file to a checkpoint's directory: config.json, tokenizer.json and model.safetensors in float32.

The directory is kept in the cache, under the hash of the file.
"""

import atexit
import json
import math
import os
import shutil
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli.base.cache import cache_directory
from attncli.base.errors import Notice, RequestError
from attncli.base.files import UNDER_WAY, keep_folder
from attncli.base.printable import printable

if TYPE_CHECKING:  # a file that has been converted is not opened
    from attncli.models.gguf.architectures import Translation

FORMAT = 1  # version of the directory: raise it if the same file gives a different one
RECORD = "conversion.json"  # written last: the types of the file's tensors, and the bytes of each file of the directory
_TEMPORARY: dict[str, Path] = {}  # the directories that the cache can't hold, by name


def convert_once(source: Path, sha256: str) -> Path:
    """Return the directory to which a file was converted, now or earlier. It appears complete or not at all.

    It is in the cache, or, if that can't be written, in a temporary folder that is removed when this process ends.

    sha256: of the file. Raises RequestError as `convert` does, and if there is no room for it.
    """
    name = f"{sha256[:32]}-{FORMAT}"
    kept = cache_directory() / "models" / "gguf" / name
    if is_whole(kept):
        return kept
    try:
        if name not in _TEMPORARY:
            try:
                keep_folder(kept, partial(convert, source), is_whole)
                _notify(source, kept, ", once")
                return kept
            except OSError:  # the cache can't be written
                folder = Path(tempfile.mkdtemp(prefix="attncli-"))
                UNDER_WAY.add(folder)
                atexit.register(_remove, folder, os.getpid())
                convert(source, folder / name)
                _TEMPORARY[name] = folder / name
                _notify(source, folder / name, " for this run, because the cache can't be written")
        return _TEMPORARY[name]
    except OSError as error:
        raise RequestError(f"can't convert {source}: {error.strerror or error}") from error


def _remove(folder: Path, process: int) -> None:
    """Remove a temporary folder, unless this is a fork of the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _notify(source: Path, directory: Path, what: str) -> None:
    size = sum(path.stat().st_size for path in directory.rglob("*"))
    text = f"converted {printable(source.name)} to float32{what}: {size / 1e6:,.0f} MB in {printable(str(directory))}"
    warnings.warn(text, Notice, stacklevel=3)


def convert(source: Path, directory: Path) -> None:
    """Write the new directory. A progress bar on stderr appears after 2 seconds.

    Raises RequestError if the file is damaged or of a kind that attncli does not read.
    """
    from attncli.models.gguf.architectures import Translation
    from attncli.models.gguf.file import GGUFFile
    from attncli.models.gguf.vocabulary import Vocabulary

    file = GGUFFile(source)
    translation, vocabulary = Translation(file), Vocabulary(file)
    directory.mkdir()
    vocabulary.save(directory / "tokenizer.json")
    ids = vocabulary.token_ids()
    write_json(directory / "config.json", {**translation.config, **ids})
    longest = {"model_max_length": translation.facts.positive("context_length")}
    write_json(directory / "tokenizer_config.json", {**vocabulary.document(), **longest})
    write_json(directory / "generation_config.json", {**ids, "eos_token_id": vocabulary.ends() or None})
    _write_tensors(directory / "model.safetensors", translation)
    sizes = {path.name: path.stat().st_size for path in directory.iterdir()}
    write_json(directory / RECORD, {"types": file.types(), "sizes": sizes})


def is_whole(directory: Path) -> bool:
    """Return True if a directory has all files of a conversion, none of them truncated."""
    try:
        sizes = _read_record(directory)["sizes"]
        return bool(sizes) and all((directory / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return False


def types(directory: Path) -> list[str]:
    """Return the types of the tensors in the file from which a directory was converted: ["Q4_1", "Q8_0", "F32"]."""
    return [str(name) for name in _read_record(directory)["types"]]


def _read_record(directory: Path) -> Any:
    return json.loads((directory / RECORD).read_text(encoding="utf-8"))


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")


def _write_tensors(path: Path, translation: "Translation") -> None:
    """Write the tensors as .safetensors, one at a time: together they may exceed the memory."""
    from huggingface_hub.utils import tqdm  # as for models that are fetched, and switched off by the same

    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, renamed in translation.names.items():
        shape = translation.shape(name)
        start, end = end, end + 4 * math.prod(shape)
        header[renamed] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    written = json.dumps(header, separators=(",", ":")).encode()
    written += b" " * (-len(written) % 8)
    about = f"converting {printable(translation.file.path.name)}"
    with (
        path.open("wb") as opened,
        tqdm(total=end, unit="B", unit_scale=True, desc=about, delay=2, disable=None) as bar,
    ):
        opened.write(len(written).to_bytes(8, "little") + written)
        for name in translation.names:
            values = translation.values(name).astype("<f4", copy=False)
            opened.write(values.data)
            bar.update(values.nbytes)
