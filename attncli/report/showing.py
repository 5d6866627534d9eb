"""Show a record, as in pandas: `record.page()`, `record.figure()`, and in a notebook.

A record names this module (`SHOWING` in `record/record.py`), and imports it when it is asked to show itself. A
medium is imported when it is needed, so that a page needs no matplotlib.
"""

import html
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli.analysis.patterns import row_shares
from attncli.record import AttentionRecord
from attncli.record.selection import Heads, Selection

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The page that a notebook stores of a record. A notebook with ten of them must still be easy to open, mail and compare.
MOST = 1_400_000  # characters, of which ROOM are maps
ROOM = 1_150_000
TRIED = 2_000_000  # weights: a page of more would exceed MOST


def page(
    record: AttentionRecord,
    path: str | Path | None = None,
    *,
    layers: Selection | None = None,
    heads: Heads | None = None,
    title: str | None = None,
    **options: Any,
) -> str:
    """Return one HTML document with all heads of a record; save it too, where a `path` (.html) is given.

    layers, heads: a part of them, named as for `AttentionRecord.select`. options: how the page opens, by the names of
    `attncli.page.Start`.

    Raises RequestError for a layer, head or token that is not there, or an unwritable place; TypeError for another
    option.
    """
    from attncli import page as pages

    document = pages.page(record.select(layers, heads), pages.Start(**options), title)
    if path is not None:
        pages.save_page(document, path)
    return document


def figure(
    record: AttentionRecord,
    path: str | Path | None = None,
    *,
    layers: Selection | None = None,
    heads: Heads | None = None,
    **options: Any,
) -> "Figure":
    """Return a matplotlib figure of a record's maps; save it too, where a `path` (.png, .svg, .pdf) is given.

    layers, heads: a part of them, named as for `AttentionRecord.select`. options: the content and the appearance, by
    the names of `What` and `Appearance` (`attncli.report.figure.record`), and width ("8cm"), font, font_size, title
    and dpi.

    Raises RequestError for a layer, head or token that is not there, or an unwritable place; TypeError for another
    option.
    """
    from attncli.report.figure.drawing import save_figure
    from attncli.report.figure.record import Appearance, What, describe, heatmap
    from attncli.report.paper import Paper, paper

    what, printed = (
        {one.name: options.pop(one.name) for one in fields(kind) if one.name in options} for kind in (What, Paper)
    )
    sheet = paper(**printed)
    selected, content = record.select(layers, heads), What(**what)
    drawn = heatmap(selected, content, Appearance(**options), sheet)
    if path is not None:
        save_figure(drawn, path, sheet.dots, describe(selected, content))
    return drawn


def notebook(record: AttentionRecord) -> str:
    """Return a page in a frame, for a notebook to keep: the whole page if it is small enough, else a reduced one."""
    from attncli.page.document import frame

    if record.weights.size <= TRIED:
        whole = frame(page(record))
        if len(whole) <= MOST:
            return whole
    caption, document = small(record)
    return f"<p>{html.escape(caption)}</p>{frame(document)}"


def small(record: AttentionRecord) -> tuple[str, str]:
    """Return a sentence on a page of at most about MOST characters, and the page.

    It has small maps of all heads, and in full the heads whose word-to-word edges are farthest above their usual weight
    (`attncli.analysis.edges.by_content`), as many as there is room for; no q and k.
    """
    from attncli import page as pages
    from attncli.analysis.edges import by_content
    from attncli.page.advice import WHOLE
    from attncli.page.payload import FullHeads

    with_vectors, advice = ("", None) if record.vectors is None else (", with q and k", WHOLE)
    record = replace(row_shares(record), vectors=None)
    kept = FullHeads.within(record, by_content(record), ROOM)
    names = ", ".join(f"{layer}.{head}" for layer, head in kept.heads) or "none"
    every = record.each_head
    layer, head = next((one for one in every if one not in kept.heads), every[0])
    caption = (
        f"{len(kept.heads)} of {len(every)} heads are here in full: {names}. Their word-to-word edges are farthest "
        "above the usual weight. The others are small maps. "
        f"record.select(layers={layer}, heads={head}) shows one in full; "
        f'record.page("all.html") makes a page of all{with_vectors}.'
    )
    return caption, pages.page(record, kept=kept, advice=advice)
