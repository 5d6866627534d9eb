"""Looks for damaged files that break the program, and runs the cases that once did.

    python -m tests.hostile --cases 1000 --seed 1      so many; the same seed gives the same cases
    python -m tests.hostile --keep found               what fell is saved there, a small file each
    python -m tests.hostile --rerun found/*.json       runs such files

What is mended is moved to tests/hostile/cases/, which every suite runs. Each call is forked from this process, which
has imported everything.
"""

import argparse
import functools
import gc
import importlib
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hostile import damage
from hostile.case import Case
from hostile.looking import look
from hostile.place import Place, make_files, make_models, words
from hostile.running import Runner

SETTINGS = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow's memory pool, which would start a thread
}  # fmt: skip
HIDDEN = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "ATTNCLI_MODEL", "ATTNCLI_QUIET", "PYTHONIOENCODING")
# Calls that between them import what all others do.
WARM = (
    "run -m tiny --pair it @ --json", "run --from maps.npz -l 0 -H 0", "heatmap -m tiny -l 0 -H 0 -o a.svg @",
    "stats -m tiny --json lines.txt", "stats --from stats.json --json", "find -m tiny cat sat @",
    "models --json", "view --from texts.safetensors -o a.html", "diff maps.npz others.npz",
    "explain --from vectors.safetensors", "run -m json @", "flow --from maps.npz", "probe -m tiny trees.conllu",
    "align --attention dot", "mask -m tiny @", "samples", "run -f lines.txt -m tiny -o b.safetensors",
    "stats -m tiny --field text texts.jsonl -o a.svg", "run -m gpt2 @", "compare -m tiny --json @",
)  # fmt: skip


@contextmanager
def runner() -> Iterator[Runner]:
    """A place to run in. Another process makes its models, so that transformers is not here unless it is wanted."""
    os.environ.update(SETTINGS)
    for name in HIDDEN:
        os.environ.pop(name, None)
    importlib.import_module("torch")  # once, for the maker too
    passing = Path(tempfile.mkdtemp(prefix="attncli-hostile-")).resolve()  # tempfile's own would go with a child
    os.environ["ATTNCLI_CACHE"] = str(passing / "cache")
    try:
        for name in ("place", "here", "warm"):
            (passing / name).mkdir()
        maker = multiprocessing.get_context("fork").Process(target=make_models, args=(passing / "place",))
        maker.start()
        maker.join()
        if maker.exitcode:
            raise SystemExit("the models could not be made")
        warm(passing / "place", passing / "warm")
        yield Runner(Place(passing / "place"), passing / "here")
    finally:
        shutil.rmtree(passing, ignore_errors=True)


def warm(place: Path, passing: Path) -> None:
    """Makes the place's files and some calls: what is imported and made by them, children find there.

    There is no thread but this one. Commands are made of their functions once, and not at each call.
    """
    import torch
    import typer.main
    from shell import in_process

    from attncli.features.document import sections
    from attncli.models import loading

    sections()
    torch.set_num_threads(1)
    load, kept = loading.load_model, loading.load_model("minilm", "cpu")  # reading it takes longer than a call
    kept.attend("warm")

    def loaded(name: str, device: str = "auto", dtype: str = "float32", engine: str = "auto") -> Any:
        plain = (name, dtype, engine) == ("minilm", "float32", "auto") and device in ("auto", "cpu")
        return kept if plain else load(name, device, dtype, engine)

    loading.load_model = loaded
    typer.main.get_command = functools.cache(typer.main.get_command)
    settings = dict(os.environ)
    make_files(place)
    for one in place.iterdir():
        (passing / one.name).symlink_to(one)
    for line in WARM:
        result = in_process(words(line), passing)
        assert result.code == 0, (line, result)
    os.environ.clear()
    os.environ.update(settings)  # without what libraries set when they are imported
    alone = len(list(Path("/proc/self/task").iterdir()))
    assert alone == 1, f"{alone} threads: what is forked would have one of them"
    gc.collect()
    gc.freeze()


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.hostile", description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--cases", type=int, default=0, help="how many new ones (0)")
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--keep", type=Path, metavar="DIR", help="a folder for what fell")
    asked.add_argument("--rerun", type=Path, nargs="+", default=[], metavar="FILE", help="cases that were kept")
    options = asked.parse_args()
    fell, codes = 0, []
    with runner() as running:
        for path in options.rerun:
            verdict = look(Case.load(path, running.place.original), running)
            print(f"{path.name}: {verdict.why or f'as it should be (exit {verdict.code})'}", flush=True)
            fell += verdict.why is not None
        for number in range(options.cases):
            case = damage.make(options.seed, number, running.place)
            verdict = look(case, running)
            codes.append(verdict.code)
            if verdict.why is not None:
                fell += 1
                print(f"{options.seed}-{number}: {' '.join(case.arguments)[:100]}: {verdict.why}", flush=True)
                if options.keep is not None:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    case.save(options.keep / f"{options.seed}-{number}.json")
    print(f"{len(codes)} damaged files, {codes.count(2)} refused")
    return int(fell > 0)


if __name__ == "__main__":
    sys.exit(main())
