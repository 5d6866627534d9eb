"""What masks do, as a picture: rows are heads, columns are masks."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from attncli.record import AttentionRecord
from attncli.record.cells import drawn_map
from attncli.render.captions.masks import CAPTIONS, hidden_keys
from attncli.report.figure.layout import Grid
from attncli.report.figure.maps import Panel, panel_grid


def masks_figure(records: Mapping[str, AttentionRecord], heads: Sequence[tuple[int, int]]) -> Figure:
    """Each (layer, head) under every mask, with one colour scale; the records, by mask, are of the same tokens.

    A Notice names characters that no font on this machine has.
    """
    some = next(iter(records.values()))
    rows = [
        [
            Panel(f"{CAPTIONS[name]}\n{hidden_keys(record, layer)}", drawn_map(record, layer, head))
            for name, record in records.items()
        ]
        for layer, head in heads
    ]
    headings = [f"layer {layer} head {head}" for layer, head in heads]
    return panel_grid(rows, Grid(some.tokens.shown, headings=headings, title=f"{some.model.shown}: what masks do"))
