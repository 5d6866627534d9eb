"""attncli cut."""

import json
import re

import numpy as np
import pytest
from checkpoints import make_checkpoint
from PIL import Image
from scipy.stats import spearmanr

TEXT = "The cat sat on the mat."


def test_some_edges_at_once_and_their_weights(attncli, minilm):
    said = json.loads(attncli("cut", "--cut", "sat", "cat", "--cut", "mat", "*", "-l", "4,5", TEXT, "--json").out)
    edges = [(edge["query"]["index"], edge["key"]["index"]) for edge in said["edges"]]
    assert edges == [(3, 2), *((6, key) for key in range(9))]
    record = minilm.attend(TEXT, layers="4,5")
    for edge, (query, key) in zip(said["edges"], edges, strict=True):
        assert edge["weight"] == pytest.approx(record.weights[:, :, query, key].mean(), abs=1e-6)
    assert [one["layer"] for one in said["effects"]] == [None, 4, 5]
    assert all(one["control"] is None and one["effect"] > 0 for one in said["effects"])  # no other key of "mat" is left
    shown = attncli("cut", "--cut", "sat", "cat", "--cut", "mat", "*", "-l", "4,5", TEXT).out
    assert "no control: these queries have not as many other edges" in shown
    assert "minilm · how far the last vectors move" in shown and "cut in layers 4-5 and all heads" in shown


def test_each_edge_in_the_terminal_as_in_the_document(attncli):
    line = ("cut", "--into", "cat", "-l", "5", TEXT)
    said, shown = json.loads(attncli(*line, "--json").out), attncli(*line, "--top", "3").out
    assert {edge["key"]["token"] for edge in said["edges"]} == {"cat"} and len(said["edges"]) == 9
    sizes = [abs(edge["effect"]) for edge in said["edges"]]
    assert sizes == sorted(sizes, reverse=True)
    rows = [line.split() for line in shown.splitlines()]
    table = rows[rows.index(["from", "to", "effect", "mean", "weight", "its", "rank"]) + 2 :][:3]
    for row, edge in zip(table, said["edges"][:3], strict=True):
        assert row[0].partition("#")[0] == edge["query"]["token"]
        assert float(row[2]) == pytest.approx(edge["effect"], rel=0.01)
        assert row[3] == f"{edge['weight']:.3f}"
    assert f"rank correlation {said['correlation']['rho']:+.2f} over 9 edges" in " ".join(shown.split())


def test_only_edges_that_can_have_an_effect_are_ranked(attncli, tmp_path):
    """A classifier reads [CLS]: in the last layer 7 of 49 edges reach it, and of these weights tell."""
    folder = make_checkpoint(tmp_path, "bert", "ForSequenceClassification", num_hidden_layers=3)
    line = ("cut", "-m", str(folder), "--keep-rest", "-l", "2", "-H", "0", "--target", "LABEL_1", "the cat sat on it")
    said = json.loads(attncli(*line, "--json").out)
    can = [edge for edge in said["edges"] if edge["can_matter"]]
    assert len(said["edges"]) == 49 and said["edges"][:7] == can and len(can) == 7
    assert {edge["query"]["index"] for edge in can} == {0} and {edge["effect"] for edge in said["edges"][7:]} == {0}
    rho = spearmanr([edge["weight"] for edge in can], [abs(edge["effect"]) for edge in can]).statistic
    assert said["correlation"]["rho"] == pytest.approx(rho) and said["correlation"]["count"] == 7
    shown = attncli(*line, "--top", "20").out
    words = " ".join(shown.split())
    assert f"rank correlation {rho:+.2f} over the 7 of 49 edges that can have an effect; with the effects" in words
    assert "freely permuted over these edges" in words
    assert sum(line.split()[:1] == ["[CLS]"] for line in shown.splitlines()) == 7
    none = " ".join(attncli(*line[:-1], "--out-of", "cat", line[-1]).out.split())
    assert "none of these 7 edges can have an effect" in none


def test_what_a_mask_hides_is_empty_in_the_map_and_not_in_the_document(attncli):
    said = json.loads(attncli("cut", "--mask", "causal", "-l", "5", "-H", "0", "The cat.", "--json").out)
    assert {(edge["query"]["index"], edge["key"]["index"]) for edge in said["edges"]} == {
        (query, key) for query in range(5) for key in range(query + 1)
    }
    lines = attncli("cut", "--mask", "causal", "-l", "5", "-H", "0", "The cat.").out.splitlines()
    for map_name in ("effect, queries", "mean weight, queries"):
        start = next(place for place, line in enumerate(lines) if line.startswith(map_name)) + 2
        assert [len(line.split()) - 2 for line in lines[start : start + 5]] == [1, 2, 3, 4, 5]


@pytest.mark.slow
@pytest.mark.parametrize("line", [(), ("--cut", "sat", "cat", "--cut", "sat", "on"), ("--into", "cat")])
def test_pictures_say_what_they_show(attncli, tmp_path, line):
    path = tmp_path / "a.svg"
    attncli("cut", *line, "-l", "5", TEXT, "-o", str(path))
    drawn = " ".join(re.findall(">([^<>]+)</text>", path.read_text(encoding="utf-8")))
    assert "cut in layer 5" in drawn and ("sat to cat, sat to on" in drawn) == ("sat" in line)
    attncli("cut", *line, "-l", "5", TEXT, "-o", str(tmp_path / "a.png"))
    assert len(np.unique(np.asarray(Image.open(tmp_path / "a.png")).reshape(-1, 4), axis=0)) > 50


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("--cut", "cat", "dog"), "no token 'dog' in the text: it has"),
        (("--cut", "cat", "mat", "--mask", "causal"), "from 'cat' to 'mat' there is nothing to cut"),
        (("--cut", "cat", "sat", "--into", "cat"), "--into has no effect with --cut"),
        (("--cut", "cat", "sat", "--top", "3"), "--top has no effect with --cut"),
        (("--json", "--top", "3"), "--top has no effect with --json"),
    ],
)
def test_what_is_refused(attncli, line, said):
    result = attncli("cut", *line, TEXT)
    assert result.code == 2 and result.out == "" and said in result.err


def test_one_text_alone_is_cut(attncli, tmp_path):
    (tmp_path / "two.txt").write_text("one\ntwo\n", encoding="utf-8")
    result = attncli("cut", "-f", str(tmp_path / "two.txt"))
    assert result.code == 2 and "there are 2 texts and one is needed" in result.err
