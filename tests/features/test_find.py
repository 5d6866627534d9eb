"""attncli find."""

import json

import numpy as np
import pytest
from records import record_of

from attncli.analysis.edges import ANY, SINK
from attncli.base.errors import Notice, RequestError
from attncli.features.find import find_edges

TEXT = "The trophy does not fit in the suitcase because it is too big."


def heads_of(records, query=ANY, key=ANY, content=False):
    """Return the heads of records; no other texts say what is usual."""
    return find_edges(records, lambda words: None, query, key, content)["heads"]


@pytest.fixture
def found(attncli):
    """`found(...)` -> the document that --json prints."""

    def run(*arguments):
        result = attncli("find", *arguments, "--json")
        assert result.code == 0, result.err
        return json.loads(result.out)

    return run


def test_heads_by_their_weight_from_one_token_to_another(found, instant):
    document = found("it", "trophy", TEXT)
    record = instant.attend(TEXT)
    assert (document["heads"][0]["layer"], document["heads"][0]["head"]) == (3, 1)
    weights = [one["weight"] for one in document["heads"]]
    assert len(weights) == 72 and weights == sorted(weights, reverse=True)
    for one in document["heads"]:
        assert (one["query"], one["key"]) == (
            {"index": 10, "token": "it", "shown": "it"},
            {"index": 2, "token": "trophy", "shown": "trophy"},
        )
        assert np.float32(one["weight"]) == record.map(one["layer"], one["head"])[10, 2]


def test_the_table_has_the_first_heads_of_the_document(attncli, found):
    out = attncli("find", "it", "trophy", TEXT, "--top", "4").out
    rows = [line.split() for line in out.splitlines() if line.strip()[:2].replace(".", "").isdigit()]
    heads = found("it", "trophy", TEXT)["heads"][:4]
    assert [row[:3] for row in rows] == [
        [f"{one['layer']}.{one['head']}", f"{one['weight']:.3f}", f"{one['usual']:.3f}"] for one in heads
    ]
    assert [("a sink" in line) for line in out.splitlines() if " 10 it " in line] == [
        bool(one["sinks"]) for one in heads
    ]


def test_by_content_no_sink_is_first(found):
    document = found("--by", "content", TEXT)
    above = [one["weight"] - one["usual"] for one in document["heads"]]
    assert above == sorted(above, reverse=True) and above[0] > 0.5
    assert not any(one["key"]["token"] in ("[CLS]", "[SEP]", ".") for one in document["heads"])
    narrowed = found("it", "*", TEXT, "--by", "content")
    assert {one["query"]["token"] for one in narrowed["heads"]} == {"it"}


def test_by_a_figure_of_statistics(attncli, found, tmp_path):
    (tmp_path / "texts.txt").write_text("The cat sat.\nIt was not good.\n", encoding="utf-8")
    document = found("--by", "previous", "-f", tmp_path / "texts.txt")
    heads = {
        (one["layer"], one["head"]): one["figures"]["previous"]
        for one in json.loads(attncli("stats", tmp_path / "texts.txt", "--json").out)["heads"]
    }
    values = [one["value"] for one in document["heads"]]
    assert values == sorted(heads.values(), reverse=True)
    assert all(one["value"] == heads[one["layer"], one["head"]] for one in document["heads"])
    some = found("--by", "previous", "-l", "0,2", "-H", "1-3", "-f", tmp_path / "texts.txt")
    assert {(one["layer"], one["head"]) for one in some["heads"]} == {(layer, h) for layer in (0, 2) for h in (1, 2, 3)}
    alone = attncli("find", "--by", "previous", TEXT, "--top", "1").out
    assert "0.2" in alone and "spread" not in alone, "one text has no spread"
    assert "spread" in attncli("find", "--by", "previous", "-f", tmp_path / "texts.txt").out


