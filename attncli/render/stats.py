"""Statistics of a corpus in the terminal: all heads as a grid, and the clearest head for each pattern."""

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.analysis.statistics import BROAD_BELOW, PATTERNS, Statistics
from attncli.render.cells import Canvas, colour, ink
from attncli.render.tables import plain_table
from attncli.render.terminal import faint, shown_name, title

CELL = 5  # columns of a head
OPEN_ENDED = ("entropy", "distance")  # the figures that are no shares of 1


def stats_view(statistics: Statistics, by: str, canvas: Canvas) -> list[RenderableType]:
    """What was counted, the heads coloured by the figure `by`, and who is clearest."""
    return [heading(statistics, canvas), Text(), *grid(statistics, by, canvas), clearest(statistics)]


def heading(statistics: Statistics, canvas: Canvas) -> Text:
    """Which model on how much, under which mask."""
    return title([shown_name(statistics.model.name), *statistics.parts], canvas)


def top_of(statistics: Statistics, by: str) -> float:
    """The value of a figure that gets the brightest colour."""
    if by == "entropy":
        return max(statistics.entropy_limit, 1e-9)
    return float(statistics.figure(by).max()) or 1.0 if by in OPEN_ENDED else 1.0


def grid(statistics: Statistics, by: str, canvas: Canvas) -> list[Text]:
    """A row a layer, a cell a head with the figure in it; heads that don't fit the width follow below."""
    values, top = statistics.figure(by).tolist(), top_of(statistics, by)
    left = len(f"layer {statistics.model.layers - 1}") + 1
    fit = max(1, (canvas.width - left) // CELL)
    lines = [Text(f"{by}, {caption(by, top)}")]
    for start in range(0, statistics.model.heads, fit):
        heads = range(start, min(start + fit, statistics.model.heads))
        lines.append(Text(f"{'head':<{left}}" + "".join(f"{head:>{CELL}}" for head in heads), style=faint(canvas)))
        for layer, row in enumerate(values):
            line = Text(f"{f'layer {layer}':<{left}}")
            for head in heads:
                line.append(*cell(row[head], row[head] / top, by, canvas))
            lines.append(line)
    return lines


def caption(by: str, top: float) -> str:
    """The figure's unit and range."""
    if by == "entropy":
        return f"nats: 0 looks at one token, {top:.2f} at all alike"
    return f"tokens: up to {top:.1f}" if by == "distance" else "share of the weight: 0 to 1"


def cell(value: float, share: float, by: str, canvas: Canvas) -> tuple[str, str]:
    """What stands in a cell, and its style. Shares of the weight are as bright as in a map, others evenly so."""
    text = f"{figure_text(value, by):>{CELL - 1}} "
    weight = share**2 if by in OPEN_ENDED else share
    return text, f"{ink(weight)} on {colour(weight)}" if canvas.colour else ""


def figure_text(value: float, by: str) -> str:
    """Three characters or four: 3.21, 45.6, 123; .42 of a share."""
    if by not in OPEN_ENDED:
        return "1.0" if value >= 0.995 else f"{value:.2f}"[1:]
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def clearest(statistics: Statistics) -> Table:
    """For each pattern the head that gives most of its weight to it, and how many heads have it as their label."""
    table = plain_table("clearest head for", "head", "share", "spread", "entropy", "so labelled")
    for pattern in PATTERNS:
        one = statistics.clearest(pattern)
        table.add_row(
            pattern.replace("_", " "),
            f"{one.layer}.{one.head}",
            f"{one.figures[pattern]:.3f}",
            f"{one.spread[pattern]:.3f}",
            f"{one.figures['entropy']:.2f}",
            str(sum(other.label == pattern for other in statistics.heads)),
        )
    broad = max(statistics.heads, key=lambda head: head.figures["entropy"])
    table.add_row(
        f"broad (none takes {BROAD_BELOW:g})",
        f"{broad.layer}.{broad.head}",
        "",
        "",
        f"{broad.figures['entropy']:.2f}",
        str(sum(other.label == "broad" for other in statistics.heads)),
    )
    return table
