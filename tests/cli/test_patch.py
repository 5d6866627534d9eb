"""attncli patch."""

import json
import re

import pytest

A, B = "The cat sat on the mat.", "The dog sat on the mat."


def test_shares_are_of_the_way_between_the_two_outputs(attncli):
    line = ("patch", "-l", "4,5", "--similar-to", "A dog is resting.", A, B)
    said = json.loads(attncli(*line, "--json").out)
    way = said["output"]["other"] - said["output"]["value"]
    assert way > 0.1 and len(said["patches"]) == 24
    for one in [*said["patches"], said["together"]]:
        assert one["share"] == pytest.approx(one["effect"] / way)
    shown = attncli(*line, "--top", "1").out
    largest = max(said["patches"], key=lambda one: abs(one["share"]))
    assert f"{said['output']['value']:.4g} for the first text, {said['output']['other']:.4g} for the second" in shown
    [row] = [line.split() for line in shown.splitlines() if line.startswith(f" {largest['layer']}.{largest['head']} ")]
    assert row[1:] == [f"{largest['share']:+.3f}", f"{largest['control']:+.3f}"]


@pytest.mark.parametrize("by", ["layer", pytest.param("token", marks=pytest.mark.slow)])
def test_parts_have_their_names(attncli, by):
    line = ("patch", "--by", by, "-l", "5,0", A, B)
    said, shown = json.loads(attncli(*line, "--json").out), attncli(*line).out
    if by == "layer":
        assert [one["layer"] for one in said["patches"]] == [5, 0] and "layer 5" in shown
    else:
        assert [one["index"] for one in said["patches"]] == [*range(9), *range(9)]
        assert [one["other_token"] for one in said["patches"]][2] == "dog"
        assert "layer 5, cat <- dog" in shown and "layer 5, the#2" in shown
    assert "all of these at once" in shown and said["together"]["itself"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("by", ["head", "layer", "token"])
def test_pictures_say_what_they_show(attncli, tmp_path, by):
    path = tmp_path / "a.svg"
    attncli("patch", "--by", by, "-l", "4,5", A, B, "-o", str(path))
    drawn = " ".join(re.findall(">([^<>]+)</text>", path.read_text(encoding="utf-8")))
    assert "for the first text, 0 for the second" in drawn and ("dog" in drawn) == (by == "token")
    attncli("patch", "--by", by, "-l", "4,5", A, B, "-o", str(tmp_path / "a.csv"))
    rows = (tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + 2 * {"head": 12, "layer": 1, "token": 9}[by]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ((A,), "patch needs two texts"),
        ((A, "A dog."), "the first text has 9 tokens and the second 5"),
        ((A, A), "0 for the first text and 0 for the second; that is too near to divide by"),
        ((A, B, "--by", "layer", "--top", "2"), "--top has no effect with --by layer"),
        ((A, B, "--by", "word"), "no by 'word': it is one of head, layer, token"),
        ((A, B, "--target", "cat"), "predicts nothing of this text"),
    ],
)
def test_what_is_refused(attncli, line, said):
    result = attncli("patch", *line)
    assert result.code == 2 and result.out == "" and said in result.err
