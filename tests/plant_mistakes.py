"""How good are the tests at finding mistakes? Plants some, each alone, and runs the tests of the room it is in.

    python tests/plant_mistakes.py                             all of them, in copies of this checkout
    python tests/plant_mistakes.py --commit c9f3e11            in copies of a commit
    python tests/plant_mistakes.py --tests "-n 2" --only NAME  one of them, with arguments for pytest

The mistakes are such as a careful programmer makes, in what users look at. They were chosen before any was run, and one
that is missed stays in the list: it says which test is wanting. They are found by their text and not by their file, so
that code may move; whoever rewords a line that stands here rewords it here too.
"""

import argparse
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).parents[1]


class Mistake(NamedTuple):
    """In place of `old`, which stands once in all of the package, `new`."""

    name: str
    old: str
    new: str


MISTAKES = (
    Mistake(
        "mask forgotten where no map is kept",
        "return attend_output(heads.query, heads.key, heads.value, heads.mask)",
        "return attend_output(heads.query, heads.key, heads.value)",
    ),
    Mistake(
        "hard_max hides with 0, not with -inf",
        "hidden = scores if mask is None else scores.masked_fill(~mask, -torch.inf)",
        "hidden = scores if mask is None else scores.masked_fill(~mask, 0.0)",
    ),
    Mistake(
        "second LayerNorm has torch's epsilon",
        "self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)",
        "self.feed_forward_norm = nn.LayerNorm(config.hidden_size)",
    ),
    Mistake("RoBERTa numbers [PAD] on", "real.cumsum(dim=1) * real +", "real.cumsum(dim=1) +"),
    Mistake("token between two windows counts twice", "(places < window.counted[1])", "(places <= window.counted[1])"),
    Mistake(
        "second text of RoBERTa's pair is in the first segment",
        "segments.append(max(kind, part if part is not None else segments[-1] if segments else 0))",
        "segments.append(kind)",
    ),
    Mistake("JSON has 4 digits", '"weights": self.map(layer, head).', '"weights": self.map(layer, head).round(4).'),
    Mistake(
        "[PAD] is taken for a separator",
        "separators = np.array(keys.special) & ~np.array(keys.padding)",
        "separators = np.array(keys.special)",
    ),
    Mistake(
        "rollout halves an empty row", "np.where(nowhere, own, 0.5 * means + 0.5 * own)", "0.5 * means + 0.5 * own"
    ),
    Mistake("words: mean over the key's pieces", "rows, axis=-2) / sizes[:, None]", "rows, axis=-2) / sizes"),
    Mistake("terminal: rows are numbered from 1", ", token in enumerate(tokens)]", ", token in enumerate(tokens, 1)]"),
    Mistake("figure: query is counted before tokens are left out", "return queries.index(token)", "return token"),
    Mistake("page: weights are not rounded", "np.rint(shares * np.float32(scale.levels))", "(shares * scale.levels)"),
    Mistake(
        "--limit counts in every file anew",
        "yield from islice(chain.from_iterable(every), self.limit)",
        "yield from chain.from_iterable(islice(some, self.limit) for some in every)",
    ),
    Mistake("law of [PAD] has no [PAD]", "vectors(model, padded, mask))", "vectors(model, tokens, mask))"),
    Mistake("first [END] ends all texts", "(written == END).any(dim=1).all()", "(written == END).any(dim=1).any()"),
    Mistake("run --json -o prints no record", "        records = iter(kept)\n", ""),
    Mistake(
        "compare --dtype float64 never ends with 1",
        'tells a mistake, which stays, from rounding, which goes")\n        raise typer.Exit(1)',
        'tells a mistake, which stays, from rounding, which goes")\n            raise typer.Exit(1)',
    ),
    Mistake(
        "Ctrl-C leaves a temporary file",
        "        except BaseException:\n            with suppress(OSError):",
        "        except Exception:\n            with suppress(OSError):",
    ),
    Mistake("isolates may reorder a line", r"\u202e\u2066\u2067\u2068\u2069\u200e", r"\u202e\u200e"),
)


