"""Looks for what breaks the program, as long as it is told to, on all cores.

    python -m tests.hostile --minutes 30               every kind of case; a table of what was tried and what fell
    python -m tests.hostile --kinds files,texts        these kinds
    python -m tests.hostile --keep found               what fell is saved there, a small file each
    python -m tests.hostile --rerun found/*.json       runs such files again

The same seed gives the same cases. What is mended is moved to tests/hostile/cases/, which every suite runs.
"""

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hostile import kinds
from hostile.case import Case
from hostile.machine import Result, machine, search, table, tasks_of
from hostile.running import Runner


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (1)")
    parser.add_argument("--cases", type=int, help="how many in all, however long they take")
    parser.add_argument("--kinds", default=",".join(kinds.KINDS), help=f"some of {','.join(kinds.KINDS)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--ours", action="store_true", help="without models that transformers runs, which take longer")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a folder for what fell")
    parser.add_argument("--rerun", type=Path, nargs="+", metavar="FILE", help="cases that were kept")
    return parser.parse_args()


def main() -> int:
    asked = parsed()
    with machine(foreign=not asked.ours) as place:
        if asked.rerun:
            folder = place.folder.parent / "here"
            folder.mkdir()
            runner = Runner(place, folder)
            found = [(path, kinds.look(Case.load(path, place.original), runner)) for path in asked.rerun]
            for path, verdict in found:
                print(f"{path.name}: {verdict.why or f'as it should be (exit {verdict.code})'}")
            if asked.cases is None:
                return int(any(verdict.why for _, verdict in found))
        chosen = [kind for kind in kinds.KINDS if kind in asked.kinds.split(",")]
        begun = time.monotonic()
        until = begun + 60 * asked.minutes if asked.cases is None else float("inf")

        def tell(result: Result) -> None:
            name = f"{result.task.kind}-{result.task.seed}-{result.task.number}"
            typed = " ".join(result.case.arguments) if result.case else ""
            print(f"{name}: {typed[:100]}: {result.why}", flush=True)
            if asked.keep is not None and result.case is not None:
                asked.keep.mkdir(parents=True, exist_ok=True)
                result.case.save(asked.keep / f"{name}.json")

        counts = search(place, tasks_of(chosen, asked.seed, kinds.SHARES, asked.cases), until, asked.workers, tell)
        print(table(counts, time.monotonic() - begun))
        return int(any(count.fell for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
