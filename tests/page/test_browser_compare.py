"""Two records in a real browser: A, B and B - A with one cursor, and a grid of how much each head differs."""

import re
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from browsers import SVG, middle, without_isolates
from records import ablation_page, an_ablation, cut_edges, edges_page, page_of_two, record_of, tokens

from attncli.analysis.difference import difference
from attncli.record.display import SIGNED as CHANGES
from attncli.report.page import page_of
from attncli.report.parts import HeadGrid, Panel, in_cell

pytestmark = pytest.mark.slow

MAPS = ["A", "B", "B − A"]
LEAST = 0.1  # of the largest change, from which on a cell has a sign
KEYS = [
    ("j j", {"token": "1"}),
    ("k", {"token": "8"}),
    ("l l l", {"partner": "2"}),
    ("j l h", {"token": "0", "partner": "0"}),
    ("j l Escape", {}),
    ("t j", {"special": "no", "token": "1"}),
    ("d", {"theme": "dark"}),
]


@pytest.fixture
def found(random_maps):
    return difference(record_of(random_maps(2, 3, 9)), record_of(random_maps(2, 3, 9)[:, :, ::-1]))


@pytest.fixture
def causal(random_maps):
    """The difference between no mask and a causal one, on one text."""
    mask = np.tri(7, dtype=bool)
    maps = random_maps(1, 2, 7)
    seen = np.where(mask, maps, 0)
    seen /= seen.sum(axis=-1, keepdims=True)
    return difference(record_of(maps, mask_name="none"), record_of(seen, mask, mask_name="causal"))


@pytest.fixture
def compared(opened):
    return lambda found, at="", **how: opened([], at, document=page_of_two(found), **how)


def cells(page):
    """The cells of the saved picture, by map, query and key."""
    return {(cell["map"], int(cell["query"]), int(cell["key"])): cell for cell in page.marks("rect")}


def signed_text(number):
    """A difference as the page writes it."""
    return "<.001" if abs(number) < 0.0005 else f"{'−' if number < 0 else '+'}{abs(number):.3f}"


def three(found, layer, head):
    """The maps of A and B, and their difference."""
    first, second = found.first.map(layer, head), found.second.map(layer, head)
    return dict(zip(MAPS, (first, second, second - first), strict=True))


def test_the_grid_has_how_much_each_head_differs_and_opens_at_the_first_and_chooses(compared, found):
    page = compared(found)
    layer, head = found.heads()[0]
    assert (page.tab.input_value("#layer"), page.tab.input_value("#head")) == (str(layer), str(head))
    assert f"Layer {layer}, head {head}: {found.of(layer, head):.3f} of the weight moved" in page.text("said")

    page.go("")
    read = "all => all.map(one => [Number(one.dataset.layer), Number(one.dataset.head), one.textContent])"
    grid = page.tab.eval_on_selector_all("#differing button", read)
    assert grid == [
        [layer, head, in_cell(found.of(layer, head))] for layer in found.first.layers for head in found.first.heads
    ]
    page.click('#differing [data-layer="0"][data-head="2"]')
    assert (page.tab.input_value("#layer"), page.tab.input_value("#head")) == ("0", "2")
    assert cells(page)["A", 1, 1]["weight"] == pytest.approx(found.first.map(0, 2)[1, 1], abs=5e-5)
    page.press("ArrowLeft", "ArrowDown")
    assert (page.tab.input_value("#layer"), page.tab.input_value("#head")) == ("1", "1")
    focused = "[document.activeElement.dataset.layer, document.activeElement.dataset.head]"
    assert page.tab.evaluate(focused) == ["1", "1"]  # which goes along

    page.go("")
    for layer, head in found.heads()[1:]:
        page.press("n")
        assert (page.tab.input_value("#layer"), page.tab.input_value("#head")) == (str(layer), str(head))
    page.click("#more-different")
    assert (page.tab.input_value("#layer"), page.tab.input_value("#head")) == tuple(map(str, found.heads()[-2]))

    for keys, state in KEYS:
        page.go("")
        page.press(*keys.split())
        assert page.hash == state, keys


