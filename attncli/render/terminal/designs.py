"""One head in other designs, in the terminal: a table of them, or one between the head's own map and a control."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from attncli.record import AttentionRecord
from attncli.render.captions.designs import DISTANCE, MOVED, DesignLike, LookLike, control_of, named
from attncli.report.canvas import Canvas
from attncli.report.terminal import APART, POOLED, PanelSize, Prose, in_rows, legend, panel_lines, plain_table, scale

ACROSS = 3
LINES = 24  # a map is at most so many lines high
CAPTION = 30  # columns that the longest needs


def designs_table(own: LookLike, designs: Sequence[DesignLike]) -> Table:
    """The head as it is, then a row a design: what it looks like, its controls, and how the two stand to each other."""
    table = plain_table("design", "entropy", DISTANCE, MOVED, "verdict", names=["verdict"], goes=["entropy", MOVED])
    table.add_row("as it is", f"{own.entropy:.2f}", f"{own.distance:.2f}", f"{own.moved:.3f}", "")
    table.add_section()
    for design in designs:
        table.add_row(
            named(design),
            f"{design.look.entropy:.2f}",
            f"{design.look.distance:.2f} ({design.control_distance:.2f})",
            f"{design.look.moved:.3f} ({design.control_moved:.3f})",
            design.verdict,
        )
    return table


def designs_legend() -> Prose:
    """What the columns of `designs_table` mean."""
    return Prose(
        "distance: how many tokens away the weight is. moved: weight that would have to move to make it the head's own "
        "map. In brackets the mean of the controls: the design told the positions in shuffled orders; of shared keys, "
        "each other head's keys. nearer, further: than the head as it is and than every control."
    )


def design_maps(record: AttentionRecord, design: DesignLike, canvas: Canvas) -> list[Text]:
    """The head's own map, its map in the design, and that of a control, beside each other as far as there is room."""
    [layer], [head] = record.layers, record.heads
    size = PanelSize.of(record, max((canvas.width - APART * (ACROSS - 1)) // ACROSS, 1), LINES, caption=CAPTION)
    lines = [*legend(record.tokens, canvas), scale(canvas)]
    if size.pools(record, canvas):
        lines.append(Text(POOLED))
    maps = {
        "as it is": record.map(layer, head),
        named(design): design.look.weights,
        control_of(design): design.controls[0].weights,
    }
    panels = [panel_lines(caption, weights, size, canvas) for caption, weights in maps.items()]
    return [*lines, Text(), *in_rows(panels, size.width, canvas)]
