"""How fast attncli is, and how much memory it takes, beside transformers in the same run.

Three programs do the same work on the same token ids with the same random weights (only arithmetic matters):

- attncli, by the library call that yields the records: `Model.attend_tokens`, which decides for itself how
  many texts go through the network together;
- eager: transformers with `output_attentions`, the texts in one batch, all maps kept;
- sdpa: transformers on torch's fused kernel, which gives no maps.

What attncli keeps is varied. transformers can't keep one head or stop early, so that all rows of one shape
have the same peers. Tokenizing is in nobody's time.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncli.checks.memory import peak_added
from attncli.errors import RequestError
from attncli.models.config import ModelConfig
from attncli.models.linear import Linear
from attncli.models.model import Model, pick_device
from attncli.models.random import architecture, random_model
from attncli.models.reference import peer
from attncli.text import Tokens

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
PRODUCT = (
    4096,
    768,
    3072,
)  # rows, in, out: the feed-forward projection of bert-base for 8 texts of 512 tokens
PRODUCT_REPEATS = 3

Run = Callable[[], object]


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
            "matrix_product": {"shape": list(PRODUCT), "flops_per_second": self.product_rates},
            "rows": [row_document(row) for row in self.rows],
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


def encoder_flops(config: ModelConfig, texts: int, tokens: int, layers: int, map_heads: int = 0) -> int:
    """Floating-point operations in an encoder's matrix products; one multiply-add is two.

    With n = texts x tokens rows of width d, t tokens a text, and m = intermediate_size, a whole layer takes

        query, key, value and output projections   4 x 2 n d d
        scores and weighted sum                    2 x 2 n t d
        feed-forward, up and down                  2 x 2 n d m

    After `layers` whole layers, the maps of `map_heads` heads of the next one take 2 x 2 n d (h e) for their
    queries and keys and 2 n t (h e) for their scores, with h heads of e numbers each: where the last maps
    asked for are made, nothing else is computed. ELECTRA's widening of its token vectors is counted; softmax,
    LayerNorm and the like, about a hundredth of all, are not.
    """
    rows, width = texts * tokens, config.hidden_size
    layer = 8 * rows * width * width + 4 * rows * tokens * width + 4 * rows * width * config.intermediate_size
    mapped = map_heads * config.head_dim
    maps = 4 * rows * width * mapped + 2 * rows * tokens * mapped
    widening = 2 * rows * config.embedding_size * width if config.embedding_size != width else 0
    return widening + layers * layer + maps


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
            FIRST_HEAD: lambda: list(self.model.attend_tokens(texts, layers=0, heads=0)),
            LAST_HEAD: lambda: list(self.model.attend_tokens(texts, layers=-1, heads=0)),
            NO_MAPS: lambda: last_states(self.model, texts),
        }


def run_peer(network: nn.Module, ids: Tensor, **options: Any) -> Any:
    with torch.inference_mode():
        return network(ids, **options)


def last_states(model: Model, texts: Iterable[Tokens]) -> list[Tensor]:
    """The last layer's vectors, `[batch, token, hidden_size]` a group of texts; nothing else is kept."""
    model.need(model.config.layers)
    states = []
    with torch.inference_mode():
        for group in model.groups(texts):
            x = model.encoder.embeddings(*model.inputs(group))
            for layer in model.encoder.layers:
                x = layer(x)
            states.append(x)
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


def bench(cases: Sequence[Case], device: str = "auto", done: Callable[[], None] = lambda: None) -> Bench:
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
        for name, taken in product_seconds(where).items():
            times.setdefault(name, []).extend(taken)
        runs = contestants.runs(random_texts(contestants.config, case.shape))
        for run in runs.values():
            run()
            done()
        peaks = {}
        for name, run in runs.items():
            peaks[name] = peak_added(run, where)
            done()
        measured.append((case, median_seconds(runs, case.rounds, where, done), peaks))
    work = 2 * PRODUCT[0] * PRODUCT[1] * PRODUCT[2]
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


def median_seconds(
    runs: dict[str, Run], rounds: int, device: torch.device, done: Callable[[], None]
) -> dict[str, float]:
    """The median time of each. Every round runs all of them, and begins with another one than the last."""
    names = list(runs)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(seconds_of(runs[name], device))
            done()
    return {name: statistics.median(taken) for name, taken in times.items()}


def seconds_of(run: Run, device: torch.device) -> float:
    """How long a run takes, freeing its result not included."""
    finish(device)
    begun = time.perf_counter()
    result = run()
    finish(device)
    taken = time.perf_counter() - begun
    del result
    return taken


def finish(device: torch.device) -> None:
    """Wait for what an accelerator still does."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def product_seconds(device: torch.device) -> dict[str, list[float]]:
    """Times of one large matrix product: torch's own way, and the one that attncli's linear layers take."""
    rows, width, out = PRODUCT
    x = torch.randn(rows, width, device=device)
    linear = Linear(width, out, bias=False, device=device).requires_grad_(False)
    linear.weight.normal_()
    ways: dict[str, Run] = {"torch.mm": lambda: torch.mm(x, linear.weight.T), "attncli": lambda: linear(x)}
    with torch.inference_mode():
        for way in ways.values():
            way()
        return {name: [seconds_of(way, device) for _ in range(PRODUCT_REPEATS)] for name, way in ways.items()}
