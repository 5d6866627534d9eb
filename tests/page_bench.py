"""Measure the size and errors of the page beside BertViz, given the same weights: python tests/page_bench.py

minilm's published weights on sample_inputs/long.txt, with q and k of as many heads as `attncli view` keeps by itself.
BertViz takes gigabytes for the page of 512 tokens: --quick leaves that one out.
"""

import json
import re
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from packed import unpack_layer

from attncli import load_model, load_record
from attncli.base.errors import Notice
from attncli.models.engine import NEURONS, vectors_within
from attncli.page import page, save_page
from attncli.page.packing import error_of
from attncli.record import AttentionRecord, Request

TEXT = Path(__file__).parent.parent / "sample_inputs" / "long.txt"
SHORT, LONG, DOUBLED = "128 tokens, 72 heads", "512 tokens, 72 heads", "512 tokens, 144 heads"
RANKED = 10  # of a row's weights, the strongest
ROUNDS = 5

# BertViz, in a process of its own: it is stopped when it takes too much time or memory.
BERTVIZ = "1.4.1"
MOST_SECONDS = 15 * 60
MOST_BYTES = 16 * 10**9
SCRIPT = """
import resource
import time
resource.setrlimit(resource.RLIMIT_AS, ({bytes}, {bytes}))
import torch
from bertviz import head_view
from attncli import load_record
begun = time.perf_counter()
record = load_record({record!r})
attention = [torch.from_numpy(layer)[None] for layer in record.weights]
html = head_view(attention, record.tokens.text, html_action="return").data
with open({page!r}, "w", encoding="utf-8") as file:
    file.write(html)
print(time.perf_counter() - begun)
"""

# --- pages -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """A record on disk, attncli's page of it, and BertViz's."""

    record: Path
    ours: Path
    theirs: Path


def make_pages(folder: Path) -> dict[str, Files]:
    """The records and attncli's pages of them."""
    made = {}
    for name, record in make_records().items():
        files = Files(*(folder / f"{name}{suffix}" for suffix in (".safetensors", ".html", ".bertviz.html")))
        record.save(files.record)
        build(files)
        made[name] = files
    return made


def make_records() -> dict[str, AttentionRecord]:
    """Two lengths; and twice as many heads, which are the same ones twice."""
    model = load_model("minilm", device="cpu")
    text = TEXT.read_text(encoding="utf-8")
    ends = [end for _, end in model.tokenizer.encode(text).offsets]
    layers = model.config.layers

    def attend(length: int) -> AttentionRecord:
        beginning = text[: ends[length - 2]]  # after it comes [SEP]
        vectors = vectors_within(model, [model.tokenizer.encode(beginning)], Request(), NEURONS)
        return model.attend(beginning, vectors=vectors)

    short, long = attend(128), attend(512)
    doubled = replace(
        long,
        weights=np.concatenate([long.weights] * 2),
        layers=list(range(2 * layers)),
        model=replace(long.model, layers=2 * layers),
    )
    return {SHORT: short, LONG: long, DOUBLED: doubled}


def build(files: Files) -> None:
    save_page(page(load_record(files.record)), files.ours)


def build_by_command(files: Files) -> None:
    command = [sys.executable, "-m", "attncli", "view", "--from", str(files.record), "-o", str(files.ours)]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def median_seconds(do: Callable[[], None]) -> float:
    seconds = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        do()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def bertviz(files: Files) -> float | None:
    """Make BertViz's head view of a record. Seconds, or None if it was stopped."""
    script = SCRIPT.format(bytes=MOST_BYTES, record=str(files.record), page=str(files.theirs))
    try:
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=MOST_SECONDS
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        if isinstance(error, subprocess.CalledProcessError) and "MemoryError" not in error.stderr:
            raise
        files.theirs.unlink(missing_ok=True)  # there may be a part of it
        return None
    return float(done.stdout)


def largest_error(document: str, record: AttentionRecord) -> tuple[float, float]:
    """Return the largest error of the ten strongest weights of a row in the page, and the largest one allowed."""
    elements = dict(re.findall(r'<script type="application/[\w-]+" id="(\w+)">(.*?)</script>', document, re.DOTALL))
    mask = json.loads(elements["page"])["texts"][0]["masks"][0]
    worst = 0.0
    for name, layer in zip(mask["maps"], record.weights, strict=True):
        strongest = layer >= np.partition(layer, -RANKED, axis=-1)[..., -RANKED, None]
        true, read = layer[strongest], unpack_layer(elements[name], layer.shape, mask["levels"])[strongest]
        worst = max(worst, float(np.abs(read - true).max()))
    return worst, error_of(mask["levels"])


# --- what is printed -------------------------------------------------------------------------------------


def print_sizes(pages: dict[str, Files]) -> None:
    print(f"{'page':<24}{'attncli':>10}{'BertViz':>11}{'smaller':>9}{'error of ten':>15}{'the page says':>15}")
    for name, files in pages.items():
        size, other, smaller = files.ours.stat().st_size, "-", "-"
        if files.theirs.exists():
            theirs = files.theirs.stat().st_size
            other, smaller = megabytes(theirs), f"{theirs / size:.0f} x"
        error, said = largest_error(files.ours.read_text(encoding="utf-8"), load_record(files.record))
        print(f"{name:<24}{megabytes(size):>10}{other:>11}{smaller:>9}{error:>15.5f}{said:>15.5f}")


def megabytes(size: int) -> str:
    return f"{size / 1e6:.{2 if size < 1e8 else 0}f} MB"


def print_building(pages: dict[str, Files], peer: dict[str, float | None]) -> None:
    files = pages[LONG]
    print("\nseconds to build a page from a record on disk")
    print_row(f"{LONG}: load_record, page, save_page", f"{median_seconds(lambda: build(files)):.2f}")
    print_row(f"{LONG}: attncli view --from", f"{median_seconds(lambda: build_by_command(files)):.2f}")
    for name, seconds in peer.items():
        print_row(f"{name}: BertViz, once", "stopped" if seconds is None else f"{seconds:.2f}")


def print_row(label: str, *values: str) -> None:
    print(f"{label:<58}" + "".join(f"{value:>13}" for value in values))


def check_installed() -> None:
    if find_spec("bertviz") is None or version("bertviz") != BERTVIZ:
        sys.exit(f"page_bench: needs BertViz: pip install bertviz=={BERTVIZ}")


if __name__ == "__main__":
    check_installed()
    warnings.simplefilter("ignore", Notice)  # long.txt is longer than the model can take
    compared = (SHORT,) if "--quick" in sys.argv[1:] else (SHORT, LONG)
    with TemporaryDirectory() as folder:
        made = make_pages(Path(folder))
        peer = {name: bertviz(made[name]) for name in compared}
        print_sizes(made)
        print_building(made, peer)
