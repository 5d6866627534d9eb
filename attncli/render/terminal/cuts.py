"""Cut edges in the terminal: what cutting some does, beside others; or each by itself, as a map beside the weights."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from attncli.analysis.cuts import Cut, CutIn, EdgeEffects
from attncli.base.arrays import Doubles
from attncli.base.printable import printable
from attncli.render.captions.cuts import CONTROL, EDGE, EDGES, NO_CONTROL, cut_where, edge_names, together
from attncli.render.captions.effects import answered, which_way
from attncli.render.captions.records import model_name
from attncli.render.terminal.effects import signed
from attncli.render.terminal.one_head import query_labels
from attncli.report.terminal import Canvas, Prose, in_units, largest, plain_table, signed_map, title

MOST_EDGES = 10  # that are listed of those that were cut


def heading(where: CutIn, what: str, canvas: Canvas) -> list[RenderableType]:
    """Which model and output, what was cut, and which way is up."""
    return [
        title([model_name(where.model.shown), printable(answered(where.answer))], canvas),
        Prose(cut_where(where)),
        Prose(which_way(where.answer.kind, what)),
    ]


def cut_view(found: Cut, canvas: Canvas) -> list[RenderableType]:
    """The edges with their weights; what cutting them does, in all of these layers and in each alone."""
    where = found.where
    edges = plain_table("from", "to", "mean weight", names=["to"])
    for edge, weight in list(zip(found.edges, found.weights, strict=True))[:MOST_EDGES]:
        edges.add_row(*map(Text, edge_names(where, edge)), f"{weight:.3f}")
    left = len(found.edges) - MOST_EDGES
    more = [Prose(f"and {left} more: --json has all", canvas.faint)] if left > 0 else []
    controls = [] if found.controls is None else ["others", "least", "most"]
    effects = plain_table("cut in", "effect", *controls)
    for place, name in enumerate(["all of these", *(f"layer {layer}" for layer in where.layers)]):
        row = [signed(found.effects[place])]
        if found.controls is not None:
            drawn = found.controls[:, place]
            row += [signed(float(number)) for number in (drawn.mean(), drawn.min(), drawn.max())]
        effects.add_row(name, *row)
    control = NO_CONTROL if found.controls is None else CONTROL
    return [*heading(where, EDGE if len(found.edges) == 1 else EDGES, canvas), edges, *more, effects, Prose(control)]


def edges_view(found: EdgeEffects, top: int, canvas: Canvas) -> list[RenderableType]:
    """Show the effects and the weights as maps, the `top` edges with the largest effects, and whether weights tell."""
    where = found.where
    table = plain_table("from", "to", "effect", "mean weight", "its rank", names=["to"])
    ranked = found.ranked()[: int(found.can_matter.sum())]
    heavy = sorted((weight for _, _, weight in ranked), reverse=True)
    for edge, effect, weight in ranked[:top]:
        names = map(Text, edge_names(where, edge))
        table.add_row(*names, signed(effect), f"{weight:.3f}", str(heavy.index(weight) + 1))
    maps = [
        *map_lines(found, "effect", found.effects, canvas),
        *map_lines(found, "mean weight", found.seen_weights, canvas),
    ]
    return [*heading(where, EDGE, canvas), *maps, *([table] if ranked else [Text()]), Prose(together(found))]


def map_lines(found: EdgeEffects, name: str, part: Doubles, canvas: Canvas) -> Iterator[RenderableType]:
    most = largest(part)
    unit, words = in_units(most)
    labels = query_labels(found.where.tokens, canvas)
    yield Text()
    yield Text(", ".join(filter(None, [f"{name}, queries down and keys across", words])), style=canvas.strong)
    yield from signed_map(part / unit, most / unit, [labels[query] for query in found.queries], canvas, found.keys)
