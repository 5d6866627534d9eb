"""How one weight looks in a terminal: a colour, a shade, or a character of ASCII."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from attncli.record import Floats

# Dark to bright, even steps to the eye: colours of "inferno" (matplotlib), at equal distances.
COLOURS = (
    (0, 0, 4), (27, 12, 65), (74, 12, 107), (120, 28, 109), (165, 44, 96), (207, 68, 70),
    (237, 105, 37), (251, 155, 6), (247, 209, 61), (252, 255, 164),
)  # fmt: skip
SHADES = " ░▒▓█"
ASCII_SHADES = " .:-=+*#%@"


@dataclass(frozen=True)
class Canvas:
    """What is drawn on: columns, whether there is colour, and whether blocks can be encoded."""

    width: int
    colour: bool
    unicode: bool


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
    red, green, blue = colour_at(round(100 * brightness(weight)))
    return f"rgb({red},{green},{blue})"


def ink(weight: float) -> str:
    """A colour that can be read on `colour(weight)`."""
    return "black" if brightness(weight) > 0.6 else "white"


def shade(weight: float, unicode: bool) -> str:
    """One character, the fuller the larger the weight."""
    shades = SHADES if unicode else ASCII_SHADES
    return shades[min(int(brightness(weight) * len(shades)), len(shades) - 1)]


def number(weight: float) -> str:
    """Two digits after the point: ".42", "1.0"; nothing for less than half a hundredth."""
    if weight >= 0.995:
        return "1.0"
    return f"{weight:.2f}"[1:] if weight >= 0.005 else ""


def pool(weights: Floats, rows: int, columns: int) -> Floats:
    """A smaller map in which a cell is the largest of the weights that fall into it, so that no peak is lost."""
    for axis, most in ((0, rows), (1, columns)):
        length = weights.shape[axis]
        if length > most:
            starts = np.arange(most) * length // most
            weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights
