"""Cut edges as a picture: effects of single edges beside their weights, or of some edges layer by layer."""

import numpy as np
from matplotlib.figure import Figure

from attncli.analysis.cuts import Cut, CutIn, EdgeEffects
from attncli.render.captions.cuts import CONTROL, EDGE, NO_CONTROL, cut_where, together, token_name
from attncli.render.captions.effects import answered, which_way
from attncli.render.figures.difference import CHANGES
from attncli.render.figures.grid import Grid
from attncli.render.figures.matrix import Panel, panel_grid
from attncli.render.figures.titles import short_name
from attncli.render.hidden import largest_weight

NAMED = 3  # edges in a title


def heading(where: CutIn) -> str:
    return f"{short_name(where.model.name)} · {answered(where.answer)}"


def cut_figure(found: Cut) -> Figure:
    """A row for all layers and one for each; the effect of the cut, and the mean of the controls beside it."""
    where = found.where
    names = [" to ".join(token_name(where, place) for place in edge) for edge in found.edges]
    shown = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    columns = [found.effects] if found.controls is None else [found.effects, found.controls.mean(axis=0)]
    grid = Grid(
        ["all of these", *(f"layer {layer}" for layer in where.layers)],
        ["effect", "others"][: len(columns)],
        title=f"{heading(where)} · {shown}",
        note="; ".join(
            [cut_where(where), which_way(where.answer.kind), NO_CONTROL if found.controls is None else CONTROL]
        ),
        axes=("cut in", ""),
    )
    return panel_grid(
        [[Panel("", np.float32(np.stack(columns, axis=1)))]], grid, cmap=CHANGES, scale="effect", signed=True
    )


def edges_figure(found: EdgeEffects) -> Figure:
    """The map of effects and the map of weights, each as a share of what is largest in it: they have no common unit."""
    where, panels = found.where, []
    for name, part in (("effect", found.effects), ("mean weight", found.weights)):
        most = largest_weight(np.abs(part))
        panels.append(Panel(f"{name}, 1 is {most:.3g}", np.float32(part / (most or 1.0))))
    grid = Grid(
        [where.tokens.shown[place] for place in found.queries],
        [where.tokens.shown[place] for place in found.keys],
        title=heading(where),
        note="; ".join([cut_where(where), which_way(where.answer.kind, EDGE), together(found.correlation())]),
        vmax=1.0,
    )
    return panel_grid([panels], grid, cmap=CHANGES, scale="share of the largest", signed=True)
