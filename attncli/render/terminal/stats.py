"""Statistics of a corpus in the terminal: all heads as a grid, and the clearest head for each pattern."""

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.corpus.statistics import (
    BROAD,
    BROAD_BELOW,
    CLEARLY,
    PATTERNS,
    HeadStatistics,
    Statistics,
    alike,
    broadest,
    clearest,
    labelled,
    most,
)
from attncli.render.captions.records import model_name
from attncli.render.captions.statistics import OPEN_ENDED, figure_text, top_of
from attncli.report.canvas import Canvas
from attncli.report.terminal import HEAD_WIDTH, Prose, ground, head_grid, plain_table, title

COLUMNS = ("head", "share", "all alike", "spread", "entropy", "so labelled")
NONE = "none"


def stats_view(statistics: Statistics, by: str, canvas: Canvas) -> list[RenderableType]:
    """What was counted, the heads coloured by the figure `by`, and who is clearest."""
    return [
        heading(statistics, canvas),
        Text(),
        *heads_grid(statistics, by, canvas),
        clearest_table(statistics),
        clearest_legend(),
    ]


def heading(statistics: Statistics, canvas: Canvas) -> Text:
    """Which model on how much, under which mask."""
    return title([model_name(statistics.model.shown), *statistics.parts], canvas)


def heads_grid(statistics: Statistics, by: str, canvas: Canvas) -> list[Text]:
    """A row a layer, a column a head with its figure."""
    values, top = statistics.figure(by).tolist(), top_of(statistics, by)

    def cell(row: int, place: int) -> Text:
        value = values[row][place]
        figure = f"{figure_text(value, by):>{HEAD_WIDTH - 1}} "
        return Text.assemble((figure, head_style(value / top, by, canvas)))

    layers, heads = range(statistics.model.layers), range(statistics.model.heads)
    return [Text(f"{by}, {caption(statistics, by, top)}"), *head_grid(layers, heads, cell, canvas)]


def caption(statistics: Statistics, by: str, top: float) -> str:
    """The figure's unit and range."""
    if by == "entropy":
        low, high = statistics.entropy_limit.min(), statistics.entropy_limit.max()
        alike = f"{top:.2f}" if low == high else f"{low:.2f} to {high:.2f}, as far as its layer sees,"
        return f"nats: 0 looks at one token, {alike} at all alike"
    return f"tokens: up to {top:.1f}" if by == "distance" else "share of the weight: 0 to 1"


def head_style(share: float, by: str, canvas: Canvas) -> str:
    """Of a share of the top value: shares of the weight are as bright as in a map, others evenly so."""
    return ground(share**2 if by in OPEN_ENDED else share, canvas)


def clearest_table(statistics: Statistics) -> Table:
    """For each pattern the head that does it most clearly, if any does, and how many heads have it as their label."""
    table = plain_table("clearest head for", *COLUMNS, goes=("entropy", "spread", "so labelled", "all alike"))
    for pattern in PATTERNS:
        one, top = clearest(statistics, pattern), most(statistics, pattern)
        even = alike(statistics, (one or top).layer, pattern)
        shown = [NONE, f"({top.figures[pattern]:.3f})"] if one is None else [name(one), f"{one.figures[pattern]:.3f}"]
        table.add_row(
            pattern.replace("_", " "),
            *shown,
            "" if even is None else f"{even:.3f}",
            "" if one is None else f"{one.spread[pattern]:.3f}",
            "" if one is None else f"{one.figures['entropy']:.2f}",
            str(len(labelled(statistics, pattern))),
        )
    broad = broadest(statistics)
    head, entropy = (NONE, "") if broad is None else (name(broad), f"{broad.figures['entropy']:.2f}")
    count = str(len(labelled(statistics, BROAD)))
    table.add_row(f"broad (none takes {BROAD_BELOW:g})", head, "", "", "", entropy, count)
    return table


def name(head: HeadStatistics) -> str:
    return f"{head.layer}.{head.head}"


def clearest_legend() -> Prose:
    """What `clearest_table` says."""
    return Prose(
        "all alike: what a head gives that looks at everything alike. "
        f"{NONE}: no head gives it {BROAD_BELOW:g} of its weight, more than anything else gets, and {CLEARLY} times as "
        "much as all alike; in brackets the most that any gives."
    )
