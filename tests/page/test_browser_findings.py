"""The findings of a page: listed, stepped through, framed; and the text above, shaded by the held token's weights."""

from dataclasses import replace

import numpy as np
import pytest
from records import record_of

from attncli.analysis.edges import Usual, edges, with_usual
from attncli.record.display import HEAD_COLOURS
from attncli.record.grouping import group_record
from attncli.record.selection import Grouping

pytestmark = pytest.mark.slow

WORDS = ["[CLS]", "the", "cat", "sat", "on", "a", "mat", "today", "[SEP]"]
SHADES = "all => all.map(one => parseFloat(one.style.getPropertyValue('--weight')))"


@pytest.fixture
def record(random_maps):
    made = record_of(random_maps(3, 4, 9))
    return replace(made, tokens=replace(made.tokens, text=WORDS, shown=[]))


@pytest.fixture
def found(record):
    """The strongest edge of each head that stands out, as Python finds them."""
    edges_of_heads = [edge for edge, *_ in edges(record, Usual.of_text(record))]
    assert len(edges_of_heads) > 3
    return edges_of_heads


def listed(page):
    return [
        text.split()
        for text in page.tab.eval_on_selector_all("#findings-list button", "all => all.map(one => one.textContent)")
    ]


def table_rows(page):
    return [row.split("\t") for row in page.tab.inner_text("#values tbody").splitlines()]


def place(page):
    return (*(int(page.tab.input_value(f"#{name}")) for name in ("layer", "head")), page.held())


def test_heads_that_stand_out_are_listed_as_python_finds_them_and_stepped_through(opened, record, found, as_shown):
    page = opened(record)
    expected = [
        [f"{one.layer}.{one.head}", WORDS[one.query], "→", WORDS[one.key], one.weight, one.usual] for one in found
    ]
    rows = [[text.strip("\u2068\u2069") for text in row] for row in listed(page)]
    assert [row[:4] for row in rows] == [row[:4] for row in expected]
    numbers = [[float(row[4]), float(row[5].strip("()"))] for row in rows]
    assert np.array(numbers) == pytest.approx(np.array([[row[4], row[5]] for row in expected]), abs=2e-3)
    assert page.text("findings-note").startswith(f"{len(found)} of 12 heads")
    assert "this text alone" in page.text("findings-note")

    page.go("")
    assert place(page) == (found[0].layer, found[0].head, found[0].query) and page.hash == {}
    for step in ("n", "n", "p"):
        page.press(step)
    assert place(page) == (found[1].layer, found[1].head, found[1].query)
    assert {(line["layer"], line["head"], line["query"]) for line in page.marks("line")} == {place(page)}
    page.click("#findings-list li:last-child button")
    assert place(page) == (found[-1].layer, found[-1].head, found[-1].query)
    page.press("n")
    assert place(page) == (found[-1].layer, found[-1].head, found[-1].query)


def test_in_model_they_are_framed_and_a_head_that_is_pointed_at_is_shown_large(opened, record, found):
    page = opened(record, "#view=model")
    framed = {str(mark["finding"]) for mark in page.marks("rect") if "finding" in mark}
    assert framed == {f"{one.layer}.{one.head}" for one in found}
    thumb = next(mark for mark in page.marks("rect") if (mark.get("layer"), mark.get("head")) == (2, 3))
    before = page.pixels()
    page.point(thumb["x"] + 5, thumb["y"] + 5)
    assert (np.abs(page.pixels() - before).max(axis=-1) > 0).mean() > 0.1
    page.tab.mouse.move(5, 5)
    page.settle()
    assert (page.pixels() == before).all()


def test_a_record_that_knows_what_is_usual_says_over_how_many_texts(opened, record, random_maps):
    others = [record_of(random_maps(3, 4, length)) for length in (6, 7)]
    page = opened(with_usual(record, Usual.of(others)))
    assert "this text and 2 sample texts" in page.text("findings-note")


@pytest.fixture
def written(record):
    """A text of a decoder whose tokens from 5 on a model wrote."""
    mask = np.tril(np.ones((9, 9), dtype=bool))
    weights = record.weights * mask
    made = record_of(weights / weights.sum(axis=-1, keepdims=True), mask, "causal")
    plain = replace(record.tokens, special=[False] * 9, text=["one", *WORDS[1:8], "two"], shown=[])
    return replace(made, tokens=plain, kind="decoder", written=5)


