"""Contrast of two colours by the formula of WCAG 2.2. Colours are (red, green, blue) up to 255."""

import numpy as np


def channels(colour):
    """Parse "#3f7fe0" or "rgb(63,127,224)"."""
    if colour.startswith("#"):
        return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return [float(part) for part in colour.removeprefix("rgba").removeprefix("rgb").strip("()").split(",")[:3]]


def contrast(one, other):
    """The contrast ratio, from 1 to 21; text asks for 4.5."""

    def luminance(colour):
        shares = np.array(colour) / 255
        return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def mixed(colour, share, ground):
    """Return the visible mix of a translucent colour and its ground."""
    return share * np.array(colour) + (1 - share) * np.array(ground)
