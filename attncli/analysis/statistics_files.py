"""Statistics in files: .json, .csv and .npz."""

import json
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from attncli.analysis.clearest import clearest, labelled
from attncli.analysis.distances import Distances
from attncli.analysis.statistics import FIGURES, LINEAR, PATTERNS, HeadStatistics, Statistics
from attncli.base.arrays import Doubles
from attncli.base.documents import as_text, write_table
from attncli.base.errors import RequestError
from attncli.base.files import check_suffix, write_whole
from attncli.base.printable import first_line
from attncli.record import ModelInfo

SUFFIXES = (".csv", ".json", ".npz")
LOADED = (".json", ".npz")  # those that are read again
SPREAD = "_spread"
CSV_HEADER = ("layer", "head", "label", "strength", *FIGURES, *(name + SPREAD for name in FIGURES))

# What a garbled file makes numpy, zipfile and our own reading say.
GARBLED = (ValueError, KeyError, TypeError, IndexError, AttributeError, EOFError, zipfile.BadZipFile, MemoryError)


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
        "model": asdict(statistics.model),
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
    """A limit `[layer]` from what stands in a file. Raises ValueError or TypeError when it is none of these layers."""
    numbers = [float(number) for number in limit] if isinstance(limit, list) else float(limit)
    return np.broadcast_to(np.array(numbers), layers)


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

    Raises RequestError when the file is missing, cut short, or holds something else.
    """
    suffix = check_suffix(path, LOADED, "statistics to load")
    try:
        loaded = read_json(path) if suffix == ".json" else read_npz(path)
        shape = (loaded.model.layers, loaded.model.heads, len(FIGURES))
        by_layer = (loaded.model.layers, len(LINEAR))
        if (
            loaded.figures.shape != shape
            or loaded.spread.shape != shape
            or (loaded.alike is not None and loaded.alike.shape != by_layer)
        ):
            raise ValueError("its shapes don't fit its model")
        return loaded
    except OSError as error:
        raise RequestError(f"can't read {path}: {error.strerror or error}") from error
    except GARBLED as error:
        raise RequestError(f"{path} holds no whole attncli statistics: {first_line(error)}") from error


def read_json(path: Path) -> Statistics:
    found = json.loads(path.read_text(encoding="utf-8"))
    shape = (found["model"]["layers"], found["model"]["heads"], len(FIGURES))
    figures, spread = (
        np.array([[one[kind][name] for name in FIGURES] for one in found["heads"]]).reshape(shape)
        for kind in ("figures", "spread")
    )
    alike = [[one[name] for name in LINEAR] for one in found["alike"]] if found.get("alike") else None
    return from_parts(found, figures, spread, alike, found.get("distances"))


def read_npz(path: Path) -> Statistics:
    with np.load(path, allow_pickle=False) as file:
        if tuple(file["names"].tolist()) != FIGURES:
            raise ValueError("it has other figures")
        names = ("divergence", "embedding", "clusters")
        distances = {name: file[name] for name in names} if "divergence" in file else None
        alike = file.get("alike")
        return from_parts(json.loads(str(file["about"])), file["figures"], file["spread"], alike, distances)


def from_parts(
    found: dict[str, Any], figures: Any, spread: Any, alike: Any, distances: dict[str, Any] | None
) -> Statistics:
    return Statistics(
        model=ModelInfo(**found["model"]),
        mask=str(found["mask"]),
        texts=int(found["texts"]),
        tokens=int(found["tokens"]),
        entropy_limit=of_each(found["entropy_limit"], found["model"]["layers"]),
        figures=np.asarray(figures, dtype=np.float64),
        spread=np.asarray(spread, dtype=np.float64),
        partial=bool(found["partial"]),
        measure=str(found.get("measure", "weight")),
        words=bool(found.get("words", False)),
        alike=None if alike is None else np.asarray(alike, dtype=np.float64),
        kind=str(found.get("kind", "encoder")),
        distances=None
        if distances is None
        else Distances(
            np.asarray(distances["divergence"], dtype=np.float64),
            np.asarray(distances["embedding"], dtype=np.float64),
            [int(number) for number in distances["clusters"]],
        ),
    )
