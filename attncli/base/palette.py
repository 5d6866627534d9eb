"""The colours of heads, of weights and of signed numbers, for every medium."""

# Red, green and blue from 0 to 255: the ends of matplotlib's RdBu_r.
BELOW, ABOVE = (33, 102, 172), (178, 24, 43)

# Of medium lightness, to be seen on white and on black.
HEAD_COLOURS = (
    "#3f7fe0", "#e0760a", "#1f9e6e", "#d6498f", "#8c6bd8", "#b59a00", "#12a0b5", "#dd4b39",
    "#7c8c1c", "#b06a3b", "#5f86b3", "#a653a6", "#3ba13b", "#c9708e", "#8a7d55", "#6d78e8",
)  # fmt: skip

# Weights from nothing to the largest on paper, at equal distances: white, blue, violet, nearly black. On a dark page
# they go the other way. CIE lightness falls in even steps, 100 to 8, so that neither grey print nor an eye that
# doesn't tell red from green loses any: tests/base/test_palette.py.
WEIGHTS_NAME = "violets"  # among matplotlib's colour maps
WEIGHTS = (
    "#ffffff", "#e5f0fb", "#cce1f7", "#b4d1f3", "#9dc1f0", "#88b0ed", "#779fe8", "#6a8ee3", "#617cdc",
    "#5c69d3", "#5856c5", "#5246b2", "#4c369f", "#442a82", "#372069", "#2a194b", "#1d122f",
)  # fmt: skip


def head_colour(head: int) -> str:
    """The colour of a head; after the last one they begin again."""
    return HEAD_COLOURS[head % len(HEAD_COLOURS)]


SIGNED = "RdBu_r"  # among matplotlib's colour maps: blue is below 0, red above

# Around 0, from below it to above it, at equal distances: on white matplotlib's "RdBu_r", on black its mirror, which
# has the dark page's own colour in its middle.
CHANGES_LIGHT = (
    "#053061", "#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#f7f7f7", "#fddbc7", "#f4a582", "#d6604d", "#b2182b",
    "#67001f",
)  # fmt: skip
CHANGES_DARK = (
    "#d1e5f0", "#92c5de", "#4393c3", "#2166ac", "#183a62", "#14161a", "#621824", "#b2182b", "#d6604d", "#f4a582",
    "#fddbc7",
)  # fmt: skip
