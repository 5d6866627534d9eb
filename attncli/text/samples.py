"""The texts that come with the program: which there are, and copies of them. Their README is what is known of them.

In a checkout they stand beside the package, in `sample_inputs`; in a wheel, inside it (`pyproject.toml`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import copyfile

from attncli.base.errors import RequestError
from attncli.base.files import write_whole
from attncli.base.printable import quoted
from attncli.base.untrusted import read_regular

NAME = "sample_inputs"  # the folder, as the examples in --help and in the READMEs name it
PACKAGE = Path(__file__).parent.parent
FOLDER = next((place for place in (PACKAGE / NAME, PACKAGE.parent / NAME) if place.is_dir()), PACKAGE / NAME)
README = "README.md"
ROW = re.compile(r"^\| `(.+?)` \| (.+?) \| `(.+?)` \| (.+) \|$", flags=re.MULTILINE)


@dataclass(frozen=True)
class Sample:
    """A text that comes with the program, in words of its README.

    name: its file's. what: what it is, in a few words. command: one to try. look_for: what that shows, in Markdown.
    """

    name: str
    what: str
    command: str
    look_for: str

    @property
    def path(self) -> Path:
        return FOLDER / self.name

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")


def samples() -> list[Sample]:
    """All of them, in the order of their README."""
    return [Sample(*row) for row in ROW.findall((FOLDER / README).read_text(encoding="utf-8"))]


def find_sample(name: str) -> Sample:
    """The one of that name. Raises RequestError, naming those that there are, where none has it."""
    known = {sample.name: sample for sample in samples()}
    if name not in known:
        raise RequestError(f"no text {quoted(name)} comes with attncli: it has {', '.join(known)}")
    return known[name]


def copy_files(names: Sequence[str], folder: Path) -> list[Path]:
    """Copy files of the samples' folder into `folder`, which is made where it is missing; returns the copies.

    Raises RequestError, before anything is written, where another file has the name of one of them, and when the folder
    can't be made or written to.
    """
    copies = {FOLDER / name: folder / name for name in names}
    for source, path in copies.items():
        if path.exists() and not is_copy(path, source):
            raise RequestError(f"{path} is there already and is another file: name another folder with --copy")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"can't make the folder {folder}: {error.strerror or error}") from error
    for source, path in copies.items():
        write_whole(path, partial(copyfile, source))
    return list(copies.values())


def is_copy(path: Path, source: Path) -> bool:
    """Say whether a file has the content of another one."""
    try:
        return read_regular(path) == source.read_bytes()
    except OSError:
        return False


def where_to_find(file: str) -> str:
    """What an error about a file that is not there adds where it is one of these that was never copied, or ""."""
    path = Path(file)
    if path.parent.name != NAME or path.exists() or not (FOLDER / path.name).is_file():
        return ""
    return f": the texts that come with attncli are put there by: attncli samples --copy {path.parent}"
