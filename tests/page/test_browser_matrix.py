"""Matrix in a real browser: cells in the colours of their weights, a crosshair with the exact one, and zooming."""

import re

import numpy as np
import pytest
from browsers import middle
from records import record_of

pytestmark = pytest.mark.slow

NUMBER = re.compile(r"(\d?|<)\.\d\d")


@pytest.fixture
def record(random_maps):
    return record_of(random_maps(2, 2, 9))


def cells(opened):
    """The cells of the saved picture, by query and key."""
    return {(int(cell["query"]), int(cell["key"])): cell for cell in opened.marks("rect")}


def test_cells_are_coloured_and_stand_in_rows_of_queries_and_columns_of_keys(opened, record, violets, as_shown):
    page = opened(record, "#view=matrix&layer=1&head=1")
    weights = record.map(1, 1)
    drawn = cells(page)
    assert {place: cell["weight"] for place, cell in drawn.items()} == {
        place: pytest.approx(weight, abs=2e-5) for place, weight in np.ndenumerate(weights)
    }
    for place, cell in drawn.items():
        colour = [int(part) for part in cell["fill"][4:-1].split(",")]
        assert colour == pytest.approx(violets(weights[place] / weights.max()), abs=8)
    assert as_shown(weights.max()) in page.texts()  # what the darkest colour stands for

    page.go("#view=matrix")
    drawn, names = cells(page), record.tokens.text
    labels = [(x, y - 4) for text, x, y in page.labels() if text in names]
    queries, keys = labels[:9], labels[9:]
    for (query, key), cell in drawn.items():
        assert queries[query][1] == pytest.approx(middle(cell)[1], abs=2)
        assert keys[key][0] - 3 == pytest.approx(middle(cell)[0], abs=5)

    page.go("#view=matrix&cell=40")
    count = record.weights.shape[-1]
    numbers = [text for text in page.texts() if NUMBER.fullmatch(text)]
    assert len(numbers) == count**2 and len(set(numbers)) > 20
    for number, weight in zip(numbers, record.map(0, 0).flat, strict=True):
        if number == "<.01":
            assert weight < 0.0052
        else:
            assert float(number) == pytest.approx(weight, abs=0.0052)  # the page rounds what it stores
    page.go("#view=matrix&cell=30")
    assert not [text for text in page.texts() if NUMBER.fullmatch(text)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_screen_shows_the_colours_of_the_weights(opened, record, violets, scheme):
    page = opened(record, "#view=matrix", scheme=scheme)
    pixels, weights = page.pixels(), record.map(0, 0)
    for place, cell in cells(page).items():
        corner = pixels[int(cell["y"]) + 4, int(cell["x"]) + 4]  # beside the number in its middle
        assert corner == pytest.approx(violets(weights[place] / weights.max(), scheme == "dark"), abs=8)


def test_pointing_tells_and_marks_and_a_click_holds(opened, record, as_shown):
    page = opened(record, "#view=matrix")
    drawn = cells(page)
    plain = page.pixels()
    page.point(*middle(drawn[3, 6]))
    changed = (page.pixels() != plain).any(axis=-1)

    def edge(cell):  # the upper left corner, where a frame around a row or a column runs
        x, y = int(cell["x"]), int(cell["y"])
        return changed[y + 12, x - 1 : x + 2].any(), changed[y - 1 : y + 2, x + 12].any()

    assert edge(drawn[6, 6]) == (True, False)  # the column's left edge
    assert edge(drawn[3, 2]) == (False, True)  # the row's upper edge
    assert edge(drawn[6, 2]) == (False, False)

    page.go("#view=matrix")
    names = record.tokens.text
    for (query, key), cell in list(cells(page).items())[::7]:
        page.point(*middle(cell))
        assert (
            page.tip() == f"{names[query]} ({query}) → {names[key]} ({key}): {as_shown(record.map(0, 0)[query, key])}"
        )

    page.go("#view=matrix")
    for column, side in enumerate(("query", "key")):
        x, y = page.place("é", column)
        page.point(x if side == "query" else x - 3, y)
        assert page.tip() == f"{side} 5: é"

    page.go("#view=matrix")
    drawn = cells(page)
    page.point(*middle(drawn[2, 5]), click=True)
    assert page.hash == {"view": "matrix", "token": "2"}
    x, y = page.place("é", 1)
    page.point(x - 3, y, click=True)
    assert page.hash == {"view": "matrix", "token": "5", "side": "key"}
    page.point(x - 3, y, click=True)
    assert "token" not in page.hash


def test_the_wheel_zooms_and_what_is_under_the_pointer_stays(opened, random_maps):
    page = opened(record_of(random_maps(1, 1, 40)), "#view=matrix")
    before = cells(page)[30, 20]
    page.point(*middle(before))
    tip = page.tip()
    page.tab.mouse.wheel(0, -600)
    page.settle()
    after = cells(page)[30, 20]
    assert after["width"] > 2 * before["width"]
    place = page.in_window(*middle(after))
    page.tab.mouse.move(*place)
    assert page.tip() == tip
    page.tab.mouse.wheel(0, 600)
    page.settle()
    assert cells(page)[30, 20]["width"] == pytest.approx(before["width"], abs=0.1)


def test_two_fingers_zoom(opened, random_maps):
    page = opened(record_of(random_maps(1, 1, 40)), "#view=matrix", touch=True)
    before = cells(page)[20, 20]
    x, y = page.in_window(*middle(before))
    hand = page.tab.context.new_cdp_session(page.tab)

    def fingers(kind, apart):
        points = [{"x": x - apart, "y": y}, {"x": x + apart, "y": y}] if apart else []
        hand.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    for kind, apart in (("touchStart", 20), ("touchMove", 30), ("touchMove", 60), ("touchEnd", 0)):
        fingers(kind, apart)
    page.settle()
    assert cells(page)[20, 20]["width"] == pytest.approx(2 * before["width"], rel=0.1)


def test_buttons_and_keys_zoom_in_out_and_back(opened, random_maps):
    page = opened(record_of(random_maps(1, 1, 30)), "#view=matrix")
    first = cells(page)[0, 0]["width"]
    click = {name: lambda name=name: page.click(f"[data-zoom={name}]") for name in ("in", "out", "fit")}
    press = {key: lambda key=key: page.press(key) for key in "+=-0"}
    for steps in (
        (click["in"], click["in"], click["out"], click["fit"]),
        (press["+"], press["="], press["-"], press["0"]),
    ):
        widths = []
        for step in steps:
            step()
            widths.append(next(iter(cells(page).values()))["width"])
        assert widths == pytest.approx([1.3 * first, 1.69 * first, 1.3 * first, first], rel=0.02)
        assert page.hash == {"view": "matrix"}


def test_dragging_moves_the_map_while_labels_stay_at_the_edges_and_is_no_click(opened, random_maps):
    page = opened(record_of(random_maps(1, 1, 40)), "#view=matrix&cell=60&corner=10,5")
    page.tab.mouse.move(700, 600)
    page.tab.mouse.down()
    page.tab.mouse.move(500, 400, steps=5)
    page.tab.mouse.up()
    page.settle()
    left, top = page.scrolled()
    assert (left, top) == (500, 800)
    assert "token" not in page.hash
    x, y = middle(cells(page)[18, 14])
    inside = [(label_x, label_y - 4) for _, label_x, label_y in page.labels()]
    assert any(label_x < left + 120 and abs(label_y - y) < 2 for label_x, label_y in inside)
    assert any(label_y < top + 120 and abs(label_x - 3 - x) < 5 for label_x, label_y in inside)
