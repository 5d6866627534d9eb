"""Heads of different layers on the command line: every command takes -H 3.1,1.8, and shows these heads alone."""

import json
import re

import numpy as np
import pytest

import attncli as library
from attncli.features.flow import follow
from attncli.features.heatmap import heatmap

TEXT = "The cat sat on the mat."
CHOSEN = [(3, 1), (1, 8), (4, 7)]
PLACE = re.compile(r"\b\d\.\d{1,2}\b")


def heads_in(document) -> set[tuple[int, int]]:
    """Every (layer, head) in a document."""
    if isinstance(document, dict):
        here = {(document["layer"], document["head"])} if {"layer", "head"} <= document.keys() else set()
        return here.union(*map(heads_in, document.values()))
    return set().union(*map(heads_in, document)) if isinstance(document, list) else set()


@pytest.mark.parametrize(
    "line",
    [
        ["run", TEXT],
        ["find", "cat", "mat", TEXT],
        ["find", "--by", "previous", TEXT],
        ["mask", TEXT],
        ["ablate", TEXT],
        ["patch", TEXT, "The dog sat on the mat."],
        ["diff", TEXT, "The dog sat on the mat."],
        ["diff", "--masks", "padding,causal", TEXT],
    ],
    ids=lambda line: " ".join(line[:2]),
)
def test_a_commands_document_has_the_chosen_heads(attncli, line):
    command, *rest = line
    document = json.loads(attncli(command, "--json", "-H", "3.1,1.8,4.7", *rest).out)
    assert heads_in(document) == set(CHOSEN)
    assert "3.8" not in PLACE.findall(attncli(command, "-H", "3.1,1.8,4.7", *rest).out)
    mixed = json.loads(attncli(command, "--json", "-l", "2", "-H", "0,3.1", *rest).out)
    assert heads_in(mixed) == {(2, 0), (3, 1)}
    assert "-l 2 has no effect" in attncli(command, "-l", "2", "-H", "3.1", *rest).err


def test_a_saved_record_is_read_as_far_as_it_was_chosen(attncli, tmp_path):
    saved = tmp_path / "some.safetensors"
    attncli("run", "-H", "3.1,1.8,4.7", "-o", saved, TEXT)
    for line in (["run", "--from", saved], ["find", "cat", "mat", "--from", saved], ["diff", saved, saved]):
        assert heads_in(json.loads(attncli(*line, "--json").out)) == set(CHOSEN)
    cut = json.loads(attncli("run", "--from", saved, "-H", "4.7,3.1", "--json").out)
    assert heads_in(cut) == {(4, 7), (3, 1)}
    assert heatmap(saved=saved).record.each_head == CHOSEN
    assert "head 3.8 is not in the record" in attncli("run", "--from", saved, "-H", "3.8,3.1").err
    assert attncli("stats", "--from", saved).code == 2


def test_the_terminal_has_a_small_map_per_chosen_head(attncli):
    out = attncli("run", "-H", "3.1,1.8,4.7", TEXT).out
    assert "heads 3.1,1.8,4.7" in out.splitlines()[0]
    assert re.findall(r"^layer (\d)$|^head (\d+) ", out, re.MULTILINE) == [
        ("1", ""), ("", "8"), ("3", ""), ("", "1"), ("4", ""), ("", "7"),
    ]  # fmt: skip


@pytest.mark.parametrize("line", [["explain", TEXT], ["mechanisms", TEXT]])
def test_a_command_about_one_head_takes_its_name_with_the_layer(attncli, line):
    assert attncli(*line, "-H", "3.1").out == attncli(*line, "-l", "3", "-H", "1").out
    assert "exactly one head is needed, not 2" in attncli(*line, "-H", "3.1,1.8").err


def test_rollout_is_through_the_one_chosen_head_of_each_layer(instant):
    """Abnar and Zuidema 2020, section 3, by hand: each layer is half its head's map and half the token itself."""
    heads = [(0, 3), (1, 2), (2, 2), (3, 1), (4, 7), (5, 11)]
    whole = instant.attend(TEXT)
    rolled = np.eye(len(whole.tokens))
    for layer, head in heads:
        rolled = (0.5 * whole.map(layer, head).astype(float) + 0.5 * np.eye(len(rolled))) @ rolled
    found = follow(instant.attend(TEXT, heads=heads))
    np.testing.assert_allclose(found.shares["rollout"][0], rolled, atol=1e-6)
    assert found.as_record().each_head == [(5, 0), (5, 1), (5, 2)]  # a head a method


def test_effects_of_chosen_heads_are_those_among_all(minilm):
    every, some = (library.ablate(minilm, TEXT, head=heads) for heads in ("all", "3.1,1.8,4.7"))
    for layer, head in CHOSEN:
        place = some.layers.index(layer), some.heads.index(head)
        assert some.mean[0][place] == pytest.approx(every.mean[0, layer, head], abs=1e-6)
        assert some.importance is every.importance is None  # of a distance
    assert int(np.isnan(some.mean).sum()) == 6 and set(some.ranked()) == set(CHOSEN)
    alone = library.ablate(minilm, TEXT, head=[(3, 1), (3, 2)])
    pair = library.ablate(minilm, TEXT, head=[(3, 1), (3, 2), (1, 8)])
    assert pair.of_layers[0, 0, pair.layers.index(3)] == pytest.approx(alone.together[0, 0], abs=1e-6)
    assert pair.of_layers[0, 0, pair.layers.index(1)] == pytest.approx(every.mean[0, 1, 8], abs=1e-6)


@pytest.mark.parametrize("by", ["head", "layer", "token"])
def test_patches_of_chosen_heads_are_those_among_all(minilm, by):
    other = "The dog sat on the mat."
    found = library.patch(minilm, TEXT, other, by=by, head=[(3, 1), (1, 8), (1, 9)])
    if by == "head":
        every = library.patch(minilm, TEXT, other, by=by)
        for layer, head in found.choice.each:
            place = found.layers.index(layer), found.heads.index(head)
            assert found.effects[place] == pytest.approx(every.effects[layer, head], abs=1e-6)
    else:
        for layer, heads in ((3, [1]), (1, [8, 9])):
            alone = library.patch(minilm, TEXT, other, by=by, layer=layer, head=heads)
            assert found.effects[found.layers.index(layer)] == pytest.approx(alone.effects[0], abs=1e-6)
