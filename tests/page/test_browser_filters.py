"""The filters, masks and texts of a page in a real browser: what they leave is what Python's own rules leave."""

from dataclasses import replace

import numpy as np
import pytest
from records import record_of, tokens

from attncli.record.grouping import merge_words
from attncli.record.selection import selected_places

pytestmark = pytest.mark.slow

PIECES = ["[CLS]", "un", "##see", "##n", "cats", "[SEP]", "play", "##ing", "[SEP]"]
WORDS = [None, 0, 0, 0, 1, None, 0, 0, None]


@pytest.fixture
def record(random_maps):
    """A pair of texts, some of whose words are in pieces."""
    return replace(record_of(random_maps(1, 2, 9)), tokens=tokens(PIECES, WORDS, [0] * 6 + [1] * 3))


def cells(opened):
    """Return the weights of the cells; hidden ones have 0."""
    return {
        (int(cell["query"]), int(cell["key"])): cell.get("weight", 0)
        for cell in opened.marks("rect")
        if "query" in cell
    }


def lines(opened):
    return {(int(line["query"]), int(line["key"])): line["weight"] for line in opened.marks("line") if "query" in line}


def weights(record, queries, keys, least=0.0):
    return {
        (query, key): pytest.approx(record.map(0, 1)[query, key], abs=3e-5)
        for query in queries
        for key in keys
        if record.map(0, 1)[query, key] >= least
    }


@pytest.mark.parametrize("special", [True, False])
def test_of_a_pair_only_the_weights_between_the_chosen_segments_are_left(opened, record, special):
    page = opened(record, "#head=1&heads=1&view=matrix")
    page.filter("special", special)
    for segments in ("AA", "AB", "BA", "BB", "all"):
        page.choose("segments", segments)
        queries, keys = selected_places(record.tokens, special, segments)
        page.click("[data-view=matrix]")
        assert cells(page) == weights(record, queries, keys)
        page.click("[data-view=heads]")
        assert lines(page) == weights(record, queries, keys, 1 / 255)
        shown = [text for text in page.texts() if text in PIECES]
        assert shown == [PIECES[place] for place in queries + keys]


def test_weights_below_the_threshold_are_not_drawn(opened, record):
    page = opened(record, "#heads=1&head=1")
    least = page.threshold(60)
    assert 0.1 < least < 0.2 and page.hash["threshold"] == str(least)
    assert lines(page) == weights(record, range(9), range(9), least)
    assert len(lines(page)) < 40
    page.click("[data-view=matrix]")
    drawn = [cell for cell in page.marks("rect") if "query" in cell]
    pale = {cell["fill"] for cell in drawn if cell["weight"] < least}
    assert len(pale) == 1 and pale.isdisjoint(cell["fill"] for cell in drawn if cell["weight"] >= least)
    page.press("j")
    assert all(weight >= least for _, _, weight in page.table())


@pytest.mark.parametrize("tokens", [16, 512])
def test_the_threshold_goes_from_a_part_of_what_each_key_would_have_to_all(opened, random_maps, tokens):
    page = opened(record_of(random_maps(1, 1, tokens)), "#view=matrix")
    steps = [page.threshold(place) for place in (1, 20, 40, 60, 80, 100)]
    assert steps == sorted(steps) and steps[-1] == 1
    assert 1 / 16 <= steps[0] * tokens <= 1 / 10 and steps[2] * tokens < 4
    assert page.threshold(0) == 0 and "threshold" not in page.hash
    page.go("#view=matrix&threshold=0.25")
    assert page.text("least") == "0.25" and page.threshold(page.tab.input_value("#threshold")) == pytest.approx(
        0.25, rel=0.05
    )


