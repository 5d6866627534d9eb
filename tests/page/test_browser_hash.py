"""The address's hash in a real browser: it holds the state, and what can't be in it is passed over."""

from dataclasses import replace

import pytest
from records import record_of

pytestmark = pytest.mark.slow

# A place scrolled to is kept when it has been the same for a moment.
KEPT = """() => new Promise((done) => {
  const look = () => (location.hash.includes("corner") ? done() : setTimeout(look, 20));
  look();
})"""
STATE = {
    "text": "1",
    "mask": "causal",
    "view": "matrix",
    "layer": "3",
    "head": "7",
    "heads": "2,7",
    "token": "14",
    "side": "key",
    "segments": "AB",
    "special": "no",
    "words": "yes",
    "threshold": "0.125",
    "thumbs": "lines",
    "scale": "root",
    "opacity": "head",
    "detail": "yes",
    "cell": "80",
    "corner": "2,1",
    "theme": "dark",
}


@pytest.fixture
def records(random_maps):
    """Two texts, the second a pair, under two masks; layers and heads are not numbered from 0."""
    first = replace(record_of(random_maps(2, 3, 30)), layers=[1, 3], heads=[5, 2, 7])
    pair = replace(first, tokens=replace(first.tokens, segments=[0] * 12 + [1] * 18))
    return [replace(one, mask_name=mask) for one in (first, pair) for mask in ("padding", "causal")]


def address(state):
    return "#" + "&".join(f"{name}={value}" for name, value in state.items())


def seen(page):
    """Everything that the state decides: the picture, the controls, and the side panel."""
    controls = "all => all.map(one => one.type === 'checkbox' ? one.checked : one.value)"
    pressed = "all => all.map(one => one.ariaPressed)"
    return (
        page.tab.eval_on_selector_all("select, input", controls),
        page.tab.eval_on_selector_all("button[aria-pressed]", pressed),
        page.text("said"),
        page.pixels().tobytes(),
    )


def test_all_of_the_state_is_in_the_hash_and_comes_back_from_it(opened, records):
    page = opened(records, "#layer=1", height=1000)  # where a map that is a step larger need not be scrolled
    page.choose("text", 1)
    page.choose("layer", 3)
    page.tab.click("#heads button >> text=5")
    page.press("k", "k", "o", "t", "w", "m", "c", "c")
    page.threshold(60)
    page.choose("segments", "AB")
    page.click("[data-view=model]")
    page.choose("thumbs", "lines")
    page.tab.focus("#chart")
    page.press("Enter")
    page.choose("scale", "root")
    page.click("[data-view=matrix]")
    page.click("[data-zoom=out]")
    page.click("#theme")
    assert set(page.hash) == set(STATE) - {"corner"}
    before, hash_before = seen(page), page.hash
    page.reload()
    assert page.hash == hash_before and seen(page) == before
    page.open(address(page.hash))
    assert page.hash == hash_before and seen(page) == before


def test_a_link_is_followed_in_everything_that_can_be_and_a_scrolled_map_is_kept_where_it_was(opened, records):
    page = opened(records, address(STATE))
    page.press("d", "d")
    assert page.hash == STATE
    assert page.tab.text_content("#least") == "0.125" and page.held() == 14

    page.go("#heads=2,99&layer=3&view=x")
    assert {(line["layer"], line["head"]) for line in page.marks("line")} == {(3, 2)}

    page.go("#layer=3")
    page.go("#layer=1&view=matrix&head=7")
    assert {(cell["query"], cell["key"]) for cell in page.marks("rect")} and page.tab.input_value("#head") == "7"
    page.travel(-1)
    assert page.tab.input_value("#layer") == "3" and page.marks("line")

    page.go("#view=matrix&cell=60")
    page.tab.evaluate("document.getElementById('chart').scrollTo(300, 600)")
    page.tab.evaluate(KEPT)
    assert page.hash["corner"] == "10,5"
    before = page.pixels()
    page.reload()
    assert (page.pixels() == before).all()


GARBAGE = [
    "layer=99&view=<b>&token=-5&theme=x&heads=x,99&head=2.5&text=7&mask=no",
    "layer=&view=&token=&threshold=&cell=&corner=&segments=&special=&words=&side=&thumbs=",
    "threshold=2&threshold=-1&threshold=NaN&cell=1e9&corner=1&corner=-1,2&corner=a,b&special=1&words=true",
    "__proto__=1&constructor=x&toString=y&hasOwnProperty=z&=&&&===&%",
    "%E0%A4%A&view=%00&layer=%u0031&token=1e1&token=0x1&token=%20",
    "view=heads%3Cimg%20src=x%20onerror=window.hacked=1%3E&mask=<script>window.hacked=1</script>",
]


def test_what_can_not_be_is_passed_over(opened, records, random_maps):
    page = opened(records)
    plain = seen(page)
    for garbage in GARBAGE:
        page.go("#" + garbage)
        assert seen(page) == plain, garbage
        assert page.tab.evaluate("window.hacked") is None
        page.press("t", "t")
        assert page.hash == {}  # what has been passed over is not written back

    page = opened([record_of(random_maps(1, 1, length)) for length in (5, 9)], "#token=8")
    assert page.held() is None  # in the shorter text
    page.open("#text=1&token=8")
    assert page.held() == 8
