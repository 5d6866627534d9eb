"""One head with the mistakes that people make, in the terminal: the maps that they change, and a table of all."""

from rich.table import Table
from rich.text import Text

from attncli.record import AttentionRecord
from attncli.render.captions.mistakes import AS_IT_IS, EXCHANGED, MadeLike, MistakesLike, MovedLike, changed_maps
from attncli.report.canvas import Canvas
from attncli.report.terminal import APART, POOLED, PanelSize, Prose, in_rows, legend, panel_lines, plain_table, scale

ACROSS = 3
LINES = 24  # a map is at most so many lines high
CAPTION = 24  # columns that most of their names need
MOVED, OUTPUT, WHERE = "moved (other heads)", "output", "this is attention ..., and where people make it"


def mistake_maps(record: AttentionRecord, mistakes: MistakesLike, canvas: Canvas) -> list[Text]:
    """The head's own map and those that mistakes change, beside each other as far as there is room."""
    [layer], [head] = record.layers, record.heads
    size = PanelSize.of(record, max((canvas.width - APART * (ACROSS - 1)) // ACROSS, 1), LINES, caption=CAPTION)
    lines = [*legend(record.tokens, canvas), scale(canvas)]
    if size.pools(record, canvas):
        lines.append(Text(POOLED))
    maps = {AS_IT_IS: record.map(layer, head), **dict(changed_maps(mistakes))}
    panels = [panel_lines(name, weights, size, canvas) for name, weights in maps.items()]
    return [*lines, Text(), *in_rows(panels, size.width, canvas)]


def mistakes_table(mistakes: MistakesLike) -> Table:
    """The control, then a row a mistake: those that show here, and those that don't with what it would take."""
    table = plain_table("mistake", MOVED, OUTPUT, WHERE, prose=[WHERE], goes=[WHERE])
    if mistakes.exchanged is not None:
        table.add_row(EXCHANGED, *figures(mistakes.exchanged), "the control: of heads that have each other's maps")
        table.add_section()
    for one in mistakes.made:
        if one.moved is not None:
            table.add_row(one.mistake.name, *figures(one.moved), f"{one.mistake.says}\n  {one.mistake.where}")
    table.add_section()
    for one in mistakes.made:
        if one.moved is None:
            table.add_row(one.mistake.name, "-", "-", f"{unseen(one)}\n  {one.mistake.says}\n  {one.mistake.where}")
    return table


def unseen(made: MadeLike) -> str:
    """What is said of a mistake that changes nothing here."""
    return f"shows only with {made.mistake.needs}" if made.mistake.needs else "does not show here"


def figures(moved: MovedLike) -> tuple[str, str]:
    """ "0.420 (0.409)", "0.95" """
    others = "" if moved.of_others is None else f" ({moved.of_others:.3f})"
    return f"{moved.own:.3f}{others}", f"{moved.output:.2f}"


def mistakes_legend() -> Prose:
    """What the columns of `mistakes_table` mean."""
    return Prose(
        "moved: weight that would have to move to make it the head's own map, mean over queries; above 1 where a row "
        "has come to sum to more. In brackets the mean of the layer's other heads. output: of the layer's attention, "
        "‖changed - own‖ / ‖own‖. What is above the control harms more than giving heads each other's maps. Of several "
        "ways to make a mistake it is the first that shows."
    )
