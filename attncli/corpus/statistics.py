"""Statistics of heads over many texts: figures that are means over all tokens; and their files.

They are saved as .json, .csv and .npz. Figures that are read from a file are checked: arithmetic bounds them, whatever
the texts are. Sums are checked as their means are.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attncli.analysis.patterns import BROAD, BROAD_BELOW, PATTERNS, row_shares
from attncli.base import choices
from attncli.base.arrays import Doubles, titled
from attncli.base.errors import RequestError
from attncli.base.files import as_dataframe, as_text, check_suffix, write_table, write_whole
from attncli.base.printable import first_line
from attncli.base.schema import anything, fields, flag, integer, list_of, maybe, one_of, real
from attncli.base.untrusted import listed, parse_json, read_json, read_npz
from attncli.corpus.sums import FIGURES, LINEAR, MOST_CLUSTERS, USUAL, Counting, Distances, Sums, plain_part
from attncli.record import AttentionRecord, ModelInfo
from attncli.record.grouping import merge_words
from attncli.record.loading import MODEL
from attncli.text.windows import Window

if TYPE_CHECKING:
    from pandas import DataFrame

CLEARLY = 2  # times the share that uniform attention gives, from which on a head does something clearly
SUFFIXES = (".csv", ".json", ".npz")
LOADED = (".json", ".npz")  # those that are read again
NEEDED = ("names", "figures", "spread", "about")  # of the arrays of a .npz
CSV_HEADER = ("layer", "head", "label", "strength", *FIGURES, *(f"{name}_spread" for name in FIGURES))


@dataclass(frozen=True)
class HeadStatistics:
    """One head: its figures by name. Its label is the pattern with the largest share, and its strength that share.
    Below 0.3 the label is "broad".
    """

    layer: int
    head: int
    figures: dict[str, float]
    spread: dict[str, float]

    @property
    def name(self) -> str:
        """The head as 3.1."""
        return f"{self.layer}.{self.head}"

    @property
    def pattern(self) -> str:
        """The pattern that takes most of the weight, however little that is."""
        return max(PATTERNS, key=lambda name: self.figures[name])

    @property
    def strength(self) -> float:
        return self.figures[self.pattern]

    @property
    def label(self) -> str:
        return self.pattern if self.strength >= BROAD_BELOW else BROAD


@dataclass(frozen=True)
class Statistics:
    """The statistics of all heads of a model over texts.

    measure: "weight", or "share of norm", as in a record. words: between words, not tokens. kind: "encoder" or
    "decoder", as in a record. texts, tokens: how many were counted, words instead of tokens if they were put together.
    partial: the run was interrupted before the last text.
    entropy_limit: the entropy of uniform attention over these tokens. float64 `[layer]`.
    alike: the figures of uniform attention in LINEAR, float64 `[layer, figure]`; None from an older version.
    figures: means over all tokens; spread: the standard deviation of the means of texts. float64
    `[layer, head, figure]`, in the order of FIGURES. distances: between heads, if they were asked for.
    """

    model: ModelInfo
    mask: str
    texts: int
    tokens: int
    entropy_limit: Doubles
    figures: Doubles
    spread: Doubles
    partial: bool = False
    distances: Distances | None = None
    measure: str = "weight"
    words: bool = False
    alike: Doubles | None = None
    kind: str = "encoder"

    def __repr__(self) -> str:
        counted = (
            f"{self.texts} text{'s' if self.texts > 1 else ''}, {self.tokens} {'words' if self.words else 'tokens'}"
        )
        partial = "partial" if self.partial else ""
        return titled(self, self.model.full_name, counted, f"mask {self.mask}", self.measure, partial)

    @classmethod
    def of(
        cls,
        sums: Sums,
        model: ModelInfo,
        counting: Counting = USUAL,
        partial: bool = False,
        kind: str = "encoder",
    ) -> "Statistics":
        """Return the statistics of sums of at least one text. Raises RequestError as `Distances.of`."""
        return cls(
            model=model,
            mask=counting.mask or "padding",
            texts=sums.texts,
            tokens=sums.queries,
            entropy_limit=sums.limit / sums.queries,
            figures=sums.figures,
            spread=sums.spread,
            partial=partial,
            distances=None if sums.divergence is None else Distances.of(sums.divergence / sums.queries),
            measure="share of norm" if counting.measure == "norm" else counting.measure,
            words=counting.words,
            alike=None if sums.alike is None else sums.alike / sums.queries,
            kind=kind,
        )

    @property
    def parts(self) -> list[str]:
        """The pieces of a title after the model's name: what is unusual, how much was counted, the mask."""
        return [
            *([] if self.kind == "encoder" else [f"{self.kind} attention"]),
            *([] if self.measure == "weight" else [self.measure]),
            "1 text" if self.texts == 1 else f"{self.texts:,} texts",
            f"{self.tokens:,} {'words' if self.words else 'tokens'}",
            f"mask {self.mask}",
            *(["PARTIAL"] if self.partial else []),
        ]

    @cached_property
    def heads(self) -> list[HeadStatistics]:
        """All heads, layer by layer."""
        return [
            HeadStatistics(layer, head, _by_name(self.figures[layer, head]), _by_name(self.spread[layer, head]))
            for layer in range(self.model.layers)
            for head in range(self.model.heads)
        ]

    def figure(self, name: str) -> Doubles:
        """Return one figure of all heads, `[layer, head]`."""
        return self.figures[..., FIGURES.index(name)]

    def spread_of(self, name: str) -> Doubles:
        """Return the spread of one figure of all heads, `[layer, head]`."""
        return self.spread[..., FIGURES.index(name)]

    def save(self, path: str | Path) -> None:
        """Save as .json, .csv (a row per head) or .npz. Raises RequestError for another suffix."""
        save_statistics(self, Path(path))

    def to_dataframe(self) -> "DataFrame":
        """Return a pandas DataFrame with a row per head, as the .csv has. Raises RequestError without pandas."""
        return as_dataframe(dict(zip(CSV_HEADER, zip(*_rows(self), strict=True), strict=True)))

    def labelled(self, label: str) -> list[HeadStatistics]:
        """Return the heads with a label."""
        return [head for head in self.heads if head.label == label]

    def most(self, pattern: str) -> HeadStatistics:
        """Return the head that gives most of its weight to a pattern, however little that is."""
        return max(self.heads, key=lambda head: head.figures[pattern])

    def clearest(self, pattern: str) -> HeadStatistics | None:
        """Return the head that does one thing most clearly; None if no head does it.

        A head does it if that is its label and if it gives it at least twice the share that uniform attention gives.
        One of many shares is always the largest, and in short texts all shares are large: of three tokens, uniform
        attention gives each a third. If that share is unknown, the label is enough.
        """
        able = [
            head
            for head in self.labelled(pattern)
            if head.figures[pattern] >= CLEARLY * (self.uniform(head.layer, pattern) or 0.0)
        ]
        return max(able, key=lambda head: head.figures[pattern], default=None)

    def broadest(self) -> HeadStatistics | None:
        """Return the head with the largest entropy of those that are labelled broad; None if there is none."""
        return max(self.labelled(BROAD), key=lambda head: head.figures["entropy"], default=None)

    def uniform(self, layer: int, figure: str) -> float | None:
        """Return a figure in LINEAR of uniform attention in a layer; None if it is unknown."""
        return None if self.alike is None else float(self.alike[layer, LINEAR.index(figure)])


