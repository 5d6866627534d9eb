"""Measure the time and memory of all, some and no maps of a model beside transformers.

    python tests/bench/maps.py [-m minilm]

All programs take turns in every round; times are medians. Weights are random, since only arithmetic matters, and
tokenizing is in nobody's time. transformers can't keep one head or stop early. The peers of every row are:

- eager: transformers with `output_attentions`, all maps kept;
- SDPA: transformers on torch's fused kernel, which gives no maps; not every architecture has it.

They are given texts of one length in one batch, and others in their order, BATCH at a time, padded to the longest.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncli.models.config import ModelConfig
from attncli.models.model import Model
from attncli.models.network import lay_out
from attncli.models.random import architecture, random_model
from attncli.models.rows import batches
from attncli.models.transformers_peer import peer
from attncli.record import Request
from attncli.text.tokens import Tokens

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measuring import Run, median_seconds, peak_added, processor

EAGER, SDPA = "eager", "SDPA"
ALL_MAPS, FIRST_HEAD, LAST_HEAD, NO_MAPS = KEPT = ("all", "one, first layer", "one, last layer", "none")
BATCH = 16  # texts of several lengths that a peer takes together


class Shape(NamedTuple):
    """Texts, tokens of the longest one and of the shortest one, rounds, and the dtype to compute in."""

    texts: int
    tokens: int
    rounds: int = 1
    shortest: int | None = None
    dtype: str = "float32"


SHAPES = (
    Shape(1, 16, 30),
    Shape(1, 128, 18),
    Shape(1, 512, 12),
    Shape(8, 512, 6),
    Shape(256, 62, 4, shortest=6),
    Shape(1, 16, 30, dtype="bfloat16"),
    Shape(1, 512, 6, dtype="bfloat16"),
)


def random_texts(config: ModelConfig, shape: Shape) -> list[Tokens]:
    """Make texts of random tokens other than [PAD] (seed 0). Lengths are evenly spread and in random order."""
    spread = range(shape.shortest or shape.tokens, shape.tokens + 1)
    lengths = [spread[number * len(spread) // shape.texts] for number in range(shape.texts)]
    random.Random(0).shuffle(lengths)
    source = torch.Generator().manual_seed(0)
    words = torch.tensor([number for number in range(config.vocab_size) if number != config.pad_id])
    return [
        Tokens(
            text=[str(number) for number in ids],
            ids=ids,
            segments=[0] * len(ids),
            words=list(range(len(ids))),
            offsets=[(0, 0)] * len(ids),
            special=[False] * len(ids),
            padding=[False] * len(ids),
        )
        for length in lengths
        for ids in [words[torch.randint(len(words), (length,), generator=source)].tolist()]
    ]


class Contestants:
    """One architecture in all programs, on the same random weights (seed 0)."""

    def __init__(self, name: str, device: str = "auto", dtype: str = "float32") -> None:
        config = architecture(name)[1]
        self.model, reference = random_model(name, device, dtype)
        self.config = self.model.config
        self.peers: dict[str, nn.Module] = {EAGER: reference.network}
        if reference.network._supports_sdpa:
            fused = peer(config, reference.network.state_dict(), "sdpa")
            self.peers[SDPA] = fused.to(self.model.device, self.model.dtype)
        self.model.need(self.config.layers)
        lay_out(self.model.network)  # packed, as after many calls

    def runs(self, texts: Sequence[Tokens]) -> dict[str, Run]:
        """Return what each program does with these texts, by its name."""
        together = len(texts) if len({len(tokens) for tokens in texts}) == 1 else BATCH
        given = padded(texts, together, self.config.pad_id or 0, self.model.device)
        maps = {EAGER: {"output_attentions": True}, SDPA: {}}
        attend = self.model.attend_tokens
        return {
            **{name: partial(run_peer, network, given, **maps[name]) for name, network in self.peers.items()},
            ALL_MAPS: lambda: list(attend(texts)),
            FIRST_HEAD: lambda: list(attend(texts, Request(layers=0, heads=0))),
            LAST_HEAD: lambda: list(attend(texts, Request(layers=-1, heads=0))),
            NO_MAPS: lambda: last_states(self.model, texts),
        }


def padded(
    texts: Sequence[Tokens], together: int, pad_id: int, device: torch.device
) -> list[tuple[Tensor, Tensor | None]]:
    """Batch texts in their order, padded: ids `[text, token]`, and a mask of real tokens, None without [PAD]."""
    found: list[tuple[Tensor, Tensor | None]] = []
    for start in range(0, len(texts), together):
        batch = texts[start : start + together]
        spare = [max(map(len, batch)) - len(tokens) for tokens in batch]
        ids = [tokens.ids + [pad_id] * left for tokens, left in zip(batch, spare, strict=True)]
        real = [[1] * len(tokens) + [0] * left for tokens, left in zip(batch, spare, strict=True)]
        mask = torch.tensor(real, device=device) if any(spare) else None
        found.append((torch.tensor(ids, device=device), mask))
    return found


def run_peer(network: nn.Module, given: Sequence[tuple[Tensor, Tensor | None]], **options: Any) -> list[Any]:
    """Return the outputs of a network of transformers for some batches."""
    with torch.inference_mode():
        return [network(ids, attention_mask=mask, **options) for ids, mask in given]


def last_states(model: Model, texts: Sequence[Tokens]) -> list[Tensor]:
    """Return the last layer's vectors of each text, `[token, hidden_size]`, and keep nothing else."""
    states: dict[int, Tensor] = {}
    with torch.inference_mode():
        for numbers in batches(texts, model.batch_tokens):
            rows = model.rows([texts[number] for number in numbers], None)
            for x in model.walk(rows):
                last = x
            states.update(zip(numbers, rows.texts(last), strict=True))
    return [states[number] for number in range(len(texts))]


