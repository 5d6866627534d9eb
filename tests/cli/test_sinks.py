"""Commands on networks whose heads have sinks, and records of one, saved and loaded."""

import json
import re

import numpy as np
import pytest
from foreign_checkpoints import TEXT

SAID = "heads have sinks, so rows sum to less than 1"


@pytest.fixture
def model(foreign):
    return foreign("gpt_oss").place.path


@pytest.mark.parametrize("command", [("run",), ("run", "-l", "1", "-H", "1"), ("flow",), ("find", "--by", "content")])
def test_it_is_said_once_that_rows_sum_to_less_than_1(attncli, model, command):
    result = attncli(*command, "-m", model, TEXT)
    assert result.code == 0 and " ".join((result.out + result.err).split()).count(SAID) == 1


@pytest.mark.parametrize(
    "command", [("flow",), ("flow", "--query", "1"), pytest.param(("trust",), marks=pytest.mark.slow)]
)
def test_where_rows_are_divided_by_their_sums_every_output_says_so(attncli, model, foreign, tmp_path, command):
    said = f"{SAID}; the rest of the weight goes to the sink: each row"
    line = (*command, "-m", model, *(["--permutations", "2"] if command == ("trust",) else []), TEXT)
    assert said in " ".join(attncli(*line).out.split())
    assert json.loads(attncli(*line, "--json").out)["sinks"] is True
    attncli(*command, "-m", model, TEXT, "-o", tmp_path / "a.svg")
    assert said in " ".join(re.findall(">([^<>]+)</text>", (tmp_path / "a.svg").read_text(encoding="utf-8")))
    other = attncli(*command, "-m", foreign("llama").place.path, TEXT, "--json")
    assert "sinks" not in json.loads(other.out)


def test_shares_that_were_followed_sum_to_1(attncli, model, tmp_path):
    attncli("flow", "-m", model, "-o", tmp_path / "f.json", TEXT)
    found = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))
    np.testing.assert_allclose(np.sum(found["records"][0]["attention"][0]["weights"], axis=-1), 1, atol=1e-5)
    assert "sinks" not in found["records"][0]
