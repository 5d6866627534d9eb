"""Files of weights: what they say of themselves, and what is refused."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from attncli.align import checkpoint
from attncli.align.checkpoint import FORMAT, WEIGHTS, Checkpoint, build, load, save
from attncli.align.train import STEPS
from attncli.base import choices
from attncli.base.errors import RequestError

ATTENTIONS = choices.names(choices.Attention)
SMALL = {"d_embedding": 4, "d_hidden": 6}


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A file of random weights of a small network."""
    monkeypatch.setitem(checkpoint.SIZES, "dot", SMALL)
    path = tmp_path / "dot.safetensors"
    save(Checkpoint(path, "dot", 3, 9, build("dot")))
    return path


def refusal(path):
    with pytest.raises(RequestError) as refused:
        load(path.parent, "dot")
    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)
    return str(refused.value)


def change(path, metadata=None, **tensors):
    """Rewrite a file with other metadata or tensors; None removes a tensor."""
    with safe_open(path, framework="pt") as file:
        kept = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        kept_metadata = file.metadata()
    kept = {name: tensor for name, tensor in {**kept, **tensors}.items() if tensor is not None}
    save_file(kept, path, metadata={**kept_metadata, **(metadata or {})})


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_what_was_saved_comes_back_from_half_precision(attention, tmp_path):
    network, path = build(attention), tmp_path / f"{attention}.safetensors"
    save(Checkpoint(path, attention, 1, 3, network))
    found = load(tmp_path, attention)
    restored = found.network
    assert (found.path, found.attention, found.seed, found.steps) == (path, attention, 1, 3)
    assert restored.state_dict().keys() == network.state_dict().keys()
    for name, tensor in network.state_dict().items():
        assert torch.equal(restored.state_dict()[name], tensor.half().float())
    with safe_open(path, framework="pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.float16}  # noqa: SIM118
        assert file.metadata() == {
            "format": FORMAT,
            "attention": json.dumps(attention),
            "seed": "1",
            "steps": "3",
        }


def test_a_missing_file_says_what_makes_one(tmp_path):
    assert "train-align" in refusal(tmp_path / "dot.safetensors")


@pytest.mark.parametrize("content", [b"", b"{}", b"\x80\x04.", b"\xff" * 100, b"\x10" + bytes(7) + b"{" * 16, "cut"])
def test_garbage_and_a_truncated_file_are_refused(path, content):
    path.write_bytes(path.read_bytes()[:-10] if content == "cut" else content)
    assert "can't read" in refusal(path)


def test_files_of_something_else_and_of_another_format_are_refused(path):
    change(path, {"format": "attncli-align 1"})
    assert FORMAT in refusal(path) and "train-align" in refusal(path)
    save_file({"weight": torch.zeros(2)}, path)
    assert FORMAT in refusal(path)


@pytest.mark.parametrize(
    "metadata",
    [
        {"attention": '"location"'},
        {"attention": "[]"},
        {"attention": "[" * 100_000},
        {"attention": "dot"},  # no JSON
        {"steps": '"many"'},
        {"steps": "-1"},
        {"seed": "1.5"},
        {"attention": '"general"'},
    ],
)
def test_metadata_that_make_no_sense_are_refused(path, metadata):
    change(path, metadata)
    assert "can't read" in refusal(path)


BIAS = "decoder.output.bias"


@pytest.mark.parametrize(
    "changes",
    [
        {BIAS: None},
        {BIAS: torch.zeros(7)},
        {BIAS: torch.full((15,), torch.nan)},
        {BIAS: torch.zeros(15, dtype=torch.int64)},
        {"more": torch.zeros(1)},
    ],
)
def test_tensors_of_another_network_are_refused(path, changes):
    change(path, **changes)
    assert "can't read" in refusal(path)


# --- the weights that come with the package -------------------------------------------------------------


def test_the_package_has_one_file_a_kind_and_all_are_small():
    files = sorted(WEIGHTS.iterdir())
    assert [file.name for file in files] == sorted(f"{attention}.safetensors" for attention in ATTENTIONS)
    assert sum(file.stat().st_size for file in files) <= 4e6


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_the_weights_of_the_package_are_those_of_a_whole_training(attention):
    found = load(WEIGHTS, attention)
    assert (found.seed, found.steps) == (0, STEPS[attention])
