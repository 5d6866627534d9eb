"""Statistics in the terminal."""

from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from windows import text_sums

from attncli.analysis.patterns import PATTERNS
from attncli.corpus.statistics import Statistics
from attncli.corpus.sums import FIGURES, LINEAR
from attncli.features.stats import Heads, _report
from attncli.record import ModelInfo
from attncli.report.canvas import Canvas
from attncli.report.terminal import colour, lines_of

PIPE = Canvas(width=100, colour=False, unicode=True)


def made(layers: int = 2, heads: int = 3, partial: bool = False, name: str = "made-up", **figures) -> Statistics:
    """All figures 0.1 and the entropy 2, save those given as {(layer, head): value}."""
    totals = np.full((layers, heads, len(FIGURES)), 0.1)
    totals[..., 0] = 2.0
    for figure, values in figures.items():
        for place, value in values.items():
            totals[(*place, FIGURES.index(figure))] = value
    model = ModelInfo(name, "/made/up", "0" * 64, layers, heads, 8 * heads)
    return Statistics.of(text_sums(1, 4.0, totals), model, partial=partial)


def printed(statistics: Statistics, by: str = "entropy", canvas: Canvas = PIPE) -> list[str]:
    console = Console(width=200, color_system=None)
    report = _report(statistics, by, False)
    with console.capture() as captured:
        console.print(*lines_of(report.title, report.parts, canvas), sep="\n", soft_wrap=True)
    return [line.rstrip() for line in captured.get().splitlines()]


def heads_grid(statistics: Statistics, by: str, canvas: Canvas) -> list:
    """The caption and the grid."""
    return Heads(statistics, by).terminal(canvas)[1:]


def test_the_grid_has_the_figure_of_every_head():
    lines = [line.plain for line in heads_grid(made(entropy={(1, 2): 0.25}), "entropy", PIPE)]
    assert [line.split() for line in lines[1:]] == [
        ["head", "0", "1", "2"],
        ["layer", "0", "2.00", "2.00", "2.00"],
        ["layer", "1", "2.00", "2.00", "0.25"],
    ]


@pytest.mark.parametrize("by", FIGURES)
def test_a_cell_is_the_brighter_the_larger_its_figure(by):
    statistics = made(**{by: {(0, 0): 0.2, (0, 1): 0.9}})
    row = heads_grid(statistics, by, Canvas(80, True, True))[2]
    backgrounds = [str(span.style).rpartition("on ")[2] for span in row.spans]
    levels = [sum(map(int, one[4:-1].split(","))) for one in backgrounds]
    assert levels[0] < levels[1]
    assert backgrounds[0] != colour(0)


def test_the_clearest_head_of_each_pattern_is_named_with_its_share():
    figures = {name: {(1, place): 0.5 + place / 100} for place, name in enumerate(PATTERNS)}
    lines = printed(made(heads=len(PATTERNS), **figures))
    for place, name in enumerate(PATTERNS):
        [line] = [line for line in lines if line.startswith(f" {name.replace('_', ' ')} ")]
        assert f"1.{place}" in line and f"{0.5 + place / 100:.3f}" in line


def test_where_no_head_does_it_none_is_named_and_the_most_stands_in_brackets():
    lines = printed(made(next={(1, 2): 0.29}))
    [line] = [line.split() for line in lines if line.startswith(" next ")]
    assert line == ["next", "none", "(0.290)", "0.000", "0"]
    [broad] = [line.split() for line in lines if line.startswith(" broad ")]
    assert broad[-3:] == ["0.0", "2.00", "6"]
    labelled = printed(made(**{"first": {(layer, head): 0.5 for layer in range(2) for head in range(3)}}))
    assert [line.split()[-2:] for line in labelled if line.startswith(" broad ")] == [["none", "0"]]


def test_what_looking_at_everything_alike_gives_stands_beside_a_share():
    alike = np.full((2, len(LINEAR)), 0.05)
    [line] = [one for one in printed(replace(made(next={(1, 2): 0.5}), alike=alike)) if one.startswith(" next ")]
    assert line.split() == ["next", "1.2", "0.500", "0.050", "0.000", "2.00", "1"]


def test_the_range_of_entropy_is_that_of_all_layers():
    statistics = made()
    assert printed(statistics)[2] == "entropy in nats: 0 attends to one token, 4.00 to all equally"
    other = printed(replace(statistics, entropy_limit=np.array([2.5, 4.0])))[2]
    assert other == "entropy in nats: 0 attends to one token, 2.50 to 4.00, by how far a layer sees, to all equally"


def test_a_models_name_is_harmless():
    assert "\x1b" not in "\n".join(printed(made(name="evil\x1b[31m")))