@pytest.mark.parametrize("layer, head", [(0, 1), (1, 2)])
def test_every_cell_of_the_three_maps_is_its_number_and_changes_are_coloured_around_0(
    compared, found, layer, head, as_shown
):
    page = compared(found, f"#layer={layer}&head={head}")
    drawn, numbers = cells(page), three(found, layer, head)
    assert len(drawn) == 3 * 81
    most = np.abs(numbers["B − A"]).max()
    for (name, query, key), cell in drawn.items():
        number = numbers[name][query, key]
        assert cell["change" if name == "B − A" else "weight"] == pytest.approx(number, abs=5e-5)
        if name == "B − A":
            colour = 255 * np.array(matplotlib.colormaps[CHANGES](0.5 + number / most / 2))[:3]
            assert [int(part) for part in cell["fill"][4:-1].split(",")] == pytest.approx(colour, abs=8)
    texts = page.texts()
    assert {signed_text(-most), signed_text(most)} <= set(texts)  # what the ends of the scales stand for
    assert texts.count(f"{as_shown(max(numbers['A'].max(), numbers['B'].max()))}") == 2


def test_a_cell_of_the_difference_has_its_sign_for_whoever_sees_no_colours(compared, found):
    page = compared(found, "#layer=0&head=0&cell=20")
    change = three(found, 0, 0)["B − A"]
    share = change / np.abs(change).max()
    strokes = [
        {name: float(line.get(name)) for name in ("x1", "x2", "y1", "y2")} for line in page.svg().iter(SVG + "line")
    ]
    for (name, query, key), cell in cells(page).items():
        x, y = cell["x"] + 10, cell["y"] + 10
        here = [
            one for one in strokes if abs(one["x1"] + one["x2"] - 2 * x) < 1 and abs(one["y1"] + one["y2"] - 2 * y) < 1
        ]
        size = share[query, key] if name == "B − A" else 0
        assert len(here) == (0 if abs(size) < LEAST else 1 if size < 0 else 2)
    page = compared(found, "#layer=0&head=0&cell=40", width=1600)
    negative = [in_cell(one) for one in change.flat if one <= -0.005]
    assert negative and [text for text in page.texts() if re.fullmatch(r"-\d\.\d\d", text)] == negative


@pytest.mark.parametrize("name", MAPS)
def test_pointing_at_a_cell_of_one_tells_all_three_numbers_and_marks_it_in_the_others(compared, found, name, as_shown):
    page = compared(found, "#layer=1&head=0")
    drawn, numbers, names = cells(page), three(found, 1, 0), found.first.tokens.text
    plain = page.pixels()
    page.point(*middle(drawn[name, 3, 6]))
    said = " · ".join(
        f"{one} {signed_text(numbers[one][3, 6]) if one == 'B − A' else as_shown(numbers[one][3, 6])}" for one in MAPS
    )
    assert page.tip() == f"{names[3]} (3) → {names[6]} (6)\n{said}"
    changed = (page.pixels() != plain).any(axis=-1)
    for one in MAPS:
        row, column, neither = (drawn[(one, *place)] for place in ((3, 2), (6, 6), (6, 2)))

        def edges(cell):  # a little of its upper and of its left edge, where the frames of a row and a column run
            x, y = int(cell["x"]), int(cell["y"])
            return changed[y - 1 : y + 2, x + 12].any(), changed[y + 12, x - 1 : x + 2].any()

        assert (edges(row), edges(column), edges(neither)) == ((True, False), (False, True), (False, False))


def test_a_click_holds_a_cell_and_the_address_keeps_it(compared, found, as_shown):
    page = compared(found, "#layer=1&head=0")
    numbers = three(found, 1, 0)
    page.point(*middle(cells(page)["B", 2, 5]), click=True)
    assert (page.hash["token"], page.hash["partner"]) == ("2", "5")
    page.reload()
    change = signed_text(numbers["B − A"][2, 5])
    assert f"A {as_shown(numbers['A'][2, 5])}, B {as_shown(numbers['B'][2, 5])}, B − A {change}" in page.text("said")
    assert {as_shown(numbers["A"][2, 5]), change} <= set(page.texts())  # above the maps
    page.point(*middle(cells(page)["A", 2, 5]), click=True)
    assert "token" not in page.hash and "partner" not in page.hash


