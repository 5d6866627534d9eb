"""Trust: on networks whose answer is known, and what is said of a random ranking."""

from dataclasses import replace

import numpy as np
import pytest
from invented import embedding_model, one_head_reads

from attncli.analysis.trust import Trust
from attncli.base.errors import RequestError
from attncli.effects.asking import Asking, question
from attncli.effects.trust.aopc import aopc, order
from attncli.effects.trust.erasing import Erasing
from attncli.effects.trust.evidence import Controls, trust
from attncli.effects.trust.rankings import drawn

TEXT, OTHER = "c k a z e p b t g m", "the cat sat on it"
MAPS = {"attention", "norms", "rollout", "ALTI", "gradient x attention"}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return one_head_reads(tmp_path_factory.mktemp("reader"))


@pytest.fixture(scope="module")
def found(reader) -> Trust:
    return trust(reader, TEXT)


def test_where_all_values_are_equal_attention_is_said_not_to_matter(tmp_path):
    asking, controls = Asking(similar_to=OTHER), Controls(permutations=10)
    same = trust(embedding_model(tmp_path / "same", equal_values=True), "the big cat is on it", asking, controls)
    assert np.abs(same.shuffles.permuted).max() < 1e-12 and np.abs(same.shuffles.uniform).max() < 1e-12
    assert same.most_erased > 0.01
    verdict = same.document()["verdict"]
    assert "by 0 (median), uniform weights by 0, where erasing" in verdict and "hardly matter to this output" in verdict
    other = trust(embedding_model(tmp_path / "other"), "the big cat is on it", asking, controls)
    assert "attention's weights matter here" in other.document()["verdict"]


def test_an_output_that_nothing_changes_has_nothing_to_explain(tmp_path):
    deaf = one_head_reads(tmp_path / "deaf")
    deaf.need(1)
    deaf.network.layer(0).attention.output.weight.zero_()
    asking = Asking(target="LABEL_1")
    assert "there is nothing to explain" in trust(deaf, TEXT, asking, Controls(permutations=5)).document()["verdict"]


def test_where_an_output_reads_one_token_through_one_head_the_maps_beat_random_rankings(found):
    assert found.answer.about == "probability of LABEL_1"  # the likeliest
    assert [found.tokens.text[place] for place in found.read] == ["[CLS]"]
    right = np.array([ord(letter) for letter in TEXT.split()], dtype=float)
    for name in MAPS:
        assert (order(found.importances[name]) == order(right)).all(), name
    assert set(found.better) >= MAPS
    assert found.as_good.min() == 1 / 201  # itself and 200 random ones
    for erased in found.erased:
        for name, score in (("comprehensiveness", 1.0), ("sufficiency", 0.0)):
            normalised = erased.normalised(name)
            assert normalised is not None and normalised[found.methods.index("attention")] == pytest.approx(
                score, abs=0.01
            )
    verdict = found.document()["verdict"]
    assert "attention's weights matter here" in verdict and "attention, norms, rollout, ALTI" in verdict
    assert "beat random rankings at 0.8%, which is 5% over all 6" in verdict


def test_no_more_is_said_than_the_figures_do(found):
    """The same, with rankings that the network knows nothing of; and with too few tokens."""
    nothing = replace(found, importances={name: found.importances[name] for name in ("attention", "norms")})
    backwards = [{name: scores[::-1] for name, scores in one.aopc.items()} for one in found.erased]
    mixed = replace(
        nothing, erased=[replace(one, aopc=scores) for one, scores in zip(found.erased, backwards, strict=True)]
    )
    assert not mixed.better and "no ranking of its tokens can be told from random ones" in mixed.document()["verdict"]
    few = replace(found, erasable=found.erasable[:4], sizes=[1, 2])
    assert "4 tokens are too few" in few.document()["verdict"]


def test_a_random_ranking_beats_random_ones_no_more_often_than_its_level(reader, found):
    draws, controls = 80, 120
    asked = question(reader, TEXT, Asking(target="LABEL_1", kind="probability"))
    rankings = [order(one) for one in drawn(len(found.erasable), draws * (1 + controls), seed=1)]
    scores = {way: aopc(Erasing(asked, way), rankings) for way in ("mask", "deletion")}
    said = 0
    for start in range(0, len(rankings), 1 + controls):
        some = slice(start, start + 1 + controls)
        names = ("comprehensiveness", "sufficiency")
        erased = [
            replace(one, aopc={name: score[some] for name, score in zip(names, scores[one.way], strict=True)})
            for one in found.erased
        ]
        said += bool(replace(found, importances={"random": np.zeros(0)}, erased=erased, taus={}).better)
    assert said <= 9  # of 80 at 5%: more come by chance in 1 of 100 (a binomial's tail)


def test_two_tokens_are_needed(reader):
    with pytest.raises(RequestError, match="this text has 1: give a longer one"):
        trust(reader, "a")


def test_the_same_seed_gives_the_same(reader, found):
    assert trust(reader, TEXT).document() == found.document()
