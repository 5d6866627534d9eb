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
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncli.base.errors import RequestError
from attncli.checks import timing
from attncli.checks.machine import machine_document
from attncli.checks.memory import peak_added
from attncli.checks.timing import Run
from attncli.models.config import ModelConfig
from attncli.models.engine import pick_device, pick_dtype
from attncli.models.families.family import Disentangling
from attncli.models.model import Model
from attncli.models.network import empty_network, lay_out
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
        lay_out(self.model.network)  # as for whoever asks often

    def runs(self, texts: Sequence[Tokens]) -> dict[str, Run]:
        """Return the run of each program on these texts, by the names in PEERS and KEPT."""
        together = len(texts) if len({len(tokens) for tokens in texts}) == 1 else BATCH
        given = padded(texts, together, self.config.pad_id, self.model.device)
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
    with torch.inference_mode():
        return [network(ids, attention_mask=mask, **options) for ids, mask in batches]


def last_states(model: Model, texts: Sequence[Tokens]) -> list[Tensor]:
    """Return the last layer's vectors of each text, `[token, hidden_size]`, and keep nothing else."""
    states: dict[int, Tensor] = {}
    with torch.inference_mode():
        for numbers in batches(texts, model.batch_tokens):
            rows = model.rows([texts[number] for number in numbers], "padding")
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


# --- results ---------------------------------------------------------------------------------------------

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
        """Return the number of runs: to warm up, to measure memory, and in every round."""
        return len(self.peers + KEPT) * (self.rounds + 2)


@dataclass(frozen=True)
class Row:
    """The time and memory of one case when attncli kept `kept`; the keys are "attncli", "eager" and "sdpa".

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
        """Return attncli's time divided by a peer's: below 1, attncli is faster."""
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
        """Return what `bench --json` prints."""
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
        """Return the least seconds at the rates measured here: for the matrix products, for reading the layers' weights
        once, and for writing the maps once.
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
    """Return a model as all documents have it; random weights have no file."""
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
    """Return every shape through every model; `quick` means fewer rounds, and not the largest.

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
    """Return the layers that attncli goes through when this is kept, and the heads whose maps it makes in the next."""
    return {
        ALL_MAPS: (config.layers - 1, config.heads),
        FIRST_HEAD: (0, 1),
        LAST_HEAD: (config.layers - 1, 1),
        NO_MAPS: (config.layers, 0),
    }[kept]


def kept_flops(config: ModelConfig, shape: Shape, kept: str) -> int:
    """Count the operations of attncli when this is kept."""
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


# --- operations ------------------------------------------------------------------------------------------


def encoder_flops(config: ModelConfig, texts: int, tokens: int, layers: int, map_heads: int = 0) -> int:
    """Count the floating-point operations in an encoder's matrix products; one multiply-add is two.

    With n = texts x tokens rows of width d, t tokens a text, and m = intermediate_size, a whole layer takes

        query and output projections               2 x 2 n d d
        key and value projections                  2 x 2 n d (k e), of k key heads
        scores and weighted sum                    2 x 2 n t d
        feed-forward, up and down                  2 x 2 n d m, or 3 x 2 n d m where it is gated
        each disentangled term                     2 n (2 t - 1) d, of all offsets from a token to the others

    After `layers` whole layers, the maps of `map_heads` heads of the next one, the first ones, take 2 x 2 n d (h e) for
    their queries and keys and 2 n t (h e) for their scores (and terms), with h heads of e numbers each, and less where
    these share k' keys, 2 n d (h + k') e: where the last maps asked for are made, nothing else is computed. ELECTRA's
    widening of its token vectors is counted; softmax, norms and the like, about a hundredth of all, are not; nor is
    what depends on no text and is made once.
    """
    rows, width = texts * tokens, config.hidden_size
    wide = (6 if config.gated else 4) * rows * width * config.intermediate_size
    keys = config.key_heads * config.head_dim
    layer = 4 * rows * width * (width + keys) + 4 * rows * tokens * width + wide
    mapped = map_heads * config.head_dim
    mapped_keys = keys_of(config, map_heads) * config.head_dim
    maps = 2 * rows * width * (mapped + mapped_keys) + 2 * rows * tokens * mapped
    terms = sum(2 * rows * (2 * tokens - 1) * width * terms_of(config, number) for number in range(layers))
    if map_heads:
        terms += 2 * rows * (2 * tokens - 1) * mapped * terms_of(config, layers)
    widening = 2 * rows * config.embedding_size * width if config.widens else 0
    return widening + layers * layer + maps + terms


def keys_of(config: ModelConfig, heads: int) -> int:
    """Return the number of key heads that the first `heads` heads use."""
    return -(-heads * config.key_heads // config.heads)


def terms_of(config: ModelConfig, layer: int) -> int:
    """Return the number of terms of a layer's scores that are products of their own."""
    positions = config.positions[layer]
    return len(positions.kinds) if isinstance(positions, Disentangling) else 0
