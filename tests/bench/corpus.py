"""Measure the time and memory of statistics over a corpus beside transformers and numpy.

    python tests/bench/corpus.py [-m minilm] [--quick]

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
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from attncli.corpus.reducer import Reducer
from attncli.corpus.sums import FIGURES, Sums, plain_part
from attncli.corpus.texts import TextFormat
from attncli.models.checkpoint_files import CONFIG_FILE
from attncli.models.config import ModelConfig
from attncli.models.hub import NotOnThisMachine, locate
from attncli.models.loading import load_model
from attncli.models.model import Model
from attncli.models.random import architecture, peaked_tensors, random_tokenizer
from attncli.models.transformers_peer import Reference, load_reference, tensor_shapes
from attncli.text.windows import TextWindow

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.maps import BATCH, padded, run_peer
from measuring import STATUS, Run, median_seconds, processor, status_bytes
from windows import sums_of

SHORTEST, LONGEST = 5, 200  # tokens of a text
HALF = "bfloat16"
FREQUENT = 2000  # words that a corpus is made of
MARK = 0.1  # of the words have a comma or a full stop after them


def write_random_checkpoint(name: str, directory: Path, changes: Mapping[str, Any] | None = None) -> Path:
    """Write the files of `random_model`'s checkpoint (seed 0) to a directory and return it. `changes` apply to its
    config.json.

    Raises RequestError as `random_model` does.
    """
    from safetensors.torch import save_file

    place, data = architecture(name)
    data = {**data, **(changes or {})}
    config = ModelConfig.from_dict(data)
    tensors = peaked_tensors(tensor_shapes(data), config)
    directory.mkdir(parents=True)
    (directory / CONFIG_FILE).write_text(json.dumps(data), encoding="utf-8")
    save_file(tensors, str(directory / "model.safetensors"))
    random_tokenizer(place, config).backend.save(str(directory / "tokenizer.json"))
    return directory


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


def print_speed(model: Model, path: Path, rounds: int) -> None:
    """Run both over the same file, in turns, and attncli in HALF too; and print how far their figures are apart."""
    reference = load_reference(model.place.path, model.device, torch.float32)
    reducer, halved = Reducer(model), Reducer(load_model(str(model.place.path), str(model.device), HALF))
    runs: dict[str, Run] = {
        "attncli": lambda: sums_of(reducer, read(model, path)),
        "transformers": lambda: by_transformers(reference, list(read(model, path)), model.config.pad_id),
        HALF: lambda: sums_of(halved, read(model, path)),
    }
    found, expected, rough = (run() for run in runs.values())
    seconds = median_seconds(runs, rounds, model.device)
    apart = np.abs(found.figures - expected.figures) / np.maximum(1, np.abs(expected.figures))
    moved = np.abs(rough.figures - found.figures).max(axis=(0, 1))
    print(
        f"{found.texts:,} texts of {SHORTEST} to {LONGEST} tokens, {found.queries:,} tokens; medians of {rounds} rounds"
    )
    for name, taken in seconds.items():
        print(f"  {name:<13}{taken:8.2f} s{found.queries / taken:10,.0f} tokens/s")
    ratio = seconds["transformers"] / seconds["attncli"]
    print(f"  {ratio:.2f} x as fast as transformers and numpy; figures at most {apart.max():.0e} apart")
    print(f"  {HALF} moves figures by at most:")
    print("    " + ", ".join(f"{name} {size:.1e}" for name, size in zip(FIGURES, moved.tolist(), strict=True)))


def read(model: Model, path: Path) -> Any:
    """Yield the windows of a file's texts."""
    reading = TextFormat()
    return reading.windows(reading.texts([str(path)]), model.tokenizer)


def by_transformers(reference: Reference, texts: Sequence[TextWindow], pad_id: int) -> Sums:
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


def long_text(model: Model, name: str, folder: Path, tokens: int) -> tuple[Path, Path]:
    """Write a model with room for so many tokens, and a text of nearly so many."""
    _, config = architecture(name)
    more = tokens - model.config.max_tokens  # RoBERTa has two positions more than tokens
    longer = {"max_position_embeddings": config["max_position_embeddings"] + more}
    directory = write_random_checkpoint(name, folder / "long", longer)
    words = make_corpus(model, folder / "words.txt", tokens // SHORTEST).read_text(encoding="utf-8").split()
    encode = model.tokenizer.backend.encode
    kept = len(words)
    while (total := len(encode(" ".join(words[:kept])))) > tokens:
        kept -= max(1, (total - tokens) // 4)  # a word seldom has more tokens
    path = folder / "long.txt"
    path.write_text(" ".join(words[:kept]) + "\n", encoding="utf-8")
    return directory, path


def print_peak(name: str, directory: Path, path: Path, device: str) -> None:
    """Count a file in a process of its own, and print what that took."""
    command = [sys.executable, __file__, "-m", str(directory), "--device", device, "--count", str(path)]
    taken = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    peak = "?" if taken["peak_bytes"] is None else f"{taken['peak_bytes'] / 1e6:.0f}"
    print(f"  {name}, {taken['tokens']:,} tokens: {taken['seconds']:.1f} s, peak of the process {peak} MB")


def count(model: Model, path: Path) -> None:
    """Print the tokens of a file, the seconds that counting it takes, and the peak memory of this process, as JSON."""
    reducer = Reducer(model)
    begun = time.perf_counter()
    sums = sums_of(reducer, read(model, path))
    peak = status_bytes("VmHWM") if STATUS.is_file() else None  # bytes of this process since it began
    taken = {"tokens": sums.queries, "seconds": time.perf_counter() - begun, "peak_bytes": peak}
    json.dump(taken, sys.stdout)


def main() -> None:
    """Measure, and print words."""
    asked = argparse.ArgumentParser(description="Measure the time and memory of statistics over a corpus.")
    asked.add_argument("-m", "--model", default="minilm")
    asked.add_argument("--quick", action="store_true", help="fewer texts and rounds")
    asked.add_argument("--device", default="auto")
    asked.add_argument("--count", type=Path, metavar="FILE", help="count this file and print JSON")
    options = asked.parse_args()
    if options.count is not None:
        count(load_model(options.model, options.device), options.count)
        return
    few, rounds, long = (64, 3, 2048) if options.quick else (256, 5, 8192)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        try:
            directory, weights = locate(options.model, download=False).path, "pretrained"
        except NotOnThisMachine:
            directory, weights = write_random_checkpoint(options.model, folder / "random"), "random"
        model = load_model(str(directory), options.device)
        print(f"{options.model}, {weights} weights, float32 unless said; {processor()}, {model.device}")
        print(", ".join(f"{name} {version(name)}" for name in ("attncli", "torch", "transformers", "numpy")))
        print_speed(model, make_corpus(model, folder / "speed.txt", few), rounds)
        for lines in (100, 1000) if options.quick else (1000, 10_000):
            path = make_corpus(model, folder / f"{lines}.txt", lines)
            print_peak(f"{lines:,} lines", directory, path, options.device)
        print_peak("one text, random weights", *long_text(model, options.model, folder, long), options.device)


if __name__ == "__main__":
    main()
