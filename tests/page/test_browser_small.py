"""A small page in a browser: what is whole is as always, and what is small says so."""

import pytest
from records import record_of

from attncli.page import page
from attncli.page.payload import FullHeads
from attncli.record.display import pool

pytestmark = pytest.mark.slow

WHOLE = [(1, 2), (1, 0), (0, 1)]
SIDE = 8


@pytest.fixture
def record(random_maps):
    return record_of(random_maps(2, 3, 20))


@pytest.fixture
def small(record, opened):
    return lambda at="", **how: opened([record], at, document=page(record, kept=FullHeads(WHOLE, SIDE)), **how)


def test_it_opens_at_the_first_whole_head_and_has_lines_and_buttons_of_whole_ones_alone(small, record):
    shown = small()
    assert (shown.tab.input_value("#layer"), shown.tab.input_value("#head")) == ("1", "2")
    assert {mark["head"] for mark in shown.marks("line")} == {2}
    shown.click("[data-several=all]")
    assert {mark["head"] for mark in shown.marks("line")} == {0, 2}
    assert 'record.page("all.html")' in shown.text("about") and "1.0, 1.2" in shown.text("about")

    shown.go("")
    assert [shown.tab.is_disabled(f'#heads [data-head="{head}"]') for head in range(3)] == [False, True, False]
    shown.choose("layer", 0)
    assert {mark["head"] for mark in shown.marks("line")} == {1}
    shown.press("ArrowRight")
    assert {mark["head"] for mark in shown.marks("line")} == {1}

    shown.go("#layer=0")
    for mark in shown.marks("line"):
        assert mark["weight"] == pytest.approx(record.map(0, 1)[int(mark["query"]), int(mark["key"])], abs=0.003)


def test_a_small_map_is_drawn_in_blocks_and_says_so(small, record):
    shown = small("#view=matrix&layer=0&head=2")
    assert any("the largest of about 3 × 3 weights" in text for text in shown.texts())
    assert "has a small map" in shown.text("said")
    pooled = pool(record.map(0, 2), SIDE, SIDE)
    (row, column), (last_row, last_column) = (
        [(x, y - 4) for text, x, y in shown.labels() if text == token] for token in ("[CLS]", "[SEP]")
    )
    for x, y, cell in (
        (column[0], row[1], (0, 0)),
        (last_column[0], row[1], (0, -1)),
        (column[0], last_row[1], (-1, 0)),
        (last_column[0], last_row[1], (-1, -1)),
    ):
        shown.point(x, y)
        said, _, weight = shown.tip().rpartition(" ")
        assert said.endswith("at most") and float(weight) == pytest.approx(pooled[cell], abs=0.01)


def test_model_shows_all_and_opens_a_small_one_as_a_matrix(small):
    shown = small()
    shown.press("2")
    assert len([mark for mark in shown.marks("rect") if "kind" in mark]) == 6
    corner = {(mark["layer"], mark["head"]): mark for mark in shown.marks("rect") if "kind" in mark}[0, 0]
    shown.tab.mouse.dblclick(*shown.in_window(corner["x"] + 5, corner["y"] + 5))
    shown.settle()
    assert shown.hash == {"view": "matrix", "heads": "0", "detail": "yes"}  # of layer 0
    shown.press("2")
    corner = {(mark["layer"], mark["head"]): mark for mark in shown.marks("rect") if "kind" in mark}[0, 1]
    shown.point(corner["x"] + 5, corner["y"] + 5, click=True)
    assert shown.hash["head"] == "1"


def test_with_nothing_whole_it_opens_with_all_of_them(record, opened):
    shown = opened([record], document=page(record, kept=FullHeads([], SIDE)))
    assert len([mark for mark in shown.marks("rect") if "kind" in mark]) == 6
    shown.press("1")
    assert shown.marks("line") == []
    shown.press("w", "t")
    assert shown.marks("line") == []
