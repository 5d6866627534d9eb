"""Where tokens come from, by rollout and flow, as a picture: rows are layers, columns are methods."""

from matplotlib.figure import Figure

from attncli.analysis.following import Followed, followed_maps
from attncli.record.cells import largest_weight
from attncli.render.captions.flow import MEANING
from attncli.report.figure.layout import Grid
from attncli.report.figure.maps import Panel, panel_grid
from attncli.report.figure.record import What, describe


def flow_figure(found: Followed, held: int | None = None, words: bool = False) -> Figure:
    """Maps from the tokens of each layer to the input tokens, each with colours up to its own largest share: what flow
    gives is spread much more than what rollout does.

    found: of all queries. held: one whose row stands out. words: whether tokens are words, for the title.

    A Notice names characters that no font on this machine has.
    """
    rows = [
        [
            Panel(f"{name}, up to {largest_weight(maps[number]):.2f}", maps[number])
            for name, maps in followed_maps(found).items()
        ]
        for number in range(len(found.layers))
    ]
    grid = Grid(
        found.record.tokens.shown,
        headings=[f"layer {layer}" for layer in found.layers] if len(found.layers) > 1 else [],
        title=describe(found.record.select(layers=found.layers), What(mean=True, words=words)),
        note="; ".join(MEANING[name] for name in found.shares),
        held=held,
        apart=True,
    )
    return panel_grid(rows, grid, scale="share")
