"""A session gives what the model gives, keeps it, and opens a model once."""

from dataclasses import replace
from threading import Thread

import numpy as np
import pytest
from checkpoints import make_checkpoint

from attncli import load_model
from attncli.base.errors import RequestError
from attncli.effects.answer import AnsweredPrompt, Hidden
from attncli.live import Session, SessionRequest
from attncli.live.session import MOST_KEPT, MOST_USUALS, SupersededError, Watch, size_of
from attncli.models.generation import Sampling, prompt_tokens, write
from attncli.models.model import Model
from attncli.models.opening import Opening
from attncli.record.selection import Grouping, Input, Request

TEXT = Input("The trophy does not fit in the suitcase because it is too big.")
ASKED = SessionRequest("minilm", TEXT)


@pytest.fixture
def session(minilm):
    """One that has the default model open."""
    one = Session([Opening("minilm", "cpu")])
    one.engines["minilm", ""] = minilm
    return one


@pytest.mark.parametrize("mask", ["padding", "causal", "none"])
@pytest.mark.parametrize("unit", ["token", "word", "sentence"])
def test_its_records_are_the_models(session, minilm, mask, unit):
    request = Request(pad_to=20, grouping=Grouping(unit=unit))
    found = session.record(replace(ASKED, request=request, masks=(mask,)))
    [own] = minilm.answer([TEXT], replace(request, mask=mask))
    assert np.array_equal(found.weights, own.weights)
    assert found.tokens == own.tokens and found.mask_name == mask and found.vectors is None


def test_several_masks_and_vectors_come_as_a_page_has_them(session):
    first, second = session.records(replace(ASKED, masks=("none", "causal"), vectors=75_000))
    assert (first.mask_name, second.mask_name) == ("none", "causal")
    assert len(first.vectors.heads) == 72


def test_without_a_head_is_the_model_without_it(session, minilm):
    found = session.record(replace(ASKED, without="1.3"))
    assert np.array_equal(found.weights, minilm.without("1.3").attend(*TEXT).weights)
    assert found.model.changes == "without 1.3"


def test_a_model_that_is_awake_answers_as_before(minilm):
    one = Session([Opening("minilm", device="cpu")])
    asked = SessionRequest("minilm", TEXT)
    before, quick = one.record(asked), one.engine("minilm")
    one.wake("minilm")
    assert (quick.name, one.engine("minilm").name) == ("instant", "attncli")
    one.records_of.clear()
    np.testing.assert_allclose(one.record(asked).weights, before.weights, atol=2e-6)
    awake = one.engine("minilm")
    one.wake("minilm")
    assert one.engine("minilm") is awake


def test_what_is_there_is_not_made_again(session, monkeypatch):
    first = session.record(ASKED)
    monkeypatch.setattr(Session, "compute_records", None)
    assert session.record(ASKED) is first


def test_no_more_is_kept_than_there_is_room_for(session):
    one = session.records(ASKED)
    session.kept = int(2.5 * size_of(one))
    for number in range(5):
        session.records(replace(ASKED, without=f"0.{number}"))
    assert len(session.records_of) == 2
    assert session.cached_records(ASKED) is None
    session.kept = 0
    session.records(ASKED)
    assert len(session.records_of) == 1, "the last stays"


def test_so_many_records_and_usual_weights_are_kept_and_no_more(session, monkeypatch):
    """However small they are: 2,000 different texts took 220 MB."""
    for number in range(MOST_KEPT + 6):
        session.record(replace(ASKED, text=Input(f"Text {number}.")))
    kept = [asked.text.text for asked in session.records_of]
    assert kept == [f"Text {number}." for number in range(6, MOST_KEPT + 6)]
    monkeypatch.setattr("attncli.corpus.usual.usual_of", lambda *_: None)
    for number in range(MOST_USUALS + 6):
        session.usual(replace(ASKED, without=f"{number // 12}.{number % 12}"))
    assert len(session.usuals) == MOST_USUALS


