"""Statistics in files: .json, .csv and .npz."""

import json
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from attncli.analysis import ranges
from attncli.analysis.clearest import clearest, labelled
from attncli.analysis.distances import Distances
from attncli.analysis.statistics import FIGURES, LINEAR, PATTERNS, HeadStatistics, Statistics
from attncli.analysis.statistics_schema import ABOUT, DISTANCES, DOCUMENT
from attncli.base.arrays import Doubles
from attncli.base.errors import RequestError
from attncli.base.files import as_text, check_suffix, write_table, write_whole
from attncli.base.printable import first_line
from attncli.base.schema import each, real, whole
from attncli.base.untrusted import listed, parse_json, read_json, read_npz
from attncli.record import ModelInfo

SUFFIXES = (".csv", ".json", ".npz")
LOADED = (".json", ".npz")  # those that are read again
NEEDED = ("names", "figures", "spread", "about")  # of the arrays of a .npz
SPREAD = "_spread"
CSV_HEADER = ("layer", "head", "label", "strength", *FIGURES, *(name + SPREAD for name in FIGURES))


def save_statistics(statistics: Statistics, path: Path) -> None:
    """Save by suffix: .json (what `stats --json` prints), .csv (a row a head), .npz. Whole or not at all.

    Raises RequestError for another suffix or an unwritable place.
    """
    suffix = check_suffix(path, SUFFIXES, "statistics")
    write = {".json": write_json, ".csv": write_csv, ".npz": write_npz}[suffix]
    write_whole(path, lambda temporary: write(statistics, temporary))


def document(statistics: Statistics) -> dict[str, Any]:
    """What `stats --json` prints."""
    made: dict[str, Any] = {
        **about(statistics),
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
        "alike": alike_by_name(statistics),
        "patterns": {pattern: found(statistics, pattern) for pattern in PATTERNS},
    }
    if statistics.distances is not None:
        made["distances"] = {
            "divergence": statistics.distances.divergence.tolist(),
            "embedding": statistics.distances.embedding.tolist(),
            "clusters": statistics.distances.clusters,
        }
    return made


def alike_by_name(statistics: Statistics) -> list[dict[str, float]] | None:
    """By layer, the figures of a head that looks at everything alike."""
    if statistics.alike is None:
        return None
    return [dict(zip(LINEAR, figures, strict=True)) for figures in statistics.alike.tolist()]


def found(statistics: Statistics, pattern: str) -> dict[str, Any]:
    """Who does one thing: the clearest head, null where no head does it; and how many have it as their label."""
    one = clearest(statistics, pattern)
    return {
        "clearest": None if one is None else {"layer": one.layer, "head": one.head},
        "labelled": len(labelled(statistics, pattern)),
    }


def about(statistics: Statistics) -> dict[str, Any]:
    """What they are of."""
    return {
        "model": statistics.model.document(),
        **({} if statistics.kind == "encoder" else {"kind": statistics.kind}),
        "mask": statistics.mask,
        "measure": statistics.measure,
        "words": statistics.words,
        "texts": statistics.texts,
        "tokens": statistics.tokens,
        "partial": statistics.partial,
        "entropy_limit": one_or_each(statistics.entropy_limit),
    }


def one_or_each(limit: Doubles) -> float | list[float]:
    """A limit `[layer]` as it stands in files: one number where it is the same for all layers, else a list."""
    numbers: list[float] = limit.tolist()
    return numbers[0] if len(set(numbers)) == 1 else numbers


def of_each(limit: Any, layers: int) -> Doubles:
    """A limit `[layer]` from what stands in a file. Raises ValueError when it is none of these layers."""
    if isinstance(limit, list):
        each(real(), layers)(limit, "entropy_limit")
    else:
        real()(limit, "entropy_limit")
    return np.broadcast_to(np.array(limit, dtype=np.float64), layers)


def write_json(statistics: Statistics, path: Path) -> None:
    path.write_text(as_text(document(statistics)), encoding="utf-8")


def write_csv(statistics: Statistics, path: Path) -> None:
    write_table(CSV_HEADER, map(csv_row, statistics.heads), path)


def csv_row(one: HeadStatistics) -> list[Any]:
    return [one.layer, one.head, one.label, one.strength, *one.figures.values(), *one.spread.values()]


