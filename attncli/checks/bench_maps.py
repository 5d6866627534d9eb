"""How fast attncli is, and how much memory it takes, beside transformers in the same run.

Three programs do the same work on the same token ids with the same random weights (only arithmetic matters):

- attncli, by the library call that yields the records: `Model.attend_tokens`, which decides for itself how
  many texts go through the network together;
- eager: transformers with `output_attentions`, the texts in one batch, all maps kept;
- sdpa: transformers on torch's fused kernel, which gives no maps.

What attncli keeps is varied. transformers can't keep one head or stop early, so that all rows of one shape
have the same peers. Tokenizing is in nobody's time.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncli.base.errors import RequestError
from attncli.checks import timing
from attncli.checks.flops import encoder_flops
from attncli.checks.memory import peak_added
from attncli.checks.timing import Run
from attncli.models.attending import attend_heads
from attncli.models.config import ModelConfig
from attncli.models.devices import pick_device
from attncli.models.model import Model
from attncli.models.random import architecture, random_model
from attncli.models.transformers_peer import peer
from attncli.models.walk import walk
from attncli.record import Request
from attncli.text.tokens import Tokens

MODELS = ("minilm", "bert-base")
EAGER, SDPA = PEERS = ("eager", "sdpa")
ALL_MAPS, FIRST_HEAD, LAST_HEAD, NO_MAPS = KEPT = ("all", "one, first layer", "one, last layer", "none")


class Shape(NamedTuple):
    """So many texts of so many tokens, run so many times."""

    texts: int
    tokens: int
    rounds: int
    quick_rounds: int


SHAPES = (Shape(1, 16, 30, 12), Shape(1, 128, 18, 6), Shape(1, 512, 12, 3), Shape(8, 512, 6, 3))
QUICK_FLOPS = 2e11  # --quick leaves out what takes more than this in one pass: seconds a run


@dataclass(frozen=True)
class Case:
    """One shape through one model."""

    model: str
    config: dict[str, Any]  # what a config.json holds
    shape: Shape
    rounds: int

    @property
    def runs(self) -> int:
        """How often something is run: to warm up, to measure memory, and in every round."""
        return len(PEERS + KEPT) * (self.rounds + 2)


@dataclass(frozen=True)
class Row:
    """What one case took when attncli kept `kept`; the keys are "attncli", "eager" and "sdpa"."""

    case: Case
    kept: str
    seconds: dict[str, float]  # medians
    peak_bytes: dict[str, int | None]
    flops: int  # of what attncli computes
    share: float  # of the matrix-product rate, that attncli reaches

    def ratio(self, name: str) -> float:
        """attncli's time over a peer's: below 1, attncli is faster."""
        return self.seconds["attncli"] / self.seconds[name]


@dataclass(frozen=True)
class Bench:
    """All rows, and what they were measured on."""

    rows: list[Row]
    product_rates: dict[str, float]  # the best seen, in floating-point operations a second, by way of computing
    device: str

    def document(self) -> dict[str, Any]:
        """What `bench --json` prints."""
        return {
            "versions": {name: version(name) for name in ("attncli", "torch", "transformers")},
            "device": self.device,
            "dtype": "float32",
            "threads": torch.get_num_threads(),
            "weights": "random",
            "models": [
                architecture_document(case) for case in {row.case.model: row.case for row in self.rows}.values()
            ],
            "matrix_product": {"shape": list(timing.PRODUCT), "flops_per_second": self.product_rates},
            "rows": [row_document(row) for row in self.rows],
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


def row_document(row: Row) -> dict[str, Any]:
    return {
        "model": row.case.model,
        "texts": row.case.shape.texts,
        "tokens": row.case.shape.tokens,
        "kept": row.kept,
        "rounds": row.case.rounds,
        "seconds": row.seconds,
        "ratio": {name: row.ratio(name) for name in PEERS},
        "peak_bytes": row.peak_bytes,
        "flops": row.flops,
        "matrix_product_share": row.share,
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
        for shape in SHAPES:
            large = encoder_flops(numbers, shape.texts, shape.tokens, numbers.layers) > QUICK_FLOPS
            if shape.tokens <= numbers.max_tokens and not (quick and large):
                cases.append(Case(model, config, shape, shape.quick_rounds if quick else shape.rounds))
    if not cases:
        raise RequestError("nothing to measure: every shape is too long for this model, or too large for --quick")
    return cases


def kept_flops(config: ModelConfig, shape: Shape, kept: str) -> int:
    """`encoder_flops` of what attncli computes when this is kept."""
    layers, map_heads = {
        ALL_MAPS: (config.layers - 1, config.heads),
        FIRST_HEAD: (0, 1),
        LAST_HEAD: (config.layers - 1, 1),
        NO_MAPS: (config.layers, 0),
    }[kept]
    return encoder_flops(config, shape.texts, shape.tokens, layers, map_heads)


# --- the contestants ------------------------------------------------------------------------------------


class Contestants:
    """One architecture in all three programs, on the same random weights (seed 0)."""

    def __init__(self, name: str, config: dict[str, Any], device: str) -> None:
        self.model, reference = random_model(name, device)
        self.config = self.model.config
        eager = reference.network
        sdpa = peer(config, eager.state_dict(), SDPA).to(self.model.device)
        self.peers: dict[str, nn.Module] = {EAGER: eager, SDPA: sdpa}

    def runs(self, texts: Sequence[Tokens]) -> dict[str, Run]:
        """What each does with these texts, by the names in PEERS and KEPT."""
        ids = torch.tensor([tokens.ids for tokens in texts], device=self.model.device)
        return {
            EAGER: lambda: run_peer(self.peers[EAGER], ids, output_attentions=True),
            SDPA: lambda: run_peer(self.peers[SDPA], ids),
            ALL_MAPS: lambda: list(self.model.attend_tokens(texts)),
            FIRST_HEAD: lambda: list(self.model.attend_tokens(texts, Request(layers=0, heads=0))),
            LAST_HEAD: lambda: list(self.model.attend_tokens(texts, Request(layers=-1, heads=0))),
            NO_MAPS: lambda: last_states(self.model, texts),
        }


def run_peer(network: nn.Module, ids: Tensor, **options: Any) -> Any:
    with torch.inference_mode():
        return network(ids, **options)


def last_states(model: Model, texts: Iterable[Tokens]) -> list[Tensor]:
    """The last layer's vectors of each text, `[token, hidden_size]`; nothing else is kept."""
    model.need(model.config.layers)
    states = []
    with torch.inference_mode():
        for group in model.groups(texts):
            rows = model.rows(group, "padding")
            for x in walk(model.network, rows, attend_heads):
                last = x
            states += rows.texts(last)
    return states


