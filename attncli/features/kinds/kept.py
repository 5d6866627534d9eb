"""Cache the measurements of `kinds`, by everything that they depend on."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attncli.analysis.kinds import KINDS, Judged, KindMeasure
from attncli.base import __version__
from attncli.base.arrays import Doubles
from attncli.base.cache import DIGEST, cache_directory, keep_newest
from attncli.base.untrusted import read_json, read_regular
from attncli.corpus.files import STDIN, InputFile, open_input
from attncli.features.kinds import HeadKinds, SilencingEffect
from attncli.models.checkpoint_files import CONFIG_FILE
from attncli.models.parts import self_attention_part

if TYPE_CHECKING:
    from attncli.models.engine import Engine

FORMAT = 2  # version of the file format
LONGEST = 2**26  # bytes of a file
CHUNK = 2**20  # bytes of an input at a time
ARRAYS = ("score", "low", "high", "null", "floor")  # of a measure


def cache_path(model: "Engine", inputs: Iterable[InputFile], options: Mapping[str, Any]) -> Path | None:
    """Return the cache file for these inputs and options; None if the model has no digest, or if one input is stdin."""
    digests = []
    for one in inputs:
        if one.path == STDIN:
            return None
        content = hashlib.sha256()
        with open_input(one) as file:
            while chunk := file.read(CHUNK):
                content.update(chunk)
        digests.append((content.hexdigest(), Path(one.path).suffixes))
    if not DIGEST.fullmatch(model.sha256):
        return None
    config = model.place.path / CONFIG_FILE
    described = {
        "format": FORMAT,
        "version": __version__,
        "weights": model.sha256,
        "config": hashlib.sha256(read_regular(config)).hexdigest() if config.is_file() else "",
        "engine": model.name,
        "device": str(model.device),
        "dtype": model.dtype_name,
        "inputs": digests,
        "options": dict(options),
    }
    name = hashlib.sha256(json.dumps(described).encode()).hexdigest()
    return cache_directory() / "kinds" / "measured" / f"{name}.json"


def keep(path: Path, found: HeadKinds, day: str) -> None:
    """Save measurements with their date."""

    def numbers(array: Doubles | None) -> list[list[float | None]] | None:
        """Return an array as lists for JSON, with null for NaN."""
        return None if array is None else [[None if np.isnan(one) else float(one) for one in row] for row in array]

    content = {
        "day": day,
        "texts": found.texts,
        "tokens": found.tokens,
        "others": list(found.others),
        "about_treebank": list(found.about_treebank),
        "kinds": [
            {
                "kind": judged.kind.name,
                "why_not": judged.why_not,
                "measures": [
                    {"name": one.name, "least": one.least, **{name: numbers(getattr(one, name)) for name in ARRAYS}}
                    for one in judged.measures
                ],
                "beside": {name: numbers(one) for name, one in judged.beside.items()},
                "details": [[*head, text] for head, text in judged.details.items()],
                "others": sorted(judged.others),
            }
            for judged in found.kinds
        ],
        "silencing": {name: asdict(one) for name, one in found.silencing.items()},
    }
    keep_newest(path, lambda temporary: temporary.write_text(json.dumps(content), encoding="utf-8"))


def read(path: Path, model: "Engine") -> tuple[HeadKinds, str] | None:
    """Return the cached measurements and their date; None if there are none or the file is damaged."""
    info = model.of_part(self_attention_part(model, None)).info
    shape = info.layers, info.heads
    try:
        content = read_json(path, LONGEST)
        kinds = [_judged(one, shape) for one in content["kinds"]]
        silencing = {name: SilencingEffect(**one) for name, one in content["silencing"].items()}
        if [one.kind.name for one in kinds] != list(KINDS) or not all(
            isinstance(one.heads, int) and np.isfinite([one.effect, *one.random]).all() for one in silencing.values()
        ):
            return None
        texts, tokens = int(content["texts"]), int(content["tokens"])
        others, about = (list(map(str, content[name])) for name in ("others", "about_treebank"))
        day = date.fromisoformat(content["day"]).isoformat()
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return HeadKinds(info, texts, tokens, False, kinds, silencing, others, about), day


def _judged(entry: Any, shape: tuple[int, int]) -> Judged:
    """Return a kind from its entry. Raises ValueError or similar for an entry that `keep` did not write."""

    def array(rows: Any) -> Doubles:
        made = np.array(rows, dtype=np.float64)
        if made.shape != shape:
            raise ValueError(f"its shape is {made.shape}")
        return made

    def measure(one: Any) -> KindMeasure:
        arrays = {name: None if name == "floor" and one[name] is None else array(one[name]) for name in ARRAYS}
        return KindMeasure(str(one["name"]), least=float(one["least"]), **arrays)  # type: ignore[arg-type]

    return Judged(
        KINDS[entry["kind"]],
        [measure(one) for one in entry["measures"]],
        str(entry["why_not"]),
        {str(name): array(rows) for name, rows in entry["beside"].items()},
        {(int(layer), int(head)): str(text) for layer, head, text in entry["details"]},
        frozenset((int(layer), int(head)) for layer, head in entry["others"]),
    )
