"""Maps side by side as a page, with one cursor and a scale around 0: two records and B - A, or effects."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attncli.analysis.difference import Difference
from attncli.analysis.effects import Ablation
from attncli.base.arrays import Doubles
from attncli.base.printable import printable
from attncli.base.version import __version__
from attncli.record import ModelInfo
from attncli.render.captions.difference import MEANING, about, told_apart
from attncli.render.captions.effects import WAYS, answered, which_way
from attncli.render.page.chunks import TEXTS, Chunks
from attncli.render.page.document import assembled
from attncli.render.page.levels import Scale
from attncli.render.page.modules import script
from attncli.render.page.pack import packed, pick_scale
from attncli.render.page.payload import describe, text_entry
from attncli.render.palette import CHANGES_DARK, CHANGES_LIGHT
from attncli.report.captions import model_name

MAIN = "compare"
TO = " → "  # between a query and a key
DIGITS = 6  # of how much moved
START = {"view": "matrix"}


def difference_page(found: Difference) -> str:
    """One HTML document with all heads that both records have, opened at that which differs most. The same two give
    the same document.
    """
    both = [replace(record, vectors=None) for record in (found.first, found.second)]
    scale, chunks = pick_scale([record.weights for record in both]), Chunks(TEXTS)
    texts = [text_entry([record], scale, chunks) for record in both]
    layer, head = found.heads()[0]
    start = {**START, "layer": layer, "head": head}
    sides = list(zip("AB", told_apart(found), strict=True))
    description = describe(both[0].model, (both[0].layers, both[0].heads), both[0].measure, texts, start) | {
        "panels": [*({"name": name, "about": side} for name, side in sides), {"name": "B − A", "signed": True}],
        "moved": found.moved.round(DIGITS).tolist(),
        "between": TO,
        "about": [
            *(
                " · ".join([f"{name}: {model_name(one.model.shown)}", *about(one)])
                for name, one in zip("AB", both, strict=True)
            ),
            MEANING,
            stored(scale, max(len(one.keys) for one in both)),
        ],
    }
    return document(" · ".join(f"{name}: {side}" for name, side in sides), description, chunks)


def stored(scale: Scale, keys: int) -> str:
    """How exact the weights of both are, of which the page makes their difference."""
    strongest = f"within {100 * scale.error:.2g} % of themselves"
    if keys <= scale.strongest:
        return f"weights of A and B are stored {strongest}"
    others = f"the others within {100 * scale.rest:.2g} %, and not if they are below {scale.least(keys):.1g}"
    return f"the strongest {scale.strongest} weights of a row of A and B are stored {strongest}, {others}"


def ablation_page(found: Ablation) -> str:
    """One HTML document with the effect of each head, a map a way: layers by heads, with one scale around 0."""
    chunks = Chunks(TEXTS)
    axes = axis([f"layer {layer}" for layer in found.layers]), axis([f"head {head}" for head in found.heads])
    panels = [
        {"name": way, "about": WAYS[way].partition(": ")[2], "signed": True, "chunk": chunks.add(floats(effects))}
        for way, effects in zip(found.ways, found.mean, strict=True)
    ]
    texts = "" if found.texts == 1 else f" · mean of {found.texts} texts"
    heading = f"{model_name(found.model.shown)} · {answered(found.answer)}{texts}"
    said = {"heading": heading, "says": f"{which_way(found.answer.kind)}.", "between": ", ", "about": []}
    return document(heading, effects_description(found.model, axes, panels) | said, chunks)


def effects_description(
    model: ModelInfo, axes: tuple[dict[str, Any], dict[str, Any]], panels: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Of a page whose maps are in it as they are, between the units of two axes."""
    queries, keys = axes
    text = {**queries, "keys": keys, "title": "", "attention": "encoder", "note": "", "masks": [{"name": ""}]}
    return describe(model, ([0], [0]), "weight", [text], START) | {"panels": list(panels)}


def axis(labels: Sequence[str], special: Sequence[bool] = ()) -> dict[str, Any]:
    """What stands along one side of a map, as `tokens_entry` has the tokens of a text."""
    return {
        "tokens": list(labels),
        "segments": [0] * len(labels),
        "special": list(special) or [False] * len(labels),
        "words": [[label, [place]] for place, label in enumerate(labels)],
    }


def floats(values: Doubles) -> str:
    """A map as data.js reads it: float32, NaN where there is nothing."""
    return packed(values.astype("<f4").tobytes())


def document(title: str, description: dict[str, Any], chunks: Chunks[str]) -> str:
    """The page of a description, with the colours around 0, and who made it."""
    description["signed"] = {"light": CHANGES_LIGHT, "dark": CHANGES_DARK}
    description["about"] = [*map(printable, description["about"]), f"made by attncli {__version__}"]
    styles = ["style.css", "compare.css"]
    return assembled(["compare.html"], styles, script(MAIN), title, description, chunks.there)
