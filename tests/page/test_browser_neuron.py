"""Neuron in a real browser: from q and k to weights, with the numbers of the record."""

import re
from dataclasses import replace

import numpy as np
import pytest
from records import record_of

from attncli import load_model
from attncli.page import Start
from attncli.page import page as page_of
from attncli.record import Vectors

pytestmark = pytest.mark.slow

SIZE = 8  # of a head
NEAR = 2e-3  # of a score: q and k are stored in whole numbers
PLUS, MINUS = "#c2410c", "#2563eb"


@pytest.fixture
def record():
    """Two layers of two heads whose weights are made of their q and k; heads 0.1 and 1.0 have them with them."""
    numbers = np.random.default_rng(5)
    query, key = numbers.normal(size=(2, 2, 2, 9, SIZE)).astype(np.float32)
    scaled = query @ key.swapaxes(-1, -2) / np.sqrt(SIZE)
    mask = np.tril(np.ones((9, 9), dtype=bool))
    raised = np.exp(scaled) * mask
    made = record_of(raised / raised.sum(axis=-1, keepdims=True), mask=mask, mask_name="causal")
    chosen = [(0, 1), (1, 0)]
    return replace(
        made,
        vectors=Vectors(chosen, np.stack([query[one] for one in chosen]), np.stack([key[one] for one in chosen])),
    )


def bars(opened):
    """Return the bars beside the keys."""
    return {int(bar["key"]): bar for bar in opened.marks("rect") if "score" in bar}


def test_terms_and_another_scale_make_the_weights_with_them(opened, record):
    """Use a network whose positions add to its scores."""
    numbers = np.random.default_rng(7).normal(size=(2, 2, 9, 9)).astype(np.float32)
    scale, terms = np.array([0.25, 0.1]), {"content to position": numbers[0], "position to content": numbers[1]}
    record = replace(record, vectors=replace(record.vectors, scale=scale, terms=terms))
    page = opened(record, "#view=neuron&layer=1&head=0&token=6")
    query, key = record.vectors.of(1, 0)
    scaled, added = 0.1 * (key @ query[6])[:7], numbers[:, 1, 6, :7].sum(axis=0)
    raised = np.exp(scaled + added)
    drawn = bars(page)
    for place, bar in drawn.items():
        assert bar["scaled"] == pytest.approx(scaled[place], abs=NEAR)
        assert bar["added"] == pytest.approx(added[place], abs=NEAR)
        assert bar["weight"] == pytest.approx(raised[place] / raised.sum(), abs=1e-4)
    said = page.texts()
    assert "/ √100" in said
    for name, note, term in (("+ content", "to position", numbers[0]), ("+ position", "to content", numbers[1])):
        assert name in said and note in said
        assert close([f"{one:.2f}" for one in term[1, 6]], column(page, name)[:9], 0.011)
    scores = scaled + added
    assert close([f"{one:.2f}" for one in scores], column(page, "= score")[:7], 0.011)


def column(page, name):
    """The numbers below a heading: their right ends, or for weights their left ones, stand where its do."""
    labels = page.labels()
    [(x, top)] = [(x, y) for text, x, y in labels if text == name]
    return [text for text, at, y in labels if abs(at - x) < 1 and y > top + 20]


def close(expected, found, by):
    return len(expected) == len(found) and np.allclose(np.array(expected, float), np.array(found, float), atol=by)


@pytest.mark.parametrize("layer, head", [(0, 1), (1, 0)])
def test_the_numbers_the_bars_the_lines_and_the_elements_are_those_of_the_records_q_and_k(opened, record, layer, head):
    page = opened(record, f"#view=neuron&layer={layer}&head={head}&token=6")
    query, key = record.vectors.of(layer, head)
    score, row = key @ query[6], record.map(layer, head)[6]
    drawn = bars(page)
    assert list(drawn) == list(range(7))  # the mask hides the rest
    for place, bar in drawn.items():
        assert bar["query"] == 6
        assert bar["score"] == pytest.approx(score[place], abs=NEAR)
        assert bar["scaled"] == pytest.approx(score[place] / np.sqrt(SIZE), abs=NEAR)
        assert bar["weight"] == pytest.approx(row[place], abs=1e-4)
    widths = np.array([bar["width"] for bar in drawn.values()])
    assert widths / widths.max() == pytest.approx(row[:7] / row[:7].max(), abs=0.02)

    assert close(score, column(page, "sum"), 0.011) and close(score / np.sqrt(SIZE), column(page, "score"), 0.006)
    weights = [text for text in page.texts() if len(text) == 6 and text.startswith("0.")]
    assert close(row[:7], weights, 2e-4)
    assert column(page, "key") == record.tokens.text
    headings = ["query", "q", "key", "k", "q × k", "sum", "score", "weight"]
    places = [next(x for text, x, _ in page.labels() if text == name) for name in headings]
    assert places == sorted(places)
    assert {"8 numbers", "product", "q · k", "/ √8", "softmax"} <= set(page.texts())

    lines = {int(line["key"]): line for line in page.marks("line")}
    assert list(lines) == [place for place in range(7) if row[place] >= 1 / 255]  # nor to what is hidden
    q = next(y for text, _, y in page.labels()[:9] if text == record.tokens.text[6])
    for place, line in lines.items():
        assert line["stroke-opacity"] == pytest.approx(row[place], abs=1e-3)
        assert line["query"] == 6
    assert len({(line["x1"], line["y1"]) for line in lines.values()}) == 1
    rows = {line["y2"] - 20 * place for place, line in lines.items()}
    assert rows == {lines[6]["y1"] - 20 * 6} and lines[6]["y1"] == pytest.approx(q - 4, abs=1)

    strips = strips_of(page, SIZE)
    expected = [query[6], *(part for place in range(9) for part in (key[place], query[6] * key[place]))]
    largest = max(np.abs(key).max(), np.abs(query[6]).max()), np.abs(query[6] * key).max()
    assert len(strips) == len(expected)
    for number, (strip, values) in enumerate(zip(strips, expected, strict=True)):
        most = largest[1] if number and number % 2 == 0 else largest[0]
        assert [float(cell["opacity"]) for cell in strip] == pytest.approx(np.abs(values) / most, abs=1e-3)
        assert [cell["fill"] for cell in strip] == [PLUS if value > 0 else MINUS for value in values]


