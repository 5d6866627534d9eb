"""Which tokens each ranking puts first, as a picture: a row a ranking; below what erasing each token alone changes."""

import numpy as np
from matplotlib.figure import Figure

from attncli.analysis.trust import Trust
from attncli.base.arrays import Doubles, Floats
from attncli.render.captions.effects import answered
from attncli.render.captions.trust import WAYS
from attncli.report.figure.layout import Grid
from attncli.report.figure.maps import Panel, panel_grid
from attncli.report.figure.record import asked_of

NOTE = "share of the other tokens that a ranking puts behind the token; below, by size, what erasing it alone changes"


def trust_figure(found: Trust) -> Figure:
    """Colours are ranks and no sizes: numbers of different methods have no unit in common."""
    alone = {f"alone, {WAYS[one.way]}": np.abs(one.alone) for one in found.erased}
    rows = {name.replace("gradient", "grad"): row for name, row in found.importances.items()} | alone  # a label's room
    tokens = [found.tokens.shown[place] for place in found.erasable]
    title = asked_of(found.model, answered(found.answer), found.answer.mask)
    grid = Grid(list(rows), tokens, title=title, note=NOTE, axes=("tokens by", "token"), vmax=1.0)
    return panel_grid([[Panel("", np.stack([ahead(row) for row in rows.values()]))]], grid, scale="tokens behind")


def ahead(importance: Doubles) -> Floats:
    """Of each token the share of the others that are less important, `[token]`."""
    less = np.less.outer(importance, importance).sum(axis=0)
    return (less / (len(importance) - 1)).astype(np.float32)
