"""What can be asked of a picture of a record: which part of it is drawn, and how that looks."""

import math
from dataclasses import dataclass
from functools import cached_property

from attncli.analysis.filters import check_segments
from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.render.figures.colours import COLOURS, colour_map
from attncli.render.figures.paper import Paper, paper

LONGEST_TITLE = 500  # characters


@dataclass(frozen=True)
class What:
    """Which part of a record is drawn; what can be known of that before there is a record is checked.

    mean: one map a layer, the mean over the record's heads.
    special: False leaves out [CLS], [SEP] and [PAD]; words: pieces are put together to words.
    segments: "AB" is queries of the first text and keys of the second, and so on; "all".
    query: the token whose row or lines stand out: "it", "it#2" (the second one) or its number, among the tokens of
    the text; among its words, where they are put together.
    terms: instead of one head's weights its scores, and what they are the sum of (`attncli.analysis.terms`).

    Raises RequestError for segments that there are not.
    """

    mean: bool = False
    special: bool = True
    words: bool = False
    segments: str = "all"
    query: str | int | None = None
    terms: bool = False

    def __post_init__(self) -> None:
        check_segments(self.segments)


@dataclass(frozen=True)
class Look:
    """How it looks; what can be known of that before there is a record is checked.

    style: "matrix", or "lines" between two columns of tokens; there the heads of one layer share a panel.
    vmax: the weight that gets the last, or the full, colour; by default the largest that is drawn.
    scale: the same scales of a matrix's colours that a page has: "head", from 0 to each map's largest; "shared", from 0
    to 1; "root", the square root of that. By default from 0 to `vmax`.
    cmap: matplotlib's name of a matrix's colours.
    title: instead of the model, layer, head and mask; at most LONGEST_TITLE characters.
    width: "8cm", "80mm", "3.15in", "227pt" or inches; by default what the maps need.
    font, font_size: an installed family, and points of the tokens.

    Raises RequestError when one of them is none of these.
    """

    style: str = "matrix"
    vmax: float | None = None
    scale: str | None = None
    cmap: str = COLOURS
    title: str | None = None
    width: str | float | None = None
    font: str | None = None
    font_size: float | None = None

    def __post_init__(self) -> None:
        choices.check("style", self.style, choices.Style)
        if self.scale is not None:
            choices.check("scale", self.scale, choices.Scale)
        colour_map(self.cmap)
        if self.vmax is not None and not 0 < self.vmax < math.inf:
            raise RequestError(f"--vmax {self.vmax:g} is no positive number: weights are between 0 and 1")
        if self.title is not None and len(self.title) > LONGEST_TITLE:
            raise RequestError(f"--title has {len(self.title)} characters: at most {LONGEST_TITLE} are drawn")
        _ = self.paper

    @cached_property
    def paper(self) -> Paper:
        """The width and the font that the picture is planned for."""
        return paper(self.width, self.font, self.font_size)
