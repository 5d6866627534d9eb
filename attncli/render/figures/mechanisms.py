"""One head as pictures: under every scoring function (rows) and normaliser (columns), in one design, with mistakes."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from attncli.record import AttentionRecord
from attncli.record.cells import drawn
from attncli.render.captions.designs import DesignLike, control_of, named
from attncli.render.captions.mechanisms import (
    OWN_SCORE,
    VariantLike,
    by_score,
    has_own_score,
    normaliser_name,
    untrained,
)
from attncli.render.captions.mistakes import AS_IT_IS, MistakesLike, changed_maps
from attncli.report.figure.fonts import NO_BREAK
from attncli.report.figure.layout import Grid
from attncli.report.figure.maps import Panel, panel_grid
from attncli.report.figure.record import describe

ACROSS = 4  # mistakes, beside each other


def mechanisms_figure(
    record: AttentionRecord, variants: Sequence[VariantLike], temperature: float, seed: int
) -> Figure:
    """The maps of all variants, with one colour scale.

    A Notice names characters that no font on this machine has.
    """
    rows = [row for _, row in by_score(variants, seed)]
    names = [normaliser_name(variant.normaliser, temperature) for variant in rows[0]]
    own = "its softmax is the head's own map" if temperature == 1 else "its softmax at T = 1 is the head's own map"
    if record.sinks:
        own = f"{own} but for its sink"
    own_score = f"{OWN_SCORE} is the head's own score, {own}; " if has_own_score(record) else ""
    random = untrained(seed).replace(" ", NO_BREAK)
    maps = [
        [
            Panel(name if row is rows[0] else "", drawn(one.weights, record.mask))
            for name, one in zip(names, row, strict=True)
        ]
        for row in rows
    ]
    grid = Grid(
        record.tokens.shown,
        keys=None if record.key_tokens is None else record.keys.shown,
        headings=[row[0].score if row[0].trained else f"{row[0].score} (untrained)" for row in rows],
        title=describe(record),
        note=f"{own_score}{random}: parameters that the model never learned",
    )
    return panel_grid(maps, grid)


def design_figure(record: AttentionRecord, design: DesignLike) -> Figure:
    """The head's own map, its map in the design, and that of a control, with one colour scale.

    A Notice names characters that no font on this machine has.
    """
    [layer], [head] = record.layers, record.heads
    maps = [
        Panel("as it is", record.map(layer, head)),
        Panel(named(design), design.look.weights),
        Panel(control_of(design), design.controls[0].weights),
    ]
    return panel_grid([maps], Grid(record.tokens.shown, title=describe(record), note=design.verdict))


def mistakes_figure(record: AttentionRecord, mistakes: MistakesLike) -> Figure:
    """The head's own map and those of all mistakes that change it, with one colour scale.

    A Notice names characters that no font on this machine has.
    """
    [layer], [head] = record.layers, record.heads
    maps = [Panel(AS_IT_IS, record.map(layer, head)), *(Panel(*one) for one in changed_maps(mistakes))]
    rows = [maps[start : start + ACROSS] for start in range(0, len(maps), ACROSS)]
    return panel_grid(rows, Grid(record.tokens.shown, title=describe(record), note="what known mistakes make of it"))
