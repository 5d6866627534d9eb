"""Keeps README.md and those of the rooms true: what stands under a command there is what the command prints.

    python tests/readme.py
    python tests/readme.py attncli/models/README.md

runs every command in their ```console blocks and writes what it printed under it, and draws the pictures, those of
README.md's gallery by the commands beside them. LEARN.zh.md gets the blocks of LEARN.md. With names, it does that in
these documents and without the pictures. A ```python
block that begins with the name of a file, as in
"# checkpoints.py", is a script that the reader runs first: what it makes is there for the commands of the blocks after
it. The tables of fields in attncli/cli/README.md are made of the features' FIELDS. `tests/test_readme.py` fails when
anything would change.
"""

import functools
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from shell import environment, run_line

from attncli.features.document import Section, sections

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
LEARN, LEARN_ZH = (ROOT / "attncli" / "attention" / name for name in ("LEARN.md", "LEARN.zh.md"))
DOCUMENTS = (README, *sorted((ROOT / "attncli").rglob("README.md")), LEARN)
PICTURE = ROOT / ".readme" / "run.svg"
PAGE_PICTURE = ROOT / ".readme" / "view.png"
PICTURED = ["run", "-l", "3", "-H", "1", "The trophy does not fit in the suitcase because it is too big."]

GALLERY = re.compile(r"`(attncli [^`]*-o (\w+\.png)[^`]*)`")
COLOURS = 128  # of a picture in the gallery, which has few
SCRIPT = re.compile(r"```python\n(# (\w+\.py)\n.*?)```", flags=re.DOTALL)
FENCED = re.compile(r"```\w+\n.*?```", flags=re.DOTALL)
BLOCK = re.compile(r"```console\n(.*?)```", flags=re.DOTALL)
MEASURED = re.compile(r"\d(\.\d+)?e[+-]\d+|(?<=right) +0\b")  # rounding errors: another processor has others
FIELDS = "<!-- From here on, tests/readme.py writes what the files of the features say. -->\n"
PLACES = re.compile(r"\S*/(site-packages|dist-packages)/")


def regenerated(text: str) -> str:
    """A document with every console block run anew."""

    def anew(block: re.Match[str]) -> str:
        return f"```console\n{session(commands(block[1]), scripts(text[: block.start()]))}```"

    above, mark, _ = BLOCK.sub(anew, text).partition(FIELDS)
    return above + mark + (tables() if mark else "")


def tables() -> str:
    """The fields of every part and document."""
    return "".join(f"\n### `{name}`\n\n{table(section)}\n" for name, section in sections().items())


def table(section: Section) -> str:
    rows = ["| field | type | shape or unit | meaning |", "| --- | --- | --- | --- |"]
    for one in section.fields:
        cells = (f"`{one.name}`", f"`{one.type}`", one.unit, one.meaning)
        rows.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
    return "\n\n".join(filter(None, [section.before, "\n".join(rows), section.after]))


def scripts(text: str) -> tuple[tuple[str, str], ...]:
    """The scripts in a part of a document, by name."""
    return tuple((script[2], script[1]) for script in SCRIPT.finditer(text))


@functools.cache
def prepared(some: tuple[tuple[str, str], ...]) -> tempfile.TemporaryDirectory[str]:
    """A folder with scripts and what they make, run once."""
    folder = tempfile.TemporaryDirectory()
    for name, script in some:
        (Path(folder.name) / name).write_text(script, encoding="utf-8")
        subprocess.run(
            [sys.executable, name], cwd=folder.name, env=environment(), stdin=subprocess.DEVNULL, check=True,
            capture_output=True,
        )  # fmt: skip
    return folder


def commands(block: str) -> list[str]:
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


