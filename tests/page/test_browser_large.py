"""The largest pages in a real browser, and the smallest: they open, are drawn, and say the record's numbers."""

import re
from dataclasses import replace

import numpy as np
import pytest
from records import record_of, tokens

from attncli.record import Vectors
from attncli.record.display import pool

pytestmark = pytest.mark.slow

COUNT_TIMERS = """() => {
  const set = setTimeout;
  window.asked = 0;
  window.setTimeout = (...all) => { window.asked++; return set(...all); };
}"""


@pytest.fixture(scope="module")
def record():
    """512 tokens, 6 layers of 12 heads, random; one head with q and k."""
    numbers = np.random.default_rng(1)
    weights = numbers.random((6, 12, 512, 512), dtype=np.float32) ** 60
    weights /= weights.sum(axis=-1, keepdims=True)
    vectors = Vectors([(5, 11)], *numbers.normal(size=(2, 1, 512, 32)).astype(np.float32))
    return replace(record_of(weights), vectors=vectors)


@pytest.fixture(scope="module")
def document(record):
    from attncli.page import page

    return page(record)


def test_matrix_shows_512_tokens(opened, record, document, violets):
    page = opened(record, "#view=matrix&layer=5&head=11", document=document)
    weights = record.map(5, 11)
    image = page.svg().find(".//{http://www.w3.org/2000/svg}image")
    left, top, side = (float(image.get(name)) for name in ("x", "y", "width"))
    assert image.get("height") == image.get("width") and side >= 512
    page.click("[data-zoom=in]")
    for _ in range(11):
        page.press("+")
    page.press("ArrowUp", "ArrowDown")
    image = page.svg().find(".//{http://www.w3.org/2000/svg}image")
    left, top, cell = float(image.get("x")), float(image.get("y")), float(image.get("width")) / 512
    assert cell > 20
    shift = page.scrolled()
    pixels = page.pixels()
    first_key, first_query = int(shift[0] / cell) + 1, int(shift[1] / cell) + 1
    for query in range(first_query, first_query + 15):
        for key in range(first_key, first_key + 15):
            x, y = left + (key + 0.2) * cell - shift[0], top + (query + 0.2) * cell - shift[1]
            expected = violets(weights[query, key] / weights.max())
            assert pixels[int(y), int(x)] == pytest.approx(expected, abs=14)
    page.point(left + (first_key + 4.5) * cell, top + (first_query + 4.5) * cell)
    assert says(page.tip().rpartition(": ")[2], weights[first_query + 4, first_key + 4])


def says(text, weight):
    """Return whether a displayed weight, "0.734" or "<.001", is true of the weight."""
    if text.startswith("<"):
        return weight < 1.5 * float(text[1:])
    return float(text) == pytest.approx(weight, abs=1e-3)


def test_what_is_written_of_a_weight_is_true_and_labels_do_not_lie_on_each_other(opened, record, document):
    page = opened(record, "#view=matrix&layer=5&head=11&cell=20", document=document)
    image = page.svg().find(".//{http://www.w3.org/2000/svg}image")
    left, top = float(image.get("x")), float(image.get("y"))
    said = []
    for query, key in [(query, key) for query in range(5) for key in range(0, 20, 3)]:
        page.point(left + 20 * (key + 0.5), top + 20 * (query + 0.5))
        said.append(page.tip().rpartition(": ")[2])
        assert says(said[-1], record.map(5, 11)[query, key])
    assert any(text.startswith("<") for text in said) and "0" not in said

    page.go("#view=matrix")
    labels = [(x, y) for text, x, y in page.labels() if text in record.tokens.text]
    for side in (0, 1):
        places = sorted({place[side] for place in labels})
        steps = np.diff([place for place in places if sum(one[side] == place for one in labels) == 1])
        assert len(steps) > 20 and steps.min() >= 11

    assert float(re.search(r"weights are stored to within ([\d.]+)", page.text("about"))[1]) <= 0.002
    assert "512 tokens; layers 0-5 and heads 0-11 are in this page" in page.text("about")


def test_heads_shows_the_strongest_lines_of_what_is_seen(opened, record, document):
    page = opened(record, "#layer=2", document=document)
    lines = page.marks("line")
    assert 500 < len(lines) <= 1000
    for line in lines[::97]:
        true = record.map(2, int(line["head"]))[int(line["query"]), int(line["key"])]
        assert line["weight"] == pytest.approx(true, rel=0.2)
    page.press("k")
    assert {line["query"] for line in page.marks("line")} == {511}
    rows = record.weights[2, :, 511]
    assert f"(head {rows.max(axis=1).argmax()})" in page.text("said")
    assert page.table()[0][2] == pytest.approx(rows.max(), rel=0.006)


