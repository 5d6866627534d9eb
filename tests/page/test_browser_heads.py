"""Heads in a real browser: a line for every weight, and what pointing, clicking and the buttons make of them."""

import re
from dataclasses import replace

import numpy as np
import pytest
from records import record_of

from attncli.record.display import head_colour

pytestmark = pytest.mark.slow

LEAST = 1 / 255  # an opacity below this is none; a line is opaque at 1, or, of a token, at its strongest


@pytest.fixture
def record(random_maps):
    return record_of(random_maps(2, 3, 7))


def drawn(opened):
    """The weights of the lines, by head, query and key."""
    return {(line["head"], line["query"], line["key"]): line["weight"] for line in opened.marks("line")}


def weights(record, layer, heads, where=None):
    """The weights that should be lines, by head, query and key."""
    found = {
        (head, query, key): weight
        for head in heads
        for (query, key), weight in np.ndenumerate(record.map(layer, head))
        if where is None or where(query, key)
    }
    return {cell: pytest.approx(weight, abs=2e-5) for cell, weight in found.items() if weight >= LEAST}


def test_the_lines_are_those_of_the_layer_and_of_the_heads_that_are_on(opened, record):
    page = opened(record, "#layer=0")
    lines = page.marks("line")
    assert {(line["head"], line["query"], line["key"]): line["stroke-opacity"] for line in lines} == {
        cell: pytest.approx(weight.expected, abs=6e-4) for cell, weight in weights(record, 0, [0, 1, 2]).items()
    }
    assert all(line["stroke"] == head_colour(int(line["head"])) and line["layer"] == 0 for line in lines)
    assert drawn(page) == weights(record, 0, [0, 1, 2])

    page.go("#layer=0")
    page.click("#heads button >> text=1")
    assert drawn(page) == weights(record, 0, [0, 2])
    assert page.tab.get_attribute("#heads button >> text=1", "aria-pressed") == "false"
    page.click("#heads button >> text=1")
    assert drawn(page) == weights(record, 0, [0, 1, 2])

    page.go("#layer=0")
    for head in ("2", "0"):
        page.tab.dblclick(f"#heads button >> text={head}")
        assert drawn(page) == weights(record, 0, [int(head)])
    page.tab.dblclick("#heads button >> text=0")
    assert drawn(page) == weights(record, 0, [0, 1, 2])

    page.go("#layer=0")
    page.choose("layer", 1)
    assert drawn(page) == weights(record, 1, [0, 1, 2])
    assert any(text.startswith("made-up · layer 1 · heads 0-2 · mask padding · ") for text in page.texts())

    page.go("#heads=0,2")
    page.click("#heads button >> text=0")
    for _ in range(2):
        page.click("#heads button >> text=2")
        assert drawn(page) == weights(record, 0, [2])
        assert page.tab.get_attribute("#heads button >> text=2", "aria-pressed") == "true"

    page.go("#heads=1&token=3")
    page.click("[data-several=none]")
    assert drawn(page) == {} and page.table() is None and page.hash["heads"] == ""
    assert any(text.endswith(" · no head is on: switch one on above") for text in page.texts())
    assert page.text("said") == "Layer 0, no head. Switch on a head above."
    page.click("#heads button >> text=2")
    assert drawn(page) == weights(record, 0, [2], lambda query, key: query == 3)
    page.click("[data-several=all]")
    assert drawn(page) == weights(record, 0, [0, 1, 2], lambda query, key: query == 3)


def test_a_line_goes_from_its_querys_row_to_its_keys_row(opened, record):
    page = opened(record, "#heads=1", height=260)
    labels = [(x, y - 4) for text, x, y in page.labels() if text in record.tokens.text]
    queries, keys = labels[:7], labels[7:]
    for line in page.marks("line"):
        query, key = queries[int(line["query"])], keys[int(line["key"])]
        assert query[0] < line["x1"] < line["x2"] < key[0]
        assert (line["y1"], line["y2"]) == pytest.approx((query[1], key[1]), abs=2)


def test_a_line_is_seen_on_the_screen_in_its_heads_colour(opened):
    page = opened(record_of(np.eye(5)[::-1][None, None].repeat(2, axis=1)), "#heads=1")
    pixels = page.pixels()
    colour = [int(head_colour(0)[place : place + 2], 16) for place in (1, 3, 5)]
    for line in page.marks("line"):
        x, y = (line["x1"] + 3 * line["x2"]) / 4, (line["y1"] + 3 * line["y2"]) / 4
        nearest = np.abs(pixels[int(y) - 1 : int(y) + 2, int(x)] - colour).max(axis=-1).min()
        assert nearest <= 60  # edges are smoothed
    assert (np.abs(pixels - 255).max(axis=-1)[:, int(x)] > 30).sum() < 40  # and paper between them


