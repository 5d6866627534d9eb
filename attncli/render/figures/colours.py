"""The colours of weights (`attncli.render.palette`) as a colour map of matplotlib's."""

import matplotlib
from matplotlib.colors import LinearSegmentedColormap

from attncli.render.palette import WEIGHTS, WEIGHTS_NAME


def registered() -> str:
    """The name by which matplotlib knows them from now on; with "_r" after it they are those of a dark page."""
    on_paper = LinearSegmentedColormap.from_list(WEIGHTS_NAME, WEIGHTS)
    for one in (on_paper, on_paper.reversed()):
        matplotlib.colormaps.register(one, force=True)
    return WEIGHTS_NAME
