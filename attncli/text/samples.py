"""List and copy the sample texts that come with the program. Their README describes them.

In a checkout they are in `sample_inputs` beside the package; in a wheel, inside the package (`pyproject.toml`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import copyfile

from attncli.base.errors import RequestError
from attncli.base.files import make_folder, write_whole
from attncli.base.printable import quoted
from attncli.base.untrusted import read_regular

NAME = "sample_inputs"  # the folder's name in the examples of --help and the READMEs
PACKAGE = Path(__file__).parent.parent
FOLDER = next((place for place in (PACKAGE / NAME, PACKAGE.parent / NAME) if place.is_dir()), PACKAGE / NAME)
README = "README.md"
ROW = re.compile(r"^\| `(.+?)` \| (.+?) \| `(.+?)` \| (.+) \|$", flags=re.MULTILINE)


@dataclass(frozen=True)
class Sample:
    """A sample text, described in the words of the README.

    name: its file name. what: a short description. command: an example to run. look_for: what to look for in its
    output, in Markdown.
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
    """Return all samples in the order of the README."""
    return [Sample(*row) for row in ROW.findall((FOLDER / README).read_text(encoding="utf-8"))]


def find_sample(name: str) -> Sample:
    """Return the sample of this name. Raises RequestError, listing the names, if there is none."""
    known = {sample.name: sample for sample in samples()}
    if name not in known:
        raise RequestError(f"there is no sample text {quoted(name)}: use one of {', '.join(known)}")
    return known[name]


def copy_files(names: Sequence[str], folder: Path) -> list[Path]:
    """Copy sample files into `folder`, creating it if necessary. Return the paths of the copies.

    Raises RequestError before anything is written if a different file has one of these names. Also if the folder can't
    be created or written to.
    """
    copies = {FOLDER / name: folder / name for name in names}
    for source, path in copies.items():
        if path.exists() and not is_copy(path, source):
            raise RequestError(f"{path} already exists and is another file: name another folder with --copy")
    make_folder(folder)
    for source, path in copies.items():
        write_whole(path, partial(copyfile, source))
    return list(copies.values())


def is_copy(path: Path, source: Path) -> bool:
    """Return True if both files have the same content."""
    try:
        return read_regular(path) == source.read_bytes()
    except OSError:
        return False


def where_to_find(file: str) -> str:
    """Return a hint for an error about a missing file if it is a sample that was never copied, else ""."""
    path = Path(file)
    if path.parent.name != NAME or path.exists() or not (FOLDER / path.name).is_file():
        return ""
    return f": copy the sample texts there with: attncli samples --copy {path.parent}"
