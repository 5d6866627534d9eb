"""attncli explain."""

import json

import pytest

TEXT = "The trophy does not fit in the suitcase because it is too big."
WHERE = ("-l", "3", "-H", "1")


@pytest.mark.parametrize("mask", ["padding", "causal", "none"])
@pytest.mark.parametrize("query", ["it", "0", "[SEP]", "the#2"])
def test_it_says_what_run_says_to_the_last_digit(attncli, mask, query):
    options = [TEXT, *WHERE, "--mask", mask, "--pad-to", "18"]
    explained = json.loads(attncli("explain", *options, "--query", query, "--json").out)
    ran = json.loads(attncli("run", *options, "--json").out)["records"][0]
    row = ran["attention"][0]["weights"][explained["query"]["index"]]
    assert [key["weight"] for key in explained["keys"]] == row
    assert [key["token"] for key in explained["keys"]] == ran["tokens"]
    shown = attncli("explain", *options, "--query", query).out
    table = [line.split() for line in shown.splitlines() if line[:4].strip().isdigit()]
    assert [line[5] for line in table] == [f"{weight:.3f}" for weight in row]


def test_every_step_follows_from_the_one_before(attncli):
    explained = json.loads(attncli("explain", TEXT, *WHERE, "--query", "it", "--json").out)
    q = explained["query"]["q"]
    for key in explained["keys"]:
        assert key["score"] == pytest.approx(sum(a * b for a, b in zip(q, key["k"], strict=True)), abs=1e-9)
        assert key["scaled"] == pytest.approx(key["score"] / len(q) ** 0.5)
        assert key["raised"] / explained["total"] == pytest.approx(key["weight"], abs=1e-6)
        assert key["contribution"] == pytest.approx(key["weight"] * key["value_norm"], abs=1e-9)
    for place, total in enumerate(explained["output"]):
        assert total == pytest.approx(sum(key["weight"] * key["v"][place] for key in explained["keys"]), abs=1e-9)
    assert len(explained["query"]["x"]) == 384 and len(q) == 32
    assert explained["query"]["token"] == "it" and explained["query"]["index"] == 10


def test_masked_keys_are_named_so(attncli):
    shown = attncli("explain", "The cat sat.", "--query", "cat", "--mask", "causal").out
    assert [line.split()[1] for line in shown.splitlines() if "masked" in line] == ["sat", ".", "[SEP]"]
    shown = attncli("explain", "The cat sat.", "--query", "cat", "--pad-to", "8").out
    assert shown.count("masked") == 2


def test_a_query_that_may_attend_to_nothing(attncli, tiny):
    """[PAD] under the padding mask still looks at real tokens; nothing is attended to only without any."""
    explained = json.loads(attncli("explain", "cat", "--query", "[PAD]", "--pad-to", "5", "--json").out)
    assert [key["allowed"] for key in explained["keys"]] == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--query", "zebra"), "no token 'zebra' in the text"),
        (("--query", "the#3"), "'the' is there 2 times"),
        (("--query", "99"), "token 99 is out of range: tokens are 0 to 15"),
        (("-l", "0,1"), "one layer is needed, not 2"),
        (("-H", "all"), "one head is needed, not 12"),
        (("-l", "6"), "layer 6 is out of range"),
        (("--mask", "x"), "no mask 'x'"),
        (("-o", "row.txt"), "what is explained is saved as"),
    ],
)
def test_what_can_not_be_explained(refused, options, line):
    assert line in refused("explain", TEXT, *options)


def test_a_picture(attncli, tmp_path):
    path = tmp_path / "row.svg"
    result = attncli("explain", TEXT, *WHERE, "--query", "it", "-o", path)
    assert (result.code, result.out.strip()) == (0, str(path))
    drawn = path.read_text(encoding="utf-8")
    assert "trophy" in drawn and "0.614" in drawn