def test_threads_that_ask_for_one_thing_have_it_made_once(session, monkeypatch):
    made, make = [], Session.compute_records
    monkeypatch.setattr(Session, "compute_records", lambda *a: made.append(a) or make(*a))
    found = []
    threads = [Thread(target=lambda: found.append(session.record(ASKED))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert all(one is found[0] for one in found)


def test_a_model_that_is_not_of_the_session_is_refused(session):
    for name in ("/etc/passwd", "bert-base", ""):
        with pytest.raises(RequestError, match="is none of minilm"):
            session.record(replace(ASKED, model=name))
    with pytest.raises(RequestError, match="at least one model"):
        Session([])


def test_a_long_text_tells_how_far_it_is_and_is_stopped(session):
    told = []
    text = Input("word " * 200)
    session.records(SessionRequest("minilm", text, masks=("none", "causal")), Watch(told.append))
    assert told == sorted(told) and told[0] == 0 and 0.9 < told[-1] < 1 and len(set(told)) == 12
    watch = Watch()
    watch.cancelled.set()
    with pytest.raises(SupersededError):
        session.records(SessionRequest("minilm", text), watch)
    assert session.cached_records(SessionRequest("minilm", text)) is None


def test_maps_of_a_watched_text_are_those_of_one_that_is_not(session, minilm):
    text = Input("The cat sat on the mat. " * 30)
    watched = session.record(SessionRequest("minilm", text), Watch())
    assert np.array_equal(watched.weights, minilm.attend(text.text).weights)


def test_the_usual_is_found_once_and_names_the_heads_that_run_names(session, minilm, monkeypatch):
    from attncli.analysis.edges import Usual, edges, telling_head
    from attncli.corpus import usual

    record = session.record(ASKED)
    over = session.usual(ASKED)
    beside = Usual.with_text(record, usual.usual_of(minilm, Request()))
    own = edges(record, beside)
    assert telling_head(record, edges(record, session.baseline(record, over))) == telling_head(record, own)
    monkeypatch.setattr(usual, "usual_of", None)
    assert session.usual(ASKED) is over


@pytest.mark.parametrize("changes", [{}, {"masks": ("causal",)}, {"without": "1.3"}])
def test_another_session_takes_the_usual_from_the_cache(session, minilm, monkeypatch, changes):
    asked = replace(ASKED, **changes)
    first = session.usual(asked)
    other = Session([Opening("minilm", "cpu")])
    other.engines["minilm", ""] = minilm
    monkeypatch.setattr(Model, "walk", None)
    told = []
    second = other.usual(asked, Watch(told.append))
    assert np.array_equal(first.sums, second.sums) and np.array_equal(first.counts, second.counts)
    assert [one.tokens for one in first.each] == [one.tokens for one in second.each] and not told


def test_usual_weights_tell_how_far_they_are_and_are_stopped(session, tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNCLI_CACHE", str(tmp_path))  # which has none
    told = []
    with pytest.raises(SupersededError):
        watch = Watch(lambda share: (told.append(share), watch.cancelled.set()))
        session.usual(ASKED, watch)
    assert told == [0] and not session.usuals
    told.clear()
    assert session.usual(ASKED, Watch(told.append)) is not None
    assert told == sorted(told) and len(told) > 5 and told[-1] < 1


def test_it_writes_what_the_model_writes_and_reads_it_again(tmp_path):
    model = load_model(str(make_checkpoint(tmp_path / "llama", "llama", "ForCausalLM")), "cpu")
    one = Session([Opening("llama", "cpu")])
    one.engines["llama", ""] = model
    asked, told = SessionRequest("llama", Input("the cat sat")), []
    few = one.write(asked, 3, tell=lambda ids, text: told.append(ids))
    ids = one.write(replace(asked, written=few), 4)
    steps = list(write(model, prompt_tokens(model, "the cat sat"), Sampling(7)))
    assert ids == tuple(step.token for step in steps) and told == [ids[:1], ids[:2], ids[:3]]
    for without in ("", "1.0"):
        for mask in (None, "none"):
            record = one.record(replace(asked, written=ids, without=without, masks=(mask,)))
            engine = model.without(without) if without else model
            [own] = engine.attend_tokens([one.text(replace(asked, written=ids))], Request(mask=mask))
            assert np.array_equal(record.weights, own.weights) and len(record.tokens) - record.written == len(ids)
            likely = [answer.probability for answer in record.prediction.answers]
            same = np.allclose(likely, [chance for step in steps for _, chance in step.likely], atol=1e-5)
            assert same is (not without and mask is None)


def test_writing_stops_where_it_is_told(tmp_path):
    model = load_model(str(make_checkpoint(tmp_path / "llama", "llama", "ForCausalLM")), "cpu")
    one = Session([Opening("llama", "cpu")])
    one.engines["llama", ""] = model
    watch = Watch()
    with pytest.raises(SupersededError):
        one.write(SessionRequest("llama", Input("the cat")), 5, watch, lambda ids, text: watch.cancelled.set())
    with pytest.raises(RequestError, match="only write under its own mask: choose causal"):
        one.write(SessionRequest("llama", Input("the cat"), masks=("none",)), 5)


def test_sources_are_kept_and_measured_with_the_heads_silenced(tmp_path, monkeypatch):
    path = str(make_checkpoint(tmp_path / "llama", "llama", "ForCausalLM"))
    session, text = Session([Opening(path, "cpu")]), "the cat sat. it is big. the cat"
    asked = SessionRequest(path, Input(text), without="0.1,1.0")
    model = load_model(path, "cpu").without("0.1,1.0")
    tokens = prompt_tokens(model, text)
    place = len(tokens) - 1
    found = session.sources(asked, place, Watch())
    plain = session.sources(replace(asked, without=""), place, Watch())
    answer = AnsweredPrompt(model, tokens.take(range(place)), [tokens.ids[place]])
    for number, unit in enumerate(found.units):
        # The whole text again, without the keys and values that an answer keeps.
        expected = answer.plain - answer._full_pass([Hidden(unit)])
        assert found.effects[number] == pytest.approx(expected[0], abs=1e-5)
    assert np.abs(found.effects - plain.effects).max() > 1e-4
    assert (found.kind, found.more) == ("sentence", 0)
    assert found.notes[0].startswith(f"{len(found.control)} random span")
    assert f"mean effect {np.mean(found.control):.2f}, largest {max(found.control):.2f}." in found.notes[0]
    again = session.sources(replace(asked, without=""), place, Watch())
    assert again is plain
    monkeypatch.setattr("attncli.live.session.MOST_UNITS", 2)
    fewer = session.sources(asked, place, Watch())
    np.testing.assert_allclose(fewer.effects, found.effects[-2:], atol=1e-6)
    assert fewer.notes[0] == "Only the last 2 of 3 sentences before the token were measured."