def _by_name(values: Doubles) -> dict[str, float]:
    return dict(zip(FIGURES, values.tolist(), strict=True))


# --- statistics of records ------------------------------------------------------------------------------


def record_statistics(records: Sequence[AttentionRecord], words: bool = False, distances: bool = False) -> Statistics:
    """Return the statistics of the maps in records, each one window; words, distances: as in `Counting`.

    Norms count as shares of their rows. [PAD] is left out.

    Raises RequestError if there is no record, or if one lacks a layer or a head, has another model, mask or measure
    than the first, is between two texts, or gives weight to [PAD]; and as `Counting`.
    """
    if not records:
        raise RequestError("there is no record to make statistics of")
    first = records[0]
    counting = Counting(first.mask_name, distances, "weight" if first.measure == "weight" else "norm", words)
    total = Sums.nothing(first.model.layers, first.model.heads, distances)
    for record in records:
        for what, one, other in (
            ("model", record.model, first.model),
            ("mask", record.mask_name, first.mask_name),
            ("measure", record.measure, first.measure),
        ):
            if one != other:
                raise RequestError(f"statistics are of one {what}, and the records have several: save them apart")
        total += record_sums(_complete(merge_words(record) if words else record), distances)
    return Statistics.of(total, first.model, counting)


def _complete(record: AttentionRecord) -> AttentionRecord:
    """Return a record without [PAD], with all layers and heads in order. Raises RequestError if it lacks some."""
    if record.key_tokens is not None:
        raise RequestError("statistics are of a text's attention to itself, and this record is between two texts")
    model = record.model
    if len(record.each_head) != model.layers * model.heads:
        raise RequestError(
            f"statistics are of all {model.layers} layers and {model.heads} heads: save them without -l and -H"
        )
    record = row_shares(record.select(range(model.layers), range(model.heads)))
    padding = np.array(record.tokens.padding)
    if not padding.any():
        return record
    real = np.flatnonzero(~padding)
    if record.weights[:, :, real][..., padding].any():
        raise RequestError("statistics are of texts without [PAD], and this record gives it weight: save it without")
    return replace(
        record,
        weights=record.weights[..., real[:, None], real],
        tokens=record.tokens.take(real.tolist()),
        masks=record.masks[..., real[:, None], real],
        vectors=None,
    )


