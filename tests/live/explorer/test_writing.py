"""Check a text that the model writes on: what is shown are the numbers of its record, and of `generate`."""

import json
import shlex
import threading

import numpy as np
import pytest
import shell
from checkpoints import edit_config, make_checkpoint
from exploring import PATIENCE, explore, explored, session_of
from foreign_checkpoints import make_foreign
from textual.widgets._footer import FooterKey

import attncli
from attncli import load_model, load_record
from attncli.analysis.edges import written_tokens
from attncli.base.printable import printable
from attncli.effects.answer import AnsweredPrompt
from attncli.live.explorer.app import SourcesDialog
from attncli.live.explorer.panes import FindingsPane, ScreenState, WrittenPane
from attncli.live.explorer.writing import percent
from attncli.live.session import Watch
from attncli.models.generation import Sampling, prompt_tokens, write
from attncli.record.selection import Input

pytestmark = pytest.mark.slow

TEXT = "the cat sat on"
NEW = 6  # tokens that a key writes here


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The directory of a small random Llama that no token ends."""
    directory = make_checkpoint(tmp_path_factory.mktemp("made") / "llama", "llama", "ForCausalLM", num_hidden_layers=3)
    edit_config(directory, eos_token_id=None)
    (directory / "generation_config.json").unlink(missing_ok=True)
    return directory


@pytest.fixture(scope="module")
def decoder(path):
    return load_model(str(path), "cpu")


@pytest.fixture
def session(path, decoder, monkeypatch):
    monkeypatch.setattr("attncli.live.explorer.app.WRITES", NEW)
    return session_of(**{str(path): decoder})


def look_of(session, text=TEXT):
    return ScreenState(session.models[0], Input(text))


def steps_of(model, count, written=()):
    """The steps that the model takes after the text and what was written before."""
    return list(write(model, prompt_tokens(model, TEXT), Sampling(count), written=written))


def ids_of(steps):
    return tuple(step.token for step in steps)


@pytest.mark.parametrize("writes", [True, False])
def test_writing_is_offered_for_what_writes(session, minilm, writes):
    """The key of an encoder says why it does nothing, but is not offered."""
    session = session if writes else session_of(minilm=minilm)

    async def script(it):
        await it.pilot.pause()
        offered = {key.action for key in it.app.screen.query(FooterKey)}
        assert ("write" in offered) == writes
        assert {"silence", "undo"} <= offered
        if not writes:
            await it.press("g")
            assert "minilm writes no text" in it.said

    explore(session, script, state=look_of(session), size=(200, 40))


@explored(state=lambda session: look_of(session), size=(120, 40))
async def test_it_writes_what_generate_writes_and_each_row_has_its_numbers(it, path, decoder):
    document = attncli.generate(str(path), TEXT, max_tokens=NEW, device="cpu").document()
    await it.press("g")
    record = it.answer.record
    start, text = record.written, decoder.tokenizer.decode(it.state.written)
    assert text == document["text"] and len(record.tokens) == start + NEW
    assert it.pane(WrittenPane) == f"written: {printable(''.join(record.tokens.shown[start:]))}"
    for number, token in enumerate(document["tokens"]):
        assert it.state.query == token["index"] - 1 == start - 1 + number
        [chances] = [line for line in it.pane_of_cell().splitlines() if line.startswith("next:")]
        for one in token["likely"]:
            assert percent(one["probability"]) in chances
        if token["edges"]:
            first = token["edges"][0]
            assert (it.state.layer, it.state.head, it.state.key) == (first["layer"], first["head"], first["key"])
        weight = record.map(it.state.layer, it.state.head)[it.state.query]
        np.testing.assert_allclose(weight.sum(), 1, atol=1e-5)
        assert percent(token["probability"]) in it.pane(FindingsPane)
        await it.pilot.press("n")
    assert it.state.query == start - 1, "after the last token comes the first"
    await it.pilot.press("p")
    assert it.state.query == start - 2 + NEW


@explored(state=lambda session: look_of(session))
async def test_writing_on_twice_is_writing_once(it, decoder):
    await it.press("g", "g")
    assert it.state.written == ids_of(steps_of(decoder, 2 * NEW))
    assert it.state.query == it.answer.record.written - 1 + NEW, "the first new token is selected"
    assert not it.answer.earlier
    await it.press("u")
    assert it.state.written == ids_of(steps_of(decoder, NEW))
    await it.press("u")
    assert it.state.written == () and it.answer.record.written is None
    assert not it.app.screen.query_one(WrittenPane).display


@explored(state=lambda session: look_of(session), size=(120, 40))
async def test_a_head_is_silenced_and_it_writes_on_from_the_selected_token(it, decoder):
    plain = steps_of(decoder, NEW)
    await it.press("g", "n", "n")
    before_text = it.pane(WrittenPane)
    start = it.answer.record.written
    head = it.state.layer, it.state.head
    without = decoder.without([head])
    await it.press("x")
    assert it.state.query == start + 1 and it.state.written == ids_of(plain), "the text stays, and so does the row"
    before, now = (written_tokens(one, [])[2].likely for one in (it.answer.difference.first, it.answer.record))
    expected = steps_of(without, 1, ids_of(plain)[:2])[0]
    np.testing.assert_allclose(list(now.values()), [chance for _, chance in expected.likely], atol=1e-5)
    np.testing.assert_allclose(list(before.values()), [chance for _, chance in plain[2].likely], atol=1e-5)
    lines = it.pane_of_cell().splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["next", "before"]
    changes = np.abs(it.answer.difference.second.weights - it.answer.difference.first.weights)[:, :, start + 1]
    changes[head] = 0
    assert changes[it.state.layer, it.state.head, it.state.key] == changes.max()
    await it.press("G")
    assert it.state.written == ids_of(plain)[:2] + ids_of(steps_of(without, NEW, ids_of(plain)[:2]))
    shown = it.pane(WrittenPane).splitlines()
    assert [line.split(":")[0] for line in shown] == ["earlier", "written"]
    assert shown[0].removeprefix("earlier: ") == before_text.removeprefix("written: ")


@explored(state=lambda session: look_of(session))
async def test_the_first_difference_is_selected_and_named(it, decoder):
    every = ",".join(f"2.{head}" for head in range(decoder.heads))
    plain = ids_of(steps_of(decoder, NEW))
    changed = ids_of(steps_of(decoder.without(every), NEW))
    first = next(place for place, (one, other) in enumerate(zip(plain, changed, strict=True)) if one != other)
    await it.press("g")
    start = it.answer.record.written
    for head in range(decoder.heads):
        it.app.hold(layer=2, head=head, query=start - 1)
        await it.press("x")
    it.app.hold(query=start - 1)
    await it.press("G")
    assert it.state.written == changed
    assert it.state.query == start - 1 + first
    assert f"token {first + 1} differs" in it.said


def test_escape_stops_the_writing_and_what_it_wrote_stays(session, decoder, monkeypatch):
    from attncli.models import generation

    whole, waits = generation.write, threading.Event()

    def slow(*arguments, **more):
        for number, step in enumerate(whole(*arguments, **more)):
            yield step
            if number == 1:
                waits.wait(PATIENCE)

    monkeypatch.setattr(generation, "write", slow)

    async def script(it):
        await it.pilot.press("g")

        async def is_named():
            return "Esc stops it" in it.said and len(it.app.work.ids) == 2

        await it.until(is_named)
        assert it.pane(WrittenPane).startswith("writing:")
        await it.pilot.press("escape")
        waits.set()
        await it.settled()
        assert it.state.written == ids_of(steps_of(decoder, 2))
        assert it.pane(WrittenPane).startswith("written:")

    explore(session, script, look_of(session))


@explored(state=lambda session: look_of(session))
async def test_another_text_ends_the_writing(it, decoder):
    await it.press("g")
    await it.write("the dog")
    assert it.state.written == () and it.answer.record.written is None
    assert not it.app.screen.query_one(WrittenPane).display


@explored(state=lambda session: look_of(session))
async def test_words_and_masks_keep_the_text(it, session, decoder):
    await it.press("g")
    start = it.answer.record.written
    await it.press("w")
    record = it.answer.record
    assert it.answer.written == session.text(it.state.session_request()).shown[-NEW:]
    assert len(record.tokens) <= start + 1, "random bytes have no spaces"
    assert it.pane(WrittenPane).startswith("written:")
    await it.press("w", "w")
    assert it.answer.record.tokens.shown[1:] and it.pane(WrittenPane).startswith("written:")
    await it.press("w", "m")
    assert it.answer.record.mask_name != "causal"
    ids = it.state.written
    await it.press("g")
    assert "only write under its own mask" in it.said and it.state.written == ids


def test_what_can_not_be_is_said(session, minilm, path):
    async def script(it):
        await it.press("G")
        assert "nothing is written yet" in it.said
        await it.press("g")
        it.app.hold(query=0)
        await it.press("G")
        assert "select a written token" in it.said
        await it.press("=")
        assert "silence a head first" in it.said

    explore(session, script, look_of(session))

    async def refused(it):
        await it.press("g")
        assert "minilm writes no text" in it.said
        assert it.answer.record.written is None

    explore(session_of(minilm=minilm), refused)


def test_after_the_end_token_it_says_so(tmp_path, path, decoder, monkeypatch):
    monkeypatch.setattr("attncli.live.explorer.app.WRITES", NEW)
    first = ids_of(steps_of(decoder, 1))[0]
    directory = make_checkpoint(tmp_path / "llama", "llama", "ForCausalLM", num_hidden_layers=3)
    edit_config(directory, eos_token_id=first)
    (directory / "generation_config.json").unlink(missing_ok=True)

    async def script(it):
        await it.press("g")
        assert it.state.written == (first,)
        await it.press("g")
        assert "has ended its text" in it.said and it.state.written == (first,)

    explore(session_of(ended=load_model(str(directory), "cpu")), script, ScreenState("ended", Input(TEXT)))


def test_an_encoder_decoder_writes_with_its_cross_attention(tmp_path, monkeypatch):
    monkeypatch.setattr("attncli.live.explorer.app.WRITES", NEW)
    model = load_model(make_foreign(tmp_path / "t5", "t5"), "cpu")

    async def script(it):
        await it.press("g", "g")
        part = model.of_part(None)
        steps = list(write(part, prompt_tokens(part, TEXT), Sampling(2 * NEW)))
        assert it.state.written == ids_of(steps) and it.answer.record.kind == "cross"
        likely = written_tokens(it.answer.record, [])[0].likely
        np.testing.assert_allclose(list(likely.values()), [chance for _, chance in steps[0].likely], atol=1e-5)

    explore(session_of(t5=model), script, ScreenState("t5", Input(TEXT)))


@explored(state=lambda session: look_of(session))
async def test_it_is_saved_as_a_record_of_the_whole(it, tmp_path, decoder):
    await it.press("g")
    await it.pilot.press("S")
    await it.answer_line(str(tmp_path / "a.npz"))

    async def is_saved():
        return "saved" in it.said

    await it.until(is_saved)
    saved = load_record(tmp_path / "a.npz")
    assert saved.written == it.answer.record.written and len(saved.prediction.answers) == 5 * NEW
    await it.pilot.press("S")
    await it.answer_line(str(tmp_path / "a.html"))
    await it.until(is_saved)
    assert '"steps"' in (tmp_path / "a.html").read_text()


def test_the_command_writes_the_text(session, tmp_path, decoder):
    lines = []

    async def script(it):
        it.app.copy_to_clipboard = lines.append
        await it.press("g", "y")
        await it.press("x", "y")
        assert "no command writes this text" in it.said
        ids = it.state.written
        assert len(lines) == 1
        done = shell.in_process([*shlex.split(lines[0])[1:], "--json"], tmp_path)
        assert json.loads(done.text[done.text.index("{") :])["text"] == decoder.tokenizer.decode(ids)

    explore(session, script, look_of(session))


SENTENCES = "the cat [/] sat. it [red]is big. the cat"


@explored(state=lambda session: look_of(session, SENTENCES))
async def test_s_shows_what_a_token_rests_on(it, decoder):
    it.app.hold(query=None)
    await it.press("s")
    assert "select a token first" in it.said
    tokens = prompt_tokens(decoder, SENTENCES)
    it.app.hold(query=len(tokens) - 1)
    await it.pilot.press("s")

    async def is_shown():
        return isinstance(it.app.screen, SourcesDialog)

    await it.until(is_shown)
    shown = it.app.screen.found
    expected = it.app.session.sources(it.state.session_request(), len(tokens) - 1, Watch())
    np.testing.assert_allclose(shown.effects, expected.effects, atol=1e-6)
    asked = AnsweredPrompt(decoder, tokens.take(range(len(tokens) - 1)), [tokens.ids[-1]])
    assert len(shown.units) == 3 and "[/]" in shown.names[0] and "[red]" in shown.names[1]
    for unit, effect in zip(shown.units, shown.effects, strict=True):
        assert effect == pytest.approx((asked.plain - asked.without(unit))[0], abs=1e-6)
    await it.pilot.press("escape")
    assert not isinstance(it.app.screen, SourcesDialog)
    it.app.hold(query=1)
    await it.press("s")
    assert "there are no words before this token" in it.said
