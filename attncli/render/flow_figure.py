"""Where tokens come from, by rollout and flow, as a picture: rows are layers, columns are methods."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from attncli.analysis.rollout import Doubles
from attncli.record import AttentionRecord
from attncli.render.figure import Panel, describe, panel_grid
from attncli.render.flow import MEANING


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
    return panel_grid(
        rows,
        record.tokens.text,
        headings=[f"layer {layer}" for layer in layers] if len(layers) > 1 else [],
        title=describe(record.select(layers=list(layers)), mean=True, words=words),
        note="; ".join(MEANING[name] for name in shares),
        held=held,
        scale="share",
    )
