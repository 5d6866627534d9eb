"""attncli explain."""

import json

import numpy as np
import pytest

from attncli import record_of

TEXT = "The trophy does not fit in the suitcase because it is too big."
WHERE = ("-l", "3", "-H", "1")


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["padding", "causal", "none"])
@pytest.mark.parametrize("query", ["it", "0", "[SEP]", "the#2"])
def test_it_says_what_run_says_to_the_last_digit(attncli, mask, query):
    options = [TEXT, *WHERE, "--mask", mask, "--pad-to", "18"]
    explained = json.loads(attncli("explain", *options, "--query", query, "--json").out)
    ran = json.loads(attncli("run", *options, "--json").out)["records"][0]
    row = ran["attention"][0]["weights"][explained["query"]["index"]]
    assert np.array_equal(np.float32([key["weight"] for key in explained["keys"]]), np.float32(row))
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
        (("--query", "the#3"), "'the' occurs 2 times"),
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


# --- a saved record ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(minilm, tmp_path_factory):
    path = tmp_path_factory.mktemp("explain") / "v.safetensors"
    minilm.attend(TEXT, layers="2-4", vectors="3.1,2.5").save(path)
    return path


def test_a_saved_record_is_followed_as_far_as_q_and_k_lead(attncli, saved):
    whole = json.loads(attncli("explain", TEXT, *WHERE, "--query", "it", "--json").out)
    part = json.loads(attncli("explain", "--from", saved, *WHERE, "--query", "it", "--json").out)
    assert part["query"]["q"] == pytest.approx(whole["query"]["q"], abs=1e-5) and "x" not in part["query"]
    for some, every in zip(part["keys"], whole["keys"], strict=True):
        assert set(every) - set(some) == {"v", "value_norm", "contribution"}
        for name in set(some) - {"token"}:
            assert some[name] == pytest.approx(every[name], abs=1e-4), name
    table = attncli("explain", "--from", saved, *WHERE, "--query", "it").out
    assert "0.614" in table and "|v|" not in table and "output" not in table


def test_without_a_selection_the_last_head_that_has_q_and_k(attncli, saved):
    assert "layer 3 head 1" in attncli("explain", "--from", saved).out
    assert "layer 2 head 5" in attncli("explain", "--from", saved, "-l", "2").out
    assert "layer 2 head 5" in attncli("explain", "--from", saved, "-H", "5").out


def test_a_picture_of_a_saved_row(attncli, saved, tmp_path):
    attncli("explain", "--from", saved, "--query", "it", "-o", tmp_path / "row.svg")
    drawn = (tmp_path / "row.svg").read_text(encoding="utf-8")
    assert "0.614" in drawn and "|v|" not in drawn


def test_what_a_saved_record_does_not_hold(refused, saved, minilm, tmp_path):
    assert "no q and k of head 4.1" in (line := refused("explain", "--from", saved, "-l", "4", "-H", "1"))
    assert "attncli run -l all --vectors 4.1 -o maps.safetensors TEXT" in line
    assert "layer 9 is out of range" in refused("explain", "--from", saved, "-l", "9")
    assert "--mask has no effect with --from" in refused("explain", "--from", saved, "--mask", "causal")
    minilm.attend(TEXT, layers=3).save(tmp_path / "a.json")
    assert "no q and k of head 3.0" in refused("explain", "--from", tmp_path / "a.json")


def test_scores_that_are_more_than_q_and_k_are_told(attncli, tmp_path):
    """As with the biases of T5, or ALiBi's."""
    query, key = np.random.default_rng(0).normal(size=(2, 1, 1, 4, 5))
    record_of(np.full((1, 1, 4, 4), 0.25), ["a", "b", "c", "d"], vectors=(query, key)).save(tmp_path / "a.npz")
    result = attncli("explain", "--from", tmp_path / "a.npz")
    assert result.code == 0 and "something is added to the scores" in result.err


# --- a network that transformers runs ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "which", "headings"),
    [
        ("gpt2", (), ()),
        ("gemma2", (), ("+ softcap",)),
        ("gpt_oss", (), ()),
        ("t5", ("--which", "encoder"), ("+ position",)),
        ("bart", ("--target", "a cat"), ()),
    ],
)
def test_a_network_of_transformers_starts_from_q_k_and_v(attncli, foreign, tmp_path, family, which, headings):
    model = foreign(family).place.path
    where = ["-m", model, "-l", "1", "-H", "1", *which, "the cat sat"]
    explained = json.loads(attncli("explain", *where, "--json").out)
    ran = json.loads(attncli("run", *where, "--json").out)["records"][0]
    row = ran["attention"][0]["weights"][1]
    assert np.array_equal(np.float32([key["weight"] for key in explained["keys"]]), np.float32(row))
    assert [key["token"] for key in explained["keys"]] == ran.get("key_tokens", ran["tokens"])
    assert "x" not in explained["query"] and "output" in explained
    shown = attncli("explain", *where).out
    assert "the inputs of its projections are unknown" in shown
    assert all(heading in shown for heading in headings)
    assert ("sink" in shown) == ("sink" in explained) == (family == "gpt_oss")
    drawn = tmp_path / "row.svg"
    assert attncli("explain", *where, "-o", drawn).code == 0
    assert f"{max(row):.3f}" in drawn.read_text(encoding="utf-8")


def test_a_saved_record_with_sinks_is_explained_as_the_model_is(attncli, foreign, tmp_path):
    model, path = foreign("gpt_oss").place.path, tmp_path / "a.safetensors"
    where = ["-l", "1", "-H", "1", "--query", "2"]
    attncli("run", "-m", model, "-l", "all", "--vectors", "1.1", "-o", path, "the cat sat")
    whole = json.loads(attncli("explain", "-m", model, *where, "the cat sat", "--json").out)
    read = attncli("explain", "--from", path, *where, "--json")
    assert json.loads(read.out)["sink"] == pytest.approx(whole["sink"]) and "differ" not in read.err


def test_a_target_is_for_what_writes_one(refused, foreign):
    said = refused("explain", "-q", "-m", foreign("gpt2").place.path, "--target", "a cat", "the cat")
    assert "is one decoder, which writes nothing: omit --target" in said
    assert "--target" in refused("explain", "--target", "a cat", TEXT)