def write_npz(statistics: Statistics, path: Path) -> None:
    arrays: dict[str, Any] = {
        "names": np.array(FIGURES),
        "figures": statistics.figures,
        "spread": statistics.spread,
        "labels": np.array([one.label for one in statistics.heads]).reshape(statistics.figures.shape[:2]),
        "strength": np.array([one.strength for one in statistics.heads]).reshape(statistics.figures.shape[:2]),
        "about": np.array(json.dumps(about(statistics))),
    }
    if statistics.alike is not None:
        arrays["alike"] = statistics.alike
    if statistics.distances is not None:
        arrays.update(asdict(statistics.distances))
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def load_statistics(path: Path) -> Statistics:
    """Load what was saved as .json or .npz.

    Raises RequestError when the file is missing, cut short, or holds something else, or figures that no head has.
    """
    suffix = check_suffix(path, LOADED, "statistics to load")
    try:
        loaded = of_document(read_json(path)) if suffix == ".json" else of_arrays(read_npz(path, NEEDED))
        check_statistics(loaded)
        return loaded
    except OSError as error:
        raise RequestError(f"can't read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise RequestError(f"{path} holds no whole attncli statistics: {first_line(error)}") from error


def of_document(found: Any) -> Statistics:
    """Statistics from what `stats --json` prints; its heads may stand in any order. Raises ValueError for all else."""
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
    return from_parts(found, figures.reshape(shape), spread.reshape(shape), alike, found.get("distances"))


def of_arrays(arrays: dict[str, Any]) -> Statistics:
    """Statistics from the arrays of a .npz. Raises ValueError where they are something else."""
    if listed("names", arrays["names"]) != list(FIGURES):
        raise ValueError("it has other figures")
    about = parse_json(str(arrays["about"]))
    ABOUT(about, "it")
    distances = None
    if "divergence" in arrays:
        names = ("divergence", "embedding", "clusters")
        distances = {name: listed(name, arrays[name]) for name in names if name in arrays}
        DISTANCES(distances, "distances")
    return from_parts(about, arrays["figures"], arrays["spread"], arrays.get("alike"), distances)


def from_parts(
    found: dict[str, Any], figures: Any, spread: Any, alike: Any, distances: dict[str, Any] | None
) -> Statistics:
    """Raises ValueError for arrays that are none of numbers, or of no shape."""
    return Statistics(
        model=ModelInfo(**found["model"]),
        mask=found["mask"],
        texts=found["texts"],
        tokens=found["tokens"],
        entropy_limit=of_each(found["entropy_limit"], found["model"]["layers"]),
        figures=doubles("figures", figures),
        spread=doubles("spread", spread),
        partial=found["partial"],
        measure=found.get("measure", "weight"),
        words=found.get("words", False),
        alike=None if alike is None else doubles("alike", alike),
        kind=found.get("kind", "encoder"),
        distances=None
        if distances is None
        else Distances(
            doubles("divergence", distances["divergence"]),
            doubles("embedding", distances["embedding"]),
            distances["clusters"],
        ),
    )


def doubles(name: str, values: Any) -> Doubles:
    """Raises ValueError for what are no numbers, or lists of them that are not equally long."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} is {array.dtype}, and not numbers")
    return array.astype(np.float64)


def check_statistics(statistics: Statistics) -> None:
    """Raises ValueError where shapes do not agree, or a figure is out of its range (`attncli.analysis.ranges`)."""
    layers, heads, tokens = statistics.model.layers, statistics.model.heads, statistics.tokens
    every, between = layers * heads, statistics.distances
    shapes: list[tuple[str, Doubles | None, tuple[int, ...]]] = [
        ("figures", statistics.figures, (layers, heads, len(FIGURES))),
        ("spread", statistics.spread, (layers, heads, len(FIGURES))),
        ("alike", statistics.alike, (layers, len(LINEAR))),
    ]
    if between is not None:
        shapes += [("divergence", between.divergence, (every, every)), ("embedding", between.embedding, (every, 2))]
        each(whole(), every)(between.clusters, "clusters")
    for name, array, shape in shapes:
        if array is not None and array.shape != shape:
            raise ValueError(f"{name} is {list(array.shape)}, and by its model {list(shape)}")
    if statistics.texts > tokens:
        raise ValueError(f"it is of {statistics.texts} texts of {tokens} tokens together")
    ranges.check_limit(statistics.entropy_limit, tokens)
    ranges.check_figures(statistics.figures, statistics.entropy_limit, tokens)
    ranges.check_spread(statistics.spread, tokens)
    if statistics.alike is not None:
        ranges.check_alike(statistics.alike, tokens)
    if between is not None:
        ranges.check_divergence(between.divergence)
        ranges.check_clusters(between.clusters)
        if not np.isfinite(between.embedding).all():
            raise ValueError("embedding: a number is none")
