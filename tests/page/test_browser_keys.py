"""The keyboard in a real browser, and what a screen reader is told."""

import re

import pytest
from records import record_of

pytestmark = pytest.mark.slow


@pytest.fixture
def records(random_maps):
    """One text under two masks."""
    maps = random_maps(3, 3, 6)
    return [record_of(maps), record_of(maps[..., ::-1], mask_name="none")]


PRESSES = [
    ("2", {"view": "model"}),
    ("3", {"view": "matrix"}),
    ("4", {"view": "neuron"}),
    ("4 1", {}),
    ("ArrowRight", {"head": "1", "heads": "1"}),
    ("ArrowRight ArrowRight ArrowRight ArrowRight", {"head": "2", "heads": "2"}),
    ("ArrowRight ArrowLeft", {"heads": "0"}),
    ("ArrowDown", {"layer": "1"}),
    ("ArrowDown ArrowDown ArrowDown ArrowDown", {"layer": "2"}),
    ("ArrowDown ArrowUp", {}),
    ("j", {"token": "0"}),
    ("j j j", {"token": "2"}),
    ("k", {"token": "5"}),
    ("k k j j", {"token": "5"}),
    ("j Escape", {}),
    ("o", {"side": "key"}),
    ("o o", {}),
    ("m", {"mask": "none"}),
    ("m m", {}),
    ("w", {"words": "yes"}),
    ("t", {"special": "no"}),
    ("t j", {"special": "no", "token": "1"}),
    ("d", {"theme": "dark"}),
    ("d d", {"theme": "light"}),
    ("+", {}),  # there is nothing to zoom but Matrix
]


def test_every_key_does_what_the_page_says_of_it(opened, records):
    page = opened(records)
    for keys, state in PRESSES:
        page.go("#layer=0")
        page.press(*keys.split())
        assert page.hash == (state or {"layer": "0"}), keys


def test_the_page_tells_of_its_keys_and_leaves_those_of_menus_and_of_the_browser(opened, records, random_maps):
    page = opened(records, "#layer=0")
    page.press("?")
    said = page.text("keys")
    assert all(key in said for key in ("n p", "1 2 3 4", "← →", "↑ ↓", "k j", "Esc", "Enter", "+ - 0"))
    page.press("3", "j", "d")
    assert page.hash == {"layer": "0"}
    page.press("Escape")
    assert page.tab.is_hidden("#keys")
    page.press("3")
    assert page.hash == {"view": "matrix"}

    page.go("")
    page.press("Control+3", "Alt+j", "Meta+s")
    assert page.hash == {}

    page = opened([record_of(random_maps(2, 2, length)) for length in (5, 6)])
    for menu in ("#layer", "#text"):
        page.tab.focus(menu)
        page.press("d", "t", "w")
        assert page.hash == {}


def test_tab_reaches_every_control(opened, records):
    page = opened(records)
    controls = page.tab.evaluate(
        "[...document.querySelectorAll('button, select, input, summary, #chart')]"
        ".filter(one => one.tabIndex === 0 && one.checkVisibility()).length"
    )
    assert controls <= 26  # of a page that opens with a token held
    page.tab.evaluate("document.activeElement.blur()")
    reached = set()
    for _ in range(controls + 1):
        page.tab.keyboard.press("Tab")
        reached.add(page.tab.evaluate("document.activeElement.id || document.activeElement.outerHTML"))
    assert len(reached - {"<body>"}) >= controls


def test_controls_have_their_names_and_which_buttons_are_pressed_is_told(opened, records):
    page = opened(records, "#view=heads&heads=0,2")
    tree = page.tab.aria_snapshot()
    for name in (
        'group "View"',
        'combobox "Layer"',
        'searchbox "Find a token (f)"',
        'button "More"',
        'img "Attention of made-up"',
        'complementary "Findings and values"',
    ):
        assert name in tree
    assert 'button "Heads" [pressed]' in tree and 'button "Matrix" [pressed]' not in tree
    pressed = re.findall(r'button "Head (\d): [^"]*" \[pressed\]', tree)
    assert pressed == ["0", "2"]
    assert 'button "padding" [pressed]' in tree and 'button "none" [pressed]' not in tree


def test_what_can_be_seen_is_said(opened, records, as_shown):
    page = opened(records, "#layer=0")
    page.press("3", "ArrowDown", "j", "j")
    assert page.text("said").startswith("Layer 1, head 0: ")
    weights, names = records[0].map(1, 0), records[0].tokens.text
    for side, partner, row in (("query", "key", weights[1]), ("key", "query", weights[:, 1])):
        best = row.argmax()
        strongest = f"strongest {partner} {best} “{names[best]}” {as_shown(row[best])}."
        assert page.text("said").endswith(f"{side.title()} 1 “cat”: {strongest}")
        page.press("o")


def test_a_held_token_is_brought_into_sight(opened, random_maps):
    page = opened(record_of(random_maps(1, 1, 120)))
    for view, at in (("1", "heads"), ("3", "matrix")):
        page.press(view, "Escape", *("+" * 6 if at == "matrix" else ""), "k")
        page.tab.wait_for_function("document.querySelector('#chart').scrollTop > 0")
        top, high = page.tab.eval_on_selector("#chart", "chart => [chart.scrollTop, chart.clientHeight]")
        labels = [place for text, _, place in page.labels() if text == "[SEP]"]
        assert top > 0 and any(top < place < top + high for place in labels), at