def random_texts(config: ModelConfig, shape: Shape) -> list[Tokens]:
    """Texts of random tokens (seed 0), none of them [PAD]."""
    source = torch.Generator().manual_seed(0)
    first = config.pad_id + 1
    ids = torch.randint(first, config.vocab_size, (shape.texts, shape.tokens), generator=source).tolist()
    count = shape.tokens
    return [
        Tokens(
            text=[str(number) for number in one],
            ids=one,
            segments=[0] * count,
            words=list(range(count)),
            offsets=[(0, 0)] * count,
            special=[False] * count,
            padding=[False] * count,
        )
        for one in ids
    ]


# --- measuring ------------------------------------------------------------------------------------------


def bench_maps(cases: Sequence[Case], device: str = "auto", done: Callable[[], None] = lambda: None) -> Bench:
    """Measure all cases; `done` is called after each of their `runs`.

    Raises RequestError when the device is not there.
    """
    where = pick_device(device)
    times: dict[str, list[float]] = {}
    measured: list[tuple[Case, dict[str, float], dict[str, int | None]]] = []
    contestants: Contestants | None = None
    for number, case in enumerate(cases):
        if contestants is None or case.model != cases[number - 1].model:
            contestants = Contestants(case.model, case.config, device)
        for name, taken in timing.product_seconds(where).items():
            times.setdefault(name, []).extend(taken)
        runs = contestants.runs(random_texts(contestants.config, case.shape))
        for run in runs.values():
            run()
            done()
        peaks = {}
        for name, run in runs.items():
            peaks[name] = peak_added(run, where)
            done()
        measured.append((case, timing.median_seconds(runs, case.rounds, where, done), peaks))
    work = timing.product_flops()
    rates = {name: work / min(taken) for name, taken in times.items()}
    rows = [
        row_of(case, kept, seconds, peaks, max(rates.values())) for case, seconds, peaks in measured for kept in KEPT
    ]
    return Bench(rows, rates, str(where))


def row_of(case: Case, kept: str, seconds: dict[str, float], peaks: dict[str, int | None], rate: float) -> Row:
    flops = kept_flops(ModelConfig.from_dict(case.config), case.shape, kept)
    return Row(
        case=case,
        kept=kept,
        seconds={"attncli": seconds[kept], **{name: seconds[name] for name in PEERS}},
        peak_bytes={"attncli": peaks[kept], **{name: peaks[name] for name in PEERS}},
        flops=flops,
        share=flops / seconds[kept] / rate,
    )
