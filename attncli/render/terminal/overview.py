"""Each head of a record as a small map, with what it looks at most."""

from rich.cells import cell_len
from rich.text import Text

from attncli.analysis.patterns import BROAD, HeadSummary, most_attended, summarise
from attncli.record import AttentionRecord
from attncli.record.selection import numbered_names
from attncli.render.hidden import drawn_map
from attncli.report.canvas import Canvas, to_width
from attncli.report.terminal import POOLED, PanelSize, heading, in_rows, legends, panel_lines, scale, two_digits


def overview(record: AttentionRecord, canvas: Canvas, top_k: int = 3) -> list[Text]:
    """The heads of every layer, several beside each other; below each its `top_k` strongest keys."""
    summaries = summarise(record)
    size = PanelSize.of(record, canvas.width)
    lines: list[Text] = []
    for layer in record.layers:
        maps = [drawn_map(record, layer, head) for head in record.heads]
        lines += [heading(record, f"layer {layer}", canvas), *legends(record, canvas), scale(canvas, *maps)]
        if size.pools(record, canvas):
            lines.append(Text(POOLED))
        lines.append(Text())
        panels = []
        for head, shown in zip(record.heads, maps, strict=True):
            caption = f"head {head}  {kind(summaries[layer, head])}"
            drawn = panel_lines(caption, shown, size, canvas, canvas.strong)
            below = to_width(most_keys(record, layer, head, top_k, size.width), size.width, canvas)
            panels.append([*drawn, Text(below, style=canvas.faint)])
        lines += in_rows(panels, size.width, canvas)
    return lines[:-1]


def kind(summary: HeadSummary) -> str:
    """A head's pattern with its share: "previous .78"."""
    if summary.label == BROAD:
        return BROAD
    return f"{summary.label.replace('_', ' ')} {two_digits(summary.strength)}"


def most_keys(record: AttentionRecord, layer: int, head: int, top_k: int, width: int) -> str:
    """The keys that get most of a head's weight, as many as there is room for; at least one, however long."""
    shown, names = "", numbered_names(record.keys)
    for key, weight in most_attended(record, layer, head, top_k):
        entry = f"{names[key]} {two_digits(weight)}"
        if shown and cell_len(shown) + 2 + cell_len(entry) > width:
            break
        shown += f"  {entry}" if shown else entry
    return shown
