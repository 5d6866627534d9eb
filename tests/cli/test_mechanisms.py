"""attncli mechanisms."""

import json
import re

import numpy as np
import pytest

from attncli.attention import NORMALISERS, SCORES
from attncli.attention.mistakes import MISTAKES
from attncli.checks.claims import check_claims
from attncli.checks.designs import designs
from attncli.checks.looks import HeadInLayer
from attncli.checks.papers import check_papers
from attncli.checks.planted import planted
from attncli.checks.variants import variants
from attncli.models.head import one_head

TEXT = "The trophy does not fit in the suitcase because it is too big."
WHERE = ("-l", "4", "-H", "3")


@pytest.mark.slow
def test_json_gives_the_library_s_numbers(attncli, minilm):
    options = ("--mask", "causal", "--pad-to", "18", "--temperature", "0.5", "--seed", "3")
    document = json.loads(attncli("mechanisms", TEXT, *WHERE, *options, "--json").out)
    head = one_head(minilm, minilm.tokenizer.encode(TEXT, None, 18), 4, 3, "causal")
    np.testing.assert_array_equal(np.float32(document["weights"]), head.record.map(4, 3))
    assert document["tokens"] == head.record.tokens.text
    assert [document[name] for name in ("layer", "head", "mask", "temperature", "seed")] == [4, 3, "causal", 0.5, 3]
    assert document["model"]["name"] == "minilm"
    for found, expected in zip(document["variants"], variants(head, 0.5, 3), strict=True):
        np.testing.assert_allclose(found.pop("weights"), expected.weights, atol=1e-6)
        rest = {name: value for name, value in vars(expected).items() if name != "weights"}
        assert found == pytest.approx(rest, abs=1e-6)
    in_layer = HeadInLayer.of(minilm, head)
    for found, expected in zip(document["designs"], designs(in_layer, 2, 0.5, 3), strict=True):
        assert (found["name"], found["verdict"]) == (expected.name, expected.verdict)
        np.testing.assert_allclose(found["weights"], expected.look.weights, atol=1e-6)
        np.testing.assert_allclose(found["control_weights"], expected.controls[0].weights, atol=1e-6)
    claims = [*check_claims(minilm, head, 3), *check_papers(head, in_layer, 3)]
    for found, expected in zip(document["claims"], claims, strict=True):
        assert found.pop("figures") == pytest.approx(expected.figures, abs=1e-5)
        assert found == {name: value for name, value in vars(expected).items() if name != "figures"}


def test_its_own_map_is_what_run_says(attncli):
    document = json.loads(attncli("mechanisms", TEXT, *WHERE, "--json").out)
    ran = json.loads(attncli("run", TEXT, *WHERE, "--json").out)["records"][0]
    assert np.array_equal(np.float32(document["weights"]), np.float32(ran["attention"][0]["weights"]))


def test_maps_figures_and_claims_are_shown(attncli):
    result = attncli("mechanisms", TEXT, *WHERE)
    assert (result.code, result.err) == (0, "")
    assert result.out.index("the head's own map") < result.out.index("dot\nsoftmax")
    for score in SCORES:
        for normaliser in NORMALISERS:
            assert re.search(rf"^ {score} +{normaliser} +\d", result.out, re.MULTILINE), (score, normaliser)
    assert re.search(r"scaled_dot +softmax +1\.72 +0\.000 +100%$", result.out, re.MULTILINE)
    assert "additive, untrained (seed 0)" in result.out
    assert "17 of 17 claims hold here" in result.out
    assert re.search(r"^ as it is +1\.72 +5\.46 +0\.000$", result.out, re.MULTILINE)
    for line in (r"rotary, halves", "relative buckets, untrained", "ALiBi", "window of 2, causal", "keys of 12 heads"):
        assert re.search(rf"^ {line} +\d\.\d\d +\d\.\d\d \(\d\.\d\d\) ", result.out, re.MULTILINE), line


def test_a_claim_that_does_not_hold_is_a_finding_and_no_error(attncli):
    result = attncli("mechanisms", TEXT, "-l", "0", "-H", "0")
    assert result.code == 0
    assert re.search(r"^ DOES NOT HOLD here +without the division softmax saturates", result.out, re.MULTILINE)
    assert re.search(r"\d+ of 17 claims hold here", result.out)