def test_a_saved_record_needs_no_model(attncli, found, tmp_path):
    attncli("run", "-l", "all", "-o", tmp_path / "maps.npz", TEXT)
    document = found("it", "trophy", "--from", tmp_path / "maps.npz")
    computed = found("it", "trophy", TEXT)
    assert [one["weight"] for one in document["heads"]] == [one["weight"] for one in computed["heads"]]
    assert document["heads"][0]["usual"] > 0
    figures = found("--by", "entropy", "--from", tmp_path / "maps.npz", "-l", "2")["heads"]
    computed = {(one["layer"], one["head"]): one["value"] for one in found("--by", "entropy", TEXT)["heads"]}
    assert len(figures) == 12
    for one in figures:
        assert one["value"] == pytest.approx(computed[2, one["head"]], abs=1e-5) and one["layer"] == 2


def test_content_is_the_edge_above_the_usual_and_not_the_largest():
    """A head that looks at the token before, except for one token, which looks elsewhere."""
    weights = np.eye(14, k=-1) * 0.9
    weights[9, 3], weights[9, 8] = 0.8, 0.1
    record = record_of(weights)
    [largest], [content] = heads_of([record]), heads_of([record], content=True)
    assert largest["query"]["index"] - largest["key"]["index"] == 1
    assert (content["query"]["index"], content["key"]["index"]) == (9, 3)


def test_sinks_are_named():
    weights = np.full((8, 8), 0.02)
    weights[:, 3] = SINK + 0.01
    record = record_of(weights)
    sinks = {key: heads_of([record], "the", key)[0]["sinks"] for key in ("[CLS]", "[SEP]", "3", "4")}
    assert sinks == {"[CLS]": 1, "[SEP]": 1, "3": 1, "4": 0}


@pytest.mark.parametrize("family", ["gpt2", "llama-no-bos"])
def test_the_first_token_of_a_decoder_is_a_sink_and_looks_at_nothing_but_itself(foreign, family):
    record = foreign(family).attend("the cat sat on the mat")
    for one in heads_of([record]):
        query, key = one["query"]["index"], one["key"]["index"]
        assert query > 0 and one["weight"] == record.map(one["layer"], one["head"])[1:].max()
        assert one["sinks"] == 1 or key > 0
    assert all(one["sinks"] == 1 and one["query"]["index"] > 0 for one in heads_of([record], ANY, "0"))
    assert all(one["key"]["index"] > 0 for one in heads_of([record], content=True))
    assert {one["weight"] for one in heads_of([record], "0", "0")} == {1}


def test_several_texts_are_those_that_have_both(minilm):
    texts = ["The movie was not good.", "It was good.", "Not all of it is good."]
    records = list(minilm.attend_many(texts))
    found = find_edges(records, lambda words: None, "not", "good")
    assert (found["texts"], found["of"]) == (2, 3) and "query" not in found["heads"][0]
    both = [(one.tokens.text.index("not"), one.tokens.text.index("good")) for one in (records[0], records[2])]
    for one in found["heads"][:5]:
        maps = [records[number].map(one["layer"], one["head"]) for number in (0, 2)]
        assert one["weight"] == pytest.approx(np.mean([weights[at] for weights, at in zip(maps, both, strict=True)]))


def test_a_word_in_pieces_is_found_as_a_word(minilm):
    record = minilm.attend("The disambiguation sat.")
    assert "disambiguation" not in record.tokens.text
    with pytest.warns(Notice, match="'disambiguation' is 5 tokens: di, ##sam, ##bi, ##gua, ##tion"):
        entry = heads_of([record], "sat", "disambiguation")[0]
    assert entry["key"]["token"] == "disambiguation"
    start = record.tokens.text.index("sat")
    pieces = [place for place, word in enumerate(record.tokens.words) if word == 1]
    both = record.map(entry["layer"], entry["head"])[start, pieces].sum()
    assert entry["weight"] == pytest.approx(float(both), abs=1e-6)


def test_a_missing_token_is_refused_with_similar_ones(minilm):
    text = "The cat sat on the unbelievable cat."
    record = minilm.attend(text)
    with pytest.raises(RequestError, match="no token 'catt' in the text: it has cat"):
        heads_of([record], "catt", "sat")
    with pytest.raises(RequestError, match="none of the 2 texts"):
        heads_of([record, record], "dog", "sat")
    with pytest.raises(RequestError, match="no text"):
        heads_of([], "cat", "sat")
    causal = minilm.attend(text, mask="causal")
    with pytest.raises(RequestError, match="mask causal does not allow 'the#1' to look at 'sat'"):
        heads_of([causal], "the#1", "sat")