def record_sums(record: AttentionRecord, distances: bool = False) -> Sums:
    """Return the sums over the queries of a record with all layers and heads, without [PAD]."""
    return plain_part(Window.uncut(record.tokens), record.weights, record.masks, distances).of_text()


# --- saving ---------------------------------------------------------------------------------------------


def save_statistics(statistics: Statistics, path: Path) -> None:
    """Save by suffix: .json (the document of `stats --json`), .csv (a row per head), .npz. Whole or not at all.

    Raises RequestError for another suffix or an unwritable place.
    """
    suffix = check_suffix(path, SUFFIXES, "statistics")
    if suffix == ".json":
        write_whole(path, lambda temporary: temporary.write_text(as_text(document(statistics)), encoding="utf-8"))
    elif suffix == ".csv":
        write_whole(path, lambda temporary: write_table(CSV_HEADER, _rows(statistics), temporary))
    else:
        write_whole(path, lambda temporary: _write_npz(statistics, temporary))


def _rows(statistics: Statistics) -> list[list[Any]]:
    """Return a row per head, with the columns of CSV_HEADER."""
    return [
        [one.layer, one.head, one.label, one.strength, *one.figures.values(), *one.spread.values()]
        for one in statistics.heads
    ]


def document(statistics: Statistics) -> dict[str, Any]:
    """Return the document of `stats --json`."""
    uniform, clearest = statistics.alike, {pattern: statistics.clearest(pattern) for pattern in PATTERNS}
    made: dict[str, Any] = {
        **_about(statistics),
        "heads": [
            {
                "layer": one.layer,
                "head": one.head,
                "label": one.label,
                "strength": one.strength,
                "figures": one.figures,
                "spread": one.spread,
            }
            for one in statistics.heads
        ],
        "alike": None if uniform is None else [dict(zip(LINEAR, one, strict=True)) for one in uniform.tolist()],
        "patterns": {
            pattern: {
                "clearest": None if one is None else {"layer": one.layer, "head": one.head},
                "labelled": len(statistics.labelled(pattern)),
            }
            for pattern, one in clearest.items()
        },
    }
    if statistics.distances is not None:
        made["distances"] = {
            "divergence": statistics.distances.divergence.tolist(),
            "embedding": statistics.distances.embedding.tolist(),
            "clusters": statistics.distances.clusters,
        }
    return made


