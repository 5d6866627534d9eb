"""Show any report as a page: its maps or grids of heads side by side with one cursor, its sentences beside them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attncli.base import __version__
from attncli.base.errors import RequestError
from attncli.base.printable import as_sentence, printable, visible
from attncli.page.document import assemble, script
from attncli.page.packing import TEXTS, Chunks, compress
from attncli.record.display import CHANGES_DARK, CHANGES_LIGHT, HEAD_COLOURS, WEIGHTS
from attncli.report.parts import HeadGrid, MapAxis, Maps, Panel, Part, TextLine

MAIN = "compare"
BETWEEN = {"tokens": " → ", "heads": ", "}


def page_of(title: Sequence[str], parts: Sequence[Part]) -> str:
    """Return one HTML document with the maps or the grid of heads of a report, or the page that one of its parts makes
    itself.

    The same parts give the same document. Raises RequestError for a report that has none of these.
    """
    for part in parts:
        own = part.page()
        if own is not None:
            return own
        if isinstance(part, Maps):
            return panels_page(
                title,
                parts,
                part.all_panels,
                number_labels(part.rows),
                number_labels(part.columns),
                part.signed,
                "tokens",
                part.apart,
            )
        if isinstance(part, HeadGrid):
            rows = MapAxis("layer", [f"layer {layer}" for layer in part.layers])
            columns = MapAxis("head", [f"head {head}" for head in part.heads])
            more = [TextLine(sentence, caption=True) for sentence in part.about]
            return panels_page(title, [*parts, *more], part.panels, rows, columns, part.signed, "heads")
    named = " · ".join(title) or "this"
    raise RequestError(f"there is no page of {named}: save it as .json or .csv; attncli view makes a page of maps")


def number_labels(axis: MapAxis) -> MapAxis:
    """Return an axis whose labels begin with their positions, if the axis may have only some tokens of a text."""
    if axis.numbers is None:
        return axis
    labels = [f"{place} {visible(label)}" for place, label in zip(axis.places, axis.labels, strict=True)]
    return MapAxis(axis.name, labels, special=axis.special)


def panels_page(
    title: Sequence[str],
    parts: Sequence[Part],
    panels: Sequence[Panel],
    rows: MapAxis,
    columns: MapAxis,
    signed: bool,
    between: str,
    apart: bool = False,
) -> str:
    """Return the page of some panels; the first caption is its sentence, the others stand below.

    apart: each panel has a scale of its own.
    """
    chunks = Chunks(TEXTS)
    captions = [part.text for part in parts if isinstance(part, TextLine) and part.caption]
    heading = " · ".join(map(printable, title))
    shown = [
        {
            "name": one.name,
            "about": one.about,
            "signed": signed and not one.weights,
            "marked": list(one.marked),
            "chunk": chunks.add(compress(one.values.astype("<f4").tobytes())),  # as data.js reads it
        }
        for one in panels
    ]
    # It opens at the largest number: of all maps, of the changes if signed, or of the first map if scales differ.
    changes = [one for one in panels if signed and not one.weights]
    ranked = changes[:1] or (panels[:1] if apart else panels)
    sizes = np.max([np.abs(np.nan_to_num(one.values)) for one in ranked], axis=0)
    row, column = np.unravel_index(int(sizes.argmax()), sizes.shape)
    opening = {"token": int(row), "partner": int(column)} if sizes.max() > 0 else {}
    text = {"keys": axis_entry(columns), "title": "", "attention": "encoder", "note": "", "masks": [{"name": ""}]}
    description: dict[str, Any] = {
        "version": __version__,
        "model": {"name": printable(title[0])},
        "layers": [0],
        "heads": [0],
        "measure": "weight",
        "colours": list(HEAD_COLOURS),
        "ramp": list(WEIGHTS),
        "texts": [axis_entry(rows) | text],
        "start": {"view": "matrix", "opening": opening},
        "panels": shown,
        "apart": apart,
        "heading": heading,
        "says": as_sentence(captions[0]) if captions else "",
        "between": BETWEEN[between],
    }
    return compared_page(heading, description, captions[1:], chunks)


def compared_page(heading: str, description: dict[str, Any], about: Sequence[str], chunks: Chunks[str]) -> str:
    """Return the page of maps side by side, with the sentences below them and the colours of signed maps."""
    description = description | {
        "signed": {"light": CHANGES_LIGHT, "dark": CHANGES_DARK},
        "about": [*map(as_sentence, about), f"made by attncli {__version__}"],
    }
    return assemble(["compare.html"], ["style.css", "compare.css"], script(MAIN), heading, description, chunks.by_name)


def axis_entry(axis: MapAxis) -> dict[str, Any]:
    """Return one side of a map as the page reads it."""
    labels = [printable(label) for label in axis.labels]
    return {
        "tokens": labels,
        "segments": [0] * len(labels),
        "special": list(axis.special) or [False] * len(labels),
        "words": [[label, [place]] for place, label in enumerate(labels)],
    }
