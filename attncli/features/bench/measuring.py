"""Measure the time and memory of attncli, and of transformers on the same random weights and the same texts.

Only arithmetic matters, so weights are random; tokenizing is in nobody's time. What attncli keeps is varied.
transformers can't keep one head or stop early, so that all rows of one shape have the same peers:

- attncli, by the library call that yields the records: `Model.attend_tokens`, which decides for itself how many texts
  go through the network together;
- eager: transformers with `output_attentions`, all maps kept;
- sdpa: transformers on torch's fused kernel, which gives no maps; not every architecture has it.

transformers is given texts of one length in one batch, and others in their order, BATCH at a time, padded to the
longest of them.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncli.base.errors import RequestError
from attncli.checks.machine import Run, median_seconds, peak_added, processor
from attncli.models.config import ModelConfig
from attncli.models.devices import pick_device
from attncli.models.model import Model
from attncli.models.network import lay_out
from attncli.models.random import architecture, random_model
from attncli.models.rows import batches
from attncli.models.transformers_peer import has_sdpa, peer
from attncli.record import Request
from attncli.text.tokens import Tokens

EAGER, SDPA = PEERS = ("eager", "sdpa")
ALL_MAPS, FIRST_HEAD, LAST_HEAD, NO_MAPS = KEPT = ("all", "one, first layer", "one, last layer", "none")
BATCH = 16  # texts of several lengths that a peer takes together


# --- the programs ----------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """Some texts of a length, a dtype to compute in, and rounds.

    shortest: the least length where lengths differ; they are evenly spread, in random order.
    """

    texts: int
    tokens: int
    rounds: int
    quick_rounds: int
    shortest: int | None = None
    dtype: str = "float32"

    @property
    def lengths(self) -> list[int]:
        """Return the lengths of the texts in their order (seed 0)."""
        if self.shortest is None:
            return [self.tokens] * self.texts
        spread = range(self.shortest, self.tokens + 1)
        lengths = [spread[number * len(spread) // self.texts] for number in range(self.texts)]
        random.Random(0).shuffle(lengths)
        return lengths


class Contestants:
    """One architecture in all three programs, on the same random weights (seed 0)."""

    def __init__(self, name: str, config: dict[str, Any], device: str, dtype: str = "float32") -> None:
        self.model, reference = random_model(name, device, dtype)
        self.config = self.model.config
        eager = reference.network
        self.peers: dict[str, nn.Module] = {EAGER: eager}
        if has_sdpa(config):
            self.peers[SDPA] = peer(config, eager.state_dict(), SDPA).to(self.model.device, self.model.dtype)
        self.model.need(self.config.layers)
        lay_out(self.model.network)  # packed, as after many calls

    def runs(self, texts: Sequence[Tokens]) -> dict[str, Run]:
        """Return the run of each program on these texts, by the names in PEERS and KEPT."""
        together = len(texts) if len({len(tokens) for tokens in texts}) == 1 else BATCH
        given = padded(texts, together, self.config.pad_id or 0, self.model.device)
        maps = {EAGER: {"output_attentions": True}, SDPA: {}}
        theirs = {name: partial(run_peer, network, given, **maps[name]) for name, network in self.peers.items()}
        return {
            **theirs,
            ALL_MAPS: lambda: list(self.model.attend_tokens(texts)),
            FIRST_HEAD: lambda: list(self.model.attend_tokens(texts, Request(layers=0, heads=0))),
            LAST_HEAD: lambda: list(self.model.attend_tokens(texts, Request(layers=-1, heads=0))),
            NO_MAPS: lambda: last_states(self.model, texts),
        }


def padded(
    texts: Sequence[Tokens], together: int, pad_id: int, device: torch.device
) -> list[tuple[Tensor, Tensor | None]]:
    """Batch texts in their order and pad each batch to its longest text: ids `[text, token]`, and a mask of real
    tokens, None without [PAD].
    """
    found: list[tuple[Tensor, Tensor | None]] = []
    for start in range(0, len(texts), together):
        batch = texts[start : start + together]
        spare = [max(map(len, batch)) - len(tokens) for tokens in batch]
        ids = [tokens.ids + [pad_id] * left for tokens, left in zip(batch, spare, strict=True)]
        real = [[1] * len(tokens) + [0] * left for tokens, left in zip(batch, spare, strict=True)]
        mask = torch.tensor(real, device=device) if any(spare) else None
        found.append((torch.tensor(ids, device=device), mask))
    return found


def run_peer(network: nn.Module, batches: Sequence[tuple[Tensor, Tensor | None]], **options: Any) -> list[Any]:
    """Return the outputs of a network of transformers for some batches."""
    with torch.inference_mode():
        return [network(ids, attention_mask=mask, **options) for ids, mask in batches]


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


def random_texts(config: ModelConfig, shape: Shape) -> list[Tokens]:
    """Make texts of random tokens (seed 0), none of them [PAD]."""
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
        for length in shape.lengths
        for ids in [words[torch.randint(len(words), (length,), generator=source)].tolist()]
    ]


# --- measuring ------------------------------------------------------------------------------------------

SHAPES = (
    Shape(1, 16, 30, 12),
    Shape(1, 128, 18, 6),
    Shape(1, 512, 12, 3),
    Shape(8, 512, 6, 3),
    Shape(256, 62, 4, 2, shortest=6),
    Shape(1, 16, 30, 12, dtype="bfloat16"),
    Shape(1, 512, 6, 3, dtype="bfloat16"),
)
QUICK_NUMBERS = 1e11  # --quick leaves out what multiplies more numbers in one pass: seconds a run


class Case(NamedTuple):
    """One shape through one model, so many times. config: what a config.json holds."""

    model: str
    config: dict[str, Any]
    shape: Shape
    rounds: int

    @property
    def runs(self) -> int:
        """Return the number of runs: to warm up, to measure memory, and in every round."""
        return (len(KEPT) + len(PEERS) - (not has_sdpa(self.config))) * (self.rounds + 2)


def plan(model: str, quick: bool) -> list[Case]:
    """Return every shape through a model; `quick` means fewer rounds, and not the largest.

    Raises RequestError when the model's name means nothing, its architecture is not known on this machine, or no
    shape is left.
    """
    _, config = architecture(model)
    numbers = ModelConfig.from_dict(config)
    size = numbers.hidden_size
    of_token = numbers.layers * size * (4 * size + (3 if numbers.gated else 2) * numbers.intermediate_size)
    cases = [
        Case(model, config, shape, shape.quick_rounds if quick else shape.rounds)
        for shape in SHAPES
        if shape.tokens <= numbers.max_tokens and not (quick and sum(shape.lengths) * of_token > QUICK_NUMBERS)
    ]
    if not cases:
        raise RequestError("nothing to measure: every shape is too long for this model, or too large for --quick")
    return cases


def measure(cases: Sequence[Case], device: str = "auto", done: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Measure the shapes of one model, and return what `bench --json` prints; `done` is called after each run.

    Raises RequestError when the device is not there.
    """
    where = pick_device(device)
    rows: list[dict[str, Any]] = []
    for dtype, some in groupby(cases, key=lambda case: case.shape.dtype):
        contestants = None
        for case in some:
            contestants = contestants or Contestants(case.model, case.config, device, dtype)
            rows += measure_case(case, contestants, done)
    name, instructions = processor()
    config = ModelConfig.from_dict(cases[0].config)
    return {
        "versions": {name: version(name) for name in ("attncli", "torch", "transformers")},
        "device": str(where),
        "machine": {"processor": name, "instructions": instructions},
        "dtype": "float32",
        "threads": torch.get_num_threads(),
        "weights": "random",
        "models": [
            {
                "name": cases[0].model,
                "path": None,
                "sha256": None,  # random weights have no file
                "layers": config.layers,
                "heads": config.heads,
                "hidden_size": config.hidden_size,
            }
        ],
        "rows": rows,
    }


def measure_case(case: Case, contestants: Contestants, done: Callable[[], None]) -> list[dict[str, Any]]:
    """Return a row for each choice of maps; a peer that does not run this architecture has null."""
    where, shape = contestants.model.device, case.shape
    runs = contestants.runs(random_texts(contestants.config, shape))
    peaks: dict[str, int | None] = {}
    for run in runs.values():
        run()
        done()
    for name, run in runs.items():
        peaks[name] = peak_added(run, where)
        done()
    seconds = median_seconds(runs, case.rounds, where, done)
    return [
        {
            "model": case.model,
            "texts": shape.texts,
            "tokens": shape.tokens,
            "shortest": shape.shortest or shape.tokens,
            "dtype": shape.dtype,
            "kept": kept,
            "rounds": case.rounds,
            "seconds": {"attncli": seconds[kept], **{name: seconds.get(name) for name in PEERS}},
            "ratio": {name: seconds[kept] / seconds[name] if name in seconds else None for name in PEERS},
            "peak_bytes": {"attncli": peaks[kept], **{name: peaks.get(name) for name in PEERS}},
        }
        for kept in KEPT
    ]
