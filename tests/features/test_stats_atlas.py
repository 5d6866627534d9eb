"""The atlas: what is drawn is what was counted."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from slow import slow_except
from windows import text_sums

from attncli.analysis.patterns import PATTERNS
from attncli.corpus.statistics import Statistics
from attncli.corpus.sums import FIGURES, Distances
from attncli.features.stats import Heads
from attncli.features.stats.atlas import LETTERS, draw_atlas
from attncli.record import ModelInfo
from attncli.record.display import head_colour
from attncli.report.figure.drawing import save_figure
from attncli.report.paper import Paper

LAYERS, HEADS = 3, 4


def made(partial: bool = False, name: str = "made-up") -> Statistics:
    totals = np.random.default_rng(0).random((LAYERS, HEADS, len(FIGURES)))
    model = ModelInfo(name, "/made/up", "0" * 64, LAYERS, HEADS, 32)
    return Statistics.of(text_sums(1, 3.0, totals), model, partial=partial)


def with_distances() -> Statistics:
    numbers = np.random.default_rng(1)
    count = LAYERS * HEADS
    points, clusters = numbers.random((count, 2)), [number % 3 for number in range(count)]
    return replace(made(), distances=Distances(numbers.random((count, count)), points, clusters))


def atlas(statistics: Statistics, by: str = "entropy") -> Figure:
    return draw_atlas(Heads(statistics, by), [statistics.model.full_name, *statistics.parts], Paper())


def panels(figure: Figure) -> dict[str, object]:
    return {axes.get_title(): axes for axes in figure.get_axes() if axes.get_title()}


def test_entropies_stand_above_their_layers():
    axes = panels(atlas(made()))["Entropy of each head"]
    dots = {(x, y) for line in axes.lines if line.get_marker() == "o" for x, y in zip(*line.get_data(), strict=True)}
    assert dots == {(one.layer, one.figures["entropy"]) for one in made().heads}
    [limit] = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert set(limit.get_ydata()) == {3.0}


def test_layers_that_see_differently_far_have_limits_of_their_own():
    limits = np.array([3.0, 1.5, 3.0])
    axes = panels(atlas(replace(made(), entropy_limit=limits)))["Entropy of each head"]
    assert not [line for line in axes.lines if line.get_linestyle() == "--"]
    [lines] = axes.collections
    for layer, ((left, y), (right, also)) in enumerate(lines.get_segments()):
        assert left < layer < right and y == also == limits[layer]
    assert lines.get_label() == "uniform attention" and axes.get_ylim()[1] > 3


def test_a_line_a_pattern_is_the_mean_of_each_layers_heads():
    axes = panels(atlas(made()))["Where the weight goes"]
    assert len(axes.lines) == len(PATTERNS)
    for line, pattern in zip(axes.lines, PATTERNS, strict=True):
        assert line.get_label() == pattern.replace("_", " ")
        assert np.allclose(line.get_ydata(), made().figure(pattern).mean(axis=1))


@pytest.mark.parametrize("by", slow_except(FIGURES, FIGURES[:2]))
def test_the_heads_are_coloured_by_the_figure_and_lettered_by_their_pattern(by):
    axes = panels(atlas(made(), by))[f"All heads by {by.replace('_', ' ')}"]
    assert np.array_equal(axes.images[0].get_array(), made().figure(by))
    letters = {text.get_position(): text.get_text() for text in axes.texts}
    for one in made().heads:
        assert letters[one.head, one.layer] == LETTERS[one.label]


def test_distances_are_a_plane_with_a_colour_a_cluster_and_a_legend_of_them():
    statistics = with_distances()
    axes = panels(atlas(statistics))["Heads by their distance"]
    points, clusters = statistics.distances.embedding, np.array(statistics.distances.clusters)
    dots = [line for line in axes.lines if line.get_label().startswith("cluster")]
    assert len({line.get_color() for line in dots}) == len({line.get_marker() for line in dots}) == len(dots) == 3
    for cluster, line in enumerate(dots):
        assert np.array_equal(line.get_xydata(), points[clusters == cluster])
        assert not line.get_clip_on()
    said = [text.get_text() for text in axes.get_legend().get_texts()]
    assert said == [f"cluster {cluster} (4 heads)" for cluster in range(3)]


@pytest.mark.slow
def test_every_head_has_its_name_in_its_clusters_colour_and_no_name_lies_on_another():
    statistics = crowded(12, 12)
    figure = atlas(statistics)
    axes = panels(figure)["Heads by their distance"]
    names = [text for text in axes.texts if text.get_text()]
    assert [name.get_text() for name in names] == [f"{layer}.{head}" for layer in range(12) for head in range(12)]
    assert [name.get_color() for name in names] == [head_colour(one) for one in statistics.distances.clusters]
    boxes = [name.get_window_extent(FigureCanvasAgg(figure).get_renderer()) for name in names]
    assert not any(one.overlaps(other) for place, one in enumerate(boxes) for other in boxes[:place])


@pytest.mark.slow
def test_where_names_have_no_room_the_picture_says_of_how_many():
    texts = [text.get_text() for text in panels(atlas(crowded(24, 16)))["Heads by their distance"].texts]
    *names, note = [text for text in texts if text]
    assert 200 < len(names) < 384 and note == f"no room for {384 - len(names)} of 384 names"


def crowded(layers, heads):
    """Make as many heads as the largest models have, in a few heaps."""
    numbers = np.random.default_rng(2)
    count = layers * heads
    clusters = [number % 4 for number in range(count)]
    points = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])[clusters] + numbers.normal(scale=0.2, size=(count, 2))
    totals = numbers.random((layers, heads, len(FIGURES)))
    found = Statistics.of(text_sums(1, 3.0, totals), ModelInfo("made-up", "/made/up", "0" * 64, layers, heads, 32))
    return replace(found, distances=Distances(numbers.random((count, count)), points, clusters))


def test_the_text_of_an_svg_is_text(tmp_path):
    save_figure(atlas(made(name="a model <&> $x$")), tmp_path / "atlas.svg")
    content = (tmp_path / "atlas.svg").read_text()
    assert "a model &lt;&amp;&gt; $x$" in content
    assert "same word" in content
