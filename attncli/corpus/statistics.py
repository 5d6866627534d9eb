"""Statistics of heads over many texts: figures that are means over all tokens; and their files.

They are saved as .json, .csv and .npz.
"""

import json
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
from attncli.corpus.sums import FIGURES, LINEAR, USUAL, Counting, Distances, Sums, plain_part
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
            alike=sums.alike / sums.queries,
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
NOTHING = 1e-6  # rounding of numbers that should be 0
BETWEEN = ("divergence", "embedding", "clusters")  # the fields of distances
NUMBERS = list_of(list_of(real()))

# The document of `stats --json`. Labels, strengths and patterns are computed again from its figures.
DOCUMENT = fields(
    {**OF, "heads": list_of(HEAD)},
    {
        **MORE,
        "alike": maybe(list_of(fields(dict.fromkeys(LINEAR, real())))),
        "patterns": anything,
        "distances": fields({"divergence": NUMBERS, "embedding": NUMBERS, "clusters": list_of(integer())}),
    },
)


def load_statistics(path: Path) -> Statistics:
    """Load statistics that were saved as .json or .npz.

    Raises RequestError if the file is missing, cut short, or holds something else.
    """
    suffix = check_suffix(path, LOADED, "statistics to load")
    try:
        if suffix == ".json":
            about = read_json(path)
            DOCUMENT(about, "it")
            return _from_arrays(about, _arrays_of_document(about))
        arrays = read_npz(path, NEEDED)
        about = parse_json(str(arrays["about"]))
        ABOUT(about, "it")
        if listed("names", arrays["names"]) != list(FIGURES):
            raise ValueError("it has other figures")
        return _from_arrays(about, arrays)
    except OSError as error:
        raise RequestError(f"can't read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise RequestError(f"{path} holds no whole attncli statistics: {first_line(error)}") from error


def _arrays_of_document(found: dict[str, Any]) -> dict[str, Any]:
    """Return what a .npz has, from a document whose heads may stand in any order. Raises ValueError."""
    layers, heads = found["model"]["layers"], found["model"]["heads"]
    by_number = {(one["layer"], one["head"]): one for one in found["heads"]}
    if len(by_number) < len(found["heads"]) or by_number.keys() != set(product(range(layers), range(heads))):
        raise ValueError(f"it is not of all {heads} heads of {layers} layers, each once")
    arrays: dict[str, Any] = dict(found.get("distances", {}))
    for kind in ("figures", "spread"):
        rows = [[one[kind][name] for name in FIGURES] for _, one in sorted(by_number.items())]
        arrays[kind] = np.reshape(rows, (layers, heads, len(FIGURES)))
    if found.get("alike") is not None:
        arrays["alike"] = [[one[name] for name in LINEAR] for one in found["alike"]]
    return arrays


def _from_arrays(about: dict[str, Any], arrays: dict[str, Any]) -> Statistics:
    """Return statistics. Raises ValueError for arrays of other shapes, or with what is no number of a head."""
    layers, heads = about["model"]["layers"], about["model"]["heads"]
    every, limit = layers * heads, about["entropy_limit"]

    def doubles(name: str, *shape: int) -> Doubles:
        array = np.asarray(limit if name == "entropy_limit" else arrays[name])
        if array.dtype.kind not in "fiu" or array.shape != shape:
            raise ValueError(f"{name} is {array.dtype} {list(array.shape)}, and by its model {list(shape)}")
        least = -np.inf if name == "embedding" else -NOTHING
        if not (np.isfinite(array) & (array >= least)).all():
            raise ValueError(f"{name} has a number that no head has")
        return array.astype(np.float64)

    distances = None
    if any(name in arrays for name in BETWEEN):
        if missing := [name for name in BETWEEN if name not in arrays]:
            raise ValueError(f"it has no {missing[0]}")
        clusters = doubles("clusters", every).astype(int).tolist()
        if set(clusters) != set(range(len(set(clusters)))):
            raise ValueError("clusters are not numbered from 0 on")
        distances = Distances(doubles("divergence", every, every), doubles("embedding", every, 2), clusters)
    figures = doubles("figures", layers, heads, len(FIGURES))
    if (figures[..., [FIGURES.index(name) for name in PATTERNS]] > 1 + NOTHING).any():
        raise ValueError("a head gives more than all of its weight")
    return Statistics(
        model=ModelInfo(**about["model"]),
        mask=about["mask"],
        texts=about["texts"],
        tokens=about["tokens"],
        entropy_limit=np.broadcast_to(doubles("entropy_limit", *([layers] if isinstance(limit, list) else [])), layers),
        figures=figures,
        spread=doubles("spread", layers, heads, len(FIGURES)),
        partial=about["partial"],
        measure=about.get("measure", "weight"),
        words=about.get("words", False),
        alike=doubles("alike", layers, len(LINEAR)) if "alike" in arrays else None,
        kind=about.get("kind", "encoder"),
        distances=distances,
    )
