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
    """What `check` made of a style, after how long; said: the mistakes that it named, or else its reason."""

    style: Style
    verdict: str
    seconds: float
    said: str

    def __str__(self) -> str:
        kind = "right" if self.style.right else "wrong"
        mark = " " if self.verdict == kind else "?" if self.verdict == "refused" else "✗"
        return f"{mark} {kind}  {self.style.title:29} {self.verdict:8} {self.seconds:5.1f} s  {self.said}"


def result_of(style: Style) -> Result:
    """Let `check` judge the style."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thing = style.load(Path(folder))
        start = time.perf_counter()
        try:
            found = attncli.check(thing, **style.options)
            verdict = "right" if found.right else "wrong"
            said = ", ".join(one.mistake for one in found.diagnosis) or found.verdict
        except RequestError as error:
            verdict, said = "refused", str(error)
        except Exception as error:  # noqa: BLE001 - the table says of every style what became of it
            verdict, said = "crashed", f"{type(error).__name__}: {error}"
        return Result(style, verdict, time.perf_counter() - start, said)


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
    known = {one.style.title for one in results if one.style.right and one.verdict == "right"}
    apart = [one for one in results if one.style.twin in known and one.verdict == "wrong"]
    print(f"{len(apart)} wrong ones are called wrong, and the same code without the mistake right")


if __name__ == "__main__":
    main(sys.argv[1:])
