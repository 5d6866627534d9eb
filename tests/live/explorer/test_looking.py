"""Check the selection of heads, tokens and cells, by key and by mouse: the panes show it and nothing else."""

import re

import pytest
from exploring import TEXT, explore, explored, session_of
from hypothesis import example, given
from hypothesis import strategies as st
from rich.style import Style
from textual.widgets._footer import FooterKey

from attncli import load_model
from attncli.analysis.edges import edges, telling_head, with_usual
from attncli.live.explorer.app import Explorer, KeysLine
from attncli.live.explorer.panes import HEAD, CellPane, FindingsPane, HeadsPane, MapPane, Pane, ScreenState, TokensPane
from attncli.page.payload import findings_entry
from attncli.record.selection import Input, Request, numbered_names
from attncli.report.heads import MARK, keys_within, strongest_keys
from attncli.report.terminal import colour

pytestmark = pytest.mark.slow

HEADS = 12


@explored()
async def test_it_opens_on_the_head_that_run_names(it, session, minilm):
    from attncli.corpus.usual import usual_of

    async def knows_the_usual():
        return it.answer.usual_texts > 1

    await it.until(knows_the_usual)  # after the first maps
    found = edges(it.answer.record, session.baseline(it.answer.record, usual_of(minilm, Request())))
    assert (it.state.layer, it.state.head) == it.answer.first == telling_head(it.answer.record, found)
    assert (it.state.query, it.state.key) == (found[0][0].query, found[0][0].key)


def test_it_counts_the_heads_that_run_and_the_page_count(session, attncli, minilm):
    """Heads with a clear pattern are listed too, and counted apart."""
    counted = re.search(r"(\d+) of 72 heads have word-to-word edges", attncli("run", TEXT).out)[1]
    over = session.usual(ScreenState("minilm", Input(TEXT)).session_request())
    assert findings_entry(with_usual(minilm.attend(TEXT), over))["count"] == int(counted) > 0

    async def script(it):
        async def knows_the_usual():
            return it.answer.usual_texts > 1

        await it.until(knows_the_usual)
        await it.press("tab", "tab", "tab", "tab")
        assert it.app.query_one(FindingsPane).border_title.startswith(f"findings: {counted} of 72 heads")
        assert len(it.answer.findings) > int(counted)

    explore(session, script)


@explored()
async def test_arrows_go_around_heads_and_layers(it):
    await it.press("tab")
    layer, head = it.state.layer, it.state.head
    for step, key in ((1, "right"), (-1, "left")):
        await it.press(*[key] * HEADS)
        assert (it.state.layer, it.state.head) == (layer, head)
        await it.press(key)
        assert it.state.head == (head + step) % HEADS
        head = it.state.head
    await it.press("down", "down")
    assert it.state.layer == (layer + 2) % 6
    assert f"head {it.state.layer}.{it.state.head}: " in it.pane(MapPane)


@explored(size=(150, 40))
async def test_the_tokens_are_named_with_their_strongest_keys(it):
    await it.press("tab")
    for _ in range(3):
        await it.press("down", "right")
        record, shown = it.answer.record, it.pane(TokensPane)
        for place, row in enumerate(record.map(it.state.layer, it.state.head)):
            assert f"{place:>3} {record.tokens.shown[place]}" in shown
            assert keys_within(strongest_keys(numbered_names(record.keys), row, 2)[:1]) in shown


def test_the_first_token_of_a_decoder_is_named_as_a_sink(foreign):
    async def script(it):
        assert '(The first token, "the", is a sink' in " ".join(it.pane(FindingsPane).split())

    state = ScreenState("gpt2", Input("the cat sat"))
    explore(session_of(gpt2=foreign("gpt2")), script, state=state, size=(150, 40))


@explored()
async def test_a_cell_that_is_held_has_its_numbers(it):
    await it.press("escape", "j", "j", "j", "l", "l")
    assert (it.state.query, it.state.key) == (2, 1)
    record = it.answer.record
    row = record.map(it.state.layer, it.state.head)[2]
    said = it.pane(CellPane)
    assert f"2 trophy → 1 the: weight {row[1]:.4f}" in said
    assert f"rank {int((row > row[1]).sum()) + 1} of 16 keys" in said
    await it.press("o")
    assert (it.state.query, it.state.key) == (1, 2)
    await it.press("h")
    assert it.state.key == 1
    await it.press("escape")
    assert (it.state.query, it.state.key) == (None, None)
    assert "entropy" in it.pane(CellPane)


