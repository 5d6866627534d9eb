"""The strongest partner in a real browser, where it is out of sight: an arrow says where it is."""

import numpy as np
import pytest
from browsers import without_isolates
from records import record_of

pytestmark = pytest.mark.slow

COUNT = 120


@pytest.fixture
def record():
    """Every token looks at the one across the middle with 0.6 (head 0) or 0.7 (head 1), the rest evenly at all."""
    across = np.eye(COUNT)[::-1]
    heads = [strong * across + (1 - strong) / COUNT for strong in (0.6, 0.7)]
    return record_of(np.array(heads)[None])


def arrows(page):
    """Return the labels of the arrows and their places."""
    return [(one["away"], int(one["token"]), one["head"], one["weight"]) for one in page.marks("rect") if "away" in one]


@pytest.mark.parametrize("side", ["query", "key"])
def test_heads_points_up_or_down_to_the_strongest_partner_of_all_heads(opened, record, side, as_shown):
    page = opened(record, f"#heads=0,1&side={side}&token=3")
    weight = record.map(0, 1)[3, 116]
    assert arrows(page) == [("↓", 116, 1, pytest.approx(weight, abs=2e-3))]
    assert any(text.startswith("↓ ") and text.endswith(f" 116: {as_shown(weight)}") for text in isolated(page))
    [box] = [one for one in page.marks("rect") if "away" in one]
    window = page.tab.eval_on_selector("#chart", "chart => [chart.scrollTop, chart.clientHeight, chart.clientWidth]")
    assert box["y"] + box["height"] == pytest.approx(window[0] + window[1], abs=1)
    [line] = [one for one in page.marks("line") if one["weight"] > 0.65]
    assert (box["x"] > line["x2"]) == (side == "query") and (box["x"] + box["width"] < line["x1"]) == (side == "key")
    page.scroll(0, 2000)
    assert arrows(page) == []
    page.go(f"#heads=0,1&side={side}&token=116")
    page.scroll(0, 2000)
    assert arrows(page) == [("↑", 3, 1, pytest.approx(weight, abs=2e-3))]


def isolated(page):
    return [without_isolates(text) for text in page.texts()]


@pytest.mark.parametrize(
    "side, token, place, arrow",
    [
        ("query", 3, (0, 0), "→"),
        ("query", 116, (1700, 1700), "←"),
        ("key", 3, (0, 0), "↓"),
        ("key", 116, (1700, 1700), "↑"),
        ("query", 60, (0, 0), "↘"),
        ("query", 116, (1700, 0), "↙"),
    ],
)
def test_matrix_points_along_the_row_or_column(opened, record, side, token, place, arrow):
    page = opened(record, f"#view=matrix&head=0&cell=20&side={side}&token={token}", height=900)
    page.scroll(*place)
    weight = record.map(0, 0)[token, COUNT - 1 - token]
    assert arrows(page) == [(arrow, COUNT - 1 - token, 0, pytest.approx(weight, abs=2e-3))]
    [box] = [one for one in page.marks("rect") if "away" in one]
    seen = page.tab.eval_on_selector(
        "#chart", "chart => [chart.scrollLeft, chart.scrollTop, chart.clientWidth, chart.clientHeight]"
    )
    assert seen[0] <= box["x"] and box["x"] + box["width"] <= seen[0] + seen[2] + 1
    assert seen[1] <= box["y"] and box["y"] + box["height"] <= seen[1] + seen[3] + 1


@pytest.mark.parametrize(
    ("at", "scroll"),
    [
        ("view=matrix&token=3", None),
        ("view=matrix&cell=20", None),
        ("view=matrix&cell=20&token=59", 900),
        ("heads=0&token=3&threshold=0.65", None),
    ],
)
def test_nothing_is_pointed_at_that_is_in_sight_not_held_or_below_the_threshold(opened, record, at, scroll):
    page = opened(record, f"#head=0&{at}")
    if scroll:
        page.scroll(scroll, scroll)
    assert arrows(page) == []
