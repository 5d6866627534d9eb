"""What a picture of panels says besides its tokens, measured in the fonts that have it all."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from attncli.render.figures import fonts
from attncli.render.figures.grid import Grid
from attncli.render.figures.paper import Paper
from attncli.render.figures.texts import clean, clean_lines

STANDARD = 10.0  # points: the size that other sizes are relative to
ROOMY = 10.0  # inches: panels that take more have larger words around them
READABLE = 0.065  # inches: the smallest cell with a label beside it, where one can zoom in


@dataclass(frozen=True)
class Wording:
    """The words of a picture, harmless, and the font families that show them.

    captions: of the panels, by row; a line break starts a new line. headings: left of each row, or none.
    """

    captions: list[list[str]]
    headings: list[str]
    title: str
    note: str
    families: tuple[str, ...]
    paper: Paper

    @classmethod
    def of(cls, grid: Grid, captions: Sequence[Sequence[str]], others: Sequence[str]) -> "Wording":
        """What a grid says with these captions, in fonts that show the `others` too.

        A Notice names characters that no font on this machine has.
        """
        above = [[clean_lines(caption) for caption in row] for row in captions]
        left = [clean(heading) for heading in grid.headings]
        title, note = clean_lines(grid.title), clean_lines(grid.note)
        every = [*others, *(caption for row in above for caption in row), *left, title, note]
        return cls(above, left, title, note, tuple(fonts.families(every, grid.paper.font)), grid.paper)

    def widest(self, texts: Sequence[str], size: float) -> float:
        """Inches that the widest of these texts takes in `size` points."""
        return widest(tuple(texts), self.families) * size / STANDARD

    def scale(self, side: float) -> float:
        """How much larger words are around panels that take `side` inches together; a size asked for is kept."""
        fixed = self.paper.width is not None or self.paper.font_size is not None
        return 1.0 if fixed else max(1.0, side / ROOMY)

    def caption_size(self, scale: float, wide: float) -> float:
        """Points of the words above a panel that is `wide` inches, its words `scale` times larger."""
        return max(self.paper.label * min(scale, wide), self.paper.smallest)

    def label_size(self, cell: float) -> float:
        """Points of a token's label that has `cell` inches; 0 where it can't be read."""
        if cell < (READABLE if self.paper.width is None else self.paper.smallest * 1.1 / 72):
            return 0.0
        return min(self.paper.label, max(cell * 72 / 1.2, self.paper.smallest))

    def shortened(self, text: str, room: float, size: float) -> str:
        """ "head 11" is "11" where the width is given and leaves no room for more."""
        if self.paper.width is None or self.widest(text.split("\n"), size) <= room:
            return text
        return text.rpartition(" ")[2]


@lru_cache(maxsize=64)  # whoever looks for the largest panels asks for the same again and again
def widest(texts: tuple[str, ...], families: tuple[str, ...]) -> float:
    return max(fonts.widths(texts, STANDARD, families), default=0.0)