@explored(size=(120, 40))
async def test_findings_are_those_of_the_record_and_come_one_after_the_other(it):
    findings = it.answer.findings
    names = numbered_names(it.answer.record.tokens)
    for place in (*range(1, len(findings)), 0):
        await it.press("n")
        one = findings[place]
        assert (it.state.layer, it.state.head, it.state.query, it.state.key) == (
            one.layer, one.head, one.query, one.key
        )  # fmt: skip
        if one.query is None:
            continue
        edge = next(
            of_head[0] for of_head in it.answer.telling if of_head[0].head == one.head and of_head[0].layer == one.layer
        )
        weight = it.answer.record.map(one.layer, one.head)[one.query, one.key]
        figures = f"{weight:.2f}, usual {edge.usual:.2f}"
        assert f"{one.layer}.{one.head} {names[one.query]} → {names[one.key]} {figures}" in it.pane(FindingsPane)
        assert f"weight {weight:.4f}" in it.pane(CellPane)
        assert marked_lines(it.app.query_one(MapPane))[1:] == [
            f"{one.query:>3} {it.answer.record.tokens.shown[one.query]}"
        ]
    await it.press("p")
    assert it.state.finding(findings) == len(findings) - 1
    await it.press("down")
    assert it.state.finding(findings) == 0, "arrows do the same where findings have the frame"
    await it.pilot.resize_terminal(140, 30)
    await it.press("tab")
    assert "[CLS]" in it.pane(MapPane)
    await it.press("t")
    assert "[CLS]" not in it.pane(MapPane) + it.pane(TokensPane)
    await it.press("j")
    assert it.state.query == 1


@explored(size=(140, 30))
async def test_the_mouse_holds_heads_and_cells(it):
    record = it.answer.record
    lines = it.pane(HeadsPane).splitlines()
    row = next(place for place, line in enumerate(lines) if line.startswith("layer 3"))  # the title is a line
    await it.pilot.click(HeadsPane, offset=(1 + len("layer 3 ") + 2 * 3 + 1, row))
    assert it.state.layer == 3
    assert it.state.head in (2, 3)
    window = it.app.query_one(MapPane).window
    await it.pilot.click(MapPane, offset=(1 + window.left + 5 * window.wide, 1 + window.above + 7))
    assert (it.state.query, it.state.key) == (7, 5)
    await it.pilot.click("#tokens", offset=(3, 2))
    assert it.state.query is not None
    assert it.state.key is None
    await it.pilot.click(MapPane, offset=(2, 0))
    assert it.state.layer == 3, "a title is nothing"
    assert len(record.tokens) == 16
    await it.pilot.click(FindingsPane, offset=(4, 3))
    finding = it.answer.findings[it.app.query_one(FindingsPane).above + 2]
    assert (it.state.layer, it.state.head, it.state.query) == (finding.layer, finding.head, finding.query)
    assert it.app.focused is it.app.query_one(FindingsPane)


@explored(size=(200, 60))
async def test_a_large_screen_has_large_cells(it):
    window = it.app.query_one(MapPane).window
    assert window.wide > 4 and window.high > 1
    last = 1 + window.above + 7 * window.high + window.high - 1
    await it.pilot.click(MapPane, offset=(1 + window.left + 5 * window.wide + window.wide - 1, last))
    assert (it.state.query, it.state.key) == (7, 5)
    numbers, *rows = it.pane(MapPane).splitlines()[1:-1]
    assert numbers.split() == [str(key) for key in range(16)]
    assert [row.split()[0] for row in rows if row.strip()] == [str(query) for query in range(16)]


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (100, 30), (200, 60)])
@explored()
async def test_the_footer_has_whole_keys_and_narrow_columns_have_every_fifth_number(it, size):
    await it.press("3", "j", "l")
    footer = it.app.query_one(KeysLine)
    keys = [key for key in footer.query(FooterKey) if key.region.area]
    assert keys and all(key.region.right <= size[0] for key in keys)
    assert {"keys", "quit"} < {key.description for key in keys}
    window, numbers = it.app.query_one(MapPane).window, it.pane(MapPane).splitlines()[1]
    for key in window.keys:
        end = window.left + (key - window.keys[0] + 1) * window.wide
        if window.wide == 2 and (key % 5 == 0 or key == it.state.key):
            assert numbers[:end].endswith(str(key))


@pytest.mark.parametrize(
    ("said", "theme"),
    [("0;15", "textual-light"), ("15;0", "textual-dark"), ("15;default;0", "textual-dark"), ("", "textual-dark")],
)
def test_it_begins_in_the_theme_of_the_terminal(session, monkeypatch, said, theme):
    monkeypatch.setenv("COLORFGBG", said)
    assert Explorer(session, ScreenState("minilm", Input(TEXT))).theme == theme


ALL = "FindingsPane, HeadsPane, MapPane, TokensPane"


def seen(it):
    return [one for one in it.app.query(ALL) if one.display and one.region.area]


@explored()
async def test_every_pane_can_stand_alone(it):
    for key, kind in (("1", FindingsPane), ("2", HeadsPane), ("3", MapPane), ("4", TokensPane)):
        await it.press(key)
        assert [type(one) for one in seen(it)] == [kind]
        assert it.app.focused is seen(it)[0]
        assert seen(it)[0].region.width >= 96
    await it.press("0")
    assert all(it.pane(kind) for kind in (FindingsPane, HeadsPane, TokensPane))


BESIDE = {(140, 40): 3, (80, 24): 2, (60, 20): 1, (44, 12): 0}  # panes beside the one with the focus, by size


