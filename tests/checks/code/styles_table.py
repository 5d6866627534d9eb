"""What `attncli.check` says of each style, as a table.

python tests/checks/code/styles_table.py              all of them, some minutes
python tests/checks/code/styles_table.py "d2l" ...    those with these words in their title or file
"""

import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[3])]

from checks.code.cases import STYLES, Style

import attncli
from attncli.base.errors import RequestError


class Result(NamedTuple):
    """What `check` said of a style, after how long, and the mistakes that it named."""

    style: Style
    verdict: str
    seconds: float
    named: tuple[str, ...] = ()
    said: str = ""

    @property
    def fails(self) -> bool:
        """Whether a right style is called wrong, or a wrong one right."""
        return self.verdict not in ("refused", "right" if self.style.right else "wrong")

    def __str__(self) -> str:
        mark = "✗" if self.fails else "?" if self.verdict == "refused" else " "
        told = ", ".join(self.named) or self.said
        kind = "right" if self.style.right else "wrong"
        return f"{mark} {kind}  {self.style.title:28} {self.verdict:8} {self.seconds:5.1f} s  {told}"


def result_of(style: Style) -> Result:
    """Let `check` judge the style."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thing = style.load(Path(folder))
        start = time.perf_counter()
        try:
            found = attncli.check(thing, **style.options)
        except RequestError as error:
            return Result(style, "refused", time.perf_counter() - start, said=str(error))
        except Exception as error:  # noqa: BLE001 - the table says of every style what became of it
            return Result(style, "crashed", time.perf_counter() - start, said=f"{type(error).__name__}: {error}")
        seconds = time.perf_counter() - start
    named = tuple(one.mistake for one in found.diagnosis)
    return Result(style, "right" if found.right else "wrong", seconds, named, "" if found.right else found.verdict)


def main(words: Sequence[str]) -> None:
    results = []
    for style in STYLES:
        if not words or any(word in f"{style.title} {style.file}" for word in words):
            results.append(result_of(style))
            print(str(results[-1])[:200], flush=True)
    for right in (True, False):
        some = [one for one in results if one.style.right == right]
        verdicts = [one.verdict for one in some]
        counts = ", ".join(f"{verdicts.count(said)} {said}" for said in dict.fromkeys(verdicts))
        print(f"{len(some)} {'right' if right else 'wrong'} ones: {counts}")


if __name__ == "__main__":
    main(sys.argv[1:])
