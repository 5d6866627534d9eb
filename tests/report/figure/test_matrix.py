"""Maps as matrices: one scale of colours, numbers where there is room, and the row of a query."""

import numpy as np
import pytest
from pictures import check_nothing_overlaps, frames, maps, picture_texts, random_record
from records import record_of

from attncli.report.figure import figure_of
from attncli.report.figure.drawing import dark_ink
from attncli.report.figure.layout import TALLEST, Grid
from attncli.report.figure.maps import COLOURS, DrawnMap, colour_map, panel_grid
from attncli.report.paper import Paper
from attncli.report.parts import HeadGrid, Panel


@pytest.mark.parametrize("weights", [[[0.125, 0.875, 0], [0.5, 0.25, 0.25], [1, 0, 0]], np.zeros((3, 3))])
def test_one_head_has_its_weights_in_the_cells(weights):
    drawn = record_of(weights).figure()
    check_nothing_overlaps(drawn)
    numbers = [text for text in picture_texts(drawn) if text[:2] in ("0.", "1.") and len(text) == 4]
    assert sorted(numbers) == sorted(f"{weight:.2f}" for weight in np.ravel(weights) if weight)
    assert maps(drawn)[0].norm.vmax == (0.875 if np.max(weights) == 0.875 else 1)


def test_the_row_of_a_query_is_framed_in_every_map():
    record = random_record(2, 3, 6)
    drawn = record.figure(query=2)
    images = maps(drawn)
    assert len(frames(drawn)) == len(images) == 6
    for frame, image in zip(frames(drawn), images, strict=True):
        left, right, bottom, top = image.get_extent()
        cell = (bottom - top) / 6
        assert (frame.get_x(), frame.get_width()) == pytest.approx((left, right - left))
        assert (frame.get_y(), frame.get_height()) == pytest.approx((top + 2 * cell, cell))
    assert not frames(record.figure())


@pytest.mark.parametrize("name", [COLOURS, "viridis", "Greys", "RdBu_r"])
def test_numbers_can_be_read_on_every_colour(name):
    """Contrast of 4.5 : 1 at least, by the formula of WCAG 2, of black or white on each of a map's 256 colours."""
    colours = colour_map(name)(np.linspace(0, 1, 256))
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)[:, :3]
    luminance = linear @ (0.2126, 0.7152, 0.0722) + 0.05
    assert np.where(dark_ink(colours), luminance / 0.05, 1.05 / luminance).min() >= 4.5


@pytest.mark.parametrize(
    "largest, factor, bar, cell",
    [(0.4, "numbers in cells (× 10⁻³)", ["share", "0.4"], "400"), (4e-4, "share (× 10⁻⁶)", ["400"], "400")],
)
def test_a_bar_has_plain_numbers_unless_they_are_small_and_small_cells_name_their_factor(largest, factor, bar, cell):
    values = np.full((3, 3), largest / 1000)
    values[0, 0] = largest
    grid = HeadGrid([Panel("", values)], range(3), range(3), "share")
    texts = picture_texts(figure_of([], [grid], Paper()))
    assert {factor, *bar, cell} <= {text.replace("\N{NO-BREAK SPACE}", " ") for text in texts}


@pytest.mark.slow
def test_a_single_peak_is_seen_in_a_thumbnail():
    weights = np.zeros((12, 12, 400, 400))
    weights[3, 7, 211, 133] = 1
    drawn = record_of(weights).figure()
    places = [np.argwhere(np.asarray(image.get_array()) == 1) for image in maps(drawn)]
    assert [len(found) for found in places] == [0] * 43 + [1] + [0] * 100
    shape = maps(drawn)[43].get_array().shape
    np.testing.assert_allclose(places[43][0] / shape, np.array([211, 133]) / 400, atol=1 / min(shape))


