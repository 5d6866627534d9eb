"""How a page looks in a real browser: light and dark, wide and narrow, and in every script."""

from dataclasses import replace

import numpy as np
import pytest
from records import record_of

pytestmark = pytest.mark.slow

VIEWS = ["heads", "model", "matrix", "neuron"]
SCRIPTS = ["[CLS]", "中文", "猫", "🐈", "👩‍👩‍👧", "שלום", "مرحبا", "é", "क्षि", "[SEP]"]


@pytest.fixture
def record(random_maps):
    return record_of(random_maps(2, 12, 12))


def paper(page):
    """The colours of the corners: of the window, of the chart, and of a select."""
    style = "name => getComputedStyle(document.querySelector(name))"
    colours = page.tab.evaluate(f"['body', 'select'].map(name => ({style})(name).backgroundColor)")
    return colours, page.pixels()[-1, -1].tolist()


LIGHT = (["rgb(255, 255, 255)"] * 2, [255, 255, 255])
DARK = (["rgb(20, 22, 26)"] * 2, [20, 22, 26])


def test_the_system_says_light_or_dark_and_may_change_its_mind(opened, record):
    page = opened(record)
    for scheme, colours in (("dark", DARK), ("light", LIGHT)):
        page.tab.emulate_media(color_scheme=scheme)
        page.settle()
        assert paper(page) == colours


@pytest.mark.parametrize("scheme, other, back", [("light", DARK, LIGHT), ("dark", LIGHT, DARK)])
def test_the_switch_goes_against_the_system(opened, record, scheme, other, back):
    page = opened(record, scheme=scheme)
    page.click("#theme")
    assert paper(page) == other
    page.reload()
    assert paper(page) == other
    page.click("#theme")
    assert paper(page) == back


@pytest.mark.parametrize("scheme, ground", [("light", LIGHT[1]), ("dark", DARK[1])])
def test_what_is_written_can_be_read_on_its_ground(opened, record, scheme, ground):
    page = opened(record, scheme=scheme)
    for view in VIEWS:
        page.go(f"#view={view}&token=3&cell=20")  # cells without numbers: those have grounds of their own
        for ink in {text.get("fill") for text in page.svg().iter("{http://www.w3.org/2000/svg}text")}:
            assert contrast(rgb(ink), ground) >= 4.5
    written = "all => all.map(one => [getComputedStyle(one).color, getComputedStyle(one).backgroundColor])"
    for ink, panel in page.tab.eval_on_selector_all("button:not([data-head]), select", written):
        assert contrast(rgb(ink), rgb(panel)) >= 4.5


def rgb(colour):
    if colour.startswith("#"):
        return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return [int(part) for part in colour[4:-1].split(",")]


def contrast(one, other):
    """WCAG 2.2's contrast ratio, from 1 to 21; text asks for 4.5."""

    def luminance(colour):
        shares = np.array(colour) / 255
        return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


CONTROLS = """all => all.filter((one) => one.checkVisibility()).map((one) => {
  const box = one.getBoundingClientRect();
  return [one.id || one.textContent, box.left, box.right, box.width, box.height];
})"""


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_as_wide_as_the_window_and_its_controls_are_in_it(opened, record, width):
    page = opened([record, replace(record, mask_name="causal")], width=width)
    page.tab.click("summary")
    for view in VIEWS:
        page.go(f"#view={view}")
        assert page.tab.evaluate("document.documentElement.scrollWidth") <= width
        boxes = page.tab.eval_on_selector_all("button, select, input, #canvas", CONTROLS)
        assert len(boxes) > 15
        for name, left, right, wide, high in boxes:
            assert 0 <= left < right <= width + 0.5, name
            assert wide > 10 and high > 10, name


def test_on_a_narrow_screen_the_lines_have_room(opened, record):
    page = opened(record, "#heads=1&token=4", width=390)
    lines = page.marks("line")
    assert lines and all(line["x2"] - line["x1"] >= 60 for line in lines)
    assert all(0 <= x <= 390 for _, x, _ in page.labels())


@pytest.fixture
def scripts(random_maps):
    made = record_of(random_maps(1, 2, len(SCRIPTS)))
    return replace(made, tokens=replace(made.tokens, shown=[], text=SCRIPTS))


def test_tokens_of_every_script_are_shown_as_they_are(opened, scripts):
    page = opened(scripts)
    assert [text for text in page.texts() if text in SCRIPTS] == SCRIPTS * 2
    page.press("3", "j", "j")
    assert {name for name, _, _ in page.table()} <= set(SCRIPTS)
    assert [label for _, label in page.options("token")][1:] == [f"{n} {token}" for n, token in enumerate(SCRIPTS)]


def test_a_token_from_right_to_left_does_not_turn_the_sentence_around_it(opened, scripts, as_shown):
    page = opened(scripts, "#view=matrix")
    cell = next(one for one in page.marks("rect") if (one["query"], one["key"]) == (5, 6))
    page.point(cell["x"] + 5, cell["y"] + 5)
    weight = as_shown(scripts.map(0, 0)[5, 6])
    assert page.tip() == f"שלום (5) → مرحبا (6): {weight}"
    assert reading(page, "tip", ["שלום", "(5)", "→", "مرحبا", "(6)", weight]) == [0, 1, 2, 3, 4, 5]
    page.press("1", *"jjjjjj")
    said = page.text("said")
    assert reading(page, "said", ["query", "5", "strongest"]) == [0, 1, 2], said


def reading(page, element, parts):
    """The order, from line to line and left to right, in which parts of an element's text stand on the screen."""
    places = page.tab.evaluate(
        """([name, parts]) => {
          const node = document.getElementById(name).firstChild;
          return parts.map((part) => {
            const range = document.createRange();
            const start = node.data.indexOf(part);
            range.setStart(node, start);
            range.setEnd(node, start + part.length);
            const box = range.getBoundingClientRect();
            return [Math.round(box.top), box.left];
          });
        }""",
        [element, parts],
    )
    return sorted(range(len(parts)), key=lambda number: places[number])


def test_a_long_token_is_cut_with_a_mark_and_told_in_full(opened, scripts):
    long = "Donaudampfschifffahrtsgesellschaft" * 8
    page = opened(
        replace(scripts, tokens=replace(scripts.tokens, shown=[], text=[*SCRIPTS[:3], long, *SCRIPTS[4:]])), width=700
    )
    short = [text for text in page.texts() if text.startswith("Donau")]
    assert len(short) == 2 and all(text.endswith("…") and len(text) < 60 for text in short)
    page.point(*page.place(short[0]))
    assert page.tip() == f"query 3: {long}"
    box = page.tab.eval_on_selector(
        "#tip", "one => [one.getBoundingClientRect().left, one.getBoundingClientRect().right]"
    )
    assert 0 <= box[0] < box[1] <= 700
