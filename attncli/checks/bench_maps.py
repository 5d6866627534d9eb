"""How fast attncli is, and how much memory it takes, beside transformers in the same run.

Three programs (`attncli.checks.contestants`) do the same work on the same token ids with the same random weights (only
arithmetic matters). What attncli keeps is varied. transformers can't keep one head or stop early, so that all rows of
one shape have the same peers. Tokenizing is in nobody's time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import torch

from attncli.base.errors import RequestError
from attncli.checks import timing
from attncli.checks.contestants import (
    ALL_MAPS,
    EAGER,
    FIRST_HEAD,
    KEPT,
    LAST_HEAD,
    NO_MAPS,
    PEERS,
    Contestants,
    Shape,
    random_texts,
)
from attncli.checks.flops import encoder_flops, keys_of
from attncli.checks.machine import machine_document
from attncli.checks.memory import peak_added
from attncli.models.config import ModelConfig
from attncli.models.engine import pick_device, pick_dtype
from attncli.models.network import empty_network
from attncli.models.random import architecture
from attncli.models.transformers_peer import has_sdpa

MODELS = ("minilm", "bert-base")
SHAPES = (
    Shape(1, 16, 30, 12),
    Shape(1, 128, 18, 6),
    Shape(1, 512, 12, 3),
    Shape(8, 512, 6, 3),
    Shape(256, 62, 4, 2, shortest=6),
    Shape(1, 16, 30, 12, dtype="bfloat16"),
    Shape(1, 512, 6, 3, dtype="bfloat16"),
)
QUICK_FLOPS = 2e11  # --quick leaves out what takes more than this in one pass: seconds a run
MAP_BYTES = 4  # of a number in a record


@dataclass(frozen=True)
class Case:
    """One shape through one model."""

    model: str
    config: dict[str, Any]  # what a config.json holds
    shape: Shape
    rounds: int
    peers: tuple[str, ...] = PEERS  # those that run this architecture

    @property
    def runs(self) -> int:
        """How often something is run: to warm up, to measure memory, and in every round."""
        return len(self.peers + KEPT) * (self.rounds + 2)


@dataclass(frozen=True)
class Row:
    """What one case took when attncli kept `kept`; the keys are "attncli", "eager" and "sdpa".

    seconds: medians; None for a peer that does not run this architecture.
    """

    case: Case
    kept: str
    seconds: dict[str, float | None]
    peak_bytes: dict[str, int | None]
    flops: int  # of what attncli computes

    @property
    def own_seconds(self) -> float:
        seconds = self.seconds["attncli"]
        assert seconds is not None
        return seconds

    def ratio(self, name: str) -> float | None:
        """attncli's time over a peer's: below 1, attncli is faster."""
        theirs = self.seconds[name]
        return None if theirs is None else self.own_seconds / theirs


@dataclass(frozen=True)
class Bench:
    """All rows, and what they were measured on."""

    rows: list[Row]
    product_rates: dict[str, dict[str, float]]  # by dtype: the best seen, in operations a second, by way of computing
    device: str
    machine: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """What `bench --json` prints."""
        return {
            "versions": {name: version(name) for name in ("attncli", "torch", "transformers")},
            "device": self.device,
            "machine": self.machine,
            "dtype": "float32",
            "threads": torch.get_num_threads(),
            "weights": "random",
            "models": [
                architecture_document(case) for case in {row.case.model: row.case for row in self.rows}.values()
            ],
            "matrix_product": {
                "shape": list(timing.PRODUCT),
                "flops_per_second": {
                    name: rate for rates in self.product_rates.values() for name, rate in rates.items()
                },
            },
            "rows": [self.row_document(row) for row in self.rows],
        }

    def row_document(self, row: Row) -> dict[str, Any]:
        shape, rate = row.case.shape, max(self.product_rates[row.case.shape.dtype].values())
        return {
            "model": row.case.model,
            "texts": shape.texts,
            "tokens": shape.tokens,
            "shortest": shape.shortest or shape.tokens,
            "dtype": shape.dtype,
            "kept": row.kept,
            "rounds": row.case.rounds,
            "seconds": row.seconds,
            "ratio": {name: row.ratio(name) for name in PEERS},
            "peak_bytes": row.peak_bytes,
            "flops": row.flops,
            "matrix_product_share": row.flops / row.own_seconds / rate,
            "floor": self.floor(row, rate),
        }

    def floor(self, row: Row, rate: float) -> dict[str, float]:
        """Seconds that nobody can do without at the rates measured here: for the matrix products, for reading the
        layers' weights once, and for writing the maps once.
        """
        config = ModelConfig.from_dict(row.case.config)
        layers, heads = walked(config, row.kept)
        network = empty_network(config)
        weights = {one for number in range(layers) for one in network.layer(number).parameters()}
        read = sum(weight.numel() for weight in weights)
        read += config.hidden_size * config.head_dim * (heads + keys_of(config, heads))
        maps = (layers + 1) * heads if row.kept == ALL_MAPS else heads
        written = maps * sum(length**2 for length in row.case.shape.lengths)
        rates = self.machine["bytes_per_second"]
        return {
            "products": row.flops / rate,
            "weights": read * pick_dtype(row.case.shape.dtype).itemsize / rates["read"],
            "maps": written * MAP_BYTES / rates["write"],
        }


def architecture_document(case: Case) -> dict[str, Any]:
    """A model as all documents have it; of these weights there is no file."""
    config = ModelConfig.from_dict(case.config)
    return {
        "name": case.model,
        "path": None,
        "sha256": None,
        "layers": config.layers,
        "heads": config.heads,
        "hidden_size": config.hidden_size,
    }


# --- what is measured -----------------------------------------------------------------------------------


def plan(models: Sequence[str], quick: bool) -> list[Case]:
    """Every shape through every model; `quick` means fewer rounds, and not the largest.

    Raises RequestError when a model's name means nothing, its architecture is not known on this machine, or no
    shape is left.
    """
    cases = []
    for model in models:
        _, config = architecture(model)
        numbers = ModelConfig.from_dict(config)
        peers = PEERS if has_sdpa(config) else (EAGER,)
        for shape in SHAPES:
            large = kept_flops(numbers, shape, NO_MAPS) > QUICK_FLOPS
            if shape.tokens <= numbers.max_tokens and not (quick and large):
                cases.append(Case(model, config, shape, shape.quick_rounds if quick else shape.rounds, peers))
    if not cases:
        raise RequestError("nothing to measure: every shape is too long for this model, or too large for --quick")
    return cases


def walked(config: ModelConfig, kept: str) -> tuple[int, int]:
    """The layers that attncli goes through when this is kept, and the heads whose maps it makes in the next."""
    return {
        ALL_MAPS: (config.layers - 1, config.heads),
        FIRST_HEAD: (0, 1),
        LAST_HEAD: (config.layers - 1, 1),
        NO_MAPS: (config.layers, 0),
    }[kept]


def kept_flops(config: ModelConfig, shape: Shape, kept: str) -> int:
    """`encoder_flops` of what attncli computes when this is kept."""
    return sum(encoder_flops(config, 1, length, *walked(config, kept)) for length in shape.lengths)


# --- measuring ------------------------------------------------------------------------------------------


def bench_maps(cases: Sequence[Case], device: str = "auto", done: Callable[[], None] = lambda: None) -> Bench:
    """Measure all cases; `done` is called after each of their `runs`.

    Raises RequestError when the device is not there.
    """
    where = pick_device(device)
    machine = machine_document(where)
    times: dict[str, dict[str, list[float]]] = {}
    rows: list[Row] = []
    contestants: Contestants | None = None
    for number, case in enumerate(cases):
        dtype = case.shape.dtype
        before = cases[number - 1]
        if contestants is None or (case.model, dtype) != (before.model, before.shape.dtype):
            contestants = Contestants(case.model, case.config, device, dtype)
        for name, taken in timing.product_seconds(where, pick_dtype(dtype)).items():
            way = name if dtype == "float32" else f"{name}, {dtype}"
            times.setdefault(dtype, {}).setdefault(way, []).extend(taken)
        runs = contestants.runs(random_texts(contestants.config, case.shape))
        for run in runs.values():
            run()
            done()
        peaks = {}
        for name, run in runs.items():
            peaks[name] = peak_added(run, where)
            done()
        seconds = timing.median_seconds(runs, case.rounds, where, done)
        rows += [row_of(case, kept, seconds, peaks) for kept in KEPT]
    work = timing.product_flops()
    rates = {dtype: {way: work / min(taken) for way, taken in ways.items()} for dtype, ways in times.items()}
    return Bench(rows, rates, str(where), machine)


def row_of(case: Case, kept: str, seconds: dict[str, float], peaks: dict[str, int | None]) -> Row:
    return Row(
        case=case,
        kept=kept,
        seconds={"attncli": seconds[kept], **{name: seconds.get(name) for name in PEERS}},
        peak_bytes={"attncli": peaks[kept], **{name: peaks.get(name) for name in PEERS}},
        flops=kept_flops(ModelConfig.from_dict(case.config), case.shape, kept),
    )