@pytest.mark.parametrize("side, column", [("query", 0), ("key", 1)])
def test_pointing_at_a_token_shows_its_lines_and_a_click_holds_it_until_the_next(opened, record, side, column):
    page = opened(record, "#heads=0,2")
    spot = page.place("é", column)
    page.point(*spot)
    assert page.tip() == f"{side} 5: é"
    pointed = page.pixels()
    page.point(*spot, click=True)
    lines = page.marks("line")
    assert drawn(page) == weights(record, 0, [0, 2], lambda *places: places[column] == 5)
    assert page.hash == {"heads": "0,2", "token": "5"} | ({"side": "key"} if side == "key" else {})
    between = slice(int(lines[0]["x1"]) + 2, int(lines[0]["x2"]) - 2)
    assert np.array_equal(page.pixels()[:, between], pointed[:, between])
    page.point(*spot, click=True)
    page.point(500, 600)
    assert page.tip() is None and drawn(page) == weights(record, 0, [0, 2])


@pytest.mark.parametrize("alike", [False, True])
def test_of_too_many_lines_the_strongest_are_drawn_or_some_from_everywhere_and_it_says_so(opened, random_maps, alike):
    record = record_of(np.full((1, 2, 60, 60), 1 / 60) if alike else random_maps(1, 2, 60))
    page = opened(record, "#layer=0", height=1400)
    texts = " ".join(page.texts())
    most, count = map(int, re.search(r"the strongest (\d+) of (\d+) lines", texts).groups())
    assert count == len(weights(record, 0, [0, 1]))
    strongest = np.sort(record.weights.ravel())[::-1][:most]
    lines = drawn(page)
    assert sorted(lines.values(), reverse=True) == pytest.approx(strongest.tolist(), abs=2e-5)
    if alike:
        assert {query for _, query, _ in lines} == {key for _, _, key in lines} == set(range(60))
    for said in (texts, page.text("said")):
        share = float(re.search(r"lines carry ([\d.]+) % of", said)[1]) / 100
        assert share == pytest.approx(strongest.sum() / 120, abs=6e-4)


def test_layers_and_heads_keep_their_numbers_in_the_model(opened, random_maps):
    record = replace(record_of(random_maps(1, 2, 5)), layers=[3], heads=[7, 2])
    page = opened(record, "#layer=3")
    assert page.options("layer") == [["3", "3"], ["-1", "mean"]]
    assert page.tab.eval_on_selector_all("#heads button", "all => all.map(one => one.textContent)") == ["7", "2"]
    assert drawn(page) == weights(record, 3, [7, 2])
    page.tab.dblclick("#heads button >> text=2")
    assert drawn(page) == weights(record, 3, [2]) and page.hash == {"head": "2", "heads": "2"}


@pytest.mark.parametrize("side, axis", [("query", 0), ("key", 1)])
def test_beside_every_partner_is_a_strip_a_head_as_strong_as_its_line(opened, record, side, axis, as_shown):
    page = opened(record, f"#token=2&side={side}&heads=0,2")
    found = {(int(one["token"]), int(one["head"])): one for one in page.marks("rect") if "token" in one}
    row = {(token, head): record.map(0, head).take(2, axis)[token] for token in range(7) for head in (0, 2)}
    written = [
        as_shown(row[token, head])
        for token in range(7)
        for head in (0, 2)
        if max(row[token, 0], row[token, 2]) >= LEAST
    ]
    assert [text for text in page.texts() if text[1:2] == "."] == written
    full = max(row.values())
    assert {place: one["weight"] for place, one in found.items()} == pytest.approx(row, abs=2e-5)
    partner = "key" if side == "query" else "query"
    labels = [(x, y) for text, x, y in page.labels() if text in record.tokens.text][7 if side == "query" else 0 :]
    for (token, head), one in found.items():
        assert one["fill"] == head_colour((0, 2).index(head))
        assert float(one.get("opacity", 1)) == pytest.approx(row[token, head], abs=6e-4)
        assert one["y"] < labels[token][1] < one["y"] + one["height"]
        assert (one["x"] > labels[token][0]) == (side == "query")  # to the outer side
    lines = {(line[partner], line["head"]): line["stroke-opacity"] for line in page.marks("line")}
    assert all(opacity == pytest.approx(row[place], abs=6e-4) for place, opacity in lines.items())
    assert any(text.endswith("opacity from 0 to 1") for text in page.texts())
    page.press("c", "c")
    lines = {(line[partner], line["head"]): line["stroke-opacity"] for line in page.marks("line")}
    assert all(opacity == pytest.approx(row[place] / full, abs=6e-4) for place, opacity in lines.items())
    assert max(lines.values()) == 1
    assert any(text.endswith(f"opacity from 0 to {as_shown(full)}, the largest") for text in page.texts())
