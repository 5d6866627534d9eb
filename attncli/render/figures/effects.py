"""What silencing heads does to an output, as a picture: layers by heads, a panel a way, coloured around 0."""

from matplotlib.figure import Figure

from attncli.analysis.effects import Ablation
from attncli.render.captions.effects import WAYS, answered, which_way
from attncli.render.figures.difference import CHANGES
from attncli.report.figure.layout import Grid, wrap_panels
from attncli.report.figure.maps import Panel, panel_grid
from attncli.report.figure.record import asked_of


def ablation_figure(found: Ablation) -> Figure:
    """One scale for all ways, from what is largest in size below 0 to the same above it."""
    panels = [Panel(WAYS[way], effects) for way, effects in zip(found.ways, found.mean, strict=True)]
    texts = "" if found.texts == 1 else f" · mean of {found.texts} texts"
    grid = Grid(
        [str(layer) for layer in found.layers],
        [str(head) for head in found.heads],
        title=asked_of(found.model, f"{answered(found.answer)}{texts}", found.answer.mask),
        note=which_way(found.answer.kind),
        axes=("layer", "head"),
    )
    return panel_grid(wrap_panels(panels), grid, cmap=CHANGES, scale="effect", signed=True)
