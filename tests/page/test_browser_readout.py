"""The panel in a real browser: it says what is drawn, of every head that is on, and its rows lead to their tokens."""

import re

import numpy as np
import pytest
from records import record_of

from attncli.record.display import head_colour

pytestmark = pytest.mark.slow

READ = """table => ({
  head: [...table.tHead.rows[0].cells].map((cell) => cell.textContent),
  rows: [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent)),
  colours: [...table.tBodies[0].rows].map((row) => row.cells[row.cells.length - 1].style.getPropertyValue("--head")),
})"""


@pytest.fixture
def record(random_maps):
    return record_of(random_maps(2, 5, 14))


def panel(page):
    """Return the table: its headings, its rows `(token, [weight, head])`, and the colour of each row's head."""
    read = page.tab.eval_on_selector("#values", READ)
    rows = [(row[0], [float(weight.lstrip("< ")) for weight in row[1:]]) for row in read["rows"]]
    return read["head"], rows, read["colours"]


@pytest.mark.parametrize("side, axis", [("query", 0), ("key", 1)])
def test_of_several_heads_it_has_the_largest_weight_and_the_head_that_gives_it(opened, record, side, axis, as_shown):
    page = opened(record, f"#layer=1&token=4&side={side}&heads=0,2,3")
    weights = np.array([record.map(1, head).take(4, axis) for head in (0, 2, 3)]).T
    order = np.argsort(-weights.max(axis=1), kind="stable")[:10]
    headings, rows, colours = panel(page)
    assert headings == ["attends to" if side == "query" else "attended to by", "largest weight", "head"]
    assert [token for token, _ in rows] == [f"{record.tokens.text[place]} {place}" for place in order.tolist()]
    heads = [(0, 2, 3)[place] for place in weights[order].argmax(axis=1)]
    expected = zip(weights[order].max(axis=1), heads, strict=True)
    assert [found for _, found in rows] == [pytest.approx(row, abs=6e-4) for row in expected]
    assert colours == [head_colour((0, 2, 3).index(head)) for head in heads]
    token, head = f"{order[0]} “{record.tokens.text[order[0]]}”", heads[0]
    partner = "key" if side == "query" else "query"
    said = f"{side.title()} 4 “[x]”: strongest {partner} {token} {as_shown(weights.max())} (head {head})."
    assert page.text("said").startswith(f"Layer 1, heads 0, 2-3. {said}")
    strongest = max(page.marks("line"), key=lambda line: line["weight"])
    assert (strongest["head"], strongest[partner]) == (head, order[0])


@pytest.mark.parametrize("view", ["heads", "matrix"])
@pytest.mark.parametrize("column", [0, 1])
def test_pointing_fills_it_as_holding_does_and_leaving_empties_it(opened, record, view, column):
    page = opened(record, f"#view={view}&layer=1&heads=1,3&head=3", height=1000)
    assert page.table() is None
    x, y = page.place("é", 2 * column)  # of four
    spot = (x - 3, y) if view == "matrix" and column else (x, y)
    page.point(*spot)
    pointed = panel(page), page.text("said")
    assert f"{('Query', 'Key')[column]} 5 “é”" in page.text("said")
    page.point(*spot, click=True)
    assert (panel(page), page.text("said")) == pointed
    page.point(*spot, click=True)
    page.tab.mouse.move(5, 5)
    page.settle()
    assert page.table() is None and "Point at a token" in page.text("said")


def test_what_is_pointed_at_goes_before_what_is_held_and_rows_are_walked_with_the_keyboard(opened, record):
    page = opened(record, "#heads=1&token=2")
    page.point(*page.place("é", 0))
    assert "Query 5 “é”" in page.text("said")
    page.tab.mouse.move(5, 5)
    page.settle()
    assert "Query 2 " in page.text("said")

    page.go("#heads=1&token=2")
    best = int(record.map(0, 1)[2].argmax())
    page.tab.focus("#values tbody button")
    page.press("Enter")
    assert (page.hash["token"], page.hash["side"]) == (str(best), "key")
    assert page.tab.evaluate("document.activeElement.closest('#values') !== null")
    page.press("Enter")
    assert (page.hash["token"], page.hash.get("side")) == (str(record.map(0, 1)[:, best].argmax()), None)