@pytest.mark.parametrize("suffix", [".svg", ".csv", None])
def test_one_design_alone(attncli, tmp_path, suffix):
    """Its map between the head's own and a control, and its figures; nothing of the scores and the claims."""
    place = () if suffix is None else ("-o", tmp_path / f"design{suffix}")
    result = attncli("mechanisms", TEXT, *WHERE, "--design", "causal-window", "--reach", "3", *place)
    assert (result.code, result.err) == (0, "")
    shown = result.out if suffix is None else (tmp_path / f"design{suffix}").read_text(encoding="utf-8")
    assert "window of 3, causal" in shown and "positions shuffled" in shown
    assert "additive" not in shown and "claims hold" not in shown
    if suffix is None:
        assert "as it is" in shown and "looks nearer" in shown
        assert len(shown.splitlines()) < 36


def test_options_that_a_design_has_no_use_for_are_refused(refused):
    said = refused("mechanisms", TEXT, "--design", "alibi", "--reach", "3")
    assert "--reach has no effect with --design alibi, which is no window" in said
    said = refused("mechanisms", TEXT, "--design", "grouped", "--seed", "3")
    assert "--seed has no effect with --design grouped, where nothing is random" in said


def test_mistakes_alone(attncli):
    """The maps that they change, the control, and a row for each; nothing of the scores, the designs and the claims."""
    result = attncli("mechanisms", TEXT, *WHERE, "--mistakes")
    assert (result.code, result.err) == (0, "")
    assert "additive" not in result.out and "claims hold" not in result.out and "ALiBi" not in result.out
    assert result.out.index("as it is") < result.out.index("no scale")
    assert re.search(r"^ maps exchanged +0\.421 \(0\.367\) +1\.05 ", result.out, re.MULTILINE)
    assert re.search(r"^ no scale +0\.420 \(0\.409\) +0\.95 +without the division by √d_k$", result.out, re.MULTILINE)
    assert re.search(r"^ causal off by one +- +- +shows only with a causal mask$", result.out, re.MULTILINE)
    for mistake in MISTAKES:
        assert re.search(rf"^ {re.escape(mistake.name)}  +[\d-]", result.out, re.MULTILINE), mistake.name
    causal = attncli("mechanisms", TEXT, *WHERE, "--mistakes", "--mask", "causal")
    assert re.search(r"^ causal off by one +\d\.\d{3} \(\d\.\d{3}\) +\d\.\d\d +in which", causal.out, re.MULTILINE)


def test_mistakes_as_json_are_the_library_s(attncli, minilm):
    document = json.loads(attncli("mechanisms", TEXT, *WHERE, "--mistakes", "--json").out)
    found = planted(minilm, one_head(minilm, minilm.tokenizer.encode(TEXT), 4, 3, "padding")).document()
    assert [document[name] for name in ("variants", "designs", "claims")] == [[], [], []]
    assert document["mistakes"]["exchanged"] == pytest.approx(found["exchanged"], abs=1e-6)
    for one, expected in zip(document["mistakes"]["made"], found["made"], strict=True):
        weights, expected_weights = one.pop("weights"), expected.pop("weights")
        assert one == pytest.approx(expected, abs=1e-5)
        assert (weights is None) == (expected_weights is None)
        if weights is not None:
            np.testing.assert_allclose(weights, expected_weights, atol=1e-6)


@pytest.mark.parametrize(
    "more", [("--design", "alibi"), ("--temperature", "2"), ("--reach", "3"), ("--seed", "1")], ids=lambda more: more[0]
)
def test_what_mistakes_have_no_use_for_is_refused(refused, more):
    said = refused("mechanisms", TEXT, "--mistakes", *more)
    assert f"{more[0]} has no effect with --mistakes, which are made in the head as it is: leave it out" in said


