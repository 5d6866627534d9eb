"""Trust: on networks whose answer is known, and what is said of a random ranking."""

import json
from dataclasses import replace

import numpy as np
import pytest
from invented import embedding_model, one_head_reads
from pictures import picture_texts

from attncli import load_model
from attncli.effects.question import Asking, make_question
from attncli.features.trust import TrustResult, trust, verdict
from attncli.features.trust.erasing import Erasing, aopc, order
from attncli.features.trust.rankings import draw_rankings
from attncli.report import Maps
from attncli.report.figure import figure_of
from attncli.report.parts import three_digits

TEXT, OTHER = "c k a z e p b t g m", "the cat sat on it"
MAPS = {"attention", "norms", "rollout", "ALTI", "gradient x attention"}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return one_head_reads(tmp_path_factory.mktemp("reader"))


@pytest.fixture(scope="module")
def found(reader) -> TrustResult:
    return trust(reader, TEXT)


def test_where_all_values_are_equal_attention_is_said_not_to_matter(tmp_path):
    asking = {"similar_to": OTHER}
    same = trust(
        embedding_model(tmp_path / "same", equal_values=True), "the big cat is on it", permutations=10, **asking
    )
    assert np.abs([*same.weights.permuted, *same.weights.reordered, same.weights.uniform]).max() < 1e-12
    assert same.most_erased > 0.01
    verdict = same.document()["verdict"]
    assert (
        "95% are from 0 to 0), and by 0 with the tokens in random order too. Uniform weights change it by 0." in verdict
    )
    assert "hardly matter to this output" in verdict
    other = trust(embedding_model(tmp_path / "other"), "the big cat is on it", permutations=10, **asking)
    assert "hardly matter" not in other.document()["verdict"]


def test_an_output_that_nothing_changes_has_nothing_to_explain(tmp_path):
    deaf = one_head_reads(tmp_path / "deaf")
    deaf.need(1)
    deaf.network.layer(0).attention.output.weight.zero_()
    asking = {"target": "LABEL_1"}
    assert "there is nothing to explain" in trust(deaf, TEXT, permutations=5, **asking).document()["verdict"]


def test_where_an_output_reads_one_token_through_one_head_the_maps_beat_random_rankings(found):
    assert found.answer.about == "probability of LABEL_1"  # the likeliest
    assert [found.tokens.text[place] for place in found.read] == ["[CLS]"]
    right = np.array([ord(letter) for letter in TEXT.split()], dtype=float)
    for name in MAPS:
        assert (order(found.importances[name]) == order(right)).all(), name
    assert set(found.better) >= MAPS
    assert found.random == 200 and found.as_good.min() == 1 / 201
    verdict = found.document()["verdict"]
    assert "attention (at most 0.5%), norms (at most 0.5%), rollout (at most 0.5%), ALTI (at most 0.5%)" in verdict


def test_no_more_is_said_than_the_figures_do(found):
    """Give random rankings, and then too few tokens."""
    two = {name: found.importances[name] for name in ("attention", "norms")}
    mixed = replace(found, importances=two, scores={name: scores[::-1] for name, scores in found.scores.items()})
    assert not mixed.better and "No ranking beats random rankings." in mixed.document()["verdict"]
    few = replace(found, erasable=found.erasable[:4], sizes=[1, 2])
    assert "4 tokens are too few" in verdict(few)


# --- words ----------------------------------------------------------------------------------------------------


def test_words_stand_first_with_their_weight_and_what_deleting_them_does(attncli, tiny):
    folder, line = tiny("bert"), ("--permutations", "1", "--rankings", "120", "the unable cat sat on the mat")
    document = json.loads(attncli("trust", "-m", folder, *line, "--json").out)
    words, names = document["words"], ["the", "unable", "cat", "sat", "on", "the"]
    assert [one["word"] for one in words][:6] == names and [one["places"] for one in words][:3] == [[1], [2, 3], [4]]
    weights = (
        load_model(str(folder), device="cpu").attend("the unable cat sat on the mat").weights[-1].mean(axis=(0, 1))
    )
    for one in words:
        assert one["attention"] == pytest.approx(float(weights[one["places"]].sum()), abs=1e-6)
    assert words[0]["change"] == document["alone"][0] and words[1]["change"] not in document["alone"]
    rows = [row.split() for row in attncli("trust", "-m", folder, *line).out.splitlines()]
    start = rows.index(["word", "attention", "deleted", "others"])
    largest = max(words, key=lambda one: abs(one["change"]))
    assert rows[start + 2][0].split("#")[0] == largest["word"] and {"the#1", "the#2"} < {row[0] for row in rows if row}


