"""Where tokens come from, by rollout and flow, as a picture: rows are layers, columns are methods."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from attncli.base.arrays import Doubles
from attncli.record import AttentionRecord
from attncli.render.captions.flow import MEANING
from attncli.render.figures.grid import Grid
from attncli.render.figures.matrix import Panel, panel_grid
from attncli.render.figures.options import What
from attncli.render.figures.titles import describe


def flow_figure(
    record: AttentionRecord,
    layers: Sequence[int],
    shares: Mapping[str, Doubles],
    held: int | None = None,
    words: bool = False,
) -> Figure:
    """Maps from the tokens of each layer to the input tokens, with one colour scale.

    shares: `[layer, query, input token]` by method, of all queries. held: a query whose row stands out.

    A Notice names characters that no font on this machine has.
    """
    rows = [
        [Panel(name if number == 0 else "", maps[number].astype(np.float32)) for name, maps in shares.items()]
        for number in range(len(layers))
    ]
    grid = Grid(
        record.tokens.text,
        headings=[f"layer {layer}" for layer in layers] if len(layers) > 1 else [],
        title=describe(record.select(layers=list(layers)), What(mean=True, words=words)),
        note="; ".join(MEANING[name] for name in shares),
        held=held,
    )
    return panel_grid(rows, grid, scale="share")