@pytest.mark.parametrize("size", BESIDE)
@explored()
async def test_tab_goes_through_all_panes_and_shows_those_that_have_room(it, size):
    await it.press("enter")
    assert type(it.app.focused) is MapPane
    await it.press("tab", "tab")
    kinds = []
    for _ in range(5):
        assert it.app.focused in seen(it)
        assert len(seen(it)) == BESIDE[size] + 1
        kinds.append(type(it.app.focused))
        await it.press("tab")
    assert kinds == [FindingsPane, HeadsPane, MapPane, TokensPane, FindingsPane]


def marked_lines(pane):
    """The labels that are marked as selected."""
    strips = [pane.render_line(y) for y in range(pane.size.height)]
    marked = [
        "".join(part.text for part in strip if part.style and part.style.bgcolor == ORANGE).strip("\n")
        for strip in strips
    ]
    return [one.rstrip() for one in marked if one.strip()]


ORANGE = Style.parse("on rgb(255,166,43)").bgcolor


@pytest.mark.parametrize(
    ("size", "theme"), [((60, 20), "textual-dark"), ((100, 30), "textual-light"), ((160, 50), "textual-dark")]
)
@explored()
async def test_a_selection_reverses_nothing_and_is_on_the_screen(it, size, theme):
    it.app.theme = theme
    await it.press("3")
    pane = it.app.query_one(MapPane)
    for key in ("j", "l", "j", "n"):
        await it.press(key)
        record, window = it.answer.record, pane.window
        weights = record.map(it.state.layer, it.state.head)
        assert it.state.query in window.queries
        lines = [query for query in window.queries for _ in range(window.high)]
        for line, query in enumerate(lines, window.above):
            at = window.left
            strip = pane.render_line(line)
            for key_ in window.keys:
                [part] = strip.crop(at, at + window.wide)
                at += window.wide
                assert not part.style.reverse
                expected = colour(weights[query, key_], light=theme == "textual-light")
                assert part.style.bgcolor == Style.parse(f"on {expected}").bgcolor
    assert all(not part.style.reverse for one in it.app.query(Pane) for strip in one.strips for part in strip)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (100, 30), (160, 50), (44, 12)])
@explored()
async def test_grids_of_changes_fit_their_pane(it, size):
    await it.press("x", "2")
    grid = it.app.query_one(HeadsPane)
    names = [f"layer {layer} " for layer in it.answer.record.layers] if size[1] > 12 else ["0 ", "5 "]
    assert all(any(name in line.plain for line in grid.lines) for name in names)
    for number in (2, 3):
        await it.press(str(number))
        [pane] = seen(it)
        assert max(line.cell_len for line in pane.lines) <= pane.size.width
        assert len(pane.lines) <= pane.size.height


@pytest.mark.parametrize("size", [(80, 24), (44, 20)])
def test_a_grid_that_is_higher_than_its_pane_shows_the_selected_head_and_marks_findings(tiny, size):
    big = load_model(str(tiny("bert", num_hidden_layers=24, num_attention_heads=16, hidden_size=64)), device="cpu")

    async def script(it):
        await it.press("2")
        pane = it.app.query_one(HeadsPane)
        for keys in ([], ["down"] * 11, ["left"] * 2, ["up"] * 13):
            await it.press(*keys)
            parts = [part for strip in pane.strips for part in strip if HEAD in part.style.meta]
            shown = {part.style.meta[HEAD] for part in parts}
            assert (it.state.layer, it.state.head) in shown
            listed = {(one.layer, one.head) for one in it.answer.findings}
            assert {part.style.meta[HEAD] for part in parts if MARK in part.text} == listed & shown
            assert len(pane.lines) <= pane.size.height

    explore(session_of(big=big), script, size=size)


KEYS = [*"jkhlnposwmv=ud12340", "left", "right", "up", "down", "tab", "escape"]


@given(st.lists(st.one_of(st.sampled_from(KEYS), st.tuples(st.integers(44, 200), st.integers(20, 60))), max_size=25))
@example([(132, 20), (44, 60)])  # where panes are hidden
def test_no_keys_and_no_sizes_end_it(session, doings):
    async def script(it):
        for one in doings:
            await (it.pilot.resize_terminal(*one) if isinstance(one, tuple) else it.pilot.press(one))
        await it.settled()
        record = it.answer.record
        assert it.state.layer in record.layers
        assert it.state.head in record.heads
        for pane in it.app.query(Pane):
            assert all(pane.render_line(y).cell_length == pane.size.width for y in range(pane.size.height))

    explore(session, script, state=ScreenState("minilm", Input("The cat sat.")), size=(80, 24))


@pytest.mark.parametrize("begin", [("3", "1"), (None, "3.1"), ("-1", None), (None, "2"), ("9", None)])
@explored()
async def test_it_begins_where_it_is_told_to(it, begin):
    layer, head = it.state.layer, it.state.head
    match begin:
        case ("3", "1") | (None, "3.1"):
            assert (layer, head) == (3, 1)
        case "-1", None:
            assert (layer, head) == (5, 0)
        case None, "2":
            assert head == 2
        case _:
            assert "layer 9 is out of range: layers are 0 to 5" in it.said
