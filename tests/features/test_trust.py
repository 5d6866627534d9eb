"""Trust: on networks whose answer is known, and what is said of a random ranking."""

import json
from dataclasses import replace

import numpy as np
import pytest
from invented import embedding_model, one_head_reads
from pictures import picture_texts

from attncli.effects.question import Asking, make_question
from attncli.features.trust import TrustResult, _report, trust, verdict
from attncli.features.trust.erasing import Erasing, aopc, order
from attncli.features.trust.rankings import draw_rankings
from attncli.report import Maps
from attncli.report.figure import figure_of

TEXT, OTHER = "c k a z e p b t g m", "the cat sat on it"
MAPS = {"attention", "norms", "rollout", "ALTI", "gradient x attention"}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return one_head_reads(tmp_path_factory.mktemp("reader"))


@pytest.fixture(scope="module")
def found(reader) -> TrustResult:
    return trust(reader, TEXT)


def test_where_all_values_are_equal_attention_is_said_not_to_matter(tmp_path):
    asking = Asking(similar_to=OTHER)
    same = trust(embedding_model(tmp_path / "same", equal_values=True), "the big cat is on it", asking, permutations=10)
    assert np.abs(same.shuffles.permuted).max() < 1e-12 and np.abs(same.shuffles.uniform).max() < 1e-12
    assert same.most_erased > 0.01
    verdict = same.document()["verdict"]
    assert "by 0 (median), and uniform weights by 0." in verdict and "hardly matter to this output" in verdict
    other = trust(embedding_model(tmp_path / "other"), "the big cat is on it", asking, permutations=10)
    assert "hardly matter" not in other.document()["verdict"]


def test_an_output_that_nothing_changes_has_nothing_to_explain(tmp_path):
    deaf = one_head_reads(tmp_path / "deaf")
    deaf.need(1)
    deaf.network.layer(0).attention.output.weight.zero_()
    asking = Asking(target="LABEL_1")
    assert "there is nothing to explain" in trust(deaf, TEXT, asking, permutations=5).document()["verdict"]


def test_where_an_output_reads_one_token_through_one_head_the_maps_beat_random_rankings(found):
    assert found.answer.about == "probability of LABEL_1"  # the likeliest
    assert [found.tokens.text[place] for place in found.read] == ["[CLS]"]
    right = np.array([ord(letter) for letter in TEXT.split()], dtype=float)
    for name in MAPS:
        assert (order(found.importances[name]) == order(right)).all(), name
    assert set(found.better) >= MAPS
    assert found.random == 200 and found.as_good.min() == 1 / 201
    verdict = found.document()["verdict"]
    assert "attention (0.5%), norms (0.5%), rollout (0.5%), ALTI (0.5%)" in verdict
    assert "at most 0.8% of them are as good (5% over all 6)" in verdict


def test_no_more_is_said_than_the_figures_do(found):
    """Give random rankings, and then too few tokens."""
    two = {name: found.importances[name] for name in ("attention", "norms")}
    backwards = [{name: scores[::-1] for name, scores in one.aopc.items()} for one in found.erased]
    mixed = replace(
        found,
        importances=two,
        erased=[replace(one, aopc=scores) for one, scores in zip(found.erased, backwards, strict=True)],
    )
    assert not mixed.better and "None does." in mixed.document()["verdict"]
    few = replace(found, erasable=found.erasable[:4], sizes=[1, 2])
    assert "4 tokens are too few" in verdict(few)


@pytest.mark.slow
def test_a_random_ranking_beats_random_ones_no_more_often_than_its_level(reader, found):
    draws, controls = 80, 120
    question = make_question(reader, TEXT, Asking(target="LABEL_1", ask="probability"))
    rankings = [order(one) for one in draw_rankings(len(found.erasable), draws * (1 + controls), seed=1)]
    scores = {way: aopc(Erasing(question, way), rankings) for way in ("mask", "deletion")}
    verdicts = 0
    for start in range(0, len(rankings), 1 + controls):
        some = slice(start, start + 1 + controls)
        names = ("comprehensiveness", "sufficiency")
        erased = [
            replace(one, aopc={name: score[some] for name, score in zip(names, scores[one.way], strict=True)})
            for one in found.erased
        ]
        one = replace(found, importances={"random": np.zeros(0)}, erased=erased)
        verdicts += bool(one.better)
    assert verdicts <= 9  # of 80 at 5%: more come by chance in 1 of 100 (a binomial's tail)