def session(lines: list[str], some: tuple[tuple[str, str], ...] = ()) -> str:
    """The commands of one block, run in one folder that is empty but for what `scripts` make, each with what it
    printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        for there in (ROOT / "sample_inputs", *(Path(prepared(some).name).iterdir() if some else ())):
            (Path(folder) / there.name).symlink_to(there)
        names = [name for name, _ in some]
        return "".join(f"$ {line}\n{printed(line, folder, names)}" for line in lines)


def printed(line: str, folder: str, scripts: Sequence[str] = ()) -> str:
    command, pipe, rest = line.partition(" | ")
    if pipe and command.startswith(("attncli mask ", "attncli mechanisms ")) and not any(map(command.count, scripts)):
        text = piped(command, rest)
    else:
        text = run_line(line, Path(folder)).text
    text = re.sub(r"^attncli: converted .*\n", "", text, flags=re.MULTILINE)  # only the first time
    lines = [line.rstrip() for line in PLACES.sub(r"…/\1/", text).rstrip().splitlines()]
    return "".join(f"{line}\n" for line in lines)


def piped(command: str, rest: str) -> str:
    """Return the output of a command through a pipe; the command itself is run once."""
    error, out = whole(command)
    found = subprocess.run(rest, shell=True, input=out, capture_output=True, text=True, check=False)
    return error + found.stdout + found.stderr


@functools.cache
def whole(command: str) -> tuple[str, str]:
    """Return what a command that reads no file writes to stderr and to stdout."""
    done = subprocess.run(
        command, shell=True, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    return done.stderr, done.stdout


def without_rounding(text: str) -> str:
    """The text with the size of rounding errors left out, and the progress that a busy machine shows."""
    text = re.sub(r"^attncli: [a-z]+: \d+( of \d+)?\n", "", text, flags=re.M)
    return re.sub(" +#e-#", " #e-#", MEASURED.sub(" #e-#", text))


def picture() -> str:
    """The terminal, as `PICTURED` fills it, in SVG."""
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    shown = subprocess.run(
        [sys.executable, "-m", "attncli", *PICTURED],
        env=environment(FORCE_COLOR="1", COLORTERM="truecolor", TERM="xterm-256color", COLUMNS="94"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    console = Console(record=True, width=96, file=io.StringIO(), color_system="truecolor", force_terminal=True)
    console.print(Text.from_ansi(shown))
    svg = console.export_svg(title="attncli run", theme=MONOKAI, unique_id="attncli")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # nothing from the network


def draw_page(path: Path) -> None:
    """The page, as a browser shows it."""
    from playwright.sync_api import sync_playwright

    import attncli

    sentence = "The trophy does not fit in the suitcase because it is too big."
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = Path(folder) / "view.html"
        attncli.load_model("minilm").attend(sentence).page(page, query="it")
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 900, "height": 460})
        tab.goto(f"{page.as_uri()}#layer=3&heads=1,8,11")
        tab.wait_for_selector("#chart[data-drawn]")
        tab.screenshot(path=path)
        browser.close()


def draw_gallery(folder: Path) -> None:
    """Draw the pictures of the gallery by their commands, in few colours."""
    from PIL import Image

    for line, name in GALLERY.findall(README.read_text(encoding="utf-8")):
        run_line(line, ROOT)
        drawn = ROOT / name
        few = Image.open(drawn).convert("RGB").quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE)
        few.save(folder / name, optimize=True)
        drawn.unlink()


def in_step(translation: str, original: str) -> str:
    """A translation with the commands, listings and outputs of the original."""
    blocks = iter(FENCED.findall(original))
    return FENCED.sub(lambda block: next(blocks, block[0]), translation)


def write_anew(document: Path) -> None:
    written = regenerated(document.read_text(encoding="utf-8"))
    document.write_text(written, encoding="utf-8")
    if document.resolve() == LEARN:
        LEARN_ZH.write_text(in_step(LEARN_ZH.read_text(encoding="utf-8"), written), encoding="utf-8")


if __name__ == "__main__":
    os.environ["ATTNCLI_CACHE"] = os.devnull  # no result of other code
    if sys.argv[1:]:
        for name in sys.argv[1:]:
            write_anew(Path(name))
        sys.exit()
    PICTURE.parent.mkdir(exist_ok=True)
    draw_page(PAGE_PICTURE)
    PICTURE.write_text(picture(), encoding="utf-8")
    draw_gallery(PICTURE.parent)
    for document in DOCUMENTS:
        write_anew(document)
