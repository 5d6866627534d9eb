"""Decoders: config.json of published models, as transformers reads it, and their tensors and heads."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from checkpoints import DECODERS, EACH_DECODER, LLAMA_3, edit_config, language_head, make_checkpoint
from safetensors.torch import load_file, save_file
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from attncli import load_model
from attncli.attention import Rotary
from attncli.models.config import ModelConfig, values_of
from attncli.models.families.family import RotaryPositions
from attncli.models.opening import Opening
from attncli.record import Request

TEXT = "the cat sat"
FULL, SLIDING = "full_attention", "sliding_attention"
# config.json as published, without what is for training only.
LINES = (Path(__file__).parent / "published_decoders.jsonl").read_text(encoding="utf-8").splitlines()
PUBLISHED: dict[str, dict[str, Any]] = {one["name"]: one["config"] for one in map(json.loads, LINES)}
# Keys that published files lack, and the defaults of each type.
VARIED: dict[str, dict[str, Any]] = {
    **{f"{family} of defaults": {"model_type": family} for family in DECODERS},
    "Qwen 2 with windows": {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 5},
    "Qwen 3 with windows": {"model_type": "qwen3", "use_sliding_window": True, "max_window_layers": 0},
    "SmolLM 3 with windows": {"model_type": "smollm3", "use_sliding_window": True, "sliding_window": 9},
    "SmolLM 3 with positions everywhere": {"model_type": "smollm3", "no_rope_layers": [1] * 36},
    "Mistral without a window": {"model_type": "mistral", "sliding_window": None},
    "Phi 3 that turns a part": {"model_type": "phi3", "partial_rotary_factor": 0.75},
    "GPT-NeoX of stretched positions": {
        "model_type": "gpt_neox",
        "rotary_pct": 0.5,
        "rotary_emb_base": 300,
        "rope_scaling": {"type": "linear", "factor": 2.0},
    },
    "Llama of stretched positions": {"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2.0}},
    "Llama 3 as long as trained": {
        "model_type": "llama",
        "max_position_embeddings": 8192,
        "rope_scaling": {name: value for name, value in LLAMA_3.items() if not name.startswith("original")},
    },
    "GPT-2 of another width": {"model_type": "gpt2", "n_inner": 100, "tie_word_embeddings": False},
    "Gemma 3 of another pattern": {"model_type": "gemma3_text", "sliding_window_pattern": 2},
    "Gemma 2 without bounds": {
        "model_type": "gemma2",
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "query_pre_attn_scalar": 100,
    },
}
EVERY = {**PUBLISHED, **VARIED}


def kinds_of(theirs: Any) -> list[str]:
    """Return the kind of every layer in transformers; Mistral and Phi 3 have one for all."""
    stated = getattr(theirs, "layer_types", None)
    usual = FULL if getattr(theirs, "sliding_window", None) is None else SLIDING
    return [usual] * theirs.num_hidden_layers if stated is None else stated


def head_dim_of(theirs: Any) -> int:
    return getattr(theirs, "head_dim", None) or theirs.hidden_size // theirs.num_attention_heads


@pytest.mark.parametrize("name", EVERY)
def test_every_field_is_what_transformers_reads(name):
    config, theirs = ModelConfig.from_dict(EVERY[name]), transformers.AutoConfig.for_model(**EVERY[name])
    heads = theirs.num_attention_heads
    assert (config.layers, config.heads, config.hidden_size) == (theirs.num_hidden_layers, heads, theirs.hidden_size)
    assert config.key_heads == getattr(theirs, "num_key_value_heads", heads)
    assert config.head_dim == head_dim_of(theirs)
    assert config.vocab_size == theirs.vocab_size and config.max_tokens == theirs.max_position_embeddings
    wide = theirs.n_inner or 4 * theirs.n_embd if theirs.model_type == "gpt2" else theirs.intermediate_size
    assert config.intermediate_size == wide
    acts = ("hidden_activation", "hidden_act", "activation_function")
    assert config.activation == next(act for one in acts if (act := getattr(theirs, one, None)))
    eps = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon")
    assert config.layer_norm_eps == next(number for one in eps if (number := getattr(theirs, one, None)))
    window = getattr(theirs, "sliding_window", None)
    assert config.reach == tuple(window - 1 if window and kind == SLIDING else None for kind in kinds_of(theirs))
    assert config.biases.attention == getattr(theirs, "attention_bias", theirs.model_type in ("gpt2", "qwen2"))
    assert config.parallel == getattr(theirs, "use_parallel_residual", False)
    assert config.softcap == getattr(theirs, "attn_logit_softcapping", None)
    scalar = getattr(theirs, "query_pre_attn_scalar", None)
    assert config.score_scale == (scalar and scalar**-0.5)
    assert config.embedding_scale == (theirs.hidden_size**0.5 if "gemma" in theirs.model_type else 1.0)
    assert config.causal and config.part == "decoder"


@pytest.mark.parametrize("name", [name for name in EVERY if EVERY[name]["model_type"] != "gpt2"])
def test_angles_of_every_layer_are_those_of_transformers(name):
    config, theirs = ModelConfig.from_dict(EVERY[name]), transformers.AutoConfig.for_model(**EVERY[name])
    assert not config.position_table
    turns = getattr(theirs, "no_rope_layers", [1] * config.layers)
    for kind, turned, turn in zip(kinds_of(theirs), config.positions, turns, strict=True):
        if not turn:
            assert turned is None
            continue
        stated = theirs.rope_parameters.get(kind, theirs.rope_parameters)
        assert isinstance(turned, RotaryPositions)
        rates = Rotary(**asdict(turned)).rates(torch.float64)
        if stated["rope_type"] == "llama3":
            expected, factor = ROPE_INIT_FUNCTIONS["llama3"](theirs, torch.device("cpu"))
            assert factor == 1.0
        else:
            size = int(head_dim_of(theirs) * stated.get("partial_rotary_factor", 1.0))
            pair = torch.arange(0, size, 2, dtype=torch.float64)
            expected = stated["rope_theta"] ** (-pair / size) / stated.get("factor", 1.0)
        torch.testing.assert_close(rates, expected.double(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", EVERY)
def test_the_head_is_tied_and_bounded_as_in_transformers(name):
    data = EVERY[name]
    config, theirs = ModelConfig.from_dict(data), transformers.AutoConfig.for_model(**data)
    family, values = values_of(data)
    scores = family.heads(values)["next"].scores
    assert scores.tied == theirs.tie_word_embeddings
    assert scores.softcap == getattr(theirs, "final_logit_softcapping", None)
    assert config.family is family


# --- tensors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "buffers"),
    [
        ("gpt2", [f"transformer.h.0.attn.{name}" for name in ("bias", "masked_bias")]),
        ("llama", ["model.layers.1.self_attn.rotary_emb.inv_freq"]),
        (
            "gpt_neox",
            [f"gpt_neox.layers.0.attention.{name}" for name in ("bias", "rotary_emb.inv_freq")],
        ),
    ],
)
def test_old_buffers_cause_no_notice(family, buffers, tmp_path, recwarn):
    make_checkpoint(tmp_path, family, language_head(family))
    plain = load_model(str(tmp_path), "cpu").attend("the cat").weights
    path = tmp_path / "model.safetensors"
    stored = load_file(path)
    save_file({**stored, **{name: torch.ones(3) for name in buffers}}, path, {"format": "pt"})
    model = load_model(str(tmp_path), "cpu")
    assert model.name == "attncli" and (model.attend("the cat").weights == plain).all()
    assert not [str(one.message) for one in recwarn]


def test_the_first_files_of_gpt_2_have_no_prefix_and_no_head(tmp_path, recwarn):
    make_checkpoint(tmp_path, "gpt2", language_head("gpt2"))
    before = our_largest_logits(tmp_path)
    path = tmp_path / "model.safetensors"
    stored = {name.removeprefix("transformer."): tensor for name, tensor in load_file(path).items()}
    assert "wte.weight" in stored and "lm_head.weight" not in stored
    save_file({**stored, "h.0.attn.bias": torch.ones(1, 1, 40, 40)}, path, {"format": "pt"})
    assert our_largest_logits(tmp_path) == before
    assert not [str(one.message) for one in recwarn]


@pytest.mark.parametrize("family", EACH_DECODER)
def test_logits_are_those_of_the_checkpoint_s_own_head_or_of_the_token_table(family, tmp_path):
    """A tensor of its own counts, whatever config.json says. Where there is none, the token table counts."""
    make_checkpoint(tmp_path, family, language_head(family), tie_word_embeddings=False)
    name = "embed_out.weight" if family == "gpt_neox" else "lm_head.weight"
    path = tmp_path / "model.safetensors"
    stored = load_file(path)
    for tied in (False, True):
        edit_config(tmp_path, tie_word_embeddings=tied)
        expected = largest_logit(tmp_path)
        assert our_largest_logits(tmp_path) == pytest.approx([expected, expected], rel=1e-4)
    save_file({one: tensor for one, tensor in stored.items() if one != name}, path, {"format": "pt"})
    from_table = largest_logit(tmp_path)
    assert our_largest_logits(tmp_path) == pytest.approx([from_table, from_table], rel=1e-4)
    assert from_table != pytest.approx(expected, rel=1e-2)


def largest_logit(path: Path) -> float:
    """Return transformers' logit of the likeliest next token."""
    network = transformers.AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager").eval()
    ids = load_model(str(path), "cpu").tokenizer.encode(TEXT).ids
    with torch.no_grad():
        return float(network(torch.tensor([ids])).logits[0, -1].max())


def our_largest_logits(path: Path) -> list[float]:
    """Return the logit of the likeliest next token, in NumPy and in torch."""
    found = []
    for model in (Opening(str(path), "cpu").open_for_answers(), load_model(str(path), "cpu")):
        [record] = model.attend_tokens([model.tokenizer.encode(TEXT)], Request(predict=True))
        assert record.prediction is not None
        found.append(record.prediction.answers[0].logit)
    return found
