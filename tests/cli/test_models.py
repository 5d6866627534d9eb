"""attncli models: what there is, what is on this machine, and nothing fetched."""

import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from checkpoints import make_checkpoint
from safetensors.torch import load_file, save_file
from terminals import pseudo_terminal

from attncli import load_model
from attncli.cli.app import main
from attncli.models.aliases import ALIASES

# Python's audit events come before the deed: whoever asks for a connection, or for torch, ends here.
GUARDED = """
import sys
def forbid(event, arguments):
    if event.startswith(("socket.connect", "socket.getaddrinfo")):
        raise AssertionError(f"the network was asked for: {event}")
    if event == "import" and arguments[0] in ("torch", "transformers"):
        raise AssertionError(f"{arguments[0]} was imported")
sys.addaudithook(forbid)
from attncli.cli.app import main
main(sys.argv[1:])
"""


@pytest.fixture
def guarded(tmp_path):
    """`guarded("models")` -> its JSON, from a process in which the network and torch are forbidden."""

    def run(*arguments: str):
        environment = {**os.environ, "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path / "hf")}
        done = subprocess.run(
            [sys.executable, "-c", GUARDED, *map(str, arguments), "--json"],
            capture_output=True,
            text=True,
            env=environment,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    return run


@pytest.fixture
def cached_bert_base(tmp_path, tiny):
    """A Hugging Face cache that holds a small checkpoint under bert-base's name."""
    repository = tmp_path / "hf" / "hub" / "models--google-bert--bert-base-uncased"
    snapshot = repository / "snapshots" / ("a" * 40)
    shutil.copytree(tiny("bert"), snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("a" * 40)
    return snapshot


def test_the_list_names_every_alias_and_what_is_here_without_network_or_torch(guarded, cached_bert_base, minilm):
    listed = guarded("models")["models"]
    assert [entry["name"] for entry in listed] == list(ALIASES)
    assert [entry["name"] for entry in listed if entry["default"]] == ["minilm"]
    entries = {entry["name"]: entry for entry in listed}
    shapes = {name: (entry["layers"], entry["heads"], entry["hidden_size"]) for name, entry in entries.items()}
    assert shapes["minilm"] == (6, 12, 384)
    assert shapes["modernbert"] == (22, 12, 768)  # whoever runs it
    here = {name for name, entry in entries.items() if entry["on_this_machine"]}
    assert here - {"smollm2"} == {"minilm", "bert-base"}  # some have its wheel
    assert entries["minilm"]["path"] == minilm.info.path
    assert entries["bert-base"]["origin"] == "cache"
    assert entries["bert-base"]["path"] == str(cached_bert_base)
    assert entries["bert-base"]["bytes"] == (cached_bert_base / "model.safetensors").stat().st_size
    missing = entries["roberta-base"]
    assert (missing["origin"], missing["path"], missing["bytes"]) == (None, None, None)


def test_show_a_directory(guarded, tiny):
    directory = tiny("electra")
    shown = guarded("models", "show", directory)
    weights = (directory / "model.safetensors").read_bytes()
    assert shown["sha256"] == hashlib.sha256(weights).hexdigest()
    assert shown["files"] == [{"name": "model.safetensors", "bytes": len(weights)}]
    assert shown["config"]["embedding_size"] == 20
    assert (shown["origin"], shown["repo"]) == ("directory", None)


def flat(text: str) -> str:
    return " ".join(text.split())


def test_for_people(attncli):
    listed = attncli("models").out
    here, _, every = listed.partition("families, and their models by layers x heads")
    assert "minilm (default)" in here and "90.9 MB" in here
    assert {name for name in re.findall(r"[\w.-]+", every) if name in ALIASES} == set(ALIASES)
    assert (
        "\nmodernbert · positions: rotary · windows of 64 to each side · at most 8192 tokens\n  22 x 12  modernbert, "
        in every
    )
    assert "\nroberta · positions: learned · at most 8192 tokens\n  24 x 16  bge-m3" in every
    shown = attncli("models", "show", "minilm").out
    assert ALIASES["minilm"].sha256 in shown
    assert "6 x 12" in shown


@pytest.mark.parametrize("width", [44, 80, 120])
def test_the_list_is_whole_however_wide_a_terminal(width):
    """No name is cut or folded, and no column is left out."""
    with pseudo_terminal(width) as lines, pytest.raises(SystemExit):
        main(["models"])
    every = "\n".join(lines).partition("by layers x heads")[2]
    assert {name for name in re.findall(r"[\w.-]+", every) if name in ALIASES} == set(ALIASES)
    assert "…" not in every and "no room" not in every
    assert all(len(line) <= width for line in every.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "engine", "shown"),
    [
        ("gpt2", "attncli", ("layers x heads", "3 x 4")),
        ("llama", "attncli", ("key value heads", "2: heads 0-1 share the first")),
        ("opt", "transformers", ("layers x heads", "3 x 4")),
        ("bart", "transformers", ("decoder layers x heads", "2 x 2")),
        ("encoder-decoder", "transformers", ("decoder layers x heads", "2 x 2")),
        ("t5", "transformers", ("decoder layers x heads", "2 x 4")),
        ("whisper", None, ("run by", "no program: it reads audio, not text")),
        ("vit", None, ("run by", "no program: it reads pictures, not text")),
    ],
)
def test_show_any_checkpoint_without_torch(guarded, attncli, tmp_path, family, engine, shown):
    from foreign_checkpoints import make_foreign

    directory = make_foreign(tmp_path, family)
    entry = guarded("models", "show", directory)
    assert (entry["engine"], entry["config"]["model_type"]) == (engine, family)
    lines = dict(line.split("  ", 1) for line in attncli("models", "show", directory).out.splitlines())
    assert {name: value.strip() for name, value in lines.items()}[shown[0]].startswith(shown[1])


@pytest.mark.parametrize(
    ("family", "changes", "sides"),
    [
        ("modernbert", {"local_attention": 6}, (3, 3)),
        ("mistral", {"sliding_window": 4}, (3, 0)),
        ("gemma2", {"sliding_window": 5}, (4, 0)),
    ],
)
def test_a_window_is_told_by_the_tokens_that_it_shows(attncli, tmp_path, family, changes, sides):
    """The numbers are those of the masks that a run of the model has in the middle of a long text."""
    directory = make_checkpoint(tmp_path / family, family, **changes)
    masks = load_model(directory).attend("the cat sat on " * 5, pad_to=None).masks
    seen = min((mask[10] for mask in masks), key=np.sum)
    assert (int(seen[:10].sum()), int(seen[11:].sum())) == sides
    before, after = sides
    shown = flat(attncli("models", "show", directory).out)
    assert f" window {before} tokens before" + (f", {after} after " if after else " ") in shown
    assert json.loads(attncli("models", "show", directory, "--json").out)["config"]["window"] == before


def test_what_run_refuses_is_run_by_nobody(attncli, tmp_path):
    """Tensors that are missing, of another name or shape, or not finite, and tokenizers that can't be read."""
    directory = make_checkpoint(tmp_path / "llama", "llama", "ForCausalLM")
    whole = load_file(directory / "model.safetensors")
    name = "model.layers.1.self_attn.q_proj.weight"
    for tensors in (
        {"_orig_mod." + one: tensor for one, tensor in whole.items()},
        {one: tensor for one, tensor in whole.items() if one != name},
        {**whole, name: whole[name][1:].clone()},
        {**whole, name: torch.full_like(whole[name], math.nan)},
        {**whole, name: whole[name].int()},
        whole,
    ):
        save_file(tensors, directory / "model.safetensors", {"format": "pt"})
        ran, shown = attncli("run", "-m", directory, "the cat"), attncli("models", "show", directory)
        assert shown.code == 0 and ("run by attncli" in flat(shown.out)) == (ran.code == 0) == (tensors is whole)
        if ran.code:
            why = json.loads(attncli("models", "show", directory, "--json").out)["why"]
            assert why in ran.err and f"run by no program: {why}" in flat(shown.out)
    (directory / "tokenizer.json").write_text("{}")
    assert "run by no program: the tokenizer in " in flat(attncli("models", "show", directory).out)


def test_a_configuration_can_not_command_the_terminal(attncli, tiny, tmp_path):
    directory = tmp_path / "there"
    shutil.copytree(tiny("bert"), directory)
    odd = {"model_type": "gpt\x1b[31m", "n_head": "\x1b]0;title\x07", "n_layer": [{"a": None}], "hidden_size": 1e400}
    (directory / "config.json").write_text(json.dumps(odd))
    result = attncli("models", "show", directory)
    assert result.code == 0 and "\x1b" not in result.out and "\x07" not in result.out
    assert "gpt\\x1b[31m" in result.out and '[{"a": null}] x ' in result.out
    assert json.loads(attncli("models", "show", directory, "--json").out)["config"]["hidden_size"] == "Infinity"
