"""Heads by what they give from one token to another."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import attention_records, layered_records, record_of

from attncli.analysis.finding import ANY, SINK, Wanted, by_content, find, strongest_edges
from attncli.analysis.telling import Usual
from attncli.base.errors import RequestError

TEXT = "The cat sat on the unbelievable cat."


def alone(words):
    """Nothing is usual but what the text itself says."""
    return None


@given(attention_records() | layered_records(), st.data())
def test_the_largest_weight_between_the_two_of_every_head(record, data):
    query, key = (data.draw(st.sampled_from([ANY, *record.tokens.text])) for _ in range(2))
    places = [[p for p, token in enumerate(record.tokens.text) if name in (ANY, token)] for name in (query, key)]
    found = {
        (edge.layer, edge.head): edge for edge, _ in strongest_edges(record, Wanted(query, key), Usual.of([record]))
    }
    for number, layer in enumerate(record.layers):
        for head in record.heads:
            pairs = [(q, k) for q in places[0] for k in places[1] if record.masks[number, q, k]]
            chosen = [(q, k) for q, k in pairs if query != ANY or record.masks[number, q].sum() > 1]
            pairs = chosen or pairs  # a token that may look at one key only has no choice
            assert ((layer, head) in found) == bool(pairs)
            if pairs:
                edge = found[layer, head]
                assert edge.weight == max(record.map(layer, head)[pair] for pair in pairs)
                assert (edge.query, edge.key) in pairs


def test_heads_stand_by_weight_and_of_content_by_what_is_above_the_usual():
    high, edge = np.full((8, 8), 0.5), np.full((8, 8), 0.01)
    edge[5, 2] = 0.4
    record = record_of(np.stack([edge, high])[None])
    by_weight = find([record], Wanted(ANY, ANY), alone).ranks
    by_content = find([record], Wanted(ANY, ANY, content=True), alone).ranks
    assert [rank.head for rank in by_weight] == [1, 0] and [rank.head for rank in by_content] == [0, 1]
    assert (by_content[0].edges[0].query, by_content[0].edges[0].key) == (5, 2)


def test_content_is_the_edge_above_the_usual_and_not_the_largest():
    """A head that looks at the token before, but for one token, which looks elsewhere."""
    weights = np.eye(14, k=-1) * 0.9
    weights[9, 3], weights[9, 8] = 0.8, 0.1
    record = record_of(weights)
    [largest] = find([record], Wanted(), alone).ranks[0].edges
    [content] = find([record], Wanted(content=True), alone).ranks[0].edges
    assert largest.query - largest.key == 1 and (content.query, content.key) == (9, 3)


def test_heads_are_ranked_by_content():
    """Those that have no edge between words come last."""
    high, edge = np.full((8, 8), 0.1), np.full((8, 8), 0.01)
    edge[5, 2] = 0.4
    record = record_of(np.stack([high, edge])[None])
    assert by_content(record) == [(0, 1), (0, 0)]
    assert by_content(record_of(np.full((2, 3, 2, 2), 0.5))) == [
        (layer, head) for layer in (0, 1) for head in (0, 1, 2)
    ]


def test_sinks_are_told():
    weights = np.full((8, 8), 0.02)
    weights[:, 3] = SINK + 0.01
    record = record_of(weights)
    sink = {key: find([record], Wanted("the", key), alone).ranks[0].sinks for key in ("[CLS]", "[SEP]", "3", "4")}
    assert sink == {"[CLS]": 1, "[SEP]": 1, "3": 1, "4": 0}


@pytest.mark.parametrize("family", ["gpt2", "llama-no-bos"])
def test_the_first_token_of_a_decoder_is_a_sink_and_looks_at_nothing_but_itself(foreign, family):
    record = foreign(family).attend("the cat sat on the mat")
    found = find([record], Wanted(), alone)
    for rank in found.ranks:
        [edge] = rank.edges
        assert edge.query > 0 and edge.weight == record.map(rank.layer, rank.head)[1:].max()
        assert rank.sinks == 1 or edge.key > 0
    to_first = find([record], Wanted(ANY, "0"), alone).ranks
    assert all(rank.sinks == 1 and rank.edges[0].query > 0 for rank in to_first)
    assert all(rank.edges[0].key > 0 for rank in find([record], Wanted(content=True), alone).ranks)
    [itself] = {rank.weight for rank in find([record], Wanted("0", "0"), alone).ranks}
    assert itself == 1


def test_several_texts_are_those_that_have_both(minilm):
    texts = ["The movie was not good.", "It was good.", "Not all of it is good."]
    records = list(minilm.attend_many(texts))
    found = find(records, Wanted("not", "good"), alone)
    assert (found.texts, found.of) == (2, 3)
    for rank in found.ranks[:5]:
        maps = [records[number].map(rank.layer, rank.head) for number in (0, 2)]
        both = [(one.tokens.text.index("not"), one.tokens.text.index("good")) for one in (records[0], records[2])]
        assert rank.weight == pytest.approx(np.mean([one[at] for one, at in zip(maps, both, strict=True)]))
    assert "texts" in found.document() and "query" not in found.document()["heads"][0]


def test_a_word_in_pieces_is_found_as_a_word(minilm):
    record = minilm.attend("The disambiguation sat.")
    assert "disambiguation" not in record.tokens.text
    found = find([record], Wanted("sat", "disambiguation"), alone)
    entry = found.document()["heads"][0]
    assert entry["key"]["token"] == "disambiguation"
    start = record.tokens.text.index("sat")
    pieces = [place for place, word in enumerate(record.tokens.words) if word == 1]
    whole = record.map(entry["layer"], entry["head"])[start, pieces].sum()
    assert entry["weight"] == pytest.approx(float(whole), abs=1e-6)


def test_what_is_not_there_is_refused_with_what_is(minilm):
    record = minilm.attend(TEXT)
    with pytest.raises(RequestError, match="no token 'catt' in the text: it has cat"):
        find([record], Wanted("catt", "sat"), alone)
    with pytest.raises(RequestError, match="in none of 2 texts"):
        find([record, record], Wanted("dog", "sat"), alone)
    with pytest.raises(RequestError, match="no text"):
        find([], Wanted("cat", "sat"), alone)
    causal = minilm.attend(TEXT, mask="causal")
    with pytest.raises(RequestError, match="mask causal does not allow 'the#1' to look at 'sat'"):
        find([causal], Wanted("the#1", "sat"), alone)
