"""How one weight looks in a terminal: a colour, a shade, a character of ASCII, or two digits.

What is hidden (NaN, see `attncli.render.hidden`) is grey and hatched, which no weight is.
"""

import math
from functools import cache

from attncli.render.terminal.canvas import Canvas

# Dark to bright, even steps to the eye: colours of "inferno" (matplotlib), at equal distances.
COLOURS = (
    (0, 0, 4), (27, 12, 65), (74, 12, 107), (120, 28, 109), (165, 44, 96), (207, 68, 70),
    (237, 105, 37), (251, 155, 6), (247, 209, 61), (252, 255, 164),
)  # fmt: skip
SHADES = " ░▒▓█"
ASCII_SHADES = " .:-=+*#%@"
GREY = "rgb(98,98,98)"
HATCH, ASCII_HATCH, HATCH_INK = "╱", "/", "rgb(160,160,160)"
VALUE_WIDTH = 4  # columns of a cell with its number in it


def brightness(weight: float) -> float:
    """0 to 1 -> 0 to 1, by the square root: a weight of 0.05 among 20 tokens should still be seen."""
    return float(min(max(weight, 0.0), 1.0)) ** 0.5


@cache
def colour_at(step: int) -> tuple[int, int, int]:
    """The colour of brightness step / 100."""
    place = step / 100 * (len(COLOURS) - 1)
    low = min(int(place), len(COLOURS) - 2)
    share = place - low
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(COLOURS[low], COLOURS[low + 1], strict=True))
    return red, green, blue


def colour(weight: float) -> str:
    """The colour of a weight, as rich writes it."""
    if math.isnan(weight):
        return GREY
    red, green, blue = colour_at(round(100 * brightness(weight)))
    return f"rgb({red},{green},{blue})"


def ink(weight: float) -> str:
    """A colour that can be read on `colour(weight)`."""
    if math.isnan(weight):
        return HATCH_INK
    return "black" if brightness(weight) > 0.6 else "white"


def ground(weight: float, canvas: Canvas) -> str:
    """The style of a text that stands on a weight's colour; none where there is no colour."""
    return f"{ink(weight)} on {colour(weight)}" if canvas.colour else ""


def shade(weight: float, unicode: bool) -> str:
    """One character, the fuller the larger the weight."""
    if math.isnan(weight):
        return HATCH if unicode else ASCII_HATCH
    shades = SHADES if unicode else ASCII_SHADES
    return shades[min(int(brightness(weight) * len(shades)), len(shades) - 1)]


def two_digits(weight: float) -> str:
    """After the point: ".42", "1.0"; nothing for less than half a hundredth."""
    if weight >= 0.995:
        return "1.0"
    return f"{weight:.2f}"[1:] if weight >= 0.005 else ""


def cell_text(weight: float, width: int, canvas: Canvas) -> tuple[str, str]:
    """What stands in a cell of a map that is `width` columns wide, and its style."""
    if math.isnan(weight):
        hatch = shade(weight, canvas.unicode)
        return f"{hatch:>{width}}" if width == VALUE_WIDTH else hatch * width, ground(weight, canvas)
    content = f"{two_digits(weight):>{width}}" if width == VALUE_WIDTH else " " * width
    if canvas.colour:
        return content, ground(weight, canvas)
    if width == VALUE_WIDTH:
        return content if content.strip() else f"{'·' if canvas.unicode else '.':>{width}}", ""
    return shade(weight, canvas.unicode) * width, ""
