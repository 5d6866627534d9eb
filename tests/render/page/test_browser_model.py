"""Model in a real browser: every head as a thumbnail of its weights, named for what it does, that a click opens."""

from dataclasses import replace

import numpy as np
import pytest
from records import record_of

from attncli.analysis.patterns import summarise
from attncli.render.palette import head_colour

pytestmark = pytest.mark.slow

LEAST = 0.02  # a thumbnail has no line for less


@pytest.fixture
def record(random_maps):
    """Of the first four heads each does one thing, the others many."""
    maps = random_maps(2, 4, 6) ** 0.2
    maps /= maps.sum(axis=-1, keepdims=True)
    maps[0, 0], maps[0, 1], maps[0, 2] = np.eye(6), np.eye(6, k=-1), np.eye(6, k=1)
    maps[0, 3], maps[1, 0] = np.eye(6)[0], np.eye(6)[5]
    return record_of(maps)


def thumbs(opened):
    return {(int(thumb["layer"]), int(thumb["head"])): thumb for thumb in opened.marks("rect") if "kind" in thumb}


def middle(thumb):
    return thumb["x"] + thumb["width"] / 2, thumb["y"] + thumb["height"] / 2


def test_there_is_a_thumbnail_for_every_head_a_row_a_layer(opened, record):
    drawn = thumbs(opened(record, "#view=model"))
    assert list(drawn) == [(layer, head) for layer in range(2) for head in range(4)]
    for (layer, head), thumb in drawn.items():
        assert (thumb["y"] == drawn[0, 0]["y"]) == (layer == 0)
        assert (thumb["x"] == drawn[0, 0]["x"]) == (head == 0)


def test_a_thumbnail_is_named_as_the_analysis_names_its_head(opened, record):
    page = opened(record, "#view=model")
    summaries = summarise(record)
    assert {place: thumb["kind"] for place, thumb in thumbs(page).items()} == {
        place: summary.label for place, summary in summaries.items()
    }
    assert {"self", "previous", "next", "first", "separator", "broad"} == {one.label for one in summaries.values()}
    assert {"self 1.00", "previous 0.83", "broad"} <= set(page.texts())


def test_pointing_names_the_head_and_what_it_does_most(opened, minilm):
    record = minilm.attend("The cat sat on the mat.", layers=[2, 4], heads=[1, 3, 7])
    page = opened(record, "#view=model")
    for place, thumb in thumbs(page).items():
        page.point(*middle(thumb))
        summary = summarise(record)[place]
        share = "" if summary.label == "broad" else f" {max(summary.shares.values()):.2f}"
        first, second = page.tip().splitlines()
        assert first == f"layer {place[0]}, head {place[1]}: {summary.label}{share}"
        assert second == f"entropy {summary.entropy:.2f} nats"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_pixel_of_a_thumbnail_is_as_strong_as_the_root_of_its_weight(opened, record, magma, scheme):
    page = opened(record, "#view=model", scheme=scheme)
    pixels = page.pixels()
    for (layer, head), thumb in thumbs(page).items():
        for (query, key), weight in np.ndenumerate(record.map(layer, head)):
            x = thumb["x"] + (key + 0.5) * thumb["width"] / 6
            y = thumb["y"] + (query + 0.5) * thumb["height"] / 6
            assert pixels[int(y), int(x)] == pytest.approx(magma(weight**0.5, scheme == "dark"), abs=10)


def test_thumbnails_in_lines_have_a_line_for_every_weight_in_its_heads_colour(opened, record):
    page = opened(record, "#view=model")
    page.click("[data-thumbs=lines]")
    assert page.hash == {"view": "model", "thumbs": "lines"}
    lines = [line.attrib for line in page.svg().iter("{http://www.w3.org/2000/svg}line")]
    drawn = thumbs(page)
    for (layer, head), thumb in drawn.items():
        left, top, side = thumb["x"], thumb["y"], thumb["width"]
        inside = [one for one in lines if 0 < float(one["x1"]) - left < side and 0 < float(one["y1"]) - top < side]
        found = {
            tuple(int((float(line[y]) - top) / side * 6) for y in ("y1", "y2")): float(line["stroke-opacity"])
            for line in inside
        }
        assert found == {
            place: pytest.approx(weight, abs=6e-4)
            for place, weight in np.ndenumerate(record.map(layer, head))
            if weight >= LEAST
        }
        assert {line["stroke"] for line in inside} == {head_colour(head)}
    page.click("[data-thumbs=matrix]")
    assert page.hash == {"view": "model"}


@pytest.mark.parametrize("before", ["heads", "matrix", "neuron"])
def test_a_click_opens_the_head_in_the_view_that_was_there_before(opened, record, before):
    page = opened(record, f"#view={before}")
    page.click("[data-view=model]")
    page.point(*middle(thumbs(page)[1, 2]), click=True)
    assert page.hash == {"layer": "1", "head": "2", "heads": "2"} | ({} if before == "heads" else {"view": before})
    assert "layer" not in (page.tip() or "")  # what lay under the pointer is gone


def test_enter_opens_the_head_that_the_arrows_marked(opened, record):
    page = opened(record, "#layer=0")
    page.press("2", "ArrowDown", "ArrowRight", "ArrowRight")
    marked = [place for place, thumb in thumbs(page).items() if thumb["stroke-width"] > 2]
    assert marked == [(1, 2)]
    page.press("Enter")
    assert page.hash == {"layer": "1", "head": "2", "heads": "2"}
    assert {(line["layer"], line["head"]) for line in page.marks("line")} == {(1, 2)}


def test_the_headings_are_the_numbers_in_the_model(opened, record):
    page = opened(replace(record, layers=[3, 1], heads=[7, 2, 9, 0]), "#view=model")
    assert page.texts()[1:6] == ["7", "2", "9", "0", "3"]
    page.point(*middle(thumbs(page)[1, 9]), click=True)
    assert page.hash == {"layer": "1", "head": "9", "heads": "9"}


def test_a_threshold_empties_the_thumbnails_of_what_is_below_it(opened, record, magma):
    page = opened(record, "#view=model&threshold=0.6")
    thumb = thumbs(page)[1, 3]  # a broad one
    inner = page.pixels()[int(thumb["y"]) + 3 : int(thumb["y"]) + 60, int(thumb["x"]) + 3 : int(thumb["x"]) + 60]
    assert (inner == inner[0, 0]).all() and inner[0, 0] == pytest.approx(magma(0), abs=2)
