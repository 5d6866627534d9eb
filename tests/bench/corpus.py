"""Measure the time and memory of statistics over a corpus beside transformers and numpy.

    python tests/bench/corpus.py [-m minilm] [--quick] [--json]

- speed: texts of mixed lengths, all figures of all heads. The peer is what one would write: transformers with
  `output_attentions`, padded batches of 16 in the file's order, and the same figures in numpy. Reading the file,
  tokenizing it and finding its words is the same code on both sides, and in the time of both.
- half: the same texts in bfloat16, and how far each figure moves.
- memory: the peak of a whole process, for few lines and for ten times as many.
- long text: one of 8,192 tokens, through the same architecture with so many positions and random weights.
"""

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch

from attncli.base.errors import RequestError
from attncli.base.printable import printable
from attncli.checks.machine import machine_document
from attncli.checks.timing import Run, median_seconds
from attncli.corpus.files import whole_files
from attncli.corpus.finding import find_inputs
from attncli.corpus.reducer import Reducer
from attncli.corpus.sums import FIGURES, Sums, plain_part
from attncli.corpus.texts import Reading
from attncli.features.bench import machine_text, megabytes
from attncli.features.bench.measuring import BATCH, padded, run_peer
from attncli.models.aliases import find_alias
from attncli.models.hub import NotOnThisMachine, locate
from attncli.models.loading import load_model
from attncli.models.model import Model
from attncli.models.random import architecture, write_random_checkpoint
from attncli.models.transformers_peer import Reference, load_reference
from attncli.text.windows import Window

SHORTEST, LONGEST = 5, 200  # tokens of a text
NOWHERE = {"path": None, "sha256": None}  # of a model whose weights are random
HALF = "bfloat16"
FREQUENT = 2000  # words that a corpus is made of
MARK = 0.1  # of the words have a comma or a full stop after them


class Plan(NamedTuple):
    """texts and rounds of the speed; lines, few and many, of the memory; tokens of the long text."""

    texts: int
    rounds: int
    lines: tuple[int, int]
    long: int

    @property
    def steps(self) -> int:
        """How often `bench_stats` says that something is done."""
        return 3 * (self.rounds + 1) + 3


WHOLE, QUICK = Plan(256, 5, (1000, 10_000), 8192), Plan(64, 3, (100, 1000), 2048)