# --- the share of random rankings -----------------------------------------------------------------------------


def test_a_share_counts_random_rankings_with_as_large_a_gap(tmp_path):
    model, asking = embedding_model(tmp_path), Asking(similar_to=OTHER)
    found = trust(model, "the big cat sat on it ,", permutations=2, similar_to=OTHER)
    assert found.sizes == [1, 2, 4] and found.chains == 7 * 6 * 10
    question = make_question(model, "the big cat sat on it ,", asking)
    rankings = [order(one) for one in (*found.importances.values(), *draw_rankings(7, found.random, 0))]
    gaps = np.subtract(*aopc(Erasing(question), rankings))
    count = len(found.importances)
    for name, own, share in zip(found.importances, gaps[:count], found.as_good, strict=True):
        assert share == pytest.approx((1 + np.count_nonzero(gaps[count:] >= own - 1e-9)) / (1 + found.random)), name
    assert len(set(found.as_good.round(6))) > 1  # not all first, not all last


def test_six_tokens_have_too_few_orders(reader):
    """There are 120 orders of 1, 2 and 3 of 6 tokens, and the level of six rankings is 1 in 120."""
    found = trust(reader, "c k a z e p", permutations=2)
    assert found.chains == 120 and len(found.importances) == 6
    assert "6 tokens are too few to tell" in found.document()["verdict"]


# --- the report -------------------------------------------------------------------------------------------


def test_every_ranking_is_a_row_of_the_picture(found):
    report = found.report()
    drawn = " ".join(picture_texts(figure_of(report.title, report.picture)))
    for words in ("attention", "grad x attention", "deleted alone", "mask padding"):
        assert words in drawn
    [maps] = [part for part in report.picture if isinstance(part, Maps)]
    for row, importance in zip(maps.panels[0][0].values, found.importances.values(), strict=False):
        others = len(importance) - 1  # a row has the share of the other tokens that are less important
        assert row == pytest.approx([(importance < one).sum() / others for one in importance])


# --- the command ------------------------------------------------------------------------------------------


def test_every_figure_stands_beside_its_control(attncli, tiny):
    """Without a question the output is a distance, which has no gradient by weights."""
    line = ("trust", "-m", tiny("bert"), "--permutations", "3", "--rankings", "120", "the cat sat on the mat")
    document, result = json.loads(attncli(*line, "--json").out), attncli(*line)
    assert document["output"]["kind"] == "distance"
    methods = ["attention", "norms", "rollout", "ALTI", "gradient x input"]
    assert [entry["by"] for entry in document["rankings"]] == methods
    rows = [" ".join(row.split()) for row in result.out.splitlines()]
    for entry in document["rankings"]:
        scores = (three_digits(entry[name]) for name in ("comprehensiveness", "sufficiency"))
        beginning = " ".join([entry["by"], *scores, f"{entry['as_good']:.1%}"])
        assert any(row.startswith(beginning) for row in rows), (beginning, rows)
    random, weights = document["random"], document["weights"]
    assert f"random, mean {three_digits(random['comprehensiveness'])} {three_digits(random['sufficiency'])}" in rows
    sizes = weights["permuted"]["median"], *weights["permuted"]["interval"], weights["reordered"]["median"]
    middle, low, high, mixed = map(three_digits, sizes)
    assert f"by {middle} (median of 3 draws; 95% are from {low} to {high}), and by {mixed} with" in document["verdict"]
    assert " ".join(document["verdict"].split()) in " ".join(result.out.split())