def _about(statistics: Statistics) -> dict[str, Any]:
    limit: list[float] = statistics.entropy_limit.tolist()
    return {
        "model": statistics.model.document(),
        **({} if statistics.kind == "encoder" else {"kind": statistics.kind}),
        "mask": statistics.mask,
        "measure": statistics.measure,
        "words": statistics.words,
        "texts": statistics.texts,
        "tokens": statistics.tokens,
        "partial": statistics.partial,
        "entropy_limit": limit[0] if len(set(limit)) == 1 else limit,
    }


def _write_npz(statistics: Statistics, path: Path) -> None:
    arrays: dict[str, Any] = {
        "names": np.array(FIGURES),
        "figures": statistics.figures,
        "spread": statistics.spread,
        "labels": np.array([one.label for one in statistics.heads]).reshape(statistics.figures.shape[:2]),
        "strength": np.array([one.strength for one in statistics.heads]).reshape(statistics.figures.shape[:2]),
        "about": np.array(json.dumps(_about(statistics))),
    }
    if statistics.alike is not None:
        arrays["alike"] = statistics.alike
    if statistics.distances is not None:
        arrays.update(asdict(statistics.distances))
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


# --- loading --------------------------------------------------------------------------------------------

OF = {
    "model": MODEL,
    "mask": one_of(choices.names(choices.MaskName)),
    "texts": integer(1),
    "tokens": integer(1),
    "partial": flag(),
    "entropy_limit": anything,  # a number, or one per layer of the model
}
# Fields that older files lack.
MORE = {"kind": one_of(choices.names(choices.Itself)), "measure": one_of(("weight", "share of norm")), "words": flag()}

ABOUT = fields(OF, MORE)  # of a .npz, besides its arrays
FIGURE_EACH = fields(dict.fromkeys(FIGURES, real()))
HEAD = fields(
    {
        "layer": integer(),
        "head": integer(),
        "label": one_of((*PATTERNS, BROAD)),
        "strength": real(),
        "figures": FIGURE_EACH,
        "spread": FIGURE_EACH,
    }
)
DISTANCES = fields(
    {
        "divergence": list_of(list_of(real())),
        "embedding": list_of(list_of(real(), 2)),
        "clusters": list_of(integer()),
    }
)

# The document of `stats --json`. Labels, strengths and patterns are computed again from its figures.
DOCUMENT = fields(
    {**OF, "heads": list_of(HEAD)},
    {
        **MORE,
        "alike": maybe(list_of(fields(dict.fromkeys(LINEAR, real())))),
        "patterns": anything,
        "distances": DISTANCES,
    },
)