@pytest.mark.parametrize("view", ["heads", "matrix"])
def test_a_click_on_a_row_goes_to_its_token_and_holds_it(opened, view):
    weights = np.eye(200)[::-1]
    page = opened(record_of(weights), f"#view={view}&heads=0&cell=20&token=3")
    assert [row[0] for row in panel(page)[1]] == ["sat 196"]
    page.click("#values tbody tr >> td:nth-child(2)")
    assert (page.hash["token"], page.hash["side"]) == ("196", "key")
    assert "Key 196 “sat”: strongest query 3 “中” 1.00" in page.text("said")
    scrolled = page.tab.eval_on_selector("#chart", "chart => [chart.scrollTop, chart.scrollLeft]")
    assert scrolled[view == "matrix"] > 1000


def share(page):
    """The share of the weight that lines are said to carry, alike in the drawing and in the panel."""
    texts = (*(text for text in page.texts() if "carry" in text), page.text("said"))
    drawn, said = (re.search(r"lines carry (all|[\d.]+ %) of ([a-z' ]+?)( ·|\.|$)", text).groups() for text in texts)
    assert drawn[:2] == said[:2]
    return 1 if said[0] == "all" else float(said[0].removesuffix(" %")) / 100, said[1]


ROW, ROW_KEPT, COLUMN, ALL = np.s_[[1, 4], 3], np.s_[[1, 4], 3, 1:-1], np.s_[[1], :, 3], np.s_[:3]
SHARES = [
    ("heads=1,4&token=3", "the row's weight", ROW, ROW, 0),
    ("heads=1,4&token=3&special=no", "the row's weight", ROW, ROW_KEPT, 0),
    ("heads=1,4&token=3&threshold=0.1", "the row's weight", ROW, ROW, 0.1),
    ("heads=1,4&token=3&words=yes&special=no&threshold=0.05", "the row's weight", ROW, None, 0),
    ("heads=1&token=3&side=key&threshold=0.05", "the column's weight", COLUMN, COLUMN, 0.05),
    ("heads=0,1,2&threshold=0.2", "the weight", ALL, ALL, 0.2),
]


@pytest.mark.parametrize(("at", "whose", "every", "kept", "least"), SHARES)
def test_it_says_how_much_of_the_weight_the_lines_carry_whatever_keeps_the_rest_out(
    opened, record, at, whose, every, kept, least
):
    """Of a token's row or column, or with no token of all rows."""
    page = opened(record, f"#{at}")
    said, of = share(page)
    total = record.weights[0][every].sum()
    assert of == whose
    assert said == pytest.approx(sum(line["weight"] for line in page.marks("line")) / total, abs=6e-4)
    if kept is not None:
        weights = record.weights[0][kept]
        assert said == pytest.approx(weights[weights >= max(least, 1 / 255)].sum() / total, abs=6e-4)


def test_of_a_long_text_it_is_of_the_rows_in_sight(opened, random_maps):
    record = record_of(random_maps(1, 2, 120))
    page = opened(record, "#heads=1&threshold=0.03", height=600)
    page.tab.evaluate("document.getElementById('chart').scrollTop = 800")  # 40 rows of 20 pixels
    page.settle()
    said, whose = share(page)
    seen = slice(40, 40 + round((page.tab.eval_on_selector("#chart", "chart => chart.clientHeight") - 62) / 20))
    rows = record.map(0, 1)[seen]
    assert whose == "the weight of the visible rows"
    assert said == pytest.approx(rows[rows >= 0.03].sum() / len(rows), abs=6e-4)
