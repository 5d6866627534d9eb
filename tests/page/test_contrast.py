"""Check that text can be read in both themes: a contrast of at least 4.5 : 1, as WCAG 2.2 asks."""

import re

import pytest
from contrast import channels, contrast, mixed

from attncli.page.document import FOLDER
from attncli.record.display import HEAD_COLOURS

STYLE = (FOLDER / "style.css").read_text(encoding="utf-8")
LEAST = 4.5
WRITTEN = [
    ("ink", "paper"),
    ("ink", "panel"),
    ("ink", "mark"),
    ("faint", "paper"),
    ("faint", "panel"),
    ("faint", "mark"),
    ("paper", "accent"),  # a button that is chosen
    ("paper", "ink"),  # the tip
]


def themes():
    """The colours of the light theme, of the dark one that the system asks for, and of the one that the switch does."""
    blocks = re.findall(r"\{([^{}]*--paper:[^{}]*)\}", STYLE)
    return [dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", block)) for block in blocks]


def test_dark_is_the_same_whoever_asks_for_it():
    light, system, switch = themes()
    assert system == switch and light.keys() == system.keys() and light != system


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_ink_can_be_read_on_every_ground(theme):
    colours = themes()[theme]
    for ink, ground in WRITTEN:
        assert contrast(channels(colours[ink]), channels(colours[ground])) >= LEAST, (ink, ground)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_ink_can_be_read_on_half_a_heads_colour(theme):
    """Beside a partner in Heads stands its weight, on its head's colour, of which half is the most."""
    colours = themes()[theme]
    for colour in HEAD_COLOURS:
        ground = mixed(channels(colour), 0.5, channels(colours["paper"]))
        assert contrast(channels(colours["ink"]), ground) >= LEAST, colour


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_ink_can_be_read_on_the_strongest_shade_of_the_text(theme):
    colours = themes()[theme]
    strongest = re.search(r"STRONGEST = (\d+)", (FOLDER / "sentence.js").read_text(encoding="utf-8"))
    ground = mixed(channels(colours["accent"]), int(strongest[1]) / 100, channels(colours["paper"]))
    assert contrast(channels(colours["ink"]), ground) >= LEAST
