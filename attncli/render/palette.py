"""Colours that are the same wherever they are drawn.

Of heads: of medium lightness, to be seen on white and on black. Of signed numbers: the ends of matplotlib's RdBu_r, as
red, green and blue from 0 to 255.
"""

BELOW, ABOVE = (33, 102, 172), (178, 24, 43)
HEAD_COLOURS = (
    "#3f7fe0", "#e0760a", "#1f9e6e", "#d6498f", "#8c6bd8", "#b59a00", "#12a0b5", "#dd4b39",
    "#7c8c1c", "#b06a3b", "#5f86b3", "#a653a6", "#3ba13b", "#c9708e", "#8a7d55", "#6d78e8",
)  # fmt: skip


def head_colour(head: int) -> str:
    """The colour of a head; after the last one they begin again."""
    return HEAD_COLOURS[head % len(HEAD_COLOURS)]
