"""Colours are told apart in grey print, and without green cones."""

import numpy as np
import pytest

from attncli.record.display import HEAD_COLOURS, WEIGHTS

# Linear red, green, blue as they look without green cones: Machado, Oliveira and Fernandes 2009, table 1.
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
EVEN = np.linspace(0, 1, 11)  # steps of a tenth of the scale


def channels(colours):
    """Return the red, green and blue of "#rrggbb", from 0 to 1, `[colour, 3]`."""
    return np.array([[int(colour[place : place + 2], 16) for place in (1, 3, 5)] for colour in colours]) / 255


def linear(colours):
    """Return colours from 0 to 1 as linear light."""
    return np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)


def scale(shares):
    """Return the colours of weights at shares from 0 to 1 as linear light `[share, 3]`."""
    places = np.linspace(0, 1, len(WEIGHTS))
    return linear(np.stack([np.interp(shares, places, part) for part in channels(WEIGHTS).T], axis=-1))


def lab(light):
    """Linear light `[..., 3]` -> CIE L*, a*, b* under daylight (D65)."""
    ratios = np.clip(light, 0, 1) @ TO_XYZ.T / TO_XYZ.sum(axis=1)
    x, y, z = np.moveaxis(
        np.where(ratios > (6 / 29) ** 3, np.cbrt(ratios), ratios / (3 * (6 / 29) ** 2) + 4 / 29), -1, 0
    )
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def grey(light):
    return (light @ TO_XYZ[1])[..., None].repeat(3, axis=-1)


def without_green(light):
    return np.clip(light @ DEUTERANOPIA.T, 0, 1)


@pytest.mark.parametrize("seen", [grey, without_green])
def test_neighbouring_steps_stay_apart(seen):
    """Require 7 units of CIE lightness between neighbouring tenths of the scale: 2.3 are just noticeable (Mahy, Van
    Eycken and Oosterlinck 1994). A dark page has the same steps in reverse order.
    """
    falls = -np.diff(lab(seen(scale(EVEN)))[:, 0])
    assert falls.min() > 7


def test_any_two_colours_of_heads_are_told_apart():
    """They are 20 or more apart (CIE 1976); the colours of heads 1 and 8 once were 0.4 apart without green cones."""
    found = lab(without_green(linear(channels(HEAD_COLOURS))))
    apart = np.linalg.norm(found[:, None] - found, axis=-1)
    assert apart[~np.eye(len(found), dtype=bool)].min() > 20