def rows(page, table="values"):
    read = "row => [...row.cells].map(cell => cell.textContent)"
    return [
        [without_isolates(text) for text in row]
        for row in page.tab.eval_on_selector_all(f"#{table} tbody tr", f"rows => rows.map({read})")
    ]


@pytest.mark.parametrize("at, kept", [("", (...,)), ("&token=3", (3,)), ("&partner=3", (..., 3))])
def test_the_table_lists_what_differs_most_of_what_is_held(compared, found, at, kept):
    page = compared(found, f"#layer=1&head=1{at}")
    change = np.zeros((9, 9))
    change[kept] = three(found, 1, 1)["B − A"][kept]
    order = np.argsort(-np.abs(change), axis=None, kind="stable")[:8]
    listed = [float(row[-1].replace("−", "-")) for row in rows(page)]
    assert listed == pytest.approx(change.flat[order].tolist(), abs=6e-4)
    names = found.first.tokens.text
    query, key = divmod(int(order[0]), 9)
    assert rows(page)[0][0] == f"{query}\u00a0{names[query]} → {key}\u00a0{names[key]}"
    page.click("#values tbody tr:first-child button")
    assert (page.hash["token"], page.hash["partner"]) == (str(query), str(key))


def test_what_only_one_mask_hides_counts_as_0_there(compared, causal):
    page = compared(causal, "#layer=0&head=1")
    drawn, numbers = cells(page), three(causal, 0, 1)
    for query, key in np.ndindex(7, 7):
        assert ("hidden" in drawn["B", query, key]) == (key > query)
        assert drawn["B − A", query, key]["change"] == pytest.approx(numbers["B − A"][query, key], abs=5e-5)
    page.point(*middle(drawn["B − A", 1, 4]))
    assert page.tip().endswith(f"B hidden · B − A {signed_text(-numbers['A'][1, 4])}")
    assert any("hatched: hidden" in text for text in page.texts())
    assert [text for text in page.texts() if "mask" in text] == ["A · mask none", "B · mask causal"]


def test_tokens_that_are_others_in_b_are_named_beside_a_s(compared, random_maps):
    first, second = record_of(random_maps(1, 1, 5)), record_of(random_maps(1, 1, 5))
    second = replace(second, tokens=tokens(["[CLS]", "dog", "##s", "中", "[SEP]"], range(5)))
    page = compared(difference(first, second))
    texts = page.texts()
    assert texts.count("cat / dog") == 2 and texts.count("cat") == texts.count("dog") == 1  # queries, and B - A's keys


def test_zooming_in_one_moves_all_three_and_what_is_under_the_pointer_stays(compared, random_maps):
    maps = random_maps(1, 1, 40)
    page = compared(difference(record_of(maps), record_of(maps[:, :, ::-1])))
    for name in MAPS:
        page.go("")
        before = cells(page)[name, 5, 20]
        page.point(*middle(before))
        tip = page.tip()
        page.tab.mouse.wheel(0, -600)
        page.settle()
        assert page.tip() == tip
        after = cells(page)
        assert after[name, 5, 20]["width"] > 2 * before["width"]
        assert len({round(after[one, 5, 20]["x"] - after[one, 0, 0]["x"], 3) for one in MAPS}) == 1


@pytest.mark.parametrize("width, height", [(390, 844), (844, 390), (1280, 800), (1600, 900)])
def test_all_three_maps_and_all_controls_have_room(compared, found, width, height):
    page = compared(found, width=width, height=height)
    assert page.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    across, down = page.tab.evaluate(
        "[document.getElementById('chart').clientWidth, document.getElementById('chart').clientHeight]"
    )
    drawn = cells(page).values()
    assert all(cell["x"] >= 0 and cell["x"] + cell["width"] <= across + 1 for cell in drawn)
    assert all(cell["y"] >= 0 and cell["y"] + cell["height"] <= down + 1 for cell in drawn)
    outside = """all => all.filter((one) => { const box = one.getBoundingClientRect();
      return box.left < 0 || box.right > innerWidth || one.scrollWidth > one.clientWidth + 1; }).map((one) => one.id)"""
    assert page.tab.eval_on_selector_all("header button, header select, #differing button", outside) == []


