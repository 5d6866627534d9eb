"""attncli mechanisms: one head under every score, in other designs, with mistakes; and the claims on it."""

import json
import re

import pytest

from attncli import mechanisms
from attncli.attention import NORMALISERS, SCORES
from attncli.attention.mistakes import MISTAKES
from attncli.base.errors import RequestError
from attncli.features.mechanisms import NAMES
from attncli.features.mechanisms.claims import CLAIMS

TEXT = "The trophy does not fit in the suitcase because it is too big."
WHERE = ("-l", "4", "-H", "3")


@pytest.mark.slow
def test_maps_figures_and_claims_are_shown(attncli):
    short = attncli("mechanisms", TEXT, *WHERE).out.splitlines()
    assert len(short) <= 40 and sum(line.startswith(" yes") for line in short) == len(CLAIMS)
    result = attncli("mechanisms", TEXT, *WHERE, "--all")
    assert (result.code, result.err) == (0, "")
    assert result.out.index("the head's own map") < result.out.index("\ndot product\nsoftmax")
    for score in SCORES:
        for normaliser in NORMALISERS if score in ("dot", "scaled_dot") else ("softmax",):
            shown = rf"^ {NAMES.get(score, score)} +{NAMES.get(normaliser, normaliser)} +\d"
            assert re.search(shown, result.out, re.MULTILINE), (score, normaliser)
    assert re.search(r"scaled dot product +softmax +1\.72 +0\.000 +100% +0% +0\.00$", result.out, re.MULTILINE)
    assert "untrained, softmax" in result.out
    assert "the parameters are random (seed 0)" in " ".join(result.out.split())
    assert f"{len(CLAIMS)} of {len(CLAIMS)} claims hold here" in result.out
    assert re.search(r"^ as it is +1\.72 +5\.46 +0\.000$", result.out, re.MULTILINE)
    for line in (r"rotary, halves", "relative buckets, untrained", "ALiBi", "window of 2, causal", "keys of 12 heads"):
        assert re.search(rf"^ {line} +\d\.\d\d +\d\.\d\d \(\d\.\d\d\) ", result.out, re.MULTILINE), line


def test_a_claim_that_does_not_hold_is_a_finding_and_no_error(attncli):
    result = attncli("mechanisms", TEXT, "-l", "0", "-H", "0")
    assert result.code == 0
    assert re.search(r"^ NO +without the division, softmax saturates", result.out, re.MULTILINE)
    assert re.search(rf"\d+ of {len(CLAIMS)} claims hold here", result.out)


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


# --- a network that transformers runs ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("more", [("opt",), ("gpt_oss",), ("t5",), ("t5", "--which", "encoder")])
def test_a_network_of_transformers_has_what_needs_no_projections(attncli, foreign, tmp_path, more):
    family, *which = more
    where = ["-m", foreign(family).place.path, "-l", "1", "-H", "1", *which, "the cat sat on a mat"]
    document = json.loads(attncli("mechanisms", *where, "--json").out)
    assert len(document["variants"]) == len(SCORES) - 2 + 2 * len(NORMALISERS)
    shown = attncli("mechanisms", *where, "--all")
    assert shown.code == 0 and "Left out: claims and designs that need a layer's input and projections" in shown.out
    divided = family == "gpt_oss"  # by √d_k: T5 does not, and OPT divides the queries before
    assert ("the head's own score" in shown.out) == divided
    assert ("window of 2, causal" in shown.out) == (more != ("t5",))
    drawn = tmp_path / "a.svg"
    assert attncli("mechanisms", *where, "-o", drawn).code == 0
    written = " ".join(re.findall(r">([^<>]+)</text>", drawn.read_text(encoding="utf-8")))
    assert ("is the head's own score" in written) == divided
    assert ("except for its sink" in written) == (family == "gpt_oss")


def test_a_network_of_transformers_refuses_what_needs_projections(refused, attncli, foreign):
    where = ["-q", "-m", foreign("opt").place.path, "-l", "1", "the cat sat"]
    assert "--design rotary needs a layer's projections, which" in refused("mechanisms", *where, "--design", "rotary")
    assert "--mistakes needs a layer's projections" in refused("mechanisms", *where, "--mistakes")
    assert attncli("mechanisms", *where, "--design", "causal-window", "--reach", "1").code == 0


@pytest.mark.parametrize("family", ["llama", "qwen3", "olmo2"])
def test_a_decoder_of_our_own_has_its_projections(attncli, refused, tiny, family):
    """Claims about W_Q and W_K alone are not made of queries and keys that are normalised after them."""
    where = ["-m", tiny(family), "-l", "1", "-H", "1", "the cat sat on a mat"]
    claims = {one["name"]: one["holds"] for one in json.loads(attncli("mechanisms", *where, "--json").out)["claims"]}
    normed = family != "llama"
    assert ("bilinear" not in claims) == ("heads alike" not in claims) == normed
    if normed:
        assert "queries and keys are normalised in" in refused("mechanisms", *where, "--mistakes")
    else:  # whose heads are narrower together than its vectors, so that W_O can't be left out
        assert claims["bilinear"] and claims["heads alike"]
        made = json.loads(attncli("mechanisms", *where, "--mistakes", "--json").out)["mistakes"]["made"]
        assert sum(one["moved"] is not None for one in made) > 5


# --- what is measured, and its report ----------------------------------------------------------------------


def test_a_design_that_there_is_not_for_a_head_is_refused(minilm, monkeypatch):
    monkeypatch.setattr("attncli.features.mechanisms.designs.designs", lambda *asked: [])
    with pytest.raises(RequestError, match="--design grouped needs several heads of at least 2 elements; this"):
        mechanisms(minilm, TEXT, design="grouped")
