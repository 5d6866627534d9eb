"""Check text and commands that a user types: the answers are the model's own, errors lose nothing, undo returns."""

import asyncio
import gc
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from exploring import PATIENCE, TEXT, explore, explored, request_of, session_of
from textual.events import Paste
from textual.widgets._footer import FooterKey

from attncli import load_model
from attncli.analysis.difference import difference
from attncli.analysis.patterns import row_shares
from attncli.live.explorer.app import LONGEST
from attncli.live.explorer.panes import FindingsPane, HeadsPane, MapPane, ScreenState, TokensPane
from attncli.models.opening import Opening
from attncli.record.grouping import merge_words
from attncli.record.selection import Grouping, Input

pytestmark = pytest.mark.slow

SAT = "The cat sat on the mat."
HOSTILE = "a\x1b]0;title\x07b\u202e\tcat [bold]it[/bold] {x} @click=quit"
LONG = "the cat\n" * 10_000


def same(record, other):
    np.testing.assert_array_equal(record.weights, other.weights)
    assert record.tokens == other.tokens


@explored(state=ScreenState("minilm", Input(HOSTILE)))
async def test_what_could_command_the_terminal_is_asked_but_not_drawn(it, minilm):
    same(it.answer.record, minilm.attend(HOSTILE))
    assert it.app.field.render_line(0).text.startswith("a�]0;titleb�")
    await it.pilot.press("i", "end", "s")
    await it.settled()
    same(it.answer.record, minilm.attend(HOSTILE + "s"))


@explored(size=(140, 30))
async def test_every_letter_is_answered_and_the_last_one_stays(it, minilm):
    await it.pilot.press("i", "ctrl+a", "ctrl+k", *"cats")
    await it.settled()
    assert it.app.focused is it.app.field
    same(it.answer.record, minilm.attend("cats"))
    assert "cats" in it.pane(TokensPane)
    await it.press("enter")
    assert it.app.focused is it.app.query_one(FindingsPane)


def test_the_mask_that_is_named_is_the_one_that_was_used(foreign):
    """GPT-2 looks back only until another mask is asked for."""

    async def script(it):
        for keys, mask in (("", "causal"), ("m", "none"), ("m", "padding"), ("m", "causal")):
            await it.press(*keys)
            assert bool(np.triu(it.answer.record.weights, 1).any()) is (mask != "causal")
            assert f"mask {mask}" in it.said

    explore(session_of(gpt2=foreign("gpt2")), script)


@explored(size=(140, 30))
async def test_norms_words_and_a_second_text(it, minilm):
    await it.press("v")
    same(it.answer.record, row_shares(minilm.attend(TEXT, measure="norm")))
    assert "norms" in it.said
    await it.press("v")
    await it.write("Playing unbelievably.")
    assert "##" in it.pane(TokensPane)
    await it.press("w")
    expected = merge_words(minilm.attend("Playing unbelievably."))
    assert it.answer.record.tokens.shown == expected.tokens.shown
    np.testing.assert_allclose(it.answer.record.weights, expected.weights, atol=1e-6)
    assert "##" not in it.pane(TokensPane) and "words" in it.said
    await it.press("w")
    assert len(it.answer.record.tokens) == 3 and "lines" in it.said, "one line between special tokens"
    await it.press("w")
    await it.write("It sat. It slept.")
    same(it.answer.record, minilm.attend("It sat. It slept.", grouping=Grouping(unit="sentence")))
    assert "sentences · 4 units of 8 tokens" in it.said and it.answer.usual_texts == 1
    await it.press("w")
    await it.write(TEXT)
    await it.pilot.press("P")
    await it.answer_line("In a cave.")
    same(it.answer.record, minilm.attend(TEXT, pair="In a cave."))
    await it.pilot.press("P")
    await it.answer_line("")
    same(it.answer.record, minilm.attend(TEXT))


@explored(state=ScreenState("minilm", Input(SAT)), begin=("1", "3"))
async def test_a_silenced_head_is_silent_and_the_most_changed_head_is_shown(it, minilm):
    await it.press("x")
    without = minilm.without("1.3").attend(SAT)
    same(it.answer.record, without)
    expected = difference(minilm.attend(SAT), without)
    np.testing.assert_allclose(it.answer.difference.moved, expected.moved)
    assert "without 1.3" in it.said
    layer, head = next(one for one in expected.heads() if one != (1, 3))
    assert layer > 1, "only later layers change"
    assert (it.state.layer, it.state.head) == (layer, head)
    changes = minilm.without("1.3").attend(SAT).map(layer, head) - minilm.attend(SAT).map(layer, head)
    assert abs(changes[it.state.query, it.state.key]) == abs(changes).max() > 0
    assert f"{layer}.{head} " in it.pane(FindingsPane)
    assert f"{changes[it.state.query, it.state.key]:+.2f}, moved {expected.of(layer, head):.2f}" in it.pane(
        FindingsPane
    )
    assert "×" in it.pane(HeadsPane)
    backs = {str(part.style.bgcolor) for strip in it.app.query_one(MapPane).strips for part in strip if part.style}
    assert len(backs) > 4, "the map shows changes"
    await it.press("n")
    assert (it.state.layer, it.state.head) in expected.heads()
    await it.press("u")
    same(it.answer.record, minilm.attend(SAT))
    it.app.hold(layer=1, head=3)
    await it.press("x", "x")
    assert it.state.without == () and (it.state.layer, it.state.head) == (1, 3), "again: the head is restored"
    assert it.answer.difference is None
    same(it.answer.record, minilm.attend(SAT))
    await it.press("x", "n", "x")
    assert len(it.state.without) == 2, "another head was chosen, so that one is silenced too"


