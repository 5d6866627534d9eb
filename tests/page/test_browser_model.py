"""Model in a real browser: every head as a thumbnail of its weights, named for what it does; a click shows it large."""

from dataclasses import replace

import numpy as np
import pytest
from browsers import middle
from records import record_of

from attncli.analysis.patterns import summarise
from attncli.record.display import head_colour

pytestmark = pytest.mark.slow

LEAST = 0.02  # a thumbnail has no line for less


@pytest.fixture
def record(random_maps):
    """A record in which each of the first four heads has one pattern, and the others have many."""
    maps = random_maps(2, 4, 6) ** 0.2
    maps /= maps.sum(axis=-1, keepdims=True)
    maps[0, 0], maps[0, 1], maps[0, 2] = np.eye(6), np.eye(6, k=-1), np.eye(6, k=1)
    maps[0, 3], maps[1, 0] = np.eye(6)[0], np.eye(6)[5]
    return record_of(maps)


def thumbs(opened):
    return {(int(thumb["layer"]), int(thumb["head"])): thumb for thumb in opened.marks("rect") if "kind" in thumb}


def test_there_is_a_thumbnail_for_every_head_a_row_a_layer_named_as_the_analysis_names_it(opened, record):
    page = opened(record, "#view=model")
    drawn = thumbs(page)
    assert list(drawn) == [(layer, head) for layer in range(2) for head in range(4)]
    for (layer, head), thumb in drawn.items():
        assert (thumb["y"] == drawn[0, 0]["y"]) == (layer == 0)
        assert (thumb["x"] == drawn[0, 0]["x"]) == (head == 0)

    page.go("#view=model")
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
        share = "" if summary.label == "broad" else f" {summary.strength:.2f}"
        first, second = page.tip().splitlines()
        assert first == f"layer {place[0]}, head {place[1]}: {summary.label.replace('_', ' ')}{share}"
        assert second == f"entropy {summary.entropy:.2f} nats"


SHARES = {
    "head": lambda weight, most: weight / most,
    "shared": lambda weight, most: weight,
    "root": lambda weight, most: weight**0.5,
}


@pytest.mark.parametrize("scale, scheme", [("head", "light"), ("head", "dark"), ("shared", "light"), ("root", "dark")])
def test_a_pixel_of_a_thumbnail_is_its_weight_in_the_scales_colour(opened, record, violets, scale, scheme):
    page = opened(record, f"#view=model&scale={scale}", scheme=scheme)
    pixels = page.pixels()
    for (layer, head), thumb in thumbs(page).items():
        weights = record.map(layer, head)
        for (query, key), weight in np.ndenumerate(weights):
            share = SHARES[scale](weight, weights.max())
            x = thumb["x"] + (key + 0.5) * thumb["width"] / 6
            y = thumb["y"] + (query + 0.5) * thumb["height"] / 6
            assert pixels[int(y), int(x)] == pytest.approx(violets(share, scheme == "dark"), abs=10)


def test_thumbnails_in_lines_have_a_line_for_every_weight_and_no_colours_to_scale(opened, record):
    page = opened(record, "#view=model")
    page.choose("thumbs", "lines")
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
        assert {line["stroke"] for line in inside} == {head_colour(0)}
    page.choose("thumbs", "matrix")
    assert page.hash == {"view": "model"}

    page = opened(record, "#view=model&thumbs=lines")
    hidden = "one => one.hidden"
    assert page.tab.eval_on_selector("#scales", hidden)
    page.press("c")
    assert "scale" not in page.hash
    page.press("Enter")
    assert not page.tab.eval_on_selector("#scales", hidden)


@pytest.mark.parametrize("before", ["heads", "matrix", "neuron"])
def test_a_click_opens_the_head_in_the_view_that_was_there_before(opened, record, before):
    page = opened(record, f"#view={before}", width=700)  # no room beside the others
    page.click("[data-view=model]")
    page.point(*middle(thumbs(page)[1, 2]), click=True)
    assert page.hash == {"layer": "1", "head": "2", "heads": "2"} | ({} if before == "heads" else {"view": before})
    assert "layer" not in (page.tip() or "")  # what lay under the pointer is gone


def test_enter_opens_the_head_that_the_arrows_marked(opened, record):
    page = opened(record, "#layer=0", width=700)
    page.press("2", "ArrowDown", "ArrowRight", "ArrowRight")
    marked = [place for place, thumb in thumbs(page).items() if thumb["stroke-width"] > 2]
    assert marked == [(1, 2)]
    page.press("Enter")
    assert page.hash == {"layer": "1", "head": "2", "heads": "2"}
    assert {(line["layer"], line["head"]) for line in page.marks("line")} == {(1, 2)}