def effect_among(effects):
    """Return a function that writes an effect as its page does: the largest with three digits."""
    decimals = max(3, 2 - int(np.floor(np.log10(np.nanmax(np.abs(effects))))))
    return lambda number: f"{'−' if number < 0 else '+'}{abs(number):.{decimals}f}"


def test_effects_of_heads_stand_side_by_side_with_one_cursor(opened):
    found = an_ablation()
    effect = effect_among(found.mean)
    page = opened([], document=ablation_page(found))
    drawn = cells(page)
    assert {place: cell["change"] for place, cell in drawn.items()} == {
        (found.ways[way], layer, head): pytest.approx(number, rel=1e-5)
        for (way, layer, head), number in np.ndenumerate(found.mean)
    }
    page.point(*middle(drawn["mean", 1, 2]))
    zero, mean = found.mean[:, 1, 2]
    assert page.tip() == f"layer 4, head 5\nzero {effect(zero)} · mean {effect(mean)}"
    ends = [
        text for text in page.texts() if text in (effect(np.abs(found.mean).max()), effect(-np.abs(found.mean).max()))
    ]
    assert len(ends) >= 4  # one scale for both ways
    order = np.argsort(-np.abs(found.mean[0]), axis=None)
    assert [row[1] for row in rows(page, "largest")] == [effect(found.mean[0].flat[place]) for place in order]
    assert page.tab.is_hidden("#differing") and page.tab.is_hidden("#layer") and page.tab.is_hidden("#special")
    assert "cosine with <b>" in page.texts()[0] and page.tab.locator("main b").count() == 0


def test_effects_of_edges_stand_beside_their_weights(opened):
    found = cut_edges()
    page = opened([], "#token=0&partner=1", document=edges_page(found))
    drawn = cells(page)
    for (query, key), number in np.ndenumerate(found.effects):
        cell, weight = drawn["effect", query, key], drawn["mean weight", query, key]
        if np.isnan(number):
            assert cell["hidden"] and weight["hidden"]
        else:
            assert (cell["change"], weight["weight"]) == (pytest.approx(number, rel=1e-5), 0.25)
    assert f"1 cat → 1 cat: effect {effect_among(found.effects)(found.effects[0, 1])}, mean weight 0.250." in page.text(
        "said"
    )
    page.press("ArrowRight", "t", "j")  # the first does nothing here
    assert page.hash == {"special": "no", "token": "1", "partner": "1"}
    assert {place[1:] for place in cells(page)} == {(0, 1), (0, 2), (1, 1), (1, 2)}


def test_of_many_maps_the_largest_number_of_a_cell_says_where_it_is(opened):
    values = np.random.default_rng(0).random((6, 2, 3))
    grid = HeadGrid([Panel(f"kind {number}", one) for number, one in enumerate(values)], range(2), range(3), "score")
    page = opened([], document=page_of(["made up"], [grid]))
    best = sorted(np.ndindex(2, 3), key=lambda cell: -values[:, cell[0], cell[1]].max())
    where = values.argmax(axis=0)
    assert [[without_isolates(cell) for cell in row] for row in rows(page, "largest")] == [
        [f"layer {layer}, head {head}", f"kind {where[layer, head]}", f"{values[:, layer, head].max():.3f}"]
        for layer, head in best
    ]
    assert f"layer {best[0][0]}, head {best[0][1]}: kind 0 " in page.text("said")


@pytest.mark.parametrize("width", [1280, 390])
def test_marked_heads_have_frames_and_names_are_whole(opened, width):
    names = ["previous", "sink elsewhere", "coreference", "punctuation"]
    values = np.random.default_rng(7).random((4, 2, 12))
    marked = {"previous": [(0, 2)], "sink elsewhere": [(1, 0), (1, 11)]}
    panels = [Panel(name, one, marked=marked.get(name, ())) for name, one in zip(names, values, strict=True)]
    grid = HeadGrid(panels, range(2), range(12), "score")
    page = opened([], document=page_of(["made-up"], [grid]), width=width)
    frames = [mark for mark in page.marks("rect") if "marked" in mark]
    assert sorted((mark["marked"], mark["query"], mark["key"]) for mark in frames) == [
        ("previous", 0, 2), ("sink elsewhere", 1, 0), ("sink elsewhere", 1, 11),
    ]  # fmt: skip
    assert set(names) <= set(page.texts())
