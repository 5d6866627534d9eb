"""Statistics in the terminal and as an atlas: what is drawn is what was counted."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console
from slow import slow_except
from windows import text_sums

from attncli.analysis.patterns import GLYPHS, PATTERNS
from attncli.corpus.statistics import Statistics
from attncli.corpus.sums import FIGURES, LINEAR
from attncli.features.stats import StatsResult
from attncli.record import ModelInfo
from attncli.report.atlas import Atlas
from attncli.report.canvas import Canvas
from attncli.report.figure.drawing import save_figure
from attncli.report.paper import Paper
from attncli.report.terminal import colour, lines_of


def made(layers: int = 2, heads: int = 3, name: str = "made-up", **figures) -> Statistics:
    """All figures 0.1 and the entropy 2, save those given as {(layer, head): value}."""
    totals = np.full((layers, heads, len(FIGURES)), 0.1)
    totals[..., 0] = 2.0
    for figure, values in figures.items():
        for place, value in values.items():
            totals[(*place, FIGURES.index(figure))] = value
    model = ModelInfo(name, "/made/up", "0" * 64, layers, heads, 8 * heads)
    return Statistics.of(text_sums(1, 4.0, totals), model)


# --- in the terminal ---------------------------------------------------------------------------------------

PIPE = Canvas(width=100, colour=False, unicode=True)


def printed(statistics: Statistics) -> list[str]:
    console = Console(width=200, color_system=None)
    report = StatsResult(statistics).report()
    with console.capture() as captured:
        console.print(*lines_of(report.title, report.parts, PIPE), sep="\n", soft_wrap=True)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_the_grid_has_the_figure_of_every_head():
    assert [line.split() for line in printed(made(entropy={(1, 2): 0.25}))[3:6]] == [
        ["head", "0", "1", "2"],
        ["layer", "0", "2.00", "2.00", "2.00"],
        ["layer", "1", "2.00", "2.00", "0.25"],
    ]


@pytest.mark.parametrize("by", FIGURES)
def test_a_cell_is_the_brighter_the_larger_its_figure(by):
    report = StatsResult(made(**{by: {(0, 0): 0.2, (0, 1): 0.9}}), by).report()
    row = lines_of(report.title, report.parts, Canvas(80, True, True))[4]
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


def test_a_row_has_the_share_that_uniform_attention_gives_or_none_and_the_largest_share_in_brackets():
    alike = np.full((2, len(LINEAR)), 0.05)
    for share, texts, cells in (
        (0.29, 2, "none (0.290) 0.050 0"), (0.5, 1, "1.2 0.500 0.050 2.00 1"), (0.5, 2, "1.2 0.500 0.050 0.000 2.00 1"),
    ):  # fmt: skip
        lines = printed(replace(made(next={(1, 2): share}), alike=alike, texts=texts))
        assert [line.split()[1:] for line in lines if line.startswith(" next ")] == [cells.split()]
        [broad] = [line.split() for line in lines if line.startswith(" broad ")]
        assert broad[-3:] == ["0.0", "2.00", "6" if share < 0.3 else "5"]


def test_the_range_of_entropy_is_that_of_all_layers_and_a_models_name_is_harmless():
    assert printed(made())[2] == "entropy in nats: 0 attends to one token, 4.00 to all tokens equally"
    other = printed(replace(made(name="evil\x1b[31m"), entropy_limit=np.array([2.5, 4.0])))
    title = (
        "entropy in nats: 0 attends to one token, 2.50 to 4.00 (depending on the layer's window) to all tokens equally"
    )
    assert other[2] == title
    assert "\x1b" not in "\n".join(other)


# --- the atlas -----------------------------------------------------------------------------------------------


def drawn(layers: int = 3, heads: int = 4, name: str = "made-up") -> Statistics:
    """Statistics with figures by chance."""
    figures = np.random.default_rng(0).random((layers, heads, len(FIGURES)))
    return replace(made(layers, heads, name), figures=figures)


def panels(statistics: Statistics, by: str = "entropy") -> dict[str, object]:
    figure = Atlas(statistics, by).figure([statistics.model.full_name, *statistics.parts], Paper())
    return {axes.get_title().partition("\n")[0]: axes for axes in figure.get_axes() if axes.get_title()}


def test_entropies_stand_above_their_layers():
    axes = panels(drawn())["Entropy of each head"]
    dots = {(x, y) for line in axes.lines if line.get_marker() == "o" for x, y in zip(*line.get_data(), strict=True)}
    assert dots == {(one.layer, one.figures["entropy"]) for one in drawn().heads}
    [limit] = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert set(limit.get_ydata()) == {4.0}


def test_layers_that_see_differently_far_have_limits_of_their_own():
    limits = np.array([3.0, 1.5, 3.0])
    axes = panels(replace(drawn(), entropy_limit=limits))["Entropy of each head"]
    assert not [line for line in axes.lines if line.get_linestyle() == "--"]
    [lines] = axes.collections
    for layer, ((left, y), (right, also)) in enumerate(lines.get_segments()):
        assert left < layer < right and y == also == limits[layer]
    assert lines.get_label() == "uniform attention" and axes.get_ylim()[1] > 3


def test_a_line_a_pattern_is_the_mean_of_each_layers_heads():
    axes = panels(drawn())["Where the weight goes"]
    assert len(axes.lines) == len(PATTERNS)
    for line, pattern in zip(axes.lines, PATTERNS, strict=True):
        assert line.get_label() == pattern.replace("_", " ")
        assert np.allclose(line.get_ydata(), drawn().figure(pattern).mean(axis=1))


@pytest.mark.parametrize("by", slow_except(FIGURES, FIGURES[:2]))
def test_the_heads_are_coloured_by_the_figure_and_lettered_by_their_pattern(by):
    axes = panels(drawn(), by)[f"All heads by {by.replace('_', ' ')}"]
    assert np.array_equal(axes.images[0].get_array(), drawn().figure(by))
    letters = {text.get_position(): text.get_text() for text in axes.texts}
    for one in drawn().heads:
        assert letters[one.head, one.layer] == GLYPHS[one.label]


def test_the_text_of_an_svg_is_text(tmp_path):
    statistics = drawn(name="a model <&> $x$")
    figure: Figure = Atlas(statistics, "entropy").figure([statistics.model.full_name], Paper())
    save_figure(figure, tmp_path / "atlas.svg")
    content = (tmp_path / "atlas.svg").read_text()
    assert "a model &lt;&amp;&gt; $x$" in content
    assert "same word" in content