def test_the_headings_are_the_numbers_in_the_model(opened, record):
    page = opened(replace(record, layers=[3, 1], heads=[7, 2, 9, 0]), "#view=model")
    numbers = [text for text in page.texts() if text.isdigit()]
    assert numbers[-6:] == ["7", "2", "9", "0", "3", "1"]
    page.point(*middle(thumbs(page)[1, 9]), click=True)
    assert page.hash == {"layer": "1", "head": "9", "heads": "9", "view": "model", "detail": "yes"}


def test_a_threshold_empties_the_thumbnails_of_what_is_below_it(opened, record, violets):
    page = opened(record, "#view=model&threshold=0.6")
    thumb = thumbs(page)[1, 3]  # a broad one
    inner = page.pixels()[int(thumb["y"]) + 3 : int(thumb["y"]) + 60, int(thumb["x"]) + 3 : int(thumb["x"]) + 60]
    assert (inner == inner[0, 0]).all() and inner[0, 0] == pytest.approx(violets(0), abs=2)


def cells(page):
    """The cells of the head beside the others, by query and key."""
    return {(one["query"], one["key"]): one for one in page.marks("rect") if "weight" in one}


def test_the_head_beside_the_others_is_shown_pointed_at_and_opened(opened, record, as_shown):
    page = opened(record, "#view=model")
    grid = thumbs(page)
    page.point(*middle(grid[1, 2]), click=True)
    assert page.hash == {"view": "model", "layer": "1", "head": "2", "heads": "2", "detail": "yes"}
    drawn = cells(page)
    assert {place: cell["weight"] for place, cell in drawn.items()} == {
        place: pytest.approx(weight, abs=2e-5) for place, weight in np.ndenumerate(record.map(1, 2))
    }
    beside = max(thumb["x"] + thumb["width"] for thumb in thumbs(page).values())
    assert min(cell["x"] for cell in drawn.values()) > beside
    page.press("ArrowLeft")
    assert cells(page)[3, 4]["weight"] == pytest.approx(record.map(1, 1)[3, 4], abs=2e-5)
    page.press("Escape")
    assert "detail" not in page.hash and not cells(page) and thumbs(page) == grid | thumbs(page)

    page.go("#view=model&layer=1&head=3&detail=yes")
    names = record.tokens.text
    page.point(*middle(cells(page)[2, 4]), click=True)
    assert page.tip() == f"{names[2]} (2) → {names[4]} (4): {as_shown(record.map(1, 3)[2, 4])}"
    assert page.hash["token"] == "2" and page.hash["detail"] == "yes"

    page.go("#view=matrix")
    page.press("2", "ArrowRight", "Enter")
    assert page.hash == {"view": "model", "head": "1", "heads": "1", "detail": "yes"} and len(cells(page)) == 36
    page.press("Enter")
    assert page.hash["view"] == "matrix"

    page.go("#view=matrix")
    page.press("2")
    page.tab.mouse.dblclick(*page.in_window(*middle(thumbs(page)[1, 2])))
    page.settle()
    assert {name: page.hash[name] for name in ("view", "layer", "head")} == {
        "view": "matrix",
        "layer": "1",
        "head": "2",
    }


@pytest.mark.parametrize("view", ["model", "matrix"])
def test_the_bar_says_what_colours_stand_for_and_c_goes_to_the_next_scale(opened, record, view, as_shown):
    page = opened(record, f"#view={view}&layer=1&head=3")
    most = record.map(1, 3).max()
    said = {"head": ["0", "largest"] if view == "model" else ["0", f"{as_shown(most / 2)}", f"{as_shown(most)}"]}
    for scale, ticks in (said | {"shared": ["0", "0.5", "1"], "root": ["0", "0.1", "0.5", "1"]}).items():
        assert page.hash.get("scale", "head") == scale == page.tab.input_value("#scale")
        labels = sorted((x, text) for text, x, y in page.labels() if y < 26 and x > 60)
        assert [text for _, text in labels] == ticks
        page.press("c")
    assert "scale" not in page.hash


def test_arrows_bring_the_layer_into_sight(opened, random_maps):
    page = opened(record_of(random_maps(16, 2, 6)), "#view=model", height=500)
    page.press(*["ArrowDown"] * 12)
    thumb, top = thumbs(page)[12, 0], page.scrolled()[1]
    assert top < thumb["y"] and thumb["y"] + thumb["height"] < top + 500