def test_a_model_whose_scores_have_terms_has_no_mistakes(refused, tiny):
    said = refused("mechanisms", "the cat", "-m", tiny("mpnet"), "-l", "0", "--mistakes")
    assert "positions add to that in mpnet: take another model, or leave --mistakes out" in said


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg", ".csv"])
def test_mistakes_saved(attncli, tmp_path, suffix):
    path = tmp_path / f"mistakes{suffix}"
    result = attncli("mechanisms", TEXT, *WHERE, "--mistakes", "-o", path)
    assert (result.code, result.out.strip()) == (0, str(path))
    if suffix == ".png":
        assert path.stat().st_size > 1000
        return
    written = path.read_text(encoding="utf-8")
    assert all(words in written for words in ("no scale", "q and k swapped", "temperature"))
    assert ("keys as values" in written) == (suffix == ".csv")  # its map is the head's own


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_drawn(attncli, tmp_path, suffix):
    path = tmp_path / f"mechanisms{suffix}"
    result = attncli("mechanisms", TEXT, *WHERE, "-o", path)
    assert (result.code, result.out.strip()) == (0, str(path))
    assert path.stat().st_size > 1000
    if suffix == ".svg":
        drawn = path.read_text(encoding="utf-8")
        assert all(words in drawn for words in ("scaled_dot", "additive (untrained)", "hard_sample", "trophy"))


@pytest.mark.slow
def test_a_picture_beside_json_is_named_on_stderr(attncli, tmp_path):
    result = attncli("mechanisms", TEXT, *WHERE, "--json", "-o", tmp_path / "maps.png")
    assert json.loads(result.out)["layer"] == 4
    assert "saved" in result.err and (tmp_path / "maps.png").exists()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--temperature", "0"), "--temperature 0 is out of range: give one from 0.001 to 1000"),
        (("--temperature", "nan"), "--temperature nan is out of range"),
        (("--temperature", "1e-30"), "--temperature 1e-30 is out of range"),
        (("--seed", "-1"), "--seed"),
        (("-l", "0,1"), "one layer is needed, not 2"),
        (("-H", "all"), "one head is needed, not 12"),
        (("-H", "12"), "head 12 is out of range"),
        (("--mask", "x"), "no mask 'x'"),
        (("-o", "maps.txt"), "what is measured is saved as"),
    ],
)
def test_what_can_not_be_measured(refused, options, line):
    assert line in refused("mechanisms", TEXT, *options)


def test_one_text_at_a_time(refused, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("one cat\ntwo cats\n", encoding="utf-8")
    assert "there are 2 texts" in refused("mechanisms", "-f", path)


# --- a network that transformers runs ----------------------------------------------------------------------


@pytest.mark.parametrize("more", [("gpt2",), ("gpt_oss",), ("t5",), ("t5", "--which", "encoder")])
def test_a_network_of_transformers_has_what_needs_no_projections(attncli, foreign, tmp_path, more):
    family, *which = more
    where = ["-m", foreign(family).place.path, "-l", "1", "-H", "1", *which, "the cat sat on a mat"]
    document = json.loads(attncli("mechanisms", *where, "--json").out)
    assert len(document["variants"]) == len(SCORES) * len(NORMALISERS)
    shown = attncli("mechanisms", *where)
    assert shown.code == 0 and "Left out: claims and designs that need a layer's input and projections" in shown.out
    assert ("the head's own score" in shown.out) == (family != "t5")  # which does not divide by √d_k
    assert ("window of 2, causal" in shown.out) == (more != ("t5",))
    drawn = tmp_path / "a.svg"
    assert attncli("mechanisms", *where, "-o", drawn).code == 0
    written = " ".join(re.findall(r">([^<>]+)</text>", drawn.read_text(encoding="utf-8")))
    assert ("is the head's own score" in written) == (family != "t5")
    assert ("but for its sink" in written) == (family == "gpt_oss")


def test_a_network_of_transformers_refuses_what_needs_projections(refused, attncli, foreign):
    where = ["-q", "-m", foreign("gpt2").place.path, "-l", "1", "the cat sat"]
    assert "--design rotary needs a layer's projections, which" in refused("mechanisms", *where, "--design", "rotary")
    assert "--mistakes are made in a layer's projections" in refused("mechanisms", *where, "--mistakes")
    assert attncli("mechanisms", *where, "--design", "causal-window", "--reach", "1").code == 0