@pytest.mark.parametrize("family", ["modernbert", "mpnet", "deberta-v2"])
def test_what_positions_do_is_shown_of_every_family(opened, tiny, family):
    """Show q and k before and after a rotation, and each term that is added."""
    record = load_model(str(tiny(family)), "cpu").attend("the cat sat on it", layers=[1], vectors="all")
    page = opened(record, "#view=neuron&layer=1&head=2&token=3", height=1200)
    drawn, size = bars(page), record.vectors.query.shape[-1]
    allowed = np.flatnonzero(record.mask_of(1)[3])
    assert [drawn[key]["weight"] for key in allowed] == pytest.approx(record.map(1, 2)[3, allowed].tolist(), abs=1e-3)
    assert "differ" not in " ".join(page.texts())
    for name, part in record.vectors.parts(1, 2).items():
        if name != "content":
            assert close(part[3], column(page, f"+ {name.split()[0]}"), 0.011)
    strips = strips_of(page, size)
    keys = len(record.tokens)
    if record.vectors.rotation is None:
        assert len(strips) == 1 + 2 * keys and "plain / rotated" not in page.texts()
        return
    assert len(strips) == 2 + 3 * keys and page.texts().count("plain / rotated") == 2
    (query, key), (before_query, before_key) = record.vectors.of(1, 2), record.vectors.before(1, 2)
    most = max(np.abs(query[3]).max(), np.abs(key).max())
    expected = [before_query[3], query[3]]
    for place in range(keys):
        expected += [before_key[place], key[place], None]
    for strip, values in zip(strips, expected, strict=True):
        if values is not None:
            shown = [float(cell["opacity"]) * (1 if cell["fill"] == PLUS else -1) for cell in strip]
            assert shown == pytest.approx(np.clip(values / most, -1, 1).tolist(), abs=2e-3)


def strips_of(page, size):
    """The squares of every vector that is drawn."""
    cells = [rect.attrib for rect in page.svg().iter("{http://www.w3.org/2000/svg}rect") if "opacity" in rect.attrib]
    return [cells[start : start + size] for start in range(0, len(cells), size)]


def test_every_layer_hides_the_keys_that_its_own_mask_hides(opened, record):
    """Layer 0 looks back, layer 1 at its neighbours; the page goes from one to the other."""
    masks = np.stack([record.mask, np.abs(np.subtract.outer(range(9), range(9))) <= 1])
    scores = np.stack(
        [query @ key.T / np.sqrt(SIZE) for query, key in (record.vectors.of(0, 1), record.vectors.of(1, 0))]
    )
    weights = np.exp(scores) * masks
    weights = np.repeat((weights / weights.sum(axis=-1, keepdims=True))[:, None], 2, axis=1).astype(np.float32)
    page = opened(replace(record, weights=weights, masks=masks), "#view=neuron&layer=0&head=1&token=4")
    for layer, head, there in ((0, 1, range(5)), (1, 0, range(3, 6)), (0, 1, range(5))):
        page.go(f"#view=neuron&layer={layer}&head={head}&token=4")
        drawn = bars(page)
        assert list(drawn) == list(there) and page.texts().count("masked") == 9 - len(there)
        for place, bar in drawn.items():
            assert bar["weight"] == pytest.approx(weights[layer, head, 4, place], abs=1e-4)
        assert "differ" not in " ".join(page.texts())


