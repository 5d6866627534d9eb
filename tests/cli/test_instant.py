"""Short texts are answered without torch; what needs it has it."""

import json

import pytest
import torch
from checkpoints import edit_config, make_checkpoint
from safetensors.torch import load_file, save_file

TEXT = "The trophy does not fit in the suitcase because it is too big."
COMMANDS = [
    ["run"],
    ["run", "--json"],
    ["run", "--words", "--mask", "causal"],
    ["run", "--pair", "It is big.", "--pad-to", "40", "--mask", "none"],
    ["run", "--measure", "norm", "-l", "all"],
    ["run", "--without", "3.1"],
    ["find", "it", "trophy"],
    ["find", "--by", "content"],
    ["heatmap", "--head", "3", "-o", "a.png"],
    ["view", "--mask", "padding,causal"],
    ["explain", "-l", "3", "-H", "1", "--query", "it"],
    ["flow"],
    ["diff", "--masks", "padding,causal"],
]


@pytest.fixture
def without_torch(process, tmp_path):
    """Run a command in a process in which torch and transformers can't be imported."""
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    for name in ("torch", "transformers"):
        (blocked / f"{name}.py").write_text(f"raise ImportError('{name} was imported')")
    return lambda *words: process(*words, env={"PYTHONPATH": str(blocked)})


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.slow
def test_short_texts_need_no_torch(without_torch, words):
    done = without_torch(*words, TEXT)
    assert (done.code, "Error" in done.err) == (0, False), done.err


def test_a_first_look_needs_no_torch(without_torch):
    done = without_torch("run", TEXT)
    assert (done.code, done.err) == (0, "") and "22 of 72 heads" in done.out


@pytest.mark.parametrize(
    "words",
    [
        ["run", "-m", "tiny", "the [MASK] sat"],
        ["run", "-f", "long.txt"],
        ["run", "--dtype", "float64", TEXT],
        ["run", "--engine", "attncli", TEXT],
        ["ablate", "--similar-to", "It is big.", TEXT],
    ],
    ids=lambda words: words[1],
)
@pytest.mark.slow
def test_other_requests_need_torch(without_torch, tmp_path, words):
    make_checkpoint(tmp_path / "tiny", head="ForMaskedLM")
    (tmp_path / "long.txt").write_text("the cat " * 200 + "\n" + "the dog " * 200)  # more than 512 tokens together
    assert "torch was imported" in without_torch(*words).err


# --- the same answers -------------------------------------------------------------------------------------


def records(attncli, *words):
    done = attncli("run", "--json", *words)
    assert done.code == 0, done.err
    return json.loads(done.out)["records"]


WAYS = [
    ["-l", "1,0", "-H", "2,0", "--mask", "none", "--pad-to", "24"],
    ["-l", "all", "--words", "--pair", "it sat, too"],
    ["-l", "all", "--tokens", "1-3", "--measure", "norm"],
]


@pytest.mark.parametrize(("family", "ways"), zip(["bert", "roberta", "modernbert"], WAYS, strict=True))
def test_records_are_those_of_torch(attncli, tiny, family, ways):
    path = str(tiny(family))
    ours, theirs = (
        records(attncli, "-m", path, *ways, "--engine", engine, "the cat sat on it")
        for engine in ("instant", "attncli")
    )
    [ours], [theirs] = ours, theirs
    assert {**ours, "attention": None} == {**theirs, "attention": None}
    for one, other in zip(ours["attention"], theirs["attention"], strict=True):
        assert (one["layer"], one["head"]) == (other["layer"], other["head"])
        for row, expected in zip(one["weights"], other["weights"], strict=True):
            assert row == pytest.approx(expected, abs=2e-5, rel=2e-5)


def nonsense(directory):
    edit_config(directory, hidden_size=64)


def infinite(directory):
    change(directory, "key", lambda tensor: tensor.fill_(torch.inf))


def too_large(directory):
    for name in ("query", "key"):
        change(directory, name, lambda tensor: tensor.mul_(1e20))


def change(directory, name, how):
    tensors = load_file(directory / "model.safetensors")
    for one in [one for one in tensors if name in one]:
        how(tensors[one])
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("damage", [nonsense, infinite, too_large])
def test_a_damaged_checkpoint_is_refused_as_in_torch(attncli, tmp_path, damage):
    path = make_checkpoint(tmp_path / "a")
    damage(path)
    says = [attncli("run", "-m", str(path), *engine, "the cat") for engine in ([], ["--engine", "attncli"])]
    assert says[0] == says[1] and says[0].code == 2 and says[0].err.count("\n") == 1