def print_shape(contestants: Contestants, shape: Shape) -> None:
    """Measure one shape, and print a line for each choice of maps."""
    device = contestants.model.device
    runs = contestants.runs(random_texts(contestants.config, shape))
    for run in runs.values():
        run()
    peaks = {name: peak_added(run, device) for name, run in runs.items()}
    seconds = median_seconds(runs, shape.rounds, device)
    print(f"\n{shape.texts} x {f'{shape.shortest}-' if shape.shortest else ''}{shape.tokens} {shape.dtype}")
    for kept in KEPT:
        programs = (kept, EAGER, SDPA)
        times = [f"{seconds[name] * 1e3:8.2f}" if name in seconds else f"{'-':>8}" for name in programs]
        ratios = [f"{seconds[kept] / seconds[name]:6.2f}" if name in seconds else f"{'-':>6}" for name in (EAGER, SDPA)]
        memory = [f"{'-':>6}" if peaks.get(name) is None else f"{peaks[name] / 1e6:6.0f}" for name in programs]
        print(f"  {kept:16}", *times, *ratios, *memory, flush=True)


def main() -> None:
    """Measure, and print a table."""
    asked = argparse.ArgumentParser(description="Measure maps beside transformers.")
    asked.add_argument("-m", "--model", default="minilm")
    asked.add_argument("--device", default="auto")
    options = asked.parse_args()
    print(f"{options.model}, random weights, {torch.get_num_threads()} threads; {processor()}")
    print(", ".join(f"{name} {version(name)}" for name in ("attncli", "torch", "transformers")))
    print("texts x tokens     attncli    eager   SDPA ms  of eager, SDPA  attncli, eager, SDPA MB at the peak")
    for dtype in ("float32", "bfloat16"):
        contestants = Contestants(options.model, options.device, dtype)
        for shape in SHAPES:
            if shape.dtype == dtype and shape.tokens <= contestants.config.max_tokens:
                print_shape(contestants, shape)


if __name__ == "__main__":
    main()