@pytest.mark.slow
def test_a_map_with_more_cells_than_can_be_seen_says_what_a_cell_is():
    """Draw 3,000 tokens as a map of 8 inches, which has 600 cells: one has the peak, and the note explains a cell."""
    weights = np.zeros((3000, 3000), dtype=np.float32)
    weights[1234, 2345] = 1
    tokens = [str(number) for number in range(3000)]
    figure = panel_grid([[DrawnMap("", weights)]], Grid(tokens))
    drawn = figure.axes[0].images[0].get_array()
    assert drawn.shape == (600, 600) and drawn.max() == 1
    assert any("a cell is the largest weight of up to 5 x 5 tokens" in text.get_text() for text in figure.axes[0].texts)
    few = panel_grid([[DrawnMap("", weights[:30, :30])]], Grid(tokens[:30]))
    assert not any("a cell is" in text.get_text() for text in few.axes[0].texts)


@pytest.mark.parametrize("scale, share", [(None, lambda w: w / 0.8), ("shared", lambda w: w), ("root", np.sqrt)])
def test_a_scale_says_how_far_along_the_colours_a_weight_is(scale, share):
    """Compare with the page (page/scale.js); the bar has the same scale."""
    record = record_of([[[[0.2, 0.8], [0.5, 0.5]], [[0.6, 0.4], [0.4, 0.6]]]])
    drawn = record.figure(scale=scale)
    for image, weights in zip(maps(drawn), record.weights[0], strict=True):
        np.testing.assert_allclose(image.norm(image.get_array()), share(weights), rtol=1e-6)
        assert image.norm.vmax == pytest.approx(0.8 if scale is None else 1)
    assert drawn.axes[1].get_ylim()[1] == pytest.approx(0.8 if scale is None else 1)


def test_a_long_text_is_drawn_by_the_root_on_one_screen():
    """As large as a window, with few labels and round numbers at the bar; --vmax keeps a linear scale."""
    weights = np.full((300, 300), 0.5 / 299)
    np.fill_diagonal(weights, 0.5)
    drawn = record_of(weights).figure()
    [image] = maps(drawn)
    assert image.norm(0.125) == pytest.approx(0.5) and max(drawn.get_size_inches()) < 11
    assert [text.get_text() for text in drawn.axes[1].get_yticklabels()] == ["0", "0.01", "0.1", "0.25", "0.5"]
    assert "colours go by the square root of the value; every 4th token is named" in picture_texts(drawn)
    [linear] = maps(record_of(weights).figure(vmax=0.5))
    assert linear.norm(0.125) == pytest.approx(0.25)


def test_a_printed_grid_folds_until_its_tokens_have_names():
    """Twelve heads in a column of print: three beside each other, with every third token."""
    drawn = random_record(1, 12, 16).figure(width="8cm")
    check_nothing_overlaps(drawn)
    lefts = {round(image.get_extent()[0], 3) for image in maps(drawn)}
    assert len(lefts) == 3 and "every 3rd token is named" in picture_texts(drawn)


def test_each_map_can_have_a_scale_of_its_own_and_the_bar_says_so():
    record = record_of([[[[0.2, 0.8], [0.5, 0.5]], [[0.6, 0.4], [0.4, 0.6]], [[0, 0], [0, 0]]]])
    drawn = record.figure(scale="head")
    for image, weights, most in zip(maps(drawn), record.weights[0], (0.8, 0.6, 1), strict=True):
        np.testing.assert_allclose(image.norm(image.get_array()), weights / most, rtol=1e-6)
    texts = picture_texts(drawn)
    assert {"0.80", "0.60"} <= set(texts)  # a cell's number is its weight all the same
    assert [" ".join(text.split()) for text in texts].count("attention weight") == 3  # a bar each


def test_many_printed_maps_stand_in_full_rows_as_long_as_a_page_has_room_for_their_tokens():
    """Eighteen maps with captions of several words, which have no room beside each other."""
    rows = [[DrawnMap(f"layer {place // 3}, rollout, up to 0.5", np.eye(16, dtype=np.float32)) for place in range(18)]]
    words = [f"token{place}" for place in range(16)]
    drawn = panel_grid(rows, Grid(words, None, title="", note="", axes=("query", "key"), paper=Paper(3.15)))
    check_nothing_overlaps(drawn)
    assert len({round(image.get_extent()[0], 3) for image in maps(drawn)}) in (2, 3)
    assert "token0" in picture_texts(drawn) and drawn.get_size_inches()[1] <= TALLEST
