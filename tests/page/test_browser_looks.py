"""Check the looks of a page in a real browser: light and dark, wide and narrow, and in every script."""

from dataclasses import replace

import numpy as np
import pytest
from contrast import channels, contrast, mixed
from records import record_of

from attncli.page.document import add
from attncli.record import Vectors

pytestmark = pytest.mark.slow

VIEWS = ["heads", "model", "matrix", "neuron"]
SCRIPTS = ["[CLS]", "中文", "猫", "🐈", "👩‍👩‍👧", "שלום", "مرحبا", "é", "क्षि", "[SEP]"]


@pytest.fixture
def record(random_maps):
    return record_of(random_maps(2, 12, 12))


@pytest.fixture
def masked(record):
    """Add a token that gets no weight, one that is hidden, and q and k of the first head."""
    masks = np.ones((12, 12), dtype=bool)
    masks[:, 11] = False
    weights = record.weights * masks
    weights /= weights.sum(axis=-1, keepdims=True)
    vectors = Vectors([(0, 0)], *np.random.default_rng(0).normal(size=(2, 1, 12, 4)))
    return replace(record_of(weights, masks, padding=1), vectors=vectors)


def paper(page):
    """The colours of the corners: of the window, of the chart, and of a select."""
    style = "name => getComputedStyle(document.querySelector(name))"
    colours = page.tab.evaluate(f"['body', 'select'].map(name => ({style})(name).backgroundColor)")
    return colours, page.pixels()[-1, -1].tolist()


LIGHT = (["rgb(255, 255, 255)"] * 2, [255, 255, 255])
DARK = (["rgb(20, 22, 26)"] * 2, [20, 22, 26])


def test_the_system_says_light_or_dark_and_the_switch_goes_against_it(opened, record):
    page = opened(record)
    for scheme, colours, other in (("dark", DARK, LIGHT), ("light", LIGHT, DARK)):
        page.tab.emulate_media(color_scheme=scheme)
        page.settle()
        assert paper(page) == colours
        page.open()
        page.click("#theme")
        assert paper(page) == other
        page.reload()
        assert paper(page) == other
        page.click("#theme")
        assert paper(page) == colours
        page.open()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_drawn_can_be_read_on_what_lies_under_it(opened, masked, scheme):
    """Labels, values, numbers on cells: on whatever the picture has drawn there before."""
    page = opened(masked, scheme=scheme)
    for at in ("view=heads", "view=heads&token=3", "view=model", "view=matrix&cell=40&token=3", "view=neuron&token=3"):
        page.go(f"#{at}")
        for text, ink, ground in inks(page):
            assert contrast(channels(ink), ground) >= 4.5, (at, text, ink, ground)


def inks(page):
    """Every text of the picture, its ink, and the colour that lies under where it begins."""
    rects, labels = [], iter(page.labels())
    for element in page.svg().iter():
        kind, at = element.tag.rpartition("}")[2], element.attrib
        if kind == "rect" and at.get("fill", "none")[0] in "#r":
            left, top, wide, high = (float(at[name]) for name in ("x", "y", "width", "height"))
            rects.append((left, top, left + wide, top + high, channels(at["fill"]), float(at.get("opacity", 1))))
        if kind == "text":
            text, x, y = next(labels)
            ground = None
            for left, top, right, bottom, colour, share in rects:
                if left <= x <= right and top <= y - 4 <= bottom:
                    ground = mixed(colour, share, colour if ground is None else ground)
            yield text, at["fill"], ground


@pytest.mark.parametrize("dark", [False, True])
def test_numbers_can_be_read_on_every_colour_of_a_cell(opened, record, dark):
    page = opened(record)
    modules = {}
    add("colour", modules)
    found = page.tab.evaluate(
        f"""() => {{
          {" ".join(modules.values())}
          return Array.from({{ length: 1001 }}, (_, step) => {{
            const ground = $colour.shareColour(step / 1000, {str(dark).lower()});
            return [$colour.inkOn(ground), ground];
          }});
        }}"""
    )
    assert min(contrast(channels(ink), ground) for ink, ground in found) >= 4.5


