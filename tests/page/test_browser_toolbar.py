"""The toolbar in a real browser: two rows at most and a menu, filters that say they are on, and what fingers do."""

from dataclasses import replace

import numpy as np
import pytest
from records import record_of

from attncli.record import Vectors

pytestmark = pytest.mark.slow

VIEWS = ["heads", "model", "matrix", "neuron"]
ROW = 28 + 6  # pixels of a button, and the gap to the next row
# Every control that is seen, with how much wider what stands in it is than its room.
CUT = """all => all.filter((one) => one.checkVisibility()).map((one) => [
  one.id || one.textContent.trim() || one.title, one.scrollWidth - one.clientWidth, one.getBoundingClientRect().right,
])"""


@pytest.fixture
def record(random_maps):
    made = record_of(random_maps(3, 12, 8))
    return replace(made, vectors=Vectors([(0, 0)], *np.random.default_rng(0).normal(size=(2, 1, 8, 4))))


@pytest.fixture
def records(record):
    """One text under three masks, then a pair: with everything that a toolbar can have."""
    pair = replace(record, tokens=replace(record.tokens, segments=[0] * 4 + [1] * 4))
    return [replace(one, mask_name=mask) for one in (record, pair) for mask in ("none", "causal", "padding")]


# --- what has room ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [390, 600, 1024, 1600])
def test_the_toolbar_takes_two_rows_and_nothing_in_it_is_cut(opened, records, width):
    page = opened(records, "#text=1", width=width)
    for view in VIEWS:
        page.go(f"#text=1&view={view}")
        assert page.tab.eval_on_selector("header", "one => one.clientHeight") < 3 * ROW
        for name, over, right in page.tab.eval_on_selector_all("header :not(#heads) > button, header label", CUT):
            assert over <= 0 and right <= width, name
    assert (page.tab.locator("#rest #masks, #rest #texts, #rest #zooms").count() == 0) == (width > 390)


def test_what_has_no_room_stands_in_the_menu_and_works_there(opened, records):
    page = opened(records, "#view=matrix", width=320, height=700)
    assert page.tab.is_hidden("#save-png") and page.tab.is_hidden("[data-mask=causal]")
    page.click("#more")
    page.click("[data-mask=causal]")
    assert page.hash["mask"] == "causal" and page.tab.is_visible("[data-mask=padding]")  # the menu is still there
    page.press("j")
    page.press("Escape")
    assert page.tab.is_hidden("#rest") and page.hash["token"] == "0"  # which the next Escape lets go of
    page.press("Escape")
    assert "token" not in page.hash


@pytest.mark.parametrize("width", [390, 1280])
def test_f_goes_to_the_search_wherever_it_stands_and_enter_to_the_next_match(opened, record, width):
    page = opened(record, width=width)
    page.press("f")
    page.tab.keyboard.type(record.tokens.text[3])
    page.press("Enter")
    assert page.hash["token"] == "3" and page.text("found") == "1 found"
    assert page.tab.is_visible("#rest #find") == (width == 390)


def test_the_control_that_has_the_focus_keeps_it(opened, records):
    page = opened(records, width=1600)
    page.tab.focus("[data-mask=causal]")
    page.tab.set_viewport_size({"width": 1000, "height": 800})
    page.settle()
    assert page.tab.evaluate("document.activeElement.dataset.mask") == "causal"


# --- filters that are on ------------------------------------------------------------------------------------


def test_every_filter_that_is_on_says_so_and_a_click_clears_it(opened, records):
    on = {"segments": "AB", "special": "no", "words": "yes", "threshold": "0.05"}
    said = ["A → B", "without special tokens", "words", "weights below 0.05 hidden"]
    page = opened(records, "#text=1&" + "&".join(f"{name}={value}" for name, value in on.items()), width=390)
    for _ in said:
        assert page.tab.eval_on_selector_all("#chips button", "all => all.map(one => one.textContent)") == said
        assert page.hash == {"text": "1", **on}
        page.click("#chips button")
        del on[next(iter(on))]
        said = said[1:]
    assert page.tab.is_hidden("#chips") and page.hash == {"text": "1"}


def test_after_a_chip_is_gone_the_keyboard_is_on_the_next(opened, record):
    page = opened(record, "#special=no&words=yes")
    page.tab.focus("#chips button")
    page.press("Enter")
    assert page.tab.evaluate("document.activeElement.textContent") == "words"
    page.press("j", "Enter")  # the chip is still the one that has the focus
    assert page.hash == {"token": "0"} and page.tab.evaluate("document.activeElement.id") == "chart"


# --- fingers ------------------------------------------------------------------------------------------------


def tap(page, x, y):
    page.tab.touchscreen.tap(*page.in_window(x, y))
    page.settle()


def test_a_tap_tells_the_value_of_a_cell_the_next_one_holds_its_query_and_one_beside_takes_it_away(
    opened, record, as_shown
):
    page = opened(record, "#view=matrix", width=390, touch=True)
    cell = next(one for one in page.marks("rect") if (one["query"], one["key"]) == (3, 5))
    x, y = cell["x"] + cell["width"] / 2, cell["y"] + cell["height"] / 2
    tap(page, x, y)
    names = record.tokens.text
    assert page.tip() == f"{names[3]} (3) → {names[5]} (5): {as_shown(record.map(0, 0)[3, 5])}"
    assert page.hash == {"view": "matrix"}
    bottom = page.tab.eval_on_selector("#tip", "one => one.getBoundingClientRect().bottom")
    assert bottom < page.in_window(x, y)[1] - 10  # where the finger does not hide it
    tap(page, x, y)
    assert page.hash == {"view": "matrix", "token": "3"}

    page.press("Escape")
    for place in ((5, 5), None):  # beside the drawing, and on a control
        tap(page, x, y)
        assert page.tip() is not None
        page.tab.touchscreen.tap(*page.in_window(*place)) if place else page.tab.tap("[data-view=model]")
        page.settle()
        assert page.tip() is None


@pytest.mark.parametrize("view", VIEWS)
def test_in_every_view_the_first_tap_only_shows(opened, record, view):
    page = opened(record, f"#view={view}", width=390, touch=True)
    if view in ("heads", "neuron"):
        x, y = page.place("cat")  # among the queries
    else:
        box = next(one for one in page.marks("rect") if "kind" in one or "weight" in one)
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    before = page.hash
    tap(page, x, y)
    assert page.tip() and page.hash == before
    tap(page, x, y)
    assert page.hash != before


# --- Back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["heads", "matrix"])
def test_back_returns_from_the_head_that_a_thumbnail_opened(opened, random_maps, before):
    page = opened(record_of(random_maps(6, 2, 8)), f"#view={before}", width=390, height=500)
    page.press("2", "ArrowDown", "ArrowDown", "ArrowRight")
    page.scroll(top=30)
    model = page.hash
    page.press("Enter")
    assert page.hash != model
    page.press("j", "d")  # which are no places to return to
    page.travel(-1)
    assert page.hash == model
    assert page.scrolled()[1] == 30
    page.travel(1)
    assert page.hash["token"] == "0" and page.hash.get("view", "heads") == before