def test_a_thumbnail_of_512_tokens_shows_the_largest_of_each_block(opened, record, document, violets):
    page = opened(record, "#view=model&scale=root", document=document)
    thumbs = {(one["layer"], one["head"]): one for one in page.marks("rect") if "kind" in one}
    assert len(thumbs) == 72
    thumb = thumbs[3, 4]
    side = int(thumb["width"])
    pixels = page.pixels()[int(thumb["y"]) : int(thumb["y"]) + side, int(thumb["x"]) : int(thumb["x"]) + side]
    largest = pool(pool(record.map(3, 4), 96, 96), side, side)
    inner = slice(3, side - 3)  # inside the frame
    assert np.abs(pixels - violets(largest**0.5))[inner, inner].max() <= 24


@pytest.mark.parametrize("each", [False, True])
def test_a_block_of_a_long_text_is_hatched_where_all_of_it_is_hidden(opened, violets, each):
    """`each`: every layer has a mask of its own."""
    seen = np.tri(300, dtype=bool)
    near = seen & ~np.tri(300, k=-100, dtype=bool)
    masks = np.stack([near, seen])
    weights = np.repeat((masks if each else np.stack([near, near]))[:, None], 12, axis=1).astype(np.float32)
    weights /= weights.sum(axis=-1, keepdims=True)
    record = record_of(weights, masks if each else near, "causal")
    page = opened(record, "#view=model")
    pixels = page.pixels()
    for thumb in (one for one in page.marks("rect") if "kind" in one):
        side, allowed = int(thumb["width"]), (masks[int(thumb["layer"])] if each else near)
        shown = pool(pool(allowed.astype(np.float32), 96, 96), side, side) > 0
        part = pixels[int(thumb["y"]) : int(thumb["y"]) + side, int(thumb["x"]) : int(thumb["x"]) + side]
        largest = pool(pool(record.map(thumb["layer"], thumb["head"]), 96, 96), side, side)
        inner = (slice(3, side - 3),) * 2  # inside the frame
        colours = violets(largest / largest.max())
        assert np.abs(part - colours)[inner][shown[inner]].max() <= 24
        hatched = part[inner][~shown[inner]].astype(int)
        assert (
            np.ptp(hatched, axis=1).max() < 24 and len(np.unique(hatched, axis=0)) > 1
        )  # strokes, of no weight's colour


def test_reading_ahead_comes_to_an_end(opened, record, document):
    page = opened(record, "#view=heads&layer=2", document=document)
    page.tab.evaluate(COUNT_TIMERS)
    page.press("ArrowDown")
    counts = [0]
    while counts[-1] < 12 or counts[-1] != counts[-2]:  # the heads of the layer below; then no more
        assert len(counts) < 60
        page.tab.wait_for_timeout(2000)
        counts.append(page.tab.evaluate("window.asked"))


@pytest.mark.parametrize("view", ["heads", "model", "matrix", "neuron"])
@pytest.mark.parametrize("length", [1, 2])
def test_one_layer_one_head_and_hardly_a_token(opened, view, length):
    weights = np.full((1, 1, length, length), 1 / length, dtype=np.float32)
    mask = np.ones((length, length), dtype=bool)
    vectors = Vectors([(0, 0)], *np.ones((2, 1, length, 4), dtype=np.float32))
    record = replace(
        record_of(np.eye(3)), weights=weights, tokens=tokens("ab"[:length], range(length)), masks=mask, vectors=vectors
    )
    page = opened(record, f"#view={view}")
    drawn = [mark["weight"] for mark in page.marks("line" if view == "heads" else "rect") if "weight" in mark]
    assert drawn == (
        [] if view == "model" else pytest.approx([1 / length] * (length if view == "neuron" else length**2))
    )
    page.press("j", "k", "o", "ArrowDown", "ArrowRight", "w", "t")
    assert page.table()[0][2] == pytest.approx(1 / length, abs=6e-4)


def test_a_head_that_may_look_at_nothing_is_drawn_as_nothing(opened):
    record = record_of(np.zeros((1, 1, 4, 4)), mask=np.zeros((4, 4), dtype=bool))
    page = opened(record, "#token=1")
    assert page.marks("line") == [] and "strongest key none" in page.text("said")
    assert "carry" not in page.text("said") and not any("carry" in text for text in page.texts())
    page.press("3")
    assert page.marks("rect") and all("hidden" in mark for mark in page.marks("rect"))
