"""Texts of pictures: the fonts that can show them, their widths, and texts made harmless, cut or wrapped.

matplotlib's own font has no Chinese and draws a box for what it lacks. Given several families, it looks for each
character in one after the other.
"""

import difflib
import textwrap
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from attncli.base.errors import Notice, RequestError
from attncli.base.printable import printable, quoted, visible

DEFAULT = "DejaVu Sans"  # comes with matplotlib, so it is always there
NAMED = 5  # characters that the notice names
RESOLUTIONS = (72, 100, 150, 300)  # dots per inch: letters are fitted to dots, so a text is wider at some resolutions


def families(texts: Iterable[str], first: str | None = None) -> list[str]:
    """Return font families, in the order to try them, that together show every character of `texts`.

    The first is `first`, or matplotlib's own. Characters that neither has are looked for in the
    fonts of this machine: the font with most of them is taken, until nothing is missing. A Notice names characters that
    no font has. Raises RequestError if `first` is not installed.
    """
    first = first if first in (None, DEFAULT) else installed_family(str(first))
    chosen = list(dict.fromkeys([first or DEFAULT, DEFAULT]))
    shapes = [one for one in dict.fromkeys("".join(texts)) if has_shape(one)]
    missing = set(shapes) - glyphs(default_file(), shapes)
    if first is not None and missing:
        missing -= glyphs(installed()[first], missing)
    covers = {name: glyphs(path, missing) for name, path in installed().items()} if missing else {}
    while missing:
        useful = {name: len(covers[name] & missing) for name in covers if covers[name] & missing}
        if not useful:
            unknown = [shape for shape in shapes if shape in missing]
            more = f" and {len(unknown) - NAMED} more" if len(unknown) > NAMED else ""
            notice = (
                f"matplotlib finds no font that has {', '.join(unknown[:NAMED])}{more}, so boxes are drawn. Install "
                "Noto Sans for most scripts, Noto Emoji or Symbola for emoji (Noto Color Emoji can't be drawn)."
            )
            warnings.warn(notice, Notice, stacklevel=2)
            break
        # Among equals a sans like the default, then by name.
        best = min(useful, key=lambda name: (-useful[name], "sans" not in name.lower(), len(name), name))
        chosen.append(best)
        missing -= covers[best]
    return chosen


def installed_family(name: str) -> str:
    """Return a family of this machine as it is spelt there. Raises RequestError, with similar names, for none."""
    spelt = {family.casefold(): family for family in installed()}
    if name.casefold() not in spelt:
        near = difflib.get_close_matches(name.casefold(), spelt, n=3, cutoff=0.5) or [DEFAULT.casefold()]
        raise RequestError(
            f"no font {quoted(name)} on this machine: it has {', '.join(spelt[one] for one in near)} and others"
        )
    return spelt[name.casefold()]


def has_shape(character: str) -> bool:
    """Return whether a character has a shape. Spaces, joiners and variation selectors have none."""
    return not character.isspace() and unicodedata.category(character) not in ("Cf", "Mn")


def default_file() -> str:
    from matplotlib.font_manager import FontProperties, fontManager

    return str(fontManager.findfont(FontProperties(family=DEFAULT)))


def installed() -> dict[str, str]:
    """Return, for each font family on this machine, the file of its regular style."""
    from matplotlib.font_manager import findSystemFonts, fontManager, weight_dict

    def plainness(font: Any) -> tuple[bool, bool, int]:
        weight = weight_dict.get(font.weight, font.weight)
        return font.style == "normal", font.stretch == "normal", -abs(int(weight) - 400)

    # matplotlib remembers the fonts that it found when it first ran, and not what was installed since.
    known = {str(font.fname) for font in fontManager.ttflist}
    for path in sorted(set(findSystemFonts()) - known):
        try:
            fontManager.addfont(path)
        except (OSError, RuntimeError, NotImplementedError):  # damaged, or bitmaps instead of outlines
            continue
    plainest_last = sorted(fontManager.ttflist, key=plainness)
    files = {font.name: str(font.fname) for font in plainest_last}
    # A font of last resort has a box for every character there is.
    return {name: path for name, path in files.items() if "lastresort" not in name.replace(" ", "").lower()}


def glyphs(path: str, characters: Iterable[str]) -> set[str]:
    """Return the characters that the font in this file can draw."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path)
    except (OSError, RuntimeError):  # gone or changed since matplotlib made its list
        return set()
    return {character for character in characters if font.get_char_index(ord(character))}


def widths(texts: Sequence[str], size: float, chosen: Sequence[str]) -> list[float]:
    """Return the width of each text in inches, in these families and points: the largest over all resolutions."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    renderers: list[Any] = [RendererAgg(1, 1, dots) for dots in RESOLUTIONS]
    font = FontProperties(family=list(chosen), size=size)
    return [
        max(one.get_text_width_height_descent(text, font, ismath=False)[0] / one.dpi for one in renderers)
        for text in texts
    ]


# --- texts --------------------------------------------------------------------------------------------

LONGEST_LABEL, ON_SCREEN = 16, 24  # columns of a terminal: a Chinese character takes two
FILLED = 0.9  # of a line's width: small letters drawn as few dots come out up to a tenth wider
NO_BREAK = "\N{NO-BREAK SPACE}"  # keeps words together where a title is wrapped


def clean(text: str) -> str:
    """Return text from outside as a file can hold it: without control characters, and nothing that XML forbids."""
    return printable(text).translate({0xFFFE: "�", 0xFFFF: "�"})


def clean_lines(text: str) -> str:
    return "\n".join(clean(line) for line in text.split("\n"))


def token_label(token: str, longest: int = LONGEST_LABEL) -> str:
    """Return a token, or the beginning of a sentence, as it stands beside a map."""
    return cut(clean(visible(token)), longest)


def cut(text: str, most: int) -> str:
    """Return `text`, or as much of its beginning as fits into `most` columns with "…"."""
    ends = np.cumsum([2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text])
    if not text or ends[-1] <= most:
        return text
    return text[: int(np.searchsorted(ends, most - 1, side="right"))] + "…"


def wrap_line(text: str, size: float, width: float, families: Sequence[str], whole: bool = False) -> list[str]:
    """Return `text` in lines that are at most `width` inches wide. whole: no word is broken."""
    lines = []
    for line in text.splitlines():
        [needed] = widths([line], size, families)
        room = FILLED * width
        columns = len(line) if needed <= room else int(len(line) * room / needed)
        lines += textwrap.wrap(line, max(columns, 1), break_long_words=not whole, break_on_hyphens=False)
    return [line.removesuffix(" ·").removeprefix("· ").replace(NO_BREAK, " ") for line in lines]
