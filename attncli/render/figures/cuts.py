"""Cut edges as a picture: effects of single edges beside their weights, or of some edges layer by layer."""

import numpy as np
from matplotlib.figure import Figure

from attncli.analysis.cuts import Cut, CutIn, EdgeEffects
from attncli.base.arrays import Doubles
from attncli.render.captions.cuts import CONTROL, EDGE, EDGES, NO_CONTROL, cut_where, edge_names, together
from attncli.render.captions.effects import answered, which_way
from attncli.render.figures.difference import CHANGES
from attncli.render.figures.grid import Grid
from attncli.render.figures.matrix import Panel, panel_grid
from attncli.render.figures.titles import asked_of
from attncli.render.hidden import largest_weight

NAMED = 3  # edges in a title
SCALE = "share of the largest"


def heading(where: CutIn) -> str:
    return asked_of(where.model, answered(where.answer), where.answer.mask)


def in_shares(name: str, part: Doubles) -> Panel:
    """A panel whose numbers are shares of what is largest in it, which its caption says."""
    most = largest_weight(np.abs(part))
    return Panel(f"{name}, 1 is {most:.3g}", np.float32(part / (most or 1.0)))


def cut_figure(found: Cut) -> Figure:
    """A row for all layers and one for each: the effect of the cut, and beside it the mean of the controls."""
    where = found.where
    names = [" to ".join(edge_names(where, edge)) for edge in found.edges]
    shown = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    columns, control = [found.effects], NO_CONTROL
    if found.controls is not None:
        columns, control = [found.effects, found.controls.mean(axis=0)], CONTROL
    grid = Grid(
        ["all of these", *(f"layer {layer}" for layer in where.layers)],
        ["effect", "others"][: len(columns)],
        title=f"{heading(where)} · {shown}",
        note="; ".join([cut_where(where), which_way(where.answer.kind, EDGE if len(names) == 1 else EDGES), control]),
        axes=("cut in", ""),
        vmax=1.0,
    )
    panel = in_shares("effect", np.stack(columns, axis=1))
    return panel_grid([[panel]], grid, cmap=CHANGES, scale=SCALE, signed=True)


def edges_figure(found: EdgeEffects) -> Figure:
    """The map of effects and the map of weights, each as shares of what is largest in it: they have no common unit."""
    where = found.where
    grid = Grid(
        [where.tokens.shown[place] for place in found.queries],
        [where.keys.shown[place] for place in found.keys],
        title=heading(where),
        note="; ".join([cut_where(where), which_way(where.answer.kind, EDGE), together(found)]),
        vmax=1.0,
    )
    panels = [in_shares("effect", found.effects), in_shares("mean weight", found.seen_weights)]
    return panel_grid([panels], grid, cmap=CHANGES, scale=SCALE, signed=True)
