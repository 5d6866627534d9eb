"""The colours of weights (`attncli.render.palette`) as a colour map of matplotlib's."""

import difflib

import matplotlib
from matplotlib.colors import Colormap, LinearSegmentedColormap

from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.render.palette import WEIGHTS, WEIGHTS_NAME


def registered() -> str:
    """The name by which matplotlib knows them from now on; with "_r" after it they are those of a dark page."""
    on_paper = LinearSegmentedColormap.from_list(WEIGHTS_NAME, WEIGHTS)
    for one in (on_paper, on_paper.reversed()):
        matplotlib.colormaps.register(one, force=True)
    return WEIGHTS_NAME


COLOURS = registered()
CHANGES = "RdBu_r"  # of signed numbers: blue is less than 0, red more


def colour_map(name: str) -> Colormap:
    """matplotlib's colour map of this name. Raises RequestError, with names like it, when there is none."""
    if name not in matplotlib.colormaps:
        near = difflib.get_close_matches(name, matplotlib.colormaps, n=3) or [COLOURS, "viridis", "Blues"]
        raise RequestError(f"no colour map {quoted(name)}: matplotlib has {', '.join(near)} and others")
    return matplotlib.colormaps[name]
