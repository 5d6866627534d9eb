"""Patches as a picture: layers by heads or tokens, coloured around 0; beside it the control."""

import numpy as np
from matplotlib.figure import Figure

from attncli.analysis.patches import Patch
from attncli.record.cells import largest_weight
from attncli.render.captions.patches import CONTROL, SHARE, both, put_where, token_pair
from attncli.render.figures.difference import CHANGES
from attncli.report.figure.layout import Grid, wrap_panels
from attncli.report.figure.maps import Panel, panel_grid
from attncli.report.figure.record import asked_of


def patch_figure(found: Patch) -> Figure:
    """One scale for both, from what is largest in size of the shares; what is larger in the control has its end."""
    across = {
        "head": [str(head) for head in found.heads],
        "layer": ["all heads"],
        "token": [token_pair(found, place) for place in range(len(found.tokens))],
    }
    grid = Grid(
        [str(layer) for layer in found.layers],
        across[found.by],
        title=asked_of(found.model, both(found), found.answer.mask),
        note="; ".join([put_where(found), SHARE, CONTROL]),
        axes=("layer", "token" if found.by == "token" else "head"),
        vmax=largest_weight(np.abs(found.shares)) or None,
    )
    shares = {"the second text's": found.shares, "control: other texts'": found.control_shares}
    panels = [Panel(name, np.float32(part)) for name, part in shares.items()]
    return panel_grid(wrap_panels(panels), grid, cmap=CHANGES, scale="share", signed=True)