# --- words ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_words_stand_first_with_their_weight_and_what_erasing_them_does(attncli, minilm):
    text, other = "The unbelievably cat saw the dog.", "A cat is sitting on a rug."
    line = ("trust", "--permutations", "2", "--rankings", "120", "--similar-to", other, text)
    document, shown = json.loads(attncli(*line, "--json").out), attncli(*line).out
    names = ["the", "unbelievably", "cat", "saw", "the", "dog", "."]
    assert [one["word"] for one in document["words"]] == names
    assert [one["places"] for one in document["words"]][:3] == [[1], [2, 3, 4, 5, 6], [7]]
    weights = minilm.attend(text).weights[-1].mean(axis=(0, 1))
    for one in document["words"]:
        assert one["attention"] == pytest.approx(float(weights[one["places"]].sum()), abs=1e-6)
        if len(one["places"]) == 1:
            place = document["erased"].index(one["places"][0])
            assert one["change"] == {way: changes[place] for way, changes in document["alone"].items()}
    left = attncli("similar", "The cat saw the dog.", other, "--json").out
    change = document["output"]["value"] - json.loads(left)["cosine"]
    assert document["words"][1]["change"]["deletion"] == pytest.approx(change, abs=1e-5)
    rows = [row.split() for row in shown.splitlines()]
    start = rows.index(["word", "attention", "[MASK]", "others", "deleted", "others"])
    assert start < next(place for place, row in enumerate(rows) if row[:2] == ["other", "weights"])
    sizes = [abs(one["change"]["mask"]) for one in document["words"]]
    assert rows[start + 2][0] == names[int(np.argmax(sizes))] and {"the#1", "the#2"} < {row[0] for row in rows if row}


# --- the share of random rankings -----------------------------------------------------------------------------


def test_a_share_counts_random_rankings_with_as_large_a_gap(tmp_path):
    model, asking = embedding_model(tmp_path), Asking(similar_to=OTHER)
    found = trust(model, "the big cat sat on it ,", asking, permutations=2)
    assert found.sizes == [1, 2, 4] and found.chains == 7 * 6 * 10
    question = make_question(model, "the big cat sat on it ,", asking)
    rankings = [order(one) for one in (*found.importances.values(), *draw_rankings(7, found.random, 0))]
    gaps = np.mean([np.subtract(*aopc(Erasing(question, way), rankings)) for way in ("mask", "deletion")], axis=0)
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


def test_every_ranking_and_every_way_of_erasing_is_a_row_of_the_picture(found):
    report = _report(found, None)
    drawn = " ".join(picture_texts(figure_of(report.title, report.picture)))
    for words in ("attention", "grad x attention", "alone, [MASK]", "alone, deleted", "mask padding"):
        assert words in drawn
    [maps] = [part for part in report.picture if isinstance(part, Maps)]
    for row, importance in zip(maps.panels[0][0].values, found.importances.values(), strict=False):
        others = len(importance) - 1  # a row has the share of the other tokens that are less important
        assert row == pytest.approx([(importance < one).sum() / others for one in importance])


# --- the command ------------------------------------------------------------------------------------------

SENTENCE, SECOND = "the cat sat on the mat", "a cat is on a rug"
QUICK = ("--permutations", "5", "--rankings", "120")


@pytest.fixture(scope="module")
def library(minilm):
    return trust(minilm, SENTENCE, Asking(similar_to=SECOND), permutations=5, rankings=120)


@pytest.mark.slow
def test_the_document_is_the_librarys(attncli, library):
    result = attncli("trust", *QUICK, "--json", SENTENCE, "--similar-to", SECOND)
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out) == json.loads(json.dumps(library.document()))


@pytest.mark.slow
def test_every_ranking_stands_in_the_table_beside_random_ones(attncli, library):
    result = attncli("trust", *QUICK, SENTENCE, "--similar-to", SECOND)
    assert result.code == 0
    lines = result.out.splitlines()
    others = ("random, mean", "random, 95% from", "random, 95% to", "all layers", "layer 5")
    for name in (*library.importances, *others):
        assert any(line.strip().startswith(name) for line in lines), name
    document = library.document()
    for entry in document["rankings"]:
        [row] = [line for line in lines if line.strip().startswith(f"{entry['by']} ") and "%" in line]
        assert f"{entry['as_good']:.1%}" in row and f"{entry['deletion']['sufficiency']:.3g}"[:5] in row
    assert " ".join(document["verdict"].split()) in " ".join(result.out.split())
    assert "first 1, 2, 3 of 6 tokens" in " ".join(result.out.split())
    assert f"share of {library.random} random rankings whose" in " ".join(result.out.split())


@pytest.mark.slow
def test_of_a_distance_there_is_no_gradient_by_weights(attncli):
    result = attncli("trust", *QUICK, "--json", SENTENCE)
    document = json.loads(result.out)
    assert document["output"]["kind"] == "distance"
    methods = [entry["by"] for entry in document["rankings"]]
    assert "gradient x attention" not in methods and "gradient x input" in methods
