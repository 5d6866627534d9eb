"""How the figures of a corpus are written, and which value of a figure is the most that colours reach to."""

from attncli.corpus.statistics import Statistics

OPEN_ENDED = ("entropy", "distance")  # the figures that are no shares of 1


def top_of(statistics: Statistics, by: str) -> float:
    """The value of a figure that gets the last colour."""
    if by == "entropy":
        return max(float(statistics.entropy_limit.max()), 1e-9)
    return float(statistics.figure(by).max()) or 1.0 if by in OPEN_ENDED else 1.0


def figure_text(value: float, by: str) -> str:
    """Three characters or four: 3.21, 45.6, 123; .42 of a share."""
    if by not in OPEN_ENDED:
        return "1.0" if value >= 0.995 else f"{value:.2f}"[1:]
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"
