"""Why two texts are similar, in the terminal: a signed map of A's tokens by B's, the strongest pairs, the heads."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.analysis.similarity import Cosines, Similarity
from attncli.base.arrays import Doubles
from attncli.base.printable import visible
from attncli.render.captions.effects import signed, which_way
from attncli.render.captions.similarity import credited, summed
from attncli.render.terminal.effects import heads_table
from attncli.report.canvas import Canvas, to_width
from attncli.report.captions import model_name
from attncli.report.terminal import Prose, in_units, largest, legend, plain_table, signed_map, title, token_labels

TEXT_WIDTH = 30  # columns of a text beside its cosines, at the most
SHARE = 3  # of the terminal's columns, the most that a text takes


def similarity_view(found: Similarity, top: int, canvas: Canvas) -> list[RenderableType]:
    """What the cells sum to, the map, the `top` pairs that contribute most, and the `top` heads by their effects."""
    most = largest(found.contributions)
    unit, words = in_units(most)
    labels = token_labels(found.tokens, canvas)
    return [
        title([model_name(found.model.shown), f"cosine {found.cosine:.4f}"], canvas),
        *map(Prose, summed(found)),
        *map(Prose, credited(found)),
        Text(),
        Text(f"rows: A, columns: B{', ' + words if words else ''}", style=canvas.faint),
        *legend(found.key_tokens, canvas),
        *fitting(found.contributions / unit, most / unit, labels, canvas),
        Text(),
        pairs_table(found, top),
        Prose(which_way("cosine")),
        heads_table(found.effects, top),
    ]


def cosines_view(found: Cosines, canvas: Canvas) -> list[RenderableType]:
    """A text a line with its cosines to all of them."""
    width = min(TEXT_WIDTH, canvas.width // SHARE)
    labels = [f"{place:>3} {to_width(visible(text), width, canvas)}" for place, text in enumerate(found.texts)]
    heading = title([model_name(found.model.shown), f"cosines of {len(found.texts)} texts"], canvas)
    return [heading, *fitting(found.values, largest(found.values), labels, canvas)]


def fitting(cells: Doubles, most: float, labels: Sequence[str], canvas: Canvas) -> list[RenderableType]:
    """A signed map, or why there is none."""
    lines = signed_map(cells, most, labels, canvas)
    if canvas.height is None or max(line.cell_len for line in lines) <= canvas.width:
        return [*lines]
    return [Prose("no room for the map: | less -S has it, and -o similar.svg draws it")]


def pairs_table(found: Similarity, top: int) -> Table:
    """A row a pair: two tokens with their numbers, what they contribute."""
    table = plain_table("A", "B", "contribution", names=("B",))
    for pair in found.strongest(top):
        tokens = (found.tokens, pair.token), (found.key_tokens, pair.key)
        table.add_row(*(f"{place} {visible(one.shown[place])}" for one, place in tokens), signed(pair.contribution))
    return table
