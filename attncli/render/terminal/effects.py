"""What silencing heads does to an output, in the terminal: a signed number a head, and the heads that do most."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.analysis.effects import Ablation, Curve
from attncli.base.arrays import Doubles
from attncli.base.printable import printable
from attncli.render.captions.effects import IMPORTANCE, INTERVAL, NO_INTERVAL, WAYS, answered, signed, which_way
from attncli.report.canvas import Canvas
from attncli.report.captions import model_name
from attncli.report.terminal import Prose, head_grid, in_units, largest, plain_table, signed_ground, title

CELL = 7  # columns of a head


def ablation_view(found: Ablation, top: int, canvas: Canvas) -> list[RenderableType]:
    """What is asked; for each way a number a head; then the `top` heads that do most, whole layers, and all heads."""
    texts = ["PARTIAL"] if found.partial else []
    texts += [] if found.texts == 1 else [f"{found.texts} texts"]
    lines: list[RenderableType] = [
        title([model_name(found.model.shown), printable(answered(found.answer)), *texts], canvas),
        Prose(which_way(found.answer.kind)),
    ]
    for place, way in enumerate(found.ways):
        lines += [Text(), Prose(WAYS[way], canvas.strong), *grid(found, found.mean[place], canvas)]
    lines += [Text(), heads_table(found, top), layers_table(found)]
    if found.importance is not None:
        lines.append(Prose(IMPORTANCE))
    if found.texts > 1:
        lines.append(Prose(NO_INTERVAL if found.interval() is None else INTERVAL))
    return [*lines, *curves(found.curves)]


def grid(found: Ablation, effects: Doubles, canvas: Canvas) -> list[Text]:
    """A row a layer, a number a head; all in a unit in which they can be read."""
    most = largest(effects)
    unit, words = in_units(most)

    def cell(row: int, place: int) -> Text:
        effect = float(effects[row, place])
        return Text(f"{effect / unit:>{CELL}.1f}", style=signed_ground(effect / (most or 1), canvas))

    lines = head_grid(found.layers, found.heads, cell, canvas, (CELL, CELL - 1))
    return [*([Text(words, style=canvas.faint)] if words else []), *lines]


def heads_table(found: Ablation, top: int) -> Table:
    """A row a head, by the size of the first way's effect."""
    mean, around = found.mean, found.interval()
    columns = [*found.ways, *(["from", "to"] if around else [])]
    if found.importance is not None:
        columns.append("importance")
    table = plain_table("head", *columns)
    for numbers in found.ranked()[:top]:
        layer, head = found.layers.index(numbers[0]), found.heads.index(numbers[1])
        row = ["{}.{}".format(*numbers)]
        row += [signed(effects[layer, head]) for effects in mean]
        if around:
            row += [signed(side[0, layer, head]) for side in around]
        if found.importance is not None:
            row.append(f"{found.importance[layer, head]:.2g}")
        table.add_row(*row)
    return table


def layers_table(found: Ablation) -> Table:
    """A row a layer with all of these heads at once, and one with all heads of all of these layers."""
    table = plain_table("all heads of", *found.ways)
    for place, layer in enumerate(found.layers):
        table.add_row(f"layer {layer}", *(signed(effect) for effect in found.of_layers[..., place].mean(axis=0)))
    if len(found.layers) > 1:
        table.add_row("all of these", *(signed(effect) for effect in found.together.mean(axis=0)))
    return table


def curves(found: Sequence[Curve]) -> list[RenderableType]:
    """How the output changes when more and more heads go, in which order."""
    if not found:
        return []
    table = plain_table("heads removed", *(curve.by for curve in found), *(["random, least", "random, most"]))
    *_, random = found
    for step, count in enumerate(random.removed):
        means = [signed(float(curve.effects[:, step].mean())) for curve in found]
        ends = [signed(float(end)) for end in (random.effects[:, step].min(), random.effects[:, step].max())]
        table.add_row(str(count), *means, *ends)
    return [table]
