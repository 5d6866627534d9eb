"""Why texts are similar, as pictures: a signed map of A's tokens by B's, and one of the cosines of many texts."""

import numpy as np
from matplotlib.figure import Figure

from attncli.analysis.similarity import Cosines, Similarity
from attncli.render.captions.similarity import HUNDREDTHS, UP, summed
from attncli.render.figures.difference import CHANGES
from attncli.report.figure.layout import Grid
from attncli.report.figure.maps import Panel, panel_grid
from attncli.report.figure.record import asked_of, short_name


def similarity_figure(found: Similarity) -> Figure:
    """Rows are A's tokens and columns B's, from what is largest in size below 0 to the same above it."""
    credited = "contextual vectors" if found.references is None else "input tokens"
    grid = Grid(
        found.tokens.shown,
        found.key_tokens.shown,
        title=asked_of(found.model, f"cosine {found.cosine:.4f} · {credited}", found.effects.answer.mask),
        note="\n".join([*summed(found), UP]),
        axes=("A", "B"),
    )
    panel = Panel("", (found.contributions * HUNDREDTHS).astype(np.float32))
    return panel_grid([[panel]], grid, cmap=CHANGES, scale="cosine, hundredths", signed=True)


def cosines_figure(found: Cosines) -> Figure:
    """A row and a column a text."""
    texts = [f"{place} {text}" for place, text in enumerate(found.texts)]
    grid = Grid(texts, title=f"{short_name(found.model.shown)} · cosines of {len(texts)} texts", axes=("text", "text"))
    return panel_grid([[Panel("", found.values.astype(np.float32))]], grid, cmap=CHANGES, scale="cosine", signed=True)
