"""The colours of heads, the same in pictures and pages: of medium lightness, to be seen on white and on black."""

HEAD_COLOURS = (
    "#3f7fe0", "#e0760a", "#1f9e6e", "#d6498f", "#8c6bd8", "#b59a00", "#12a0b5", "#dd4b39",
    "#7c8c1c", "#b06a3b", "#5f86b3", "#a653a6", "#3ba13b", "#c9708e", "#8a7d55", "#6d78e8",
)  # fmt: skip

# Around 0, from below it to above it, at equal distances: on white matplotlib's "RdBu_r", on black its mirror, which
# begins at the paper's colour. [red, green, blue]
CHANGES_LIGHT = (
    (5, 48, 97), (33, 102, 172), (67, 147, 195), (146, 197, 222), (209, 229, 240), (247, 247, 247),
    (253, 219, 199), (244, 165, 130), (214, 96, 77), (178, 24, 43), (103, 0, 31),
)  # fmt: skip
CHANGES_DARK = (
    (209, 229, 240), (146, 197, 222), (67, 147, 195), (33, 102, 172), (24, 58, 98), (20, 22, 26),
    (98, 24, 36), (178, 24, 43), (214, 96, 77), (244, 165, 130), (253, 219, 199),
)  # fmt: skip


def head_colour(head: int) -> str:
    """The colour of a head; after the last one they begin again."""
    return HEAD_COLOURS[head % len(HEAD_COLOURS)]
