"""How fast and how frugal `attncli stats` is, beside transformers with numpy: python tests/stats_bench.py

Texts of 5 to 200 tokens, made of the words in sample_inputs/, through minilm. The other program is what one would
write: transformers with `output_attentions`, padded batches of 16 in the file's order, and the same figures in numpy.
--quick takes fewer texts, and 1,000 lines instead of 10,000.
"""

import math
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from checkpoints import make_checkpoint

import attncli
from attncli.analysis.statistics import FIGURES, Sums, cells
from attncli.corpus import Reading, Window, windows
from attncli.models.model import Model
from attncli.models.reference import Reference, load_reference
from attncli.models.statistics import Reducer

WORDS = (Path(__file__).parent.parent / "sample_inputs" / "long.txt").read_text(encoding="utf-8").split()
SHORTEST, LONGEST = 5, 200  # tokens
BATCH = 16
ROUNDS = 3
LONG = 8192  # tokens

# Memory is measured in processes of their own, from beginning to end.
SCRIPT = """
import sys
from attncli import load_model
from attncli.checks.memory import status_bytes
from attncli.corpus import Reading
from attncli.models.statistics import Reducer
model = load_model(sys.argv[1], device="cpu")
reducer = Reducer(model)
*_, counted = reducer.count(Reading().windows([sys.argv[2]], model.tokenizer, None, lambda _: True), reducer.nothing())
print(counted.sums.queries, status_bytes("VmHWM"))
"""


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    model = attncli.load_model("minilm", device="cpu")
    with TemporaryDirectory() as folder:
        measure_speed(model, Path(folder), 64 if quick else 256)
        measure_memory(model, Path(folder), (100, 1000) if quick else (1000, 10_000))
        measure_long_text(Path(folder))


def make_corpus(model: Model, path: Path, lines: int) -> Path:
    """So many lines, whose lengths in tokens are evenly spread (seed 0)."""
    source = random.Random(0)
    made = []
    for _ in range(lines):
        wanted, words, tokens = source.randint(SHORTEST, LONGEST), [], 2
        while tokens < wanted:
            words.append(source.choice(WORDS))
            tokens += len(model.tokenizer.backend.encode(words[-1], add_special_tokens=False))
        made.append(" ".join(words[:-1] if tokens > LONGEST else words))
    path.write_text("\n".join(made), encoding="utf-8")
    return path


# --- speed ----------------------------------------------------------------------------------------------


def measure_speed(model: Model, folder: Path, lines: int) -> None:
    path = make_corpus(model, folder / "speed.txt", lines)
    reference = load_reference(model.place.path, model.device, torch.float32)
    reducer = Reducer(model)

    def ours() -> Sums:
        *_, counted = reducer.count(
            Reading().windows([str(path)], model.tokenizer, None, lambda _: True), reducer.nothing()
        )
        return counted.sums

    def theirs() -> Sums:
        texts = path.read_text(encoding="utf-8").splitlines()
        return by_transformers(
            reference, [windows(number, text, model.tokenizer)[0] for number, text in enumerate(texts)]
        )

    found, expected = ours(), theirs()
    apart = np.abs(found.figures - expected.figures) / np.maximum(1, np.abs(expected.figures))
    times = median_seconds({"attncli": ours, "transformers": theirs})
    print(f"{lines} texts of {SHORTEST} to {LONGEST} tokens, {found.queries} tokens, {torch.get_num_threads()} threads")
    for name, seconds in times.items():
        print(f"  {name:<14}{seconds:8.2f} s  {found.queries / seconds:10,.0f} tokens/s")
    print(f"  {times['transformers'] / times['attncli']:.2f} x as fast; figures are at most {apart.max():.1e} apart")


def by_transformers(reference: Reference, texts: Sequence[Window]) -> Sums:
    """Padded batches in the order of the texts; the figures of each text's part of the maps, in numpy."""
    sums: Sums | None = None
    for start in range(0, len(texts), BATCH):
        batch = texts[start : start + BATCH]
        longest = max(map(len, batch))
        ids = torch.tensor([text.tokens.ids + [0] * (longest - len(text)) for text in batch])
        real = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in batch])
        with torch.inference_mode():
            maps = reference.network(ids, attention_mask=real, output_attentions=True).attentions
        weights = [layer.numpy() for layer in maps]  # [text, head, query, key] each
        for place, text in enumerate(batch):
            meant = cells(text, 0, len(text)).reshape(len(FIGURES) - 2, -1).T
            totals = np.stack([figures_in_numpy(layer[place, :, : len(text), : len(text)], meant) for layer in weights])
            one = Sums.of_text(len(text), len(text) * math.log(len(text)), totals)
            sums = one if sums is None else sums + one
    assert sums is not None
    return sums


def figures_in_numpy(weights: np.ndarray, meant: np.ndarray) -> np.ndarray:
    """The sums over queries of `[head, query, key]`: `[head, figure]`."""
    logs = np.log(np.maximum(weights, np.float32(1e-37)))
    entropy = -(weights * logs).sum(axis=(1, 2))
    strongest = weights.max(axis=-1).sum(axis=-1)
    rest = weights.reshape(len(weights), -1) @ meant
    return np.concatenate([entropy[:, None], strongest[:, None], rest], axis=1).astype(np.float64)


def median_seconds(runs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """They take turns, so that what else the machine does hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            begun = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begun)
    return {name: statistics.median(taken) for name, taken in times.items()}


# --- memory ---------------------------------------------------------------------------------------------


def measure_memory(model: Model, folder: Path, sizes: tuple[int, int]) -> None:
    peaks = []
    for lines in sizes:
        tokens, peak = run_apart(str(model.place.path), make_corpus(model, folder / f"{lines}.txt", lines))
        peaks.append(peak)
        print(f"{lines:>6} lines, {tokens:>9,} tokens: peak of the process {peak / 1e6:.0f} MB")
    print(f"  {peaks[1] / peaks[0]:.3f} x")


def measure_long_text(folder: Path) -> None:
    """A random checkpoint with that many positions, of minilm's number of heads."""
    directory = make_checkpoint(
        folder / "long", hidden_size=96, num_attention_heads=12, num_hidden_layers=2, max_position_embeddings=LONG
    )
    path = folder / "long.txt"
    path.write_text("the cat sat on it and " * (LONG // 6 - 1), encoding="utf-8")
    begun = time.perf_counter()
    tokens, peak = run_apart(str(directory), path)
    full = 12 * tokens**2 * 4
    print(f"one text of {tokens:,} tokens, 2 layers x 12 heads: {time.perf_counter() - begun:.1f} s")
    print(f"  peak of the process {peak / 1e6:.0f} MB; one layer's maps would be {full / 1e6:,.0f} MB")


def run_apart(model: str, path: Path) -> tuple[int, int]:
    """Tokens counted, and the most memory that it took."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, model, str(path)], stdout=subprocess.PIPE, text=True, check=True
    )
    tokens, peak = map(int, done.stdout.split())
    return tokens, peak


if __name__ == "__main__":
    main()