@pytest.mark.parametrize("width", [1280, 800, 390])
def test_all_written_tokens_together_shade_the_prompt(opened, written, as_shown, width):
    page = opened(written, width=width)
    assert page.text("findings-title") == "Written" and page.tab.locator("#findings-list li").count() == 4
    wide = page.tab.eval_on_selector("#findings-list", "list => [list.scrollWidth, list.clientWidth]")
    assert wide[0] <= wide[1], "the last number of a row is seen"
    page.click("#all-written")
    assert page.held() is None
    rows = written.weights[:, :, 4:8, 1:].sum(axis=(0, 1, 2), dtype=float)  # without the first token, which is a sink
    shares = rows[:4] / rows.sum()
    uniform = np.mean([1 / query for query in range(4, 8)])
    found = {row[0]: row[1:] for row in table_rows(page)}
    assert found == {
        f"{WORDS[place]} {place}": [as_shown(shares[place - 1]), as_shown(uniform)] for place in range(1, 5)
    }
    assert f"{shares.sum():.2f} of the attention goes to the prompt" in page.text("said")
    shades = np.array(page.tab.eval_on_selector_all("#sentence button", SHADES))
    assert shades[1:5] == pytest.approx(55 * shares / shares.max(), abs=0.2) and not shades[[0, 5, 6, 7, 8]].any()
    page.press("n")
    assert page.held() == 4 and "goes to the prompt" not in page.text("said")


def test_units_of_several_tokens_have_no_neuron(opened, record):
    sentences = group_record(
        replace(record, tokens=replace(record.tokens, written=[f"{word} " for word in WORDS])),
        Grouping(unit="sentence"),
    )
    page = opened(sentences, "#view=neuron")
    for _ in range(2):
        assert page.tab.is_hidden("[data-view='neuron']")
        assert page.tab.get_attribute("[data-view='heads']", "aria-pressed") == "true"
        page.press("4")
    assert not opened(record).tab.is_hidden("[data-view='neuron']")


@pytest.mark.parametrize("key", ["/", "f"])
def test_tokens_are_searched(opened, record, key):
    page = opened(record, "#layer=0")
    page.press(key)
    page.tab.keyboard.type("at")
    assert page.text("found") == "3 found"
    for token in ("2", "3", "6", "2"):
        page.press("Enter")
        assert page.hash["token"] == token
    page.press("Escape")
    assert page.text("found") == "" and page.tab.evaluate("document.activeElement.id") == "chart"


def test_heads_have_their_colours_in_their_order_and_means_are_those_of_their_weights(opened, record):
    page = opened(record, "#layer=1&view=matrix&head=mean")
    for layer, expected in (("1", record.weights[1].mean(axis=0)), ("mean", record.weights.mean(axis=(0, 1)))):
        page.go(f"#view=matrix&head=mean&layer={layer}")
        drawn = {(int(one["query"]), int(one["key"])): one["weight"] for one in page.marks("rect") if "query" in one}
        assert drawn == {at: pytest.approx(weight, abs=2e-5) for at, weight in np.ndenumerate(expected)}
    page.go("#layer=1&heads=0")
    page.click("[data-several=mean]")
    assert page.hash["heads"] == "mean" and {line["head"] for line in page.marks("line")} == {-1}
    assert "Layer 1, mean of all heads." in page.text("said")

    page.go("#layer=0&heads=3")
    page.click("#heads button >> text=1")
    assert page.hash["heads"] == "3,1"
    lines = [line.attrib for line in page.svg().iter("{http://www.w3.org/2000/svg}line") if "data-head" in line.attrib]
    looks = {(line["data-head"], line["stroke"], line.get("stroke-dasharray")) for line in lines}
    assert looks == {("3", HEAD_COLOURS[0], None), ("1", HEAD_COLOURS[1], "9 4")}

    page.go("#layer=1&heads=2")
    assert page.sentence() == WORDS
    page.hold(3)
    assert page.hash["token"] == "3"
    expected = 55 * record.map(1, 2)[3]
    assert page.tab.eval_on_selector_all("#sentence button", SHADES) == pytest.approx(expected.tolist(), abs=0.15)
    page.press("o")
    expected = 55 * record.map(1, 2)[:, 3]
    assert page.tab.eval_on_selector_all("#sentence button", SHADES) == pytest.approx(expected.tolist(), abs=0.15)
    page.hold(3)
    assert "token" not in page.hash
    assert set(page.tab.eval_on_selector_all("#sentence button", SHADES)) == {0}


@pytest.mark.parametrize("view", ["heads", "matrix"])
def test_a_line_stands_between_two_texts(opened, record, view):
    pair = replace(record, tokens=replace(record.tokens, segments=[0] * 5 + [1] * 4))
    page = opened(pair, f"#view={view}")
    assert sorted(mark["border"] for mark in page.marks("line") if "border" in mark) == ["key", "query"]
    assert not [mark for mark in opened(record, f"#view={view}").marks("line") if "border" in mark]


def test_the_guide_is_a_click_away_and_closes_for_good(opened, record):
    page = opened(record)
    page.click("#guide summary")
    assert page.tab.locator("#guide p").count() == 4 and page.tab.is_visible("#guide p >> nth=3")
    page.click("#close-guide")
    assert page.tab.is_hidden("#guide")
    page.reload()
    assert page.tab.is_hidden("#guide")
    page.tab.evaluate("localStorage.clear()")