def load_statistics(path: Path) -> Statistics:
    """Load statistics that were saved as .json or .npz.

    Raises RequestError if the file is missing, cut short, or holds something else, or figures that no head has.
    """
    suffix = check_suffix(path, LOADED, "statistics to load")
    try:
        loaded = _of_document(read_json(path)) if suffix == ".json" else _of_arrays(read_npz(path, NEEDED))
        _check_statistics(loaded)
        return loaded
    except OSError as error:
        raise RequestError(f"can't read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise RequestError(f"{path} holds no whole attncli statistics: {first_line(error)}") from error


def _of_document(found: Any) -> Statistics:
    """Return the statistics in a document of `stats --json`; its heads may stand in any order. Raises ValueError."""
    DOCUMENT(found, "it")
    layers, heads = found["model"]["layers"], found["model"]["heads"]
    by_number = {(one["layer"], one["head"]): one for one in found["heads"]}
    if len(by_number) < len(found["heads"]) or by_number.keys() != set(product(range(layers), range(heads))):
        raise ValueError(f"it is not of all {heads} heads of {layers} layers, each once")
    figures, spread = (
        np.array([[one[kind][name] for name in FIGURES] for _, one in sorted(by_number.items())], dtype=np.float64)
        for kind in ("figures", "spread")
    )
    shape = (layers, heads, len(FIGURES))
    alike = [[one[name] for name in LINEAR] for one in found["alike"]] if found.get("alike") else None
    return _from_parts(found, figures.reshape(shape), spread.reshape(shape), alike, found.get("distances"))


def _of_arrays(arrays: dict[str, Any]) -> Statistics:
    """Return the statistics in the arrays of a .npz. Raises ValueError for other arrays."""
    if listed("names", arrays["names"]) != list(FIGURES):
        raise ValueError("it has other figures")
    about = parse_json(str(arrays["about"]))
    ABOUT(about, "it")
    distances = None
    if "divergence" in arrays:
        names = ("divergence", "embedding", "clusters")
        distances = {name: listed(name, arrays[name]) for name in names if name in arrays}
        DISTANCES(distances, "distances")
    return _from_parts(about, arrays["figures"], arrays["spread"], arrays.get("alike"), distances)


def _from_parts(
    found: dict[str, Any], figures: Any, spread: Any, alike: Any, distances: dict[str, Any] | None
) -> Statistics:
    """Return statistics from checked fields and arrays. Raises ValueError for arrays that hold no numbers."""
    return Statistics(
        model=ModelInfo(**found["model"]),
        mask=found["mask"],
        texts=found["texts"],
        tokens=found["tokens"],
        entropy_limit=_per_layer(found["entropy_limit"], found["model"]["layers"]),
        figures=_doubles("figures", figures),
        spread=_doubles("spread", spread),
        partial=found["partial"],
        measure=found.get("measure", "weight"),
        words=found.get("words", False),
        alike=None if alike is None else _doubles("alike", alike),
        kind=found.get("kind", "encoder"),
        distances=None
        if distances is None
        else Distances(
            _doubles("divergence", distances["divergence"]),
            _doubles("embedding", distances["embedding"]),
            distances["clusters"],
        ),
    )


def _per_layer(limit: Any, layers: int) -> Doubles:
    """Return a limit `[layer]` from a file, where it is one number or a list. Raises ValueError for anything else."""
    if isinstance(limit, list):
        list_of(real(), layers)(limit, "entropy_limit")
    else:
        real()(limit, "entropy_limit")
    return np.broadcast_to(np.array(limit, dtype=np.float64), layers)


def _doubles(name: str, values: Any) -> Doubles:
    """Return an array of float64. Raises ValueError unless it holds numbers, in lists of equal lengths."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} is {array.dtype}, and not numbers")
    return array.astype(np.float64)


def _check_statistics(statistics: Statistics) -> None:
    """Raises ValueError where shapes do not agree, or a figure is out of its range."""
    layers, heads, tokens = statistics.model.layers, statistics.model.heads, statistics.tokens
    every, between = layers * heads, statistics.distances
    shapes: list[tuple[str, Doubles | None, tuple[int, ...]]] = [
        ("figures", statistics.figures, (layers, heads, len(FIGURES))),
        ("spread", statistics.spread, (layers, heads, len(FIGURES))),
        ("alike", statistics.alike, (layers, len(LINEAR))),
    ]
    if between is not None:
        shapes += [("divergence", between.divergence, (every, every)), ("embedding", between.embedding, (every, 2))]
        list_of(integer(), every)(between.clusters, "clusters")
    for name, array, shape in shapes:
        if array is not None and array.shape != shape:
            raise ValueError(f"{name} is {list(array.shape)}, and by its model {list(shape)}")
    if statistics.texts > tokens:
        raise ValueError(f"it is of {statistics.texts} texts of {tokens} tokens together")
    divergence = None if between is None else between.divergence
    _check_means(statistics.entropy_limit, statistics.figures, divergence, statistics.alike, tokens)
    ends = np.array([_most(name, math.log(tokens), tokens) / 2 for name in FIGURES])  # half of a figure's range
    _check_range([f"spread of {name}" for name in FIGURES], statistics.spread, ends)
    if between is not None:
        there = list(dict.fromkeys(between.clusters))
        if there != list(range(len(there))):
            raise ValueError(f"clusters are numbered {there[:MOST_CLUSTERS]}, and not as their first heads come")
        if not np.isfinite(between.embedding).all():
            raise ValueError("embedding: a number is none")


# --- what figures can be --------------------------------------------------------------------------------

# Rounding: of numbers that should be 0, and of the sum of a row, which in bfloat16 misses 1 by up to 2^-8.
NOTHING, ROWS = 1e-6, 2.0**-7


def _most(figure: str, limit: float, tokens: int) -> float:
    """Return the largest possible mean of a figure over so many tokens; limit: the largest entropy."""
    return {"entropy": limit, "distance": tokens - 1}.get(figure, 1.0)


def _check_means(
    limit: Doubles, figures: Doubles, divergence: Doubles | None, alike: Doubles | None, tokens: int
) -> None:
    """Raises ValueError for means over so many tokens that no texts have; their arrays are as in a `Statistics`."""
    _check_range("entropy_limit", limit, math.log(tokens))
    ends = np.array([[_most(name, one, tokens) for name in FIGURES] for one in limit.tolist()])
    _check_range(FIGURES, figures, ends[:, None])
    if alike is not None:
        ends = np.array([_most(name, 0.0, tokens) for name in LINEAR])
        _check_range([f"alike: {name}" for name in LINEAR], alike, ends)
    if divergence is not None:
        _check_range("divergence", divergence, math.log(2))
        if np.abs(divergence.diagonal()).max(initial=0.0) > NOTHING or not np.allclose(divergence, divergence.T):
            raise ValueError("divergence: of two heads it is the same both ways, and 0 of one from itself")


def check_sums(sums: Sums) -> None:
    """Raises ValueError for sums, of the right shapes, that no texts have."""
    texts, queries = sums.texts, sums.queries
    if not 0 <= texts <= queries:
        raise ValueError(f"{texts} texts of {queries} tokens")
    if texts == 0:
        arrays = (sums.limit, sums.totals, sums.means, sums.squares, sums.divergence, sums.alike)
        if any(array is not None and array.any() for array in arrays):
            raise ValueError("sums of no text are 0")
        return
    alike = None if sums.alike is None else sums.alike / queries
    divergence = None if sums.divergence is None else sums.divergence / queries
    _check_means(sums.limit / queries, sums.figures, divergence, alike, queries)
    means, ends = sums.means / texts, np.array([_most(name, math.log(queries), queries) for name in FIGURES])
    _check_range(FIGURES, means, ends)
    # The variance of what has this mean and is from 0 to `ends` (Bhatia and Davis 2000).
    _check_range([f"squares of {name}" for name in FIGURES], sums.squares / texts - means**2, ends * np.abs(means))


def _check_range(what: str | Sequence[str], numbers: Doubles, end: Doubles | float) -> None:
    """Raises ValueError for a number below 0 or above `end`, except for rounding, and for NaN.

    what: its name, or a name for each place along the last axis.
    """
    ends = np.broadcast_to(end, numbers.shape)
    wrong = ~((numbers >= -NOTHING) & (numbers <= ends * (1 + ROWS) + NOTHING))
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0])
        name = what if isinstance(what, str) else what[place[-1]]
        raise ValueError(f"{name} is {numbers[place]:.4g}, and not from 0 to {ends[place]:.4g}")
