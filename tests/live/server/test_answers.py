"""Check that the server sends of a text what `view` puts into a page."""

import json
from dataclasses import replace

import numpy as np
import pytest
from checkpoints import make_checkpoint
from packed import page_data, unpacked
from serving import LOOK, serving

from attncli import load_model
from attncli.analysis.edges import with_usual
from attncli.corpus.usual import usual_of
from attncli.live import Session
from attncli.live.server.app import Site
from attncli.live.session import WRITES, SessionRequest, Watch
from attncli.models.engine import under_masks
from attncli.models.generation import Sampling, prompt_tokens, write
from attncli.models.opening import Opening
from attncli.page import Start, advice, document
from attncli.page.payload import payload
from attncli.record.selection import Grouping, Input, Request

MASKS = ("padding", "causal")
VIEWED = Request(grouping=Grouping(stretches=True))


def viewed(model, text, pair=None, most=0.0):
    """Return the content of a page of `view` for a text: its description and its uncompressed chunks."""
    request = VIEWED if most else Request(vectors="none", grouping=VIEWED.grouping)
    [records] = under_masks(model, [Input(text, pair)], request, MASKS, most)
    description, chunks = payload(with_usuals(model, records), {})
    return description, {name: unpacked(one) for name, one in chunks.items()}


def with_usuals(model, records):
    """Return records under each mask with what is usual of the model's heads under it."""
    usual = [usual_of(model, replace(VIEWED, mask=mask)) for mask in MASKS]
    return [with_usual(record, over) for record, over in zip(records, usual, strict=True)]


def without_prefix(description, chunks):
    """Names of chunks as they are in a page alone, where an answer's begin with its number."""
    prefix = next(iter(chunks)).partition("-")[0] + "-"
    assert all(name.startswith(prefix) for name in chunks)
    plain = json.loads(json.dumps(description).replace(f'"{prefix}', '"'))
    return plain, {name.removeprefix(prefix): one for name, one in chunks.items()}


@pytest.mark.parametrize(
    ("text", "pair"), [("A dog ran to the park.", None), ("Where is it?", "In the cave."), ("🙂", None)]
)
def test_an_answer_is_what_view_makes(served, minilm, text, pair):
    status, (description, chunks) = served.look(text=text, pair=pair)
    found, bytes_of = without_prefix(description, chunks)
    expected, theirs = viewed(minilm, text, pair)
    found.pop("advice")
    assert status == 200 and found == json.loads(json.dumps(expected))
    assert bytes_of == theirs


@pytest.mark.slow
def test_a_decoder_writes_on_from_a_token_without_a_head(tmp_path):
    model = load_model(str(make_checkpoint(tmp_path / "llama", "llama", "ForCausalLM")), "cpu")
    session = Session([Opening("llama", "cpu")])
    session.engines["llama", ""] = model
    with serving(Site(session, [Input("the cat sat")])) as one:
        asked = {"model": "llama", "text": "the cat sat", "write": True}
        for without in ([], [[1, 0], [0, 3]]):
            part = model.without([tuple(head) for head in without]) if without else model
            for kept in ([], [7, 8]):
                _, (description, _) = one.look(**asked, written=kept, without=without)
                [text] = description["texts"]
                steps = list(write(part, prompt_tokens(part, "the cat sat"), Sampling(WRITES), written=kept))
                assert text["written"] == kept + [step.token for step in steps]
                shown = text["masks"][0]["findings"]["steps"]
                assert len(shown) == len(text["written"])
                for step, said in zip(steps, shown[len(kept) :], strict=True):
                    expected = [chance for _, chance in step.likely]
                    np.testing.assert_allclose([chance for _, chance in said["likely"]], expected, atol=1e-4)
        for write_on in (True, False):
            status, said = one.look(**{**asked, "write": write_on}, written=[10**5])
            assert status == 422 and said["error"] == "llama has no token 100000"
            status, said = one.look(**{**asked, "write": write_on}, written=[7] * 100)
            assert status == 422 and "with what was written has" in said["error"]


@pytest.mark.slow
def test_a_token_s_sources_are_those_of_the_session(tmp_path):
    model = load_model(str(make_checkpoint(tmp_path / "llama", "llama", "ForCausalLM")), "cpu")
    session = Session([Opening("llama", "cpu")])
    session.engines["llama", ""] = model
    text = "the cat sat. it is big. the cat"
    place = len(prompt_tokens(model, text)) - 1

    def ask(one, **changes):
        body = {**LOOK, "model": "llama", "text": text, "token": place, **changes}
        status, _, found = one.ask("POST", "/sources", json.dumps(body).encode())
        return status, json.loads(found)

    with serving(Site(session, [Input(text)])) as one:
        status, found = ask(one)
        asked = SessionRequest("llama", Input(text))
        expected = session.sources(asked, place, Watch())
        assert status == 200 and found["token"].strip() == "cat"
        assert [unit["text"] for unit in found["units"]] == ["the cat sat.", "it is big.", "the"]
        np.testing.assert_allclose([unit["effect"] for unit in found["units"]], expected.effects, atol=1e-6)
        np.testing.assert_allclose([unit["share"] for unit in found["units"]], expected.shares, atol=1e-6)
        assert found["notes"] == expected.notes
        refused = ((1, "there are no words before"), (place + 1, "there is no token"), (None, "invalid request"))
        for wrong, why in refused:
            status, said = ask(one, token=wrong)
            assert status in (400, 422) and why in said["error"]