def test_what_is_pointed_at_is_told_and_a_query_is_chosen_in_its_own_column(opened, record):
    page = opened(record, "#view=neuron&head=1&token=6")
    query, key = record.vectors.of(0, 1)
    strips = strips_of(page, SIZE)

    def point(cell):
        page.point(float(cell["x"]) + float(cell["width"]) / 2, float(cell["y"]) + float(cell["height"]) / 2)
        numbers = [float(one) for one in re.findall(r"-?\d+\.\d{4}", page.tip())]
        return re.sub(r"-?\d+\.\d{4}", "?", page.tip()), pytest.approx(numbers, abs=2e-4)

    q, k = query[6, 3], key[2, 3]
    assert point(strips[1 + 2 * 2][3]) == ("k[3] = ?", [k])
    assert point(strips[2 + 2 * 2][3]) == ("q[3] × k[3] = ? × ? = ?", [q, k, q * k])
    assert point(strips[0][3]) == ("q[3] = ?", [q])
    names = record.tokens.text
    page.point(*page.place("[x]", 1))  # the first stands for it as a query
    assert page.tip().startswith(f"{names[6]} (6) → {names[4]} (4): weight {record.map(0, 1)[6, 4]:.3f}")
    page.point(*page.place("[x]", 0))
    assert page.tip() == f"query {names[4]} (4): choose it"

    page.go("#view=neuron&head=1&token=6")
    page.point(*page.place("[x]", 1), click=True)  # a key, which is no query
    assert page.hash["token"] == "6"
    page.point(*page.place("[x]", 0), click=True)
    assert page.hash["token"] == "4" and {bar["query"] for bar in bars(page).values()} == {4}

    page.go("#view=neuron&head=1&token=6")
    assert page.texts().count("masked") == 2
    page.press("j")
    assert page.texts().count("masked") == 1 and len(bars(page)) == 8

    page.go("#view=neuron&head=1")
    assert {bar["query"] for bar in bars(page).values()} == {1}
    assert "Query 1 “cat”" in page.text("said")


def test_q_stays_in_sight_while_its_query_is_not(opened, minilm):
    record = minilm.attend("The cat sat on the mat. " * 12, layers=0, heads=0, vectors="0.0")
    page = opened(record, "#view=neuron&token=3", height=500)
    before = page.marks("line")[0]["y1"]
    page.scroll(top=600)
    assert page.marks("line")[0]["y1"] == pytest.approx(600 + 66 + 10) and before == 66 + 3.5 * 20
    page.hold(70)
    assert page.scrolled()[1] > 900


def test_a_head_without_q_and_k_says_which_have_them_and_what_to_type(opened, record):
    page = opened(record, "#view=neuron&layer=1&head=1")
    said = " ".join(page.texts())
    assert "q and k of head 1.1 are not in this page." in said
    assert 'model.attend(text, vectors="1.1").page(path) makes a page that has them.' in said
    assert [(mark["layer"], mark["head"]) for mark in page.marks("rect")] == [(0, 1), (1, 0)]
    page.point(*page.place("1.0"))
    assert page.tip().startswith("layer 1, head 0: ")
    page.point(*page.place("1.0"), click=True)
    assert (page.hash["layer"], page.hash.get("head", "0")) == ("1", "0") and len(bars(page)) > 0
    page = opened(replace(record, vectors=None), "#view=neuron")
    assert "This page stores no q and k." in " ".join(page.texts())


def test_the_advice_is_that_of_whoever_made_the_page_with_the_head_in_it(opened, record):
    document = page_of(
        record, Start(), advice="attncli view --vectors {head}, in a line that is longer than a telephone"
    )
    page = opened(record, "#view=neuron&layer=1&head=1", document=document, width=390)
    lines = page.texts()[-2:]
    assert " ".join(lines) == "attncli view --vectors 1.1, in a line that is longer than a telephone"


def test_weights_that_the_model_rounded_more_are_not_passed_over(opened, record):
    page = opened(replace(record, weights=record.weights * np.float32(0.95)), "#view=neuron&head=1&token=6")
    apart = 0.05 * record.map(0, 1)[6].max()
    warning = f"the model rounds more coarsely: its own weights differ from these by up to {apart:.3f}"
    assert warning in " ".join(page.texts())


def test_a_sink_takes_its_part_of_the_row(opened, record):
    sinks = np.array([-np.inf, 0.7], np.float32)
    record = replace(record, vectors=replace(record.vectors, sinks=sinks), sinks=True)
    page = opened(record, "#view=neuron&layer=1&head=0&token=6")
    query, key = record.vectors.of(1, 0)
    raised = np.exp((key @ query[6])[:7] / np.sqrt(SIZE))
    total = raised.sum() + np.exp(0.7)
    assert [bar["weight"] for bar in bars(page).values()] == pytest.approx((raised / total).tolist(), abs=1e-4)
    assert any(f"the head's sink takes {np.exp(0.7) / total:.2f} of this row's weight" in said for said in page.texts())
    without = opened(record, "#view=neuron&layer=0&head=1&token=6")
    assert sum(bar["weight"] for bar in bars(without).values()) == pytest.approx(1, abs=1e-4)
