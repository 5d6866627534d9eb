"""Commands on a family whose layers have masks of their own: nothing in them knows of families."""

import json

import numpy as np
import pytest
from made_up_family import FAMILY, LAYERS, made_up_checkpoint

from attncli.models.families import FAMILIES

TEXT = "the cat sat on the big cat, too"


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setitem(FAMILIES, "made-up", FAMILY)
    return made_up_checkpoint(tmp_path / "made-up")


@pytest.mark.parametrize(
    "command",
    [
        "run --words", "run --measure norm -l 1", "mask -l 1 --dtype float64", "explain -l 1 -H 0 --query 2",
        "mechanisms -l 1 -H 0", "flow", "compare --against torch --mask causal", "diff", "view -o page.html",
        "heatmap -l 1 -H 0 --style lines -o maps.svg",
    ],
)  # fmt: skip
def test_commands_work(attncli, directory, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, *options = command.split()
    if name == "diff":
        options = ["the cat sat on the big cat , it"]
    result = attncli(name, "-m", str(directory), TEXT, *options)
    assert result.code == 0, result


def test_stats_say_the_most_that_entropy_can_be_by_layer(attncli, directory, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text(f"{TEXT}\nthe cat\n", encoding="utf-8")
    document = json.loads(attncli("stats", str(texts), "-m", str(directory), "--json").out)
    limits = document["entropy_limit"]
    assert len(limits) == LAYERS and np.argmin(limits) in (1, 3) and limits[0] == limits[2] > limits[1] == limits[3]
