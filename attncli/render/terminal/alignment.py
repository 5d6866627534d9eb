"""A translation as an alignment: a row for each character written, a column for each character read."""

from typing import Protocol

from rich.text import Text

from attncli.base.arrays import Floats
from attncli.base.printable import printable
from attncli.report.canvas import Canvas, to_width
from attncli.report.terminal import cell_text, scale, title

CELL = 2  # columns of a character and of its weights: as wide as a Chinese character
LABELS = 12  # columns left of a map: what was written, its probability


class AlignmentLike(Protocol):
    """What is shown of a translation (`attncli.align.translate.Alignment`)."""

    @property
    def text(self) -> str: ...
    @property
    def output(self) -> str: ...
    @property
    def attention(self) -> str: ...
    @property
    def probability(self) -> float: ...
    @property
    def characters(self) -> list[str]: ...
    @property
    def emitted(self) -> list[str]: ...
    @property
    def probabilities(self) -> list[float]: ...
    @property
    def cross(self) -> Floats: ...


def alignment_view(alignment: AlignmentLike, canvas: Canvas) -> list[Text]:
    """The output with its probability, then the map: the last layer's, the mean over its heads."""
    arrow = "→" if canvas.unicode else "->"
    found = f"{printable(alignment.text)} {arrow} {printable(alignment.output)}"
    layers, heads = alignment.cross.shape[:2]
    which = f"layer {layers - 1}, the mean of {heads} heads" if heads > 1 else "rows: written, columns: read"
    return [
        title([found, f"probability {alignment.probability:.4g}"], canvas),
        title([f"{alignment.attention} attention", which], canvas),
        scale(canvas),
        Text(),
        *alignment_map(alignment, alignment.cross[-1].mean(axis=0), canvas),
        Text(),
    ]


def alignment_map(alignment: AlignmentLike, weights: Floats, canvas: Canvas) -> list[Text]:
    """Rows are what was written, with its probability; columns are what was read, in parts where they don't fit."""
    end = alignment.characters[-1]  # the last column's name reaches beyond it
    across = max(1, (canvas.width - LABELS + CELL - len(end)) // CELL)
    lines = []
    for start in range(0, len(alignment.characters), across):
        part = slice(start, start + across)
        names = [end if name == end else to_width(printable(name), CELL, canvas) for name in alignment.characters[part]]
        lines.append(Text(" " * LABELS + "".join(names), style=canvas.faint))
        for character, probability, row in zip(
            alignment.emitted, alignment.probabilities, weights[:, part].tolist(), strict=True
        ):
            line = Text(f"{character:>{len(end)}} ").append(f"{probability:.3f} ", style=canvas.faint)
            for weight in row:
                line.append(*cell_text(weight, CELL, canvas))
            lines.append(line)
    return lines