@contextmanager
def copied(commit: str | None) -> Iterator[Path]:
    """A copy of a commit, or of what git knows or would take here; for one mistake, as tests leave things behind."""
    with tempfile.TemporaryDirectory(prefix="attncli-mistake-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        if commit is not None:
            with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", commit))) as archive:
                archive.extractall(folder, filter="data")
        else:
            for file in git("ls-files", "-z", "--cached", "--others", "--exclude-standard").decode().split("\0"):
                if (CHECKOUT / file).is_file():  # one that was moved is still in git's list
                    (folder / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(CHECKOUT / file, folder / file)
        yield folder


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=CHECKOUT, check=True, stdout=subprocess.PIPE).stdout


def find(folder: Path, mistake: Mistake) -> Path:
    """The file to plant a mistake in. Ends the program when its text does not stand in the package exactly once."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.glob("attncli/**/*.py"))}
    found = [path for path, text in texts.items() for _ in range(text.count(mistake.old))]
    if len(found) != 1:
        raise SystemExit(f"{mistake.name}: its text is there {len(found)} times, not once:\n{mistake.old}")
    return found[0]


def room(folder: Path, path: Path) -> str:
    """The tests that mirror a file's folder; those of the file itself where it lies in no folder of the package."""
    place = path.relative_to(folder / "attncli")
    return f"tests/test_{place}" if place.parent == Path() else f"tests/{place.parent.as_posix()}"


def failing(folder: Path, tests: str, arguments: Sequence[str]) -> str | None:
    """The first of these tests that fails in a copy, or None. Ends the program when they can't be run.

    The few that replace PYTHONPATH for a process of their own test what is installed, and not the copy.
    """
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    where = python(folder, environment, "-c", "import attncli; print(attncli.__file__)").stdout.strip()
    if not Path(where).is_relative_to(folder):
        raise SystemExit(f"{tests}: what would be tested is {where}, and not the copy in {folder}")
    done = python(folder, environment, "-m", "pytest", "-x", "--tb=no", "-rfE", *arguments, tests)
    if done.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    if found is None:
        raise SystemExit(f"{tests}: pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return found[1]


def python(folder: Path, environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--commit", help="plant them in this commit instead of the checkout")
    parser.add_argument("--tests", default="", metavar="ARGS", help='more for pytest, as in --tests "-n 2"')
    names = [one.name for one in MISTAKES]
    parser.add_argument("--only", choices=names, action="append", metavar="NAME", help="this one; can be given again")
    asked = parser.parse_args()
    arguments = shlex.split(asked.tests)
    chosen = [one for one in MISTAKES if one.name in (asked.only or names)]
    with copied(asked.commit) as folder:
        rooms = [room(folder, find(folder, one)) for one in chosen]
        for tests in dict.fromkeys(rooms):  # one whose tests fail anyway would seem to catch everything
            failed = failing(folder, tests, arguments)
            if failed is not None:
                raise SystemExit(f"{tests}: without any mistake there fails {failed}")
    caught = 0
    for mistake, tests in zip(chosen, rooms, strict=True):
        with copied(asked.commit) as folder:
            path = find(folder, mistake)
            path.write_text(path.read_text(encoding="utf-8").replace(mistake.old, mistake.new), encoding="utf-8")
            begun = time.monotonic()
            failed = failing(folder, tests, arguments)
            taken = time.monotonic() - begun
        caught += failed is not None
        verdict = "MISSED" if failed is None else "caught"
        print(f"{mistake.name:53} {tests:23} {verdict} {taken:4.0f} s  {failed or ''}".rstrip(), flush=True)
    print(f"{caught} of {len(chosen)} caught")


if __name__ == "__main__":
    main()
