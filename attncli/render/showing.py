"""How a record shows itself, as people know it from pandas: `record.page()`, `record.figure()`, and in a notebook.

This is the one door that leads up: a record imports this module inside those methods, and nothing else of this room.
A medium is imported when it is asked for, so that a page needs no matplotlib.
"""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli.record import AttentionRecord
from attncli.record.selection import Selection

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def page(
    record: AttentionRecord,
    path: str | Path | None = None,
    *,
    layers: Selection | None = None,
    heads: Selection | None = None,
    title: str | None = None,
    **options: Any,
) -> str:
    """One HTML document with all heads of a record; saved too, where a `path` (.html) is given.

    layers, heads: a part of them, named as for `AttentionRecord.select`.
    options: how the page opens, by the names of `attncli.render.page.Start`.

    Raises RequestError for a layer, head or token that is not there, or an unwritable place; TypeError for another
    option.
    """
    from attncli.render import page as pages

    document = pages.page(record.select(layers, heads), pages.Start(**options), title)
    if path is not None:
        pages.save_page(document, path)
    return document


def figure(
    record: AttentionRecord,
    path: str | Path | None = None,
    *,
    layers: Selection | None = None,
    heads: Selection | None = None,
    dpi: int | None = None,
    **options: Any,
) -> "Figure":
    """A matplotlib figure of a record's maps; saved too, where a `path` (.png, .svg, .pdf) is given.

    layers, heads: a part of them, named as for `AttentionRecord.select`.
    dpi: dots an inch of what is saved.
    options: what is drawn, and how, by the names of `What` and `Look` (`attncli.render.figures.options`).

    Raises RequestError for a layer, head or token that is not there, or an unwritable place; TypeError for another
    option.
    """
    from attncli.render.figures.heatmap import heatmap
    from attncli.render.figures.options import Look, What
    from attncli.render.figures.saving import DPI, save_figure

    what = {one.name: options.pop(one.name) for one in fields(What) if one.name in options}
    drawn = heatmap(record.select(layers, heads), What(**what), Look(**options))
    if path is not None:
        save_figure(drawn, path, DPI if dpi is None else dpi)
    return drawn


def notebook(record: AttentionRecord) -> str:
    """The page in a frame, for a notebook."""
    from attncli.render.page.document import frame

    return frame(page(record))