def test_what_writes_no_text_says_so(served):
    status, said = served.look(write=True)
    assert status == 422 and "writes no text" in said["error"]


def test_q_and_k_come_when_a_head_is_looked_at(served, minilm):
    _, (description, chunks) = served.look(text="A dog ran to the park.", head=[2, 5])
    found, bytes_of = without_prefix(description, chunks)
    expected, theirs = viewed(minilm, "A dog ran to the park.", most=75_000)
    found.pop("advice")
    assert len(found["texts"][0]["masks"][0]["vectors"]["heads"]) == 72
    assert found == json.loads(json.dumps(expected)) and bytes_of == theirs


@pytest.mark.slow
def test_of_a_long_text_the_head_that_is_looked_at_has_them(served):
    _, (description, _) = served.look(text="the cat sat on it " * 40, head=[4, 7])
    assert description["texts"][0]["masks"][0]["vectors"]["heads"] == [[4, 7]]


def test_a_page_that_has_nothing_of_a_model_is_told_where_view_opens(served, minilm):
    _, (description, _) = served.look(fresh=True)
    opening = description["start"]["opening"]
    assert opening["heads"] == [opening["head"]] and 0 <= opening["layer"] < 6
    assert served.look()[1][0]["start"] == {}


@pytest.mark.slow
def test_a_text_that_is_too_long_is_shown_as_far_as_the_model_takes_it(served):
    _, (description, _) = served.look(text="word " * 600)
    [text] = description["texts"]
    assert len(text["tokens"]) == 512 and text["note"] == "only the first 512 tokens: this model takes no more"
    assert served.look(text="word " * 510)[1][0]["texts"][0]["note"] == ""


@pytest.mark.parametrize("text", ["", "  ", "\u00ad"])
def test_a_text_of_nothing_is_told_of(served, text):
    status, said = served.look(text=text)
    assert status == 422 and said["error"]


def test_what_is_saved_is_the_page_of_view(served, minilm):
    status, page = served.save()
    [records] = under_masks(minilm, [Input("The cat sat on the mat.")], VIEWED, MASKS, 75_000)
    start = Start("matrix", 3, head=(2, 5))
    assert status == 200
    assert page == document.page(with_usuals(minilm, records), start, advice=advice.VIEW)


def test_the_mask_on_the_screen_comes_first_in_what_is_saved(served):
    page = served.save({"mask": "causal"})[1]
    described = page_data(page)
    assert [mask["name"] for mask in described["texts"][0]["masks"]] == ["causal", "padding"]


def test_a_state_that_the_text_has_not_is_told_of(served):
    status, said = served.save({"token": 99})
    assert status == 422 and "99" in json.loads(said)["error"]
    assert served.save({"layer": 9})[0] == 422 and served.save({"segments": "AB"})[0] == 422


def test_names_of_chunks_come_once(served):
    names = [name for _ in range(3) for name in served.look()[1][1]]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("family", ["gpt2", "gpt_neo"])
def test_what_transformers_runs_has_q_and_k(foreign, family):
    session = Session([Opening("gpt2-like", "cpu", engine="transformers")])
    session.engines["gpt2-like", ""] = foreign(family)
    with serving(Site(session, [Input("the cat sat")])) as served:
        _, (description, _) = served.look(model="gpt2-like", text="the cat", head=[0, 0])
        assert description["texts"][0]["attention"] == "decoder"
        assert description["advice"] == advice.LIVE
        assert served.save({"token": 0, "layer": 1, "head": 1}, model="gpt2-like", text="the cat")[0] == 200


@pytest.mark.slow
def test_units_of_several_tokens_have_no_sources_and_no_vectors(tmp_path):
    model = load_model(str(make_checkpoint(tmp_path / "llama", "llama", "ForCausalLM")), "cpu")
    session, text = Session([Opening("llama", "cpu")]), "the cat sat. it is big. the cat"
    session.engines["llama", ""] = model
    request = Request(grouping=Grouping(unit="sentence", stretches=True))
    with serving(Site(session, [Input(text)], request)) as one:
        asked = {**LOOK, "model": "llama", "text": text, "head": [0, 1]}
        status, (found, _) = one.look(**asked)
        [shown] = found["texts"]
        assert status == 200 and shown["tokens"] == model.attend(text, grouping=request.grouping).tokens.shown
        assert shown["masks"][0]["vectors"]["heads"] == [] and found["advice"] == ""
        status, _, said = one.ask("POST", "/sources", json.dumps({**asked, "token": 2}).encode())
        assert status == 422 and "this page shows sentences: omit --unit" in json.loads(said)["error"]
