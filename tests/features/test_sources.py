"""attncli sources: shares, effects and their controls, on small random decoders and by hand."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from checkpoints import make_checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli import RequestError, cut, load_model, sources
from attncli.effects.answer import AnsweredPrompt, Hidden, control_effects, random_spans, token_sources
from attncli.effects.change import Changed, Hide
from attncli.features.sources import PairEffect, _pairs, _Source
from attncli.models.generation import next_probabilities, prompt_tokens
from attncli.record import Request

PROMPT = '<doc id="1"> the cat sat </doc> <doc id="2"> it is big </doc> the'


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return load_model(
        str(make_checkpoint(tmp_path_factory.mktemp("sources") / "llama", "llama", "ForCausalLM")), device="cpu"
    )


@pytest.fixture(scope="module")
def asked(llama):
    return AnsweredPrompt(
        llama, prompt_tokens(llama, "the cat sat. it is big"), llama.tokenizer.encode(" the cat").ids[1:]
    )


# --- the arithmetic -------------------------------------------------------------------------------------


def test_the_answer_s_tokens_have_the_probabilities_with_which_they_would_be_written(asked):
    written = next_probabilities(asked.model, asked.prompt, asked.ids)[range(len(asked.ids)), asked.ids]
    np.testing.assert_allclose(asked.plain, np.log(written), atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_hidden_tokens_are_hidden_from_later_ones_whatever_is_kept(asked, data):
    count = len(asked.prompt)
    places = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=count)))
    rows = range(count, len(asked.tokens))
    edges = [(query, key) for key in places for query in range(key + 1, count - 1) if query not in places]
    edges += [(query, key) for key in places for query in [count - 1, *rows] if query != key]
    heads = [(layer, head) for layer in range(asked.model.layers) for head in range(asked.model.heads)]
    change = Changed([Hide(heads, edges)])
    expected = next_probabilities(asked.model, asked.prompt, asked.ids, taps=[change])[range(len(asked.ids)), asked.ids]
    np.testing.assert_allclose(asked.without(places), np.log(expected), atol=1e-5)
    np.testing.assert_allclose(asked._full_pass([Hidden(places)]), np.log(expected), atol=1e-5)


def test_a_hidden_text_is_as_if_it_had_never_been_read(asked):
    """With all tokens before a place hidden, other tokens there change nothing: positions stay."""
    start = 4
    other = asked.prompt.take([5, 4, 3, 2, *range(start, len(asked.prompt))])
    plain, changed = (
        AnsweredPrompt(asked.model, one, asked.ids).without(range(start)) for one in (asked.prompt, other)
    )
    np.testing.assert_allclose(plain, changed, atol=1e-6)
    assert np.abs(plain - asked.plain).max() > 1e-4


def test_weights_of_the_rows_are_sums_over_their_maps(asked):
    [record] = asked.model.attend_tokens([asked.tokens], Request())
    units = np.zeros((len(asked.tokens), 2))
    units[2:5, 0] = units[1:, 1] = 1
    wanted = record.weights[:, :, list(asked.rows)] @ units
    np.testing.assert_allclose(asked.weights_on(units), wanted, atol=1e-5)


def test_sentences_of_the_first_part_have_effects_and_all_have_shares(llama):
    text = '<doc id="1"> the cat sat. it is big. </doc> <doc id="2"> the cat. it sat. </doc> the'
    assert np.isnan(sources(llama, text, answer=" cat it").sentence_effects).all()
    found = sources(llama, text, answer=" cat it", sentences=True)
    document = found.document()
    assert [len(one["sentences"]) for one in document["parts"]] == [2, 2, 1]
    for one in document["parts"]:
        assert sum(inner["share"] for inner in one["sentences"]) == pytest.approx(one["share"], rel=1e-5)
        assert sum(inner["tokens"] for inner in one["sentences"]) == one["tokens"]
    best = max(document["parts"][:2], key=lambda one: one["effect"])["part"]
    answer = AnsweredPrompt(llama, prompt_tokens(llama, found.prompt.text), llama.tokenizer.encode(" cat it").ids[1:])
    for one, effect in zip(found.sentences, found.sentence_effects[0], strict=True):
        if found.parts[one.part].name == best:
            assert effect == pytest.approx((answer.plain - answer.without(one.places)).mean(), abs=1e-5)
        else:
            assert np.isnan(effect)
    with pytest.raises(RequestError, match="sentences has no effect in a prompt without tags"):
        sources(llama, "the cat sat. it is big.", answer=" cat it", sentences=True)


def test_the_sources_of_a_token_are_those_of_an_answer_of_one_token(llama):
    text = prompt_tokens(llama, "the cat sat. it is big. the cat")
    place, units = len(text) - 1, [[0, 1, 2, 3], [4, 5, 6, 7], [len(text) - 2, len(text) - 1]]
    told = []
    found = token_sources(llama, text, place, units, told.append)
    assert found.units == [[1, 2, 3], [4, 5, 6, 7], [place - 1]] and told == [0, 1 / 3, 2 / 3]
    asked = AnsweredPrompt(llama, text.take(range(place)), [text.ids[place]])
    [record] = llama.attend_tokens([text], Request())
    row = record.weights[:, :, place - 1, 1:place].sum()
    for number, unit in enumerate(found.units):
        assert found.effects[number] == pytest.approx((asked.plain - asked.without(unit))[0], abs=1e-6)
        assert found.shares[number] == pytest.approx(record.weights[:, :, place - 1, unit].sum() / row, rel=1e-4)
        assert found.lengths[number] == pytest.approx(len(unit) / (place - 1))


@given(st.integers(5, 30), st.data())
def test_random_spans_are_of_one_length_and_from_elsewhere(length, data):
    start = data.draw(st.integers(1, length - 1))
    part = list(range(start, data.draw(st.integers(start + 1, length))))
    spans = list(random_spans(range(length), part, 8))
    for span in spans:
        assert len(span) == len(part) and span == list(range(span[0], span[0] + len(span)))
        assert 0 not in span and not {*span} & {*part} and span[-1] < length
    assert len({span[0] for span in spans}) == len(spans)


def hiding(loses):
    """An answer after 12 tokens, and what it loses where some of them are hidden."""
    return SimpleNamespace(
        plain=np.zeros(1), prompt=range(12), sinks=frozenset([0]), without=lambda places: np.array([-loses({*places})])
    )


def test_spans_are_drawn_until_one_has_as_large_an_effect():
    asked, spans = hiding(min), [min(span) for span in random_spans(range(12), [4, 5], 6)]
    assert sorted(spans) != spans  # a draw does not say where the next one is
    for effect in spans:
        before = [drawn >= effect for drawn in spans].index(True)
        assert list(control_effects(asked, [4, 5], 6, effect)) == spans[: before + 1]
    assert list(control_effects(asked, [4, 5], 6, max(spans) + 0.5)) == spans
    assert list(control_effects(asked, [4, 5], 0, 1.0)) == []


def test_parts_that_stand_in_for_each_other_are_found_by_hiding_two():
    """The answer needs the token at 2 or the one at 5."""
    parts = [_Source(name, name, [place]) for name, place in (("a", 2), ("b", 5), ("c", 8))]
    asked = hiding(lambda places: 3.0 if {2, 5} <= places else 0.0)
    assert _pairs(asked, parts, np.zeros(3), np.zeros((3, 4)), 4) == [PairEffect(0, 1, 3.0, 0.0)]
    assert _pairs(asked, parts, np.array([1.0, 0, 0]), np.zeros((3, 4)), 4) == []


# --- the result -----------------------------------------------------------------------------------------


def test_shares_effects_and_lengths_of_parts(llama):
    found = sources(llama, PROMPT, answer="cat", draws=2)
    names = [one.name for one in found.parts]
    assert names == ["doc 1", "doc 2", "(rest)"]
    every = sorted(place for one in found.parts for place in one.places)
    tokens = prompt_tokens(llama, found.prompt.text)
    assert every == list(range(1, len(tokens))) and found.tokens == len(tokens) + len(found.answer[0].places)
    asked = AnsweredPrompt(llama, tokens, llama.tokenizer.encode(" cat").ids[1:])
    for number, part in enumerate(found.parts):
        np.testing.assert_allclose(found.effects[0, number], (asked.plain - asked.without(part.places)).mean())
        drawn = list(
            control_effects(asked, part.places, 2 if part.name.startswith("doc") else 0, found.effects[0, number])
        )
        np.testing.assert_allclose(found.controls[number], [*drawn, *[np.nan] * (2 - len(drawn))])
    [record] = llama.attend_tokens([asked.tokens], Request())
    rows = record.weights[:, :, list(asked.rows)]
    wanted = [rows[..., part.places].sum() / rows[..., 1:].sum() for part in found.parts]
    np.testing.assert_allclose(found.shares[0], wanted, rtol=1e-5)
    uniform = np.array([1 / (row + 1) for row in asked.rows])
    of_all = (uniform * np.array(asked.rows)).sum()
    np.testing.assert_allclose(found.lengths[0], [len(one.places) * uniform.sum() / of_all for one in found.parts])


def test_a_single_random_span_has_no_range(llama):
    found = sources(llama, PROMPT, answer="cat", draws=1)
    effect = found._prompt([]).facts[0][1]
    assert effect.endswith(f"; a random span {found._cells(0)[4]}.")


def test_units_of_the_answer_are_its_tokens_and_their_mean_is_the_whole(llama):
    found = sources(llama, PROMPT, answer="cat. it sat", each="token", draws=0)
    whole, *tokens = found.answer
    assert sorted(place for one in tokens for place in one.places) == whole.places
    np.testing.assert_allclose(found.effects[1:].mean(axis=0), found.effects[0])
    assert np.ptp(found.effects[1:], axis=0).max() > 1e-3
    counts = np.array([len(one.places) for one in found.parts])
    for number, unit in enumerate(tokens, 1):  # of uniform attention over all but the sink
        [place] = unit.places
        prompt = found.tokens - len(whole.places)
        np.testing.assert_allclose(found.lengths[number], counts / (prompt - 1 + place))
    by_sentence = sources(llama, PROMPT, answer="cat. it sat", each="sentence", draws=0)
    assert [one.text.strip() for one in by_sentence.answer[1:]] == ["cat.", "it sat"]


def test_without_tags_sentences_are_the_parts(llama):
    found = sources(llama, "the cat sat. it is big. the", answer="cat", draws=1)
    assert [one.text for one in found.parts] == ["the cat sat.", "it is big.", "the"]


@pytest.fixture(scope="module")
def chatting(tmp_path_factory):
    """A decoder with a chat template."""
    path = make_checkpoint(tmp_path_factory.mktemp("chatting") / "llama", "llama", "ForCausalLM")
    settings = path / "tokenizer_config.json"
    template = "{{ bos_token }}{% for m in messages %}it {{ m.content }} big {% endfor %}"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "chat_template": template}))
    return load_model(str(path), device="cpu")


def test_messages_are_the_parts_of_a_chat_and_the_last_one_the_answer(chatting, tmp_path):
    messages = [{"role": "user", "content": "the cat"}, {"role": "user", "content": "sat"}]
    (tmp_path / "chat.json").write_text(json.dumps([*messages, {"role": "assistant", "content": "the cat sat"}]))
    found = sources(chatting, chat=True, file=str(tmp_path / "chat.json"), draws=0)
    assert [(one.name, one.text) for one in found.parts[:2]] == [("user", "the cat"), ("user 2", "sat")]
    assert found.parts[2].name == "template" and found.answer[0].text.strip() == "the cat sat"
    every = sorted(place for one in found.parts for place in one.places)
    assert every == list(range(1, found.tokens - len(found.answer[0].places)))
    (tmp_path / "chat.json").write_text(json.dumps(messages))
    assert sources(chatting, chat=True, file=str(tmp_path / "chat.json"), answer="cat", draws=0).parts == found.parts
    (tmp_path / "chat.json").write_text("[")
    with pytest.raises(RequestError, match="can't be read as JSON"):
        sources(chatting, str(tmp_path / "chat.json"), chat=True)


def test_files_are_parts(llama, tmp_path):
    (tmp_path / "a.txt").write_text("the cat sat")
    found = sources(llama, "it is big. the", part=[f"notes={tmp_path / 'a.txt'}"], answer="cat", draws=0)
    assert [(one.name, one.text) for one in found.parts] == [("notes", "the cat sat"), ("(rest)", "it is big. the")]
    with pytest.raises(RequestError, match=r"--part takes NAME=FILE, .* got 'notes'"):
        sources(llama, part=["notes"])


def test_a_verdict_names_a_part_only_beyond_itsrandom_spans(llama):
    found = sources(llama, PROMPT, answer="cat", draws=3)
    for effects, controls, says in (
        ([2.0, 0.1, 5.0], [[0.1, 0.2, 0.0], [0.0] * 3, [0.0] * 3], "the answer rests on doc 1 (effect 2.00 nats"),
        (
            [0.1, 0.3, 5.0],
            [[0.1, 0.2, 0.0], [0.4, 0, 0], [0.0] * 3],
            "no part alone has more effect than random spans of its",
        ),
        (
            [0.1, 0.3, 5.0],
            [[0.1, 0.2, 0.0], [np.nan] * 3, [0.0] * 3],
            "hiding doc 2 costs 0.30 nats per token; there is no control",
        ),
    ):
        found.effects[0], found.controls[:] = effects, controls
        assert found.verdict.startswith(says)


@pytest.mark.parametrize(
    ("prompt", "more", "says"),
    [
        (PROMPT, {"answer": ""}, "the answer '' has no tokens"),
        ("the cat " * 40, {"answer": "sat"}, "exceed the 40 tokens of this model: shorten them"),
        ('<doc id="1"> cat', {"answer": "sat"}, "is not closed: add </doc> after its text"),
        (PROMPT, {"answer": "sat", "max_tokens": 3}, "max_tokens has no effect with --answer"),
    ],
)
def test_what_can_not_be_met_is_said(llama, prompt, more, says):
    with pytest.raises(RequestError, match=says):
        sources(llama, prompt, **more)


@pytest.mark.parametrize("asked", [{"similar_to": "A cat sits."}, {}], ids=["cosine", "distance"])
def test_of_an_encoder_an_output_is_measured(minilm, asked):
    """The effect is that of cutting all edges from other tokens to the part, in all heads."""
    text = "The cat sat. The dog ran away."
    found = sources(minilm, text, draws=1, **asked)
    [record] = minilm.attend_tokens([minilm.tokenizer.encode(text)])
    specials = {0, len(record.tokens) - 1}
    for number, part in enumerate(found.parts):
        others = [query for query in range(len(record.tokens)) if query not in part.places]
        edges = [(query, key) for query in others for key in part.places]
        expected = cut(minilm, text, edges=edges, **asked).effects[0]
        np.testing.assert_allclose(found.effects[0, number], -expected if asked else expected, atol=1e-6)
    rows = record.weights.mean(axis=2)
    real = [place for place in range(len(record.tokens)) if place not in specials]
    wanted = [rows[..., part.places].sum() / rows[..., real].sum() for part in found.parts]
    np.testing.assert_allclose(found.shares[0], wanted, rtol=1e-5)
    np.testing.assert_allclose(found.lengths[0], [len(part.places) / len(real) for part in found.parts])
    assert found.document()["output"]["kind"] == ("cosine" if asked else "distance")
    with pytest.raises(RequestError, match="answer has no effect if an output is measured"):
        sources(minilm, PROMPT, answer="cat")


@pytest.mark.parametrize("steps", range(4))
def test_ctrl_c_keeps_the_effects_that_are_there(llama, attncli, tmp_path, monkeypatch, steps):
    whole, without, done = sources(llama, PROMPT, answer="cat", draws=1), AnsweredPrompt.without, []

    def interrupted(asked, places):
        if len(done) == steps:
            raise KeyboardInterrupt
        done.append(places)
        return without(asked, places)

    monkeypatch.setattr(AnsweredPrompt, "without", interrupted)
    command = ["sources", "-m", llama.place.path, "--answer", "cat", "--draws", 1, PROMPT, "--json"]
    result = attncli(*command, "-o", tmp_path / "sources.csv")
    assert result.code == 130 and "interrupted: the effects are PARTIAL" in result.err
    document = json.loads(result.out)
    expected = whole.document()["parts"]
    for place, part in enumerate(document["parts"]):
        assert part["share"] == pytest.approx(expected[place]["share"], abs=1e-5)
        assert part["effect"] == (pytest.approx(expected[place]["effect"], abs=1e-5) if place < steps else None)
    assert document["partial"] is True and list(tmp_path.iterdir()) == []
