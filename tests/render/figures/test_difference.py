"""The picture of `attncli diff`: every head's number, and A, B and B - A of those that differ most."""

from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from records import cross_records, record_of

from attncli.analysis.difference import difference
from attncli.render.figures.difference import INK, difference_figure
from attncli.report.figure.maps import COLOURS

NUMBERS = np.random.default_rng(4)


def two(layers=2, heads=3, tokens=5):
    first = record_of(NUMBERS.dirichlet(np.ones(tokens), (layers, heads, tokens)))
    return difference(first, record_of(NUMBERS.dirichlet(np.ones(tokens), (layers, heads, tokens))))


def images(drawn):
    return [one for one in drawn.axes[0].get_children() if isinstance(one, AxesImage)]


def said(drawn):
    return [text.get_text() for text in drawn.findobj(Text) if text.get_text()]


def test_the_maps_are_those_of_the_heads_that_differ_most():
    found = two()
    drawn = images(difference_figure(found))
    assert len(drawn) == 9
    first = max(found.first.weights.max(), found.second.weights.max())
    weights = matplotlib.colormaps[COLOURS]
    for place, (layer, head) in enumerate(found.heads()[:3]):
        for column, record in enumerate((found.first, found.second)):
            colours = weights(record.map(layer, head) / first)
            np.testing.assert_allclose(drawn[3 * place + column].get_array(), colours, atol=0.02)
        change = found.second.map(layer, head) - found.first.map(layer, head)
        picture = drawn[3 * place + 2].get_array()
        red, blue = picture[..., 0], picture[..., 2]
        assert ((red > blue) == (change > 0))[np.abs(change) > 0.05].all()


def test_every_head_has_its_number_and_the_maps_their_names():
    found = two()
    words = said(difference_figure(found))
    for moved in found.moved.flat:
        assert f"{moved:.2f}" in words
    layer, head = found.heads()[0]
    assert f"A, head {layer}.{head}, moved {found.of(layer, head):.2f}" in words
    assert any(text.startswith("A: made-up · mask padding · 5 tokens") for text in words)


def test_the_cells_that_differ_most_have_frames_in_all_three_maps():
    found = two(layers=1, heads=1, tokens=6)
    drawn = difference_figure(found, top=4)
    left, right, _, top = images(drawn)[2].get_extent()
    cell = (right - left) / 6
    frames = {
        (round((one.get_y() - top) / cell), round((one.get_x() - left) / cell))
        for one in drawn.findobj(Rectangle)
        if not one.get_fill()
        and matplotlib.colors.same_color(one.get_edgecolor(), INK)
        and one.get_width() == pytest.approx(cell)
        and one.get_x() >= left - 1e-6
    }
    assert frames == {(one.query, one.key) for one in found.largest(4)}


def test_the_same_maps_need_no_maps():
    record = two().first
    assert images(difference_figure(difference(record, record))) == []


@pytest.mark.parametrize("tokens", [2, 40, 300])
def test_it_is_drawn_at_any_length_and_nothing_reaches_out_of_it(tokens):
    drawn = difference_figure(two(1, 2, tokens))
    width, height = drawn.get_size_inches()
    assert max(width, height) < 30
    for image in images(drawn):
        left, right, bottom, top = image.get_extent()
        assert 0 < left < right < width and 0 < top < bottom < height


def test_a_token_is_text_and_no_mathematics():
    found = two(1, 1, 3)
    odd = replace(found.first.tokens, shown=[], text=["[CLS]", "$x_1", "[SEP]"])
    words = said(difference_figure(replace(found, first=replace(found.first, tokens=odd))))
    assert "$x_1 / cat" in words


@pytest.mark.slow
@settings(max_examples=5)
@given(cross_records())
def test_queries_and_keys_may_be_other_texts(record):
    other = replace(record, weights=np.ascontiguousarray(record.weights[..., ::-1]))
    for image in images(difference_figure(difference(record, other))):
        left, right, bottom, top = image.get_extent()
        assert (right - left) / len(record.keys) == pytest.approx((bottom - top) / len(record.tokens))
