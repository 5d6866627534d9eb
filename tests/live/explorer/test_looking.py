"""What is held: heads, tokens, cells, by key and by mouse; the panes show that and nothing else."""

import numpy as np
import pytest
from exploring import TEXT, explore, session_of
from hypothesis import given
from hypothesis import strategies as st

from attncli.analysis.edges import telling_head
from attncli.live.explorer.panes import CellPane, HeadsPane, MapPane, Pane, ScreenState, TokensPane
from attncli.record.selection import Input, Request, numbered_names
from attncli.report.heads import keys_within, strongest_keys

HEADS = 12


def test_it_opens_on_the_head_that_run_names(session, minilm):
    async def script(it):
        from attncli.corpus.usual import usual_of

        async def knows_the_usual():
            return "in → fit" in it.pane(HeadsPane)

        await it.until(knows_the_usual)  # what is usual is found out when nobody wants anything
        found = session.notable_edges(it.answer.record, usual_of(minilm, Request()))
        assert it.answer.first == telling_head(it.answer.record, found)

    explore(session, script)


def test_its_record_is_the_models(session, minilm):
    async def script(it):
        assert np.array_equal(it.answer.record.weights, minilm.attend(TEXT).weights)

    explore(session, script)


def test_arrows_go_around_heads_and_layers(session):
    async def script(it):
        layer, head = it.look.layer, it.look.head
        for step, key in ((1, "right"), (-1, "left")):
            await it.press(*[key] * HEADS)
            assert (it.look.layer, it.look.head) == (layer, head)
            await it.press(key)
            assert it.look.head == (head + step) % HEADS
            head = it.look.head
        await it.press("down", "down")
        assert it.look.layer == (layer + 2) % 6
        assert f"layer {it.look.layer} head {it.look.head} " in it.pane(MapPane)

    explore(session, script)


def test_the_tokens_are_named_with_their_strongest_keys(session):
    async def script(it):
        for _ in range(3):
            await it.press("down", "right")
            record, shown = it.answer.record, it.pane(TokensPane)
            for place, row in enumerate(record.map(it.look.layer, it.look.head)):
                assert f"{place:>3} {record.tokens.shown[place]}" in shown
                assert keys_within(strongest_keys(numbered_names(record.keys), row, 2)[:1]) in shown

    explore(session, script, size=(150, 40))


def test_the_first_token_of_a_decoder_is_named_as_a_sink(foreign):
    async def script(it):
        assert '(The first token, "the", is a sink' in " ".join(it.pane(HeadsPane).split())

    look = ScreenState("gpt2", Input("the cat sat"))
    explore(session_of(gpt2=foreign("gpt2")), script, look=look, size=(150, 40))


def test_a_cell_that_is_held_has_its_numbers(session):
    async def script(it):
        await it.press("j", "j", "j", "l", "l")
        assert (it.look.query, it.look.key) == (2, 1)
        record = it.answer.record
        row = record.map(it.look.layer, it.look.head)[2]
        said = it.pane(CellPane)
        assert f"2 trophy → 1 the: weight {row[1]:.4f}" in said
        assert f"number {int((row > row[1]).sum()) + 1} of 16 keys" in said
        await it.press("o")
        assert (it.look.query, it.look.key) == (1, 2)
        await it.press("h")
        assert it.look.key == 1
        await it.press("escape")
        assert (it.look.query, it.look.key) == (None, None)
        assert "entropy" in it.pane(CellPane)

    explore(session, script)


def test_telling_heads_come_one_after_the_other_with_their_edges(session):
    async def script(it):
        order = it.answer.order
        assert len(order) > 3
        await it.press("n")
        start = order.index((it.look.layer, it.look.head))
        edge = it.answer.telling[start][0]
        assert (it.look.query, it.look.key) == (edge.query, edge.key)
        assert f"usual {edge.usual:.2f}" in it.pane(CellPane)
        await it.press("n", "n", "p")
        assert (it.look.layer, it.look.head) == order[(start + 1) % len(order)]

    explore(session, script)


def test_special_tokens_are_left_out(session):
    async def script(it):
        assert "[CLS]" in it.pane(MapPane)
        await it.press("s")
        assert "[CLS]" not in it.pane(MapPane) + it.pane(TokensPane)
        await it.press("j")
        assert it.look.query == 1

    explore(session, script)


def test_the_mouse_holds_heads_and_cells(session):
    async def script(it):
        record = it.answer.record
        lines = it.pane(HeadsPane).splitlines()
        row = next(place for place, line in enumerate(lines) if line.startswith("layer 3"))
        await it.pilot.click(HeadsPane, offset=(len("layer 3 ") + 2 * 3 + 1, row))
        assert it.look.layer == 3
        assert it.look.head in (2, 3)
        window = it.app.query_one(MapPane).window
        await it.pilot.click(MapPane, offset=(window.left + 5 * window.wide, 1 + window.above + 7))
        assert (it.look.query, it.look.key) == (7, 5)
        await it.pilot.click("#tokens-below", offset=(3, 2))
        assert it.look.query is not None
        assert it.look.key is None
        await it.pilot.click(MapPane, offset=(2, 0))
        assert it.look.layer == 3, "a title is nothing"
        assert len(record.tokens) == 16

    explore(session, script)


def test_every_pane_can_stand_alone(session):
    async def script(it):
        for key, kind in (("1", HeadsPane), ("2", MapPane), ("3", TokensPane)):
            await it.press(key)
            seen = [one for one in it.app.query("HeadsPane, MapPane, TokensPane") if one.display and one.region.area]
            assert [type(one) for one in seen] == [kind]
            assert seen[0].region.width >= 96
        await it.press("0")
        assert all(it.pane(kind) for kind in (HeadsPane, MapPane, TokensPane))

    explore(session, script)


def test_a_narrow_screen_has_one_pane_at_a_time(session):
    async def script(it):
        kinds = []
        for _ in range(3):
            [seen] = [one for one in it.app.query("HeadsPane, MapPane, TokensPane") if one.region.area]
            kinds.append(type(seen))
            await it.press("tab")
        assert kinds == [HeadsPane, MapPane, TokensPane]

    explore(session, script, size=(44, 20))


KEYS = [*"jkhlnposwmv=ud1230", "left", "right", "up", "down", "tab", "escape"]


@given(st.lists(st.one_of(st.sampled_from(KEYS), st.tuples(st.integers(44, 200), st.integers(20, 60))), max_size=25))
def test_no_keys_and_no_sizes_end_it(session, doings):
    async def script(it):
        for one in doings:
            await (it.pilot.resize_terminal(*one) if isinstance(one, tuple) else it.pilot.press(one))
        await it.settled()
        record = it.answer.record
        assert it.look.layer in record.layers
        assert it.look.head in record.heads
        for pane in it.app.query(Pane):
            assert all(pane.render_line(y).cell_length == pane.size.width for y in range(pane.size.height))

    explore(session, script, look=ScreenState("minilm", Input("The cat sat.")), size=(80, 24))


@pytest.mark.parametrize("begin", [("3", "1"), ("-1", None), (None, "2"), ("9", None)])
def test_it_begins_where_it_is_told_to(session, begin):
    async def script(it):
        layer, head = it.look.layer, it.look.head
        match begin:
            case "3", "1":
                assert (layer, head) == (3, 1)
            case "-1", None:
                assert (layer, head) == (5, 0)
            case None, "2":
                assert head == 2
            case _:
                assert "layer 9 is out of range: layers are 0 to 5" in it.said

    explore(session, script, begin=begin)
