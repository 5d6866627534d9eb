"""Which head does one thing most clearly, over a corpus; none where no head does it."""

from attncli.analysis.statistics import BROAD, LINEAR, HeadStatistics, Statistics

CLEARLY = 2  # times as much as a head that looks at everything alike


def labelled(statistics: Statistics, label: str) -> list[HeadStatistics]:
    """The heads with a label."""
    return [head for head in statistics.heads if head.label == label]


def most(statistics: Statistics, pattern: str) -> HeadStatistics:
    """The head that gives most of its weight to a pattern, however little that is."""
    return max(statistics.heads, key=lambda head: head.figures[pattern])


def clearest(statistics: Statistics, pattern: str) -> HeadStatistics | None:
    """The head that does one thing most clearly; None where no head does it.

    A head does it if it is labelled so (this pattern gets the most of its weight, and at least 0.3) and gives it at
    least twice as much as a head that looks at everything alike. For somebody's share is always the largest of many,
    and where there is little to look at all shares are large: of three tokens, a head that looks for none of them gives
    each a third. Where what such a head gives is not known (`alike`) the label has to do.
    """
    able = [
        head
        for head in labelled(statistics, pattern)
        if head.figures[pattern] >= CLEARLY * (alike(statistics, head.layer, pattern) or 0.0)
    ]
    return max(able, key=lambda head: head.figures[pattern], default=None)


def broadest(statistics: Statistics) -> HeadStatistics | None:
    """Of the heads that are labelled broad the one with the largest entropy; None where there is none."""
    return max(labelled(statistics, BROAD), key=lambda head: head.figures["entropy"], default=None)


def alike(statistics: Statistics, layer: int, figure: str) -> float | None:
    """A figure in LINEAR of a head in this layer that looks at everything alike; None where that is not known."""
    return None if statistics.alike is None else float(statistics.alike[layer, LINEAR.index(figure)])