@explored(pad_to=18)
async def test_escape_stops_long_work_and_returns_to_the_last_answer(it, session, monkeypatch):
    whole, free = type(session).compute_records, threading.Event()

    def compute_records(self, request, watch):
        watch(0.25)
        free.wait(PATIENCE)
        return whole(self, request, watch)

    first = it.answer
    monkeypatch.setattr(type(session), "compute_records", compute_records)
    await it.pilot.press("m")

    async def is_told():
        return "25%" in it.said and "Esc stops it" in it.said

    await it.until(is_told)
    await it.pilot.press("escape")
    assert "stopped running minilm" in it.said
    assert request_of(it.state) == request_of(first.state)
    free.set()
    await it.settled()
    assert it.answer is first, "an answer that comes too late is not shown"
    monkeypatch.setattr(type(session), "compute_records", whole)
    await it.press("m")
    assert it.answer.record.mask_name == "causal"


def test_the_first_screen_imports_nothing_that_it_does_not_draw():
    code = "import sys, attncli.live.explorer.app; print(*(name for name in sys.argv[1:] if name in sys.modules))"
    unused = ["torch", "tokenizers", "transformers", "matplotlib", "scipy", "attncli.page", "attncli.models.engine"]
    done = subprocess.run([sys.executable, "-c", code, *unused], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@explored(state=ScreenState("minilm", Input(SAT)), begin=("5", "2"))
async def test_what_can_not_be_or_fails_late_is_said_and_loses_nothing(it, minilm):
    await it.press("x")
    assert "without 5.2 nothing changes" in it.said
    assert it.state.without == ()
    same(it.answer.record, minilm.attend(SAT))
    await it.write("")
    assert "empty" in it.said
    same(it.answer.record, minilm.attend(SAT))
    await it.write("The dog sat on the mat.")
    same(it.answer.record, minilm.attend("The dog sat on the mat."))
    it.app.fail("too late", replace(it.state, text=Input(SAT), without=((5, 2),)))
    await it.pilot.pause()
    assert it.said == "too late"
    assert it.state.text.text == "The dog sat on the mat."
    await it.press("m")
    same(it.answer.record, minilm.attend("The dog sat on the mat.", mask="causal"))


@explored()
async def test_nothing_is_asked_at_the_end(it):
    it.app.worker.close()
    it.app.ask()
    it.app.ask_usual()
    await it.pilot.press("m")
    await it.pilot.pause()


@explored(state=ScreenState("minilm", Input(SAT)))
async def test_a_text_that_is_too_long_is_cut_and_that_is_told(it, minilm):
    it.app.action_type()
    await it.pilot.pause()
    it.app.field.value = "word " * 600
    await it.settled()
    assert len(it.answer.record.tokens) == 512
    assert "kept the first 512 of 602 tokens" in it.said
    await it.press("enter")
    await it.write("The dog sat.")
    same(it.answer.record, minilm.attend("The dog sat."))
    assert "kept" not in it.said


@pytest.mark.parametrize(
    ("text", "reader"), [("the cat sat\x1b[31m ", "minilm"), ("\u202e\u2067", "the field"), ("the cat ", "minilm")]
)
@explored(size=(200, 30))
async def test_a_paste_is_cut_to_what_the_model_reads(it, minilm, text, reader):
    """The rest would be drawn again with each key."""
    text = (text * 100_000)[:100_000].rstrip()
    await it.press("i", "ctrl+a", "ctrl+k", "a")
    it.app.field.post_message(Paste(text))
    await it.pilot.pause()
    await it.settled()
    kept = it.app.field.value.removeprefix("a")
    assert text.startswith(kept) and len(kept) <= LONGEST
    assert f"the first {len(kept):,} of {len(text):,} characters: {reader} takes no more" in it.said
    if reader == "minilm":
        assert minilm.attend(kept).tokens.ids == minilm.attend(text).tokens.ids
    await it.press("b")
    assert "takes no more" not in it.said


@explored(state=ScreenState("minilm", Input(LONG)), size=(200, 30))
async def test_a_text_of_the_command_line_is_cut_too(it, minilm):
    kept = it.app.field.value
    assert LONG.startswith(kept) and len(kept) < LONGEST
    assert it.state.text.text == it.answer.state.text.text == kept
    assert f"the first {len(kept):,} of {len(LONG):,} characters: minilm takes no more" in it.said
    assert minilm.attend(kept).tokens.ids == minilm.attend(LONG).tokens.ids


@explored()
async def test_the_panes_are_arranged_for_the_new_size(it):
    for height, shown in ((60, ["findings", "heads", "map", "tokens"]), (20, ["findings", "heads", "map"])):
        await it.pilot.resize_terminal(100, height)
        await it.pilot.pause()
        assert [name for name, pane in it.app.panes.items() if pane.display] == shown


@explored()
async def test_a_short_paste_is_whole(it):
    await it.press("i", "ctrl+a", "ctrl+k")
    it.app.field.post_message(Paste(f"{SAT}\nnext line"))
    await it.pilot.pause()
    await it.settled()
    assert it.app.field.value == SAT and "pasted" not in it.said


@explored()
async def test_keys_of_the_footer_that_are_gone_are_forgotten(it):
    await it.press(*["tab", "i", "escape"] * 8)
    gc.collect()
    there = len(it.app.screen.query(FooterKey))
    assert sum(isinstance(one, FooterKey) for one in gc.get_objects()) <= 2 * there


@explored(state=ScreenState("minilm", Input(SAT)))
async def test_the_sentence_before_is_compared_with(it, minilm):
    await it.press("=")
    assert "no previous sentence" in it.said
    await it.write("The dog sat on the mat.")
    await it.press("=")
    expected = difference(minilm.attend(SAT), minilm.attend("The dog sat on the mat."))
    np.testing.assert_allclose(it.answer.difference.moved, expected.moved)
    assert "moved" in it.pane(MapPane)
    await it.press("j", "l")
    assert "before " in it.pane_of_cell()
    await it.press("=")
    assert it.answer.difference is None
    await it.write("A dog.")
    await it.press("=")
    assert "one has 9 tokens and the other 5" in it.said
    assert it.answer.difference is None
    assert it.state.against == ""


@explored(state=ScreenState("minilm", Input(SAT)))
async def test_undo_goes_back_step_by_step(it):
    looks = [it.state]
    for keys in (("m",), ("w",), ("v",)):
        await it.press(*keys)
        looks.append(it.state)
    await it.write("A dog.")
    for expected in reversed(looks):
        await it.press("u")
        assert request_of(it.state) == request_of(expected)
        assert it.app.field.value == expected.text.text
    await it.press("u")
    assert "nothing to undo" in it.said


def test_models_change_with_their_layers_and_heads(tiny):
    small = load_model(str(tiny("bert")), device="cpu")
    other = load_model(str(tiny("distilbert")), device="cpu")

    async def script(it):
        await it.press("up", "left", "M")
        same(it.answer.record, other.attend(SAT))
        assert it.state.layer < other.info.layers
        assert "b · mask" in it.said
        await it.press("M")
        same(it.answer.record, small.attend(SAT))

    explore(session_of(a=small, b=other), script, state=ScreenState("a", Input(SAT)))


def test_what_a_model_brings_is_not_looked_through_for_garbage_again_and_again(minilm, monkeypatch):
    session, settled = session_of(minilm=minilm), []
    opened = session.engines.pop(("minilm", ""))
    monkeypatch.setattr(Opening, "open_for_answers", lambda self: opened)
    monkeypatch.setattr(gc, "freeze", lambda: settled.append("frozen"))

    async def script(it):
        async def is_settled():
            return settled

        await it.until(is_settled)
        await it.press("m")
        await it.pilot.pause(0.6)
        assert settled == ["frozen"], "once a model"

    explore(session, script)


@explored()
async def test_typing_goes_on_while_a_long_text_runs(it, session, monkeypatch):
    """The loop of the screen is never held up by a model: letters are there before the model goes on."""
    whole, begun, free, events = type(session).compute_records, threading.Event(), threading.Event(), []

    def compute_records(self, *arguments):
        begun.set()
        events.append("goes on" if free.wait(PATIENCE) else "held up")  # what holds the screen up never sets it
        return whole(self, *arguments)

    monkeypatch.setattr(type(session), "compute_records", compute_records)
    await it.pilot.press("i", "end", "x")
    await asyncio.to_thread(begun.wait, PATIENCE)
    await it.pilot.press("y", "z")
    events.append(it.app.field.value[-3:])
    free.set()
    await it.settled()
    assert events[:2] == ["xyz", "goes on"]
    assert it.answer.state.text.text.endswith("xyz")


@explored()
async def test_another_theme_is_that_of_every_pane_at_once(it):
    pane, drawn = it.app.query_one(HeadsPane), []
    redraw = pane.redraw
    pane.redraw = lambda: (drawn.append(it.app.theme), redraw())
    before = it.app.theme
    await it.press("d")
    await it.pilot.pause()
    assert it.app.theme != before
    assert it.app.theme in drawn