def bench_stats(
    name: str, plan: Plan = WHOLE, device: str = "auto", done: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Measure all of it. `done` is called after each of the plan's steps.

    With the model's own weights where they are on this machine, else with random ones.

    Raises RequestError for a model's name that means nothing, a device that is not there, or a text that is too long
    for this kind of model.
    """
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        directory, weights = checkpoint(name, folder)
        model = load_model(str(directory), device)
        corpus = make_corpus(model, folder / "speed.txt", plan.texts)
        speed, half = measure_speed(model, corpus, plan.rounds, done)
        memory = []
        for lines in plan.lines:
            measured = run_apart(directory, make_corpus(model, folder / f"{lines}.txt", lines), model.device)
            memory.append({"lines": lines, **measured})
            done()
        long = measure_long_text(model, name, folder, plan.long)
        done()
        return {
            "versions": {name: version(name) for name in ("attncli", "torch", "transformers", "numpy")},
            "device": str(model.device),
            "machine": machine_document(model.device),
            "dtype": "float32",
            "threads": torch.get_num_threads(),
            "model": name,
            "models": [{**model.info.document(), "name": name, **({} if weights == "pretrained" else NOWHERE)}],
            "weights": weights,
            "lengths": [SHORTEST, min(LONGEST, model.config.max_tokens)],
            "speed": speed,
            "half": half,
            "memory": memory,
            "long": long,
        }


def checkpoint(name: str, folder: Path) -> tuple[Path, str]:
    """A directory with the model's files, and whether its weights are "pretrained" or "random"."""
    try:
        return locate(name, download=False).path, "pretrained"
    except NotOnThisMachine:
        if find_alias(name) is None:
            raise
    return write_random_checkpoint(name, folder / "random"), "random"


def make_corpus(model: Model, path: Path, lines: int) -> Path:
    """So many lines, whose lengths in tokens are evenly spread (seed 0), of words in the model's vocabulary.

    The word of rank r comes 1/r times as often as the first one (Zipf 1935), so that words are repeated as in texts.
    """
    source = random.Random(0)
    known = sorted({token.strip("Ġ▁") for token in model.tokenizer.backend.get_vocab()})
    words = [token for token in known if token.isascii() and token.isalpha()]
    words = source.sample(words, min(FREQUENT, len(words)))
    shares = [1 / rank for rank in range(1, len(words) + 1)]
    longest = min(LONGEST, model.config.max_tokens)
    made = []
    for _ in range(lines):
        wanted, tokens, text = source.randint(SHORTEST, longest), 2, ""
        while True:
            word = source.choices(words, shares)[0] + (source.choice(",.") if source.random() < MARK else "")
            tokens += len(model.tokenizer.backend.encode(f" {word}", add_special_tokens=False))
            if text and tokens > wanted:
                break
            text += f" {word}"
        made.append(text.strip())
    path.write_text("\n".join(made) + "\n", encoding="utf-8")
    return path


# --- speed ----------------------------------------------------------------------------------------------


def measure_speed(
    model: Model, path: Path, rounds: int, done: Callable[[], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both over the same file, in turns, and attncli in HALF too; and how far their figures are apart."""
    reference = load_reference(model.place.path, model.device, torch.float32)
    reducer, halved = Reducer(model), Reducer(load_model(str(model.place.path), str(model.device), HALF))

    def ours() -> Sums:
        return reducer.reduce(read(model, path))

    def in_half() -> Sums:
        return halved.reduce(read(model, path))

    def theirs() -> Sums:
        return by_transformers(reference, [window for [window] in read(model, path)], model.config.pad_id)

    found = ours()
    done()
    expected = theirs()
    done()
    moved = np.abs(in_half().figures - found.figures).max(axis=(0, 1))
    done()
    runs: dict[str, Run] = {"attncli": ours, "transformers": theirs, HALF: in_half}
    seconds = median_seconds(runs, rounds, model.device, done)
    half = seconds.pop(HALF)
    apart = np.abs(found.figures - expected.figures) / np.maximum(1, np.abs(expected.figures))
    return (
        {
            "texts": found.texts,
            "tokens": found.queries,
            "rounds": rounds,
            "seconds": seconds,
            "ratio": seconds["transformers"] / seconds["attncli"],
            "largest_difference": float(apart.max()),
        },
        {
            "dtype": HALF,
            "seconds": half,
            "ratio": seconds["attncli"] / half,
            "moved": dict(zip(FIGURES, moved.tolist(), strict=True)),
        },
    )


def read(model: Model, path: Path) -> Any:
    return Reading().windows(whole_files(find_inputs([str(path)])), model.tokenizer)


def by_transformers(reference: Reference, texts: Sequence[Window], pad_id: int) -> Sums:
    """Padded batches in the order of the texts; the figures of each text's part of the maps, in numpy."""
    sums: Sums | None = None
    left = iter(texts)
    for batch in padded([text.tokens for text in texts], BATCH, pad_id, reference.device):
        [made] = run_peer(reference.network, [batch], output_attentions=True)
        weights = [layer.cpu().numpy() for layer in made.attentions]  # [text, head, query, key] each
        for place, text in enumerate(islice(left, len(weights[0]))):
            length = len(text)
            one = plain_part(text, np.stack([layer[place, :, :length, :length] for layer in weights])).of_text()
            sums = one if sums is None else sums + one
    assert sums is not None
    return sums


# --- memory ---------------------------------------------------------------------------------------------


def measure_long_text(model: Model, name: str, folder: Path, tokens: int) -> dict[str, Any]:
    """One text of so many tokens, or nearly, through a model with room for it."""
    _, config = architecture(name)
    if "max_position_embeddings" not in config:
        raise RequestError(f"{name} has no table of positions, so it can't be made longer: bench another model")
    more = tokens - model.config.max_tokens  # RoBERTa has two positions more than tokens
    longer = {"max_position_embeddings": config["max_position_embeddings"] + more}
    directory = write_random_checkpoint(name, folder / "long", longer)
    words = make_corpus(model, folder / "words.txt", tokens // SHORTEST).read_text(encoding="utf-8").split()
    encode = model.tokenizer.backend.encode
    kept = len(words)
    while (total := len(encode(" ".join(words[:kept])))) > tokens:
        kept -= max(1, (total - tokens) // 4)  # a word has seldom more tokens than that
    path = folder / "long.txt"
    path.write_text(" ".join(words[:kept]) + "\n", encoding="utf-8")
    measured = run_apart(directory, path, model.device)
    heads = model.config.heads
    return {"layers": model.config.layers, "heads": heads, **measured, "map_bytes": heads * measured["tokens"] ** 2 * 4}


def run_apart(directory: Path, path: Path, device: torch.device) -> dict[str, Any]:
    """What `corpus_peak` prints. Raises RequestError with its last words when it fails."""
    command = [sys.executable, str(Path(__file__).with_name("corpus_peak.py")), str(directory), str(path), str(device)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise RequestError(
            f"a process of the benchmark failed: {(finished.stderr.strip() or 'killed').splitlines()[-1]}"
        )
    measured: dict[str, Any] = json.loads(finished.stdout)
    return measured


# --- in words -------------------------------------------------------------------------------------------


def stats_lines(document: dict[str, Any]) -> str:
    """Describe the measurements in words."""
    speed, half, memory, long = (document[name] for name in ("speed", "half", "memory", "long"))
    lines = [
        f"{printable(document['model'])}, {document['weights']} weights: {speed['texts']:,} texts of "
        f"{document['lengths'][0]} to {document['lengths'][1]} tokens, {speed['tokens']:,} tokens"
    ]
    for name, seconds in speed["seconds"].items():
        lines.append(f"  {name:<13}{seconds:8.2f} s{speed['tokens'] / seconds:10,.0f} tokens/s")
    lines += [
        f"  {speed['ratio']:.2f} x as fast as transformers and numpy; figures at most "
        f"{speed['largest_difference']:.0e} apart",
        f"  {half['dtype']:<13}{half['seconds']:8.2f} s",
        f"  {half['ratio']:.2f} x as fast as float32, and at most so far from it:",
        *("    " + ", ".join(f"{name} {moved:.1e}" for name, moved in some) for some in lines_of(half["moved"])),
        "",
        "peak memory of a whole process",
    ]
    corpora = [f"{one['lines']:,} lines, {one['tokens']:,} tokens" for one in memory]
    for corpus, one in zip(corpora, memory, strict=True):
        lines.append(f"  {corpus:<{max(map(len, corpora))}}{megabytes(one['peak_bytes']):>6} MB")
    few, many = (one["peak_bytes"] for one in memory)
    if few and many:
        lines.append(f"  {many / few:.2f} x")
    lines += [
        "",
        f"one text of {long['tokens']:,} tokens, {long['layers']} layers x {long['heads']} heads, random weights",
        f"  {long['seconds']:.1f} s, peak of the process {megabytes(long['peak_bytes'])} MB; one layer's maps would be "
        f"{megabytes(long['map_bytes'])} MB",
        "",
        f"float32 unless said, {document['device']}, {document['threads']} threads",
        machine_text(document["machine"]),
        ", ".join(f"{name} {number}" for name, number in document["versions"].items())
        + f"; medians of {speed['rounds']} rounds",
    ]
    return "\n".join(lines)


def lines_of(values: dict[str, float], most: int = 4) -> list[list[tuple[str, float]]]:
    """Return names and values in lines of `most`."""
    every = list(values.items())
    return [every[start : start + most] for start in range(0, len(every), most)]


def main() -> None:
    """Measure, and print words or a JSON document."""
    asked = argparse.ArgumentParser(description="Measure the time and memory of statistics over a corpus.")
    asked.add_argument("-m", "--model", default="minilm")
    asked.add_argument("--quick", action="store_true", help="fewer texts and rounds")
    asked.add_argument("--device", default="auto")
    asked.add_argument("--json", action="store_true")
    options = asked.parse_args()
    document = bench_stats(options.model, QUICK if options.quick else WHOLE, options.device)
    print(json.dumps(document) if options.json else stats_lines(document))


if __name__ == "__main__":
    main()
