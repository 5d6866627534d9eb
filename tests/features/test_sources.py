"""attncli sources: shares, effects and their controls, on small random decoders and by hand."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from checkpoints import make_checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli import RequestError, cut, load_model, sources
from attncli.effects.answer import Answer, Hidden
from attncli.effects.change import Changed, Hide
from attncli.features.sources import PairEffect, _pairs, _random_spans, _Source
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
    return Answer(llama, prompt_tokens(llama, "the cat sat. it is big"), llama.tokenizer.encode(" the cat").ids[1:])


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
    plain, changed = (Answer(asked.model, one, asked.ids).without(range(start)) for one in (asked.prompt, other))
    np.testing.assert_allclose(plain, changed, atol=1e-6)
    assert np.abs(plain - asked.plain).max() > 1e-4


def test_weights_of_the_rows_are_sums_over_their_maps(asked):
    [record] = asked.model.attend_tokens([asked.tokens], Request())
    units = np.zeros((len(asked.tokens), 2))
    units[2:5, 0] = units[1:, 1] = 1
    wanted = record.weights[:, :, list(asked.rows)] @ units
    np.testing.assert_allclose(asked.weights_on(units), wanted, atol=1e-6)


@given(st.integers(5, 30), st.data())
def test_random_spans_are_of_one_length_and_from_elsewhere(length, data):
    start = data.draw(st.integers(1, length - 1))
    part = list(range(start, data.draw(st.integers(start + 1, length))))
    spans = list(_random_spans(range(length), part, 8))
    for span in spans:
        assert len(span) == len(part) and span == list(range(span[0], span[0] + len(span)))
        assert 0 not in span and not {*span} & {*part} and span[-1] < length
    assert len({span[0] for span in spans}) == len(spans)


def test_parts_that_stand_in_for_each_other_are_found_by_hiding_two():
    """The answer needs the token at 2 or the one at 5."""
    parts = [_Source(name, name, [place]) for name, place in (("a", 2), ("b", 5), ("c", 8))]
    asked = SimpleNamespace(plain=np.zeros(1), prompt=range(12), sinks=frozenset([0]))
    asked.without = lambda places: np.array([-3.0 if {2, 5} <= {*places} else 0.0])
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
    asked = Answer(llama, tokens, llama.tokenizer.encode(" cat").ids[1:])
    for number, part in enumerate(found.parts):
        np.testing.assert_allclose(found.effects[0, number], (asked.plain - asked.without(part.places)).mean())
        drawn = [(asked.plain - asked.without(span)).mean() for span in _random_spans(tokens, part.places, 2)]
        np.testing.assert_allclose(found.controls[number][: len(drawn)], drawn)
    [record] = llama.attend_tokens([asked.tokens], Request())
    rows = record.weights[:, :, list(asked.rows)]
    wanted = [rows[..., part.places].sum() / rows[..., 1:].sum() for part in found.parts]
    np.testing.assert_allclose(found.shares[0], wanted, rtol=1e-5)
    uniform = np.array([1 / (row + 1) for row in asked.rows])
    of_all = (uniform * np.array(asked.rows)).sum()
    np.testing.assert_allclose(found.lengths[0], [len(one.places) * uniform.sum() / of_all for one in found.parts])


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
    with pytest.raises(RequestError, match="--part 'notes' is no NAME=FILE"):
        sources(llama, part=["notes"])


def test_a_verdict_names_a_part_only_beyond_its_random_spans(llama):
    found = sources(llama, PROMPT, answer="cat", draws=3)
    for effects, controls, says in (
        ([2.0, 0.1, 5.0], [[0.1, 0.2, 0.0], [0.0] * 3, [0.0] * 3], "the answer rests on doc 1 (effect 2.00 nats"),
        (
            [0.1, 0.3, 5.0],
            [[0.1, 0.2, 0.0], [0.4, 0, 0], [0.0] * 3],
            "no part alone does more than random spans of its",
        ),
        ([0.1, 0.3, 5.0], [[0.1, 0.2, 0.0], [np.nan] * 3, [0.0] * 3], "hiding doc 2 costs 0.30 nats a token; there is"),
    ):
        found.effects[0], found.controls[:] = effects, controls
        assert found.verdict.startswith(says)


@pytest.mark.parametrize(
    ("prompt", "more", "says"),
    [
        (PROMPT, {"answer": ""}, "there is no token in the answer ''"),
        ("the cat " * 40, {"answer": "sat"}, "have more than the 40 tokens of this model: shorten them"),
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
    with pytest.raises(RequestError, match="answer has no effect where an output is measured"):
        sources(minilm, PROMPT, answer="cat")
