"""Keep what `kinds` measured in the cache, by all that it depends on, and read it again."""

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
from attncli.features.kinds import Found, Matter
from attncli.models.checkpoint_files import CONFIG_FILE

if TYPE_CHECKING:
    from attncli.models.engine import Engine

FORMAT = 1  # of a file
LONGEST = 2**26  # bytes of a file
CHUNK = 2**20  # bytes of an input at a time
ARRAYS = ("score", "low", "high", "null", "floor")  # of a measure


def kept_at(model: "Engine", inputs: Iterable[InputFile], options: Mapping[str, Any]) -> Path | None:
    """Return the file for these inputs and options; None if the model has no digest, or if one input is stdin."""
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


def keep(path: Path, found: Found, day: str) -> None:
    """Keep what was measured on a day."""
    content = {
        "day": day,
        "texts": found.texts,
        "tokens": found.tokens,
        "others": list(found.others),
        "about_treebank": list(found.about_treebank),
        "kinds": [_kind_entry(one) for one in found.kinds],
        "matter": {name: asdict(one) for name, one in found.matter.items()},
    }
    keep_newest(path, lambda temporary: temporary.write_text(json.dumps(content), encoding="utf-8"))


def read(path: Path, model: "Engine") -> tuple[Found, str] | None:
    """Return what was measured, and on which day; None if nothing is kept, or the file is garbled."""

    info = model.info_of(model.to_itself(None))
    shape = info.layers, info.heads
    try:
        content = read_json(path, LONGEST)
        kinds = [_judged(one, shape) for one in content["kinds"]]
        matter = {name: Matter(**one) for name, one in content["matter"].items()}
        if [one.kind.name for one in kinds] != list(KINDS) or not all(
            isinstance(one.heads, int) and np.isfinite([one.effect, *one.random]).all() for one in matter.values()
        ):
            return None
        texts, tokens = int(content["texts"]), int(content["tokens"])
        others, about = (list(map(str, content[name])) for name in ("others", "about_treebank"))
        day = date.fromisoformat(content["day"]).isoformat()
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return Found(info, texts, tokens, False, kinds, matter, others, about), day


def _kind_entry(judged: Judged) -> dict[str, Any]:
    return {
        "kind": judged.kind.name,
        "why_not": judged.why_not,
        "measures": [
            {"name": one.name, "least": one.least, **{name: _numbers(getattr(one, name)) for name in ARRAYS}}
            for one in judged.measures
        ],
        "beside": {name: _numbers(one) for name, one in judged.beside.items()},
        "details": [[*head, text] for head, text in judged.details.items()],
        "others": sorted(judged.others),
    }


def _numbers(array: Doubles | None) -> list[list[float | None]] | None:
    """Return an array as JSON has it: NaN is null."""
    return None if array is None else [[None if np.isnan(one) else float(one) for one in row] for row in array]


def _judged(entry: Any, shape: tuple[int, int]) -> Judged:
    """Return a kind from its entry. Raises ValueError and the like for one that `_kind_entry` did not write."""

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