def test_words_have_their_weights_and_are_named_as_words(opened, record):
    page = opened(record, "#head=1&heads=1&view=matrix")
    page.filter("words", True)
    merged = merge_words(record)
    starts = [0, 1, 4, 5, 6, 8]
    assert merged.tokens.text == ["[CLS]", "unseen", "cats", "[SEP]", "playing", "[SEP]"]
    expected = {
        (starts[query], starts[key]): pytest.approx(weight, abs=1e-4)
        for (query, key), weight in np.ndenumerate(merged.map(0, 1))
    }
    assert cells(page) == expected
    page.press("1")
    assert {cell: weight for cell, weight in expected.items() if weight.expected >= 1 / 255} == lines(page)
    assert [text for text in page.texts() if text in merged.tokens.text] == merged.tokens.text * 2

    page.go("#words=yes&heads=0")
    page.point(*page.place("unseen", 0), click=True)
    assert page.tip() == "query 1: unseen"
    assert "Query 1 “unseen”" in page.text("said")
    assert page.text("sentence").split()[:3] == ["[CLS]", "unseen", "cats"]
    merged = merge_words(record).map(0, 0)[1]
    assert page.table()[0][2] == pytest.approx(merged.max(), abs=6e-4)
    page.press("3")
    x, y = page.place("playing", 1)
    page.point(x - 3, y)
    assert page.tip() == "key 6: playing"


def test_the_filters_can_be_how_a_page_begins(opened, record):
    page = opened(record, view="matrix", segments="ab", special=False, threshold=0.1, query="cats", head=(0, 1))
    queries, keys = selected_places(record.tokens, False, "AB")
    assert list(cells(page)) == [(query, key) for query in queries for key in keys]
    assert page.hash == {}
    assert page.held() == 4
    page.filter("special", True)
    page.choose("segments", "all")
    assert page.hash == {"head": "1", "heads": "1", "segments": "all", "special": "yes"}


def test_a_text_that_is_no_pair_has_no_menu_of_segments(opened, random_maps):
    page = opened(record_of(random_maps(1, 1, 5)), "#segments=AB")
    assert page.tab.is_hidden("#segments") and page.hash == {"segments": "AB"}
    assert len({line["query"] for line in page.marks("line")}) == 5


def test_every_text_and_mask_shows_its_own_weights(opened, random_maps):
    """A text without the mask that is shown takes its own."""
    texts = {"un cats": ("none", "causal", "padding"), "play cats": ("causal",), "ing cats un": ("none",)}
    records = []
    for text, masks in texts.items():
        pieces = tokens(text.split(), range(len(text.split())))
        maps = random_maps(3, 4, len(pieces))
        records += [
            replace(record_of(np.roll(maps, number, axis=1), mask_name=mask), tokens=pieces)
            for number, mask in enumerate(masks)
        ]
    page = opened([records[2], *records[:2], *records[3:]], "#view=matrix&layer=2&head=1&token=1")

    def shows(record):
        return list(cells(page).values()) == pytest.approx(record.map(2, 1).ravel().tolist(), abs=2e-5)

    names = page.tab.eval_on_selector_all("#masks button", "all => all.map(one => one.textContent)")
    assert names == ["none", "causal", "padding"]
    for record in records[:3]:
        page.click(f"[data-mask={record.mask_name}]")
        assert shows(record)
        assert page.tab.get_attribute(f"[data-mask={record.mask_name}]", "aria-pressed") == "true"
    assert [label for _, label in page.options("text")] == [text.replace(" ", "") for text in texts]
    for number in (1, 2):
        page.choose("text", number)
        assert shows(records[2 + number])
        assert page.hash["text"] == str(number) and "token" not in page.hash


@pytest.mark.parametrize("view", ["heads", "model", "matrix", "neuron"])
def test_where_the_filters_leave_nothing_the_picture_says_so(opened, record, view):
    pieces = replace(record.tokens, special=[*record.tokens.special[:6], True, True, True])
    page = opened(replace(record, tokens=pieces), f"#special=no&segments=AB&view={view}")
    assert page.texts() == ["The filters leave nothing to draw."]
    page.point(300, 200, click=True)
    page.filter("special", True)
    assert "The filters leave nothing to draw." not in page.texts()
