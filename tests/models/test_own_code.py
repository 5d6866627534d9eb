"""Checkpoints that bring code: none of it is run, and what needs it is refused, not run as something else."""

from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import edit_config, make_checkpoint
from foreign_checkpoints import make_foreign
from safetensors.torch import load_file, save_file

from attncli import RequestError, load_model
from attncli.base.errors import Notice
from attncli.models.config import describe
from attncli.models.own_code import own_code

TEXT = "the cat sat on the cat"
NEEDED = r"needs its own code \(auto_map: own\.Network\), which attncli does not run: .*{}.*; use another model"


def bring_code(directory: Path, **changes: Any) -> None:
    """A file that leaves a mark where it is imported, and a config.json that names it."""
    mark = directory / "was-run"
    (directory / "own.py").write_text(f"open({str(mark)!r}, 'w').close()\nclass Network: pass\nclass Config: pass\n")
    edit_config(directory, auto_map={"AutoConfig": "own.Config", "AutoModel": "own.Network"}, **changes)


def change_tensors(directory: Path, take: str = "", add: str | None = None) -> None:
    """Take away the tensors with this in their names, and add one."""
    path = directory / "model.safetensors"
    tensors = {name: tensor for name, tensor in load_file(path).items() if not take or take not in name}
    save_file({**tensors, **({add: torch.ones(3)} if add else {})}, path, {"format": "pt"})


# A checkpoint of a family; what its config.json says; the tensors taken away and put there; why it is refused.
NEEDING = [
    # as jina-v2, with all of BERT's tensors, which is worse
    ("bert", {"position_embedding_type": "alibi"}, "", None, "'alibi' is not 'absolute'"),
    # as jina-v3
    ("xlm-roberta", {"position_embedding_type": "rotary"}, "", None, "'rotary' is not 'absolute'"),
    # only its code knows the model type
    ("bert", {"model_type": "own_bert"}, "", None, "transformers has no model type 'own_bert'"),
    # the model type that gte-multilingual came with, of another network
    ("bert", {"model_type": "new", "position_embedding_type": "rope"}, "", None, r"layers?\.0\.\w+"),
    # as MosaicBERT and DNABERT-2
    ("bert", {}, "self.query", None, r"layer\.0\.attention\.self\.query"),
    ("bert", {}, "", "encoder.layer.0.attention.self.gate", r"bert has no encoder\.layer\.0\.attention\.self\.gate"),
]


@pytest.mark.parametrize("engine", ["auto", "transformers"])
@pytest.mark.parametrize(("family", "changes", "take", "add", "why"), NEEDING)
def test_what_needs_its_code_is_refused_and_nothing_of_it_is_run(
    family, changes, take, add, why, engine, tmp_path, monkeypatch
):
    make_checkpoint(tmp_path / "model", family)
    bring_code(tmp_path / "model", **changes)
    change_tensors(tmp_path / "model", take, add)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match=NEEDED.format(why)) as caught:
        load_model("model", "cpu", engine=engine)
    assert len(str(caught.value)) <= 300 and "\n" not in str(caught.value)
    assert not (tmp_path / "model" / "was-run").exists()


@pytest.mark.parametrize("engine", ["auto", "attncli", "transformers"])
def test_code_that_is_not_needed_is_left_aside_with_a_notice(engine, tmp_path, tiny):
    make_checkpoint(tmp_path, "bert")
    bring_code(tmp_path)
    with pytest.warns(
        Notice, match=r"auto_map: own\.Network\), which is not run: its tensors fit the network of type bert"
    ):
        model = load_model(str(tmp_path), "cpu", engine=engine)
    expected = load_model(str(tiny("bert")), "cpu", engine=engine).attend(TEXT)
    assert (model.attend(TEXT).weights == expected.weights).all()
    assert not (tmp_path / "was-run").exists()


def test_a_head_of_its_own_is_none_of_the_networks_business(tmp_path):
    """Run a model with transformers, where heads are left over as well, under any name."""
    make_foreign(tmp_path, "gpt2")
    bring_code(tmp_path)
    change_tensors(tmp_path, add="own_head.weight")
    with pytest.warns(Notice, match="which is run instead"):
        load_model(str(tmp_path), "cpu", engine="transformers")
    change_tensors(tmp_path, add="transformer.h.0.attn.gate")
    with pytest.raises(RequestError, match=NEEDED.format(r"gpt2 has no h\.0\.attn\.gate")):
        load_model(str(tmp_path), "cpu")


@pytest.mark.parametrize("engine", ["auto", "attncli", "transformers"])
@pytest.mark.parametrize(("family", "kind"), [("bert", "relative_key"), ("electra", "x")])
def test_positions_that_transformers_passes_over_are_refused_with_or_without_code(family, kind, engine, tmp_path):
    """transformers 5 would run a BERT of relative positions as one of absolute ones, and say nothing."""
    make_checkpoint(tmp_path, family)
    edit_config(tmp_path, position_embedding_type=kind)
    with pytest.raises(
        RequestError, match=f"position_embedding_type '{kind}' is not 'absolute', which is not supported"
    ):
        load_model(str(tmp_path), "cpu", engine=engine)
    assert describe(tmp_path)[0] is None


def test_what_is_said_of_it_without_loading(tmp_path):
    make_checkpoint(tmp_path, "bert")
    bring_code(tmp_path, model_type="own_bert")
    engine, why, _ = describe(tmp_path)
    assert engine == "transformers" and why.endswith("; its own code (auto_map: own.Network) is not run")
    edit_config(tmp_path, model_type="bert")
    assert describe(tmp_path)[:2] == ("attncli", "its own code (auto_map: own.Network) is not run")


@pytest.mark.parametrize(
    ("auto_map", "code"),
    [
        ({"AutoModelForMaskedLM": "a.Masked", "AutoModel": "own/er--a.Model"}, "own/er--a.Model"),
        ({"AutoConfig": "a.Config", "AutoModelForMaskedLM": "a.Masked"}, "a.Masked"),
        ({"AutoConfig": "a.Config"}, "a.Config"),
        ({"AutoTokenizer": ["a.Slow", None]}, None),
        ({"AutoModel": "a" * 999}, "a" * 79 + "…"),
        (["AutoModel"], None),
        (None, None),
    ],
)
def test_the_network_is_named_before_what_is_put_on_it(auto_map, code):
    assert own_code({"auto_map": auto_map}) == code