CONTROLS = """all => all.filter((one) => one.checkVisibility()).map((one) => {
  const box = one.getBoundingClientRect();
  const strip = one.closest("#heads")?.getBoundingClientRect() ?? { left: -Infinity, right: Infinity }; // it scrolls
  const label = one.closest("label")?.getBoundingClientRect() ?? box; // it can be clicked
  const [left, right] = [Math.max(box.left, strip.left), Math.min(box.right, strip.right)];
  const [wide, high] = ["width", "height"].map((side) => Math.max(box[side], label[side]));
  return [one.id || one.textContent, left, right, box.width, high, wide];
}).filter(([, left, right]) => left < right)"""
SHOWS_CURRENT = """() => {
  const places = ["#heads", "#heads .current"].map((name) => document.querySelector(name));
  const [strip, head] = places.map((one) => one.getBoundingClientRect());
  return strip.left <= head.left && head.right <= strip.right + 0.5;
}"""


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_as_wide_as_the_window_and_its_controls_are_in_it(opened, record, width):
    page = opened([record, replace(record, mask_name="causal")], width=width)
    for view in VIEWS:
        page.go(f"#view={view}&head=11&heads=11")
        if page.tab.is_hidden("#rest"):
            page.click("#more")
        assert page.tab.evaluate("document.documentElement.scrollWidth") <= width
        boxes = page.tab.eval_on_selector_all("button, select, input, #canvas", CONTROLS)
        assert len(boxes) > 15
        for name, left, right, wide, high, touched in boxes:
            assert 0 <= left < right <= width + 0.5, name
            assert wide > 10 and min(high, touched) >= (32 if width == 390 else 10), name  # for a finger
        assert page.tab.evaluate(SHOWS_CURRENT) or view != "heads"


@pytest.fixture
def scripts(random_maps):
    made = record_of(random_maps(1, 2, len(SCRIPTS)))
    return replace(made, tokens=replace(made.tokens, shown=[], text=SCRIPTS))


def test_tokens_of_every_script_are_shown_as_they_are(opened, scripts):
    page = opened(scripts)
    assert [text for text in page.texts() if text in SCRIPTS] == SCRIPTS * 2
    page.press("3", "j", "j")
    assert {name for name, _, _ in page.table()} <= set(SCRIPTS)
    assert page.sentence() == SCRIPTS


def test_a_token_from_right_to_left_does_not_turn_the_sentence_around_it(opened, scripts, as_shown):
    page = opened(scripts, "#view=matrix")
    cell = next(one for one in page.marks("rect") if (one["query"], one["key"]) == (5, 6))
    page.point(cell["x"] + 5, cell["y"] + 5)
    weight = as_shown(scripts.map(0, 0)[5, 6])
    assert page.tip() == f"שלום (5) → مرحبا (6): {weight}"
    assert reading(page, "tip", ["שלום", "(5)", "→", "مرحبا", "(6)", weight]) == [0, 1, 2, 3, 4, 5]
    page.press("1", *"jjjjjj")
    said = page.text("said")
    assert reading(page, "said", ["Query", "5", "strongest"]) == [0, 1, 2], said


def test_a_piece_of_a_word_from_right_to_left_is_marked_on_its_right_as_in_the_pictures(opened, random_maps):
    pieces = ["[CLS]", "ל", "##ל", "s", "##s", "[SEP]"]
    made = record_of(random_maps(1, 1, len(pieces)))
    page = opened(replace(made, tokens=replace(made.tokens, shown=[], text=pieces)))
    texts = {text.text: text for text in page.svg().iter("{http://www.w3.org/2000/svg}text")}
    assert texts["##ל"].get("direction") == "rtl" and texts["##s"].get("direction") is None

    def begins(token):  # how a key's label begins on the screen
        x, y = page.place(token, 1)
        return page.pixels()[int(y) - 8 : int(y) + 8, int(x) - 3 : int(x) + 2]

    assert (begins("##ל") == begins("ל")).all() and begins("ל").min() < 128
    assert (begins("##s") != begins("s")).any()
    page.point(*page.place("##ל", 1))
    assert page.tip() == "key 2: ##ל"
    assert reading(page, "tip", ["##", "ל"]) == [1, 0]


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
