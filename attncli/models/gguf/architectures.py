"""Translate a .gguf file's description of a network into the entries of config.json and transformers' tensor names.

An architecture is a row of ARCHITECTURES. Converters to the format (`convert_hf_to_gguf.py` of llama.cpp) rename the
tensors, and change some: they interleave the rows of Llama's queries and keys for another formula of rotary positions,
add 1 to Gemma's norms, and transpose GPT-2's projections. This module undoes all of that.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attncli.base.arrays import Floats
from attncli.base.errors import RequestError
from attncli.base.printable import quoted, shorten
from attncli.models.families.family import stretch_slow_pairs
from attncli.models.gguf.file import GGUFFile, settings, shortest

EMBEDDINGS = "token_embd.weight"
HEAD = "output.weight"
ROTARY_FACTORS = "rope_freqs.weight"  # Llama 3's divisors of the rotary frequencies
LONG_FACTORS, SHORT_FACTORS = "rope_factors_long.weight", "rope_factors_short.weight"  # Phi-3's
# Entries that do not affect the network's computation, or repeat others.
SILENT = {"vocab_size", "tensor_data_layout", "rope.scaling.finetuned", "rope.scaling.attn_factor"}
_IN_A_LAYER = re.compile(r"blk\.(\d{1,6})\.([a-z_0-9]+)\.(weight|bias)", re.ASCII)
_OUTSIDE = re.compile(r"([a-z_0-9]+)\.(weight|bias)", re.ASCII)


class Facts:
    """The entries of a file's metadata about its network, checked as they are read.

    Raises RequestError for one that is missing or of another kind.
    """

    def __init__(self, file: GGUFFile, architecture: str) -> None:
        self.file = file
        self.architecture = architecture
        self.entries = settings(file.metadata, f"{architecture}.")
        self.read: set[str] = set(SILENT)

    def positive(self, name: str, default: int | None = None) -> int:
        """Return a whole number of at least 1."""
        return self._find(name, default, lambda found: type(found) is int and 1 <= found < 2**31)

    def real(self, name: str, default: float | None = None) -> float:
        """Return a positive number."""
        return shortest(self._find(name, default, lambda found: type(found) in (int, float) and 0 < found < math.inf))

    def text(self, name: str, default: str) -> str:
        return self._find(name, default, lambda found: isinstance(found, str))

    def flag(self, name: str, default: bool) -> bool:
        return self._find(name, default, lambda found: isinstance(found, bool))

    def has(self, name: str) -> bool:
        return name in self.entries

    def _find(self, name: str, default: Any, fits: Callable[[Any], bool]) -> Any:
        self.read.add(name)
        entry = quoted(f"{self.architecture}.{name}")
        if name not in self.entries and default is None:
            raise RequestError(f"{self.file.path} lacks the entry {entry}")
        found = self.entries.get(name, default)
        if not fits(found):
            raise RequestError(f"{self.file.path}: {entry} is {shorten(repr(found), 60)}")
        return found

    # --- entries that several architectures share --------------------------------------------------------------

    @property
    def layers(self) -> int:
        layers, tensors = self.positive("block_count"), len(self.file.tensors)
        if layers > tensors:
            raise RequestError(f"{self.file.path} has {tensors} tensors, too few for {layers:,} layers (block_count)")
        return layers

    @property
    def heads(self) -> int:
        return self.positive("attention.head_count")

    @property
    def key_heads(self) -> int:
        return self.positive("attention.head_count_kv", self.heads)

    @property
    def head_dim(self) -> int:
        width, heads = self.positive("embedding_length"), self.heads
        if not self.has("attention.key_length") and width % heads:
            raise RequestError(f"{self.file.path}: {heads} heads do not divide the hidden size {width}")
        found = self.positive("attention.key_length", max(1, width // heads))
        if self.positive("attention.value_length", found) != found:
            raise RequestError(f"{self.file.path}: keys and values of different sizes, which attncli does not support")
        return found

    @property
    def vocab_size(self) -> int:
        if EMBEDDINGS not in self.file.tensors:
            raise RequestError(f"{self.file.path} lacks the tensor {EMBEDDINGS}")
        return self.file.shape(EMBEDDINGS)[0]


def _sizes(facts: Facts) -> dict[str, Any]:
    return {
        "vocab_size": facts.vocab_size,
        "hidden_size": facts.positive("embedding_length"),
        "intermediate_size": facts.positive("feed_forward_length"),
        "num_hidden_layers": facts.layers,
        "num_attention_heads": facts.heads,
        "max_position_embeddings": facts.positive("context_length"),
    }


def _with_rotary_positions(facts: Facts) -> dict[str, Any]:
    """Return the entries of a decoder like Llama (Touvron et al. 2023), whose heads are fully rotated."""
    head_dim = facts.head_dim
    if facts.positive("rope.dimension_count", head_dim) != head_dim:
        raise RequestError(f"{facts.file.path}: rotates only a part of each head, which attncli does not support")
    return {
        **_sizes(facts),
        "num_key_value_heads": facts.key_heads,
        "head_dim": head_dim,
        "rms_norm_eps": facts.real("attention.layer_norm_rms_epsilon"),
        "rope_theta": facts.real("rope.freq_base", 10000.0),
        "rope_scaling": _rotary_scaling(facts),
    }


def _rotary_scaling(facts: Facts) -> dict[str, Any] | None:
    """Return the scaling of rotary positions. Of Llama 3's, the file has only the divisor of each frequency.

    The largest divisor is the factor. The other numbers are those of all published models, and must give these
    divisors.
    """
    kind = facts.text("rope.scaling.type", "none")
    if ROTARY_FACTORS in facts.file.tensors:
        divisors = facts.file.values(ROTARY_FACTORS).ravel()
        factor = float(divisors.max(initial=1.0))
        low, high, original = 1.0, 4.0, 8192
        base = facts.real("rope.freq_base", 10000.0)
        expected = stretch_slow_pairs(facts.head_dim, base, factor, low, high, original)
        if len(divisors) != len(expected) or not np.allclose(divisors, expected, rtol=1e-4):
            raise RequestError(f"{facts.file.path}: {ROTARY_FACTORS} is not the scaling of Llama 3")
        return {
            "rope_type": "llama3",
            "factor": shortest(factor),
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": original,
        }
    if kind == "none":
        return None
    if kind == "linear":
        return {"rope_type": "linear", "factor": facts.real("rope.scaling.factor")}
    if kind == "yarn":
        original = facts.positive("rope.scaling.original_context_length")
        factor = facts.real("rope.scaling.factor")
        return {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
    raise RequestError(f"{facts.file.path}: attncli does not know the scaling {quoted(kind)} of rotary positions")


def _gemma2(facts: Facts) -> dict[str, Any]:
    return {
        **_gemma(facts, big=46),
        "attn_logit_softcapping": facts.real("attn_logit_softcapping"),
        "final_logit_softcapping": facts.real("final_logit_softcapping"),
    }


def _gemma3(facts: Facts) -> dict[str, Any]:
    return {**_gemma(facts, big=62), "rope_local_base_freq": facts.real("rope.freq_base_swa", 10000.0)}


def _gemma(facts: Facts, big: int) -> dict[str, Any]:
    """Return the common entries of Gemma 2 and 3.

    big: the number of layers of the model with 27 billion parameters, the only one that does not scale its scores by
    its head size. No file contains that.
    """
    config = _with_rotary_positions(facts)
    sharp = config["hidden_size"] // facts.heads if facts.layers == big else facts.head_dim
    return {**config, "sliding_window": facts.positive("attention.sliding_window"), "query_pre_attn_scalar": sharp}


def _phi3(facts: Facts) -> dict[str, Any]:
    rotated = facts.positive("rope.dimension_count", facts.head_dim)
    config: dict[str, Any] = {
        **_sizes(facts),
        "num_key_value_heads": facts.key_heads,
        "rms_norm_eps": facts.real("attention.layer_norm_rms_epsilon"),
        "rope_theta": facts.real("rope.freq_base", 10000.0),
        "partial_rotary_factor": rotated / facts.head_dim,
        "original_max_position_embeddings": facts.positive(
            "rope.scaling.original_context_length", facts.positive("context_length")
        ),
        "sliding_window": facts.positive("attention.sliding_window") if facts.has("attention.sliding_window") else None,
    }
    if facts.head_dim * facts.heads != config["hidden_size"]:
        raise RequestError(
            f"{facts.file.path}: the number of heads must divide the hidden size in Phi-3, and here it does not"
        )
    tensors = {"long_factor": LONG_FACTORS, "short_factor": SHORT_FACTORS}
    if all(name in facts.file.tensors for name in tensors.values()):
        factors = {
            key: [shortest(one) for one in facts.file.values(name).ravel().tolist()] for key, name in tensors.items()
        }
        config["rope_scaling"] = {"rope_type": "longrope", **factors}
    return config


def _gpt2(facts: Facts) -> dict[str, Any]:
    positions = facts.positive("context_length")
    return {
        "vocab_size": facts.vocab_size,
        "n_embd": facts.positive("embedding_length"),
        "n_inner": facts.positive("feed_forward_length"),
        "n_layer": facts.layers,
        "n_head": facts.heads,
        "n_positions": positions,
        "n_ctx": positions,
        "layer_norm_epsilon": facts.real("attention.layer_norm_epsilon"),
    }


def _gpt_neox(facts: Facts) -> dict[str, Any]:
    return {
        **_sizes(facts),
        "layer_norm_eps": facts.real("attention.layer_norm_epsilon"),
        "rotary_emb_base": facts.real("rope.freq_base", 10000.0),
        "rotary_pct": facts.positive("rope.dimension_count", facts.head_dim) / facts.head_dim,
        "use_parallel_residual": facts.flag("use_parallel_residual", True),
    }


# --- tensors --------------------------------------------------------------------------------------------

_BLOCK = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_NORMS_BEFORE = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
_NORMS_OF_HEADS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_NORMS_AFTER = {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
_NORMS_AROUND = {"attn_norm": "input_layernorm", "ffn_norm": "pre_feedforward_layernorm", **_NORMS_AFTER}
_OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_GPT2_MATRICES = ("attn_qkv", "attn_output", "ffn_up", "ffn_down")
_QKV = ("attn_q", "attn_k", "attn_v")


@dataclass(frozen=True)
class Architecture:
    """The rules by which one architecture of the format becomes a model type of transformers.

    model_type, network: as in config.json. config: returns its entries. layer: the modules of a layer, by their names
    in the file; outer: the others. prefix: of the layers. biased: the modules with a bias. interleaved: those whose
    rows are interleaved, by head. fused: those that hold queries, keys and values in blocks, where transformers has
    them by head. transposed: those that are. raised: norms have 1 added. others: tensors that `config` reads.
    """

    model_type: str
    network: str
    config: Callable[[Facts], dict[str, Any]]
    layer: Mapping[str, str]
    outer: Mapping[str, str] = field(default_factory=lambda: _OUTER)
    prefix: str = "model.layers"
    biased: tuple[str, ...] = ()
    interleaved: tuple[str, ...] = ()
    fused: tuple[str, ...] = ()
    transposed: tuple[str, ...] = ()
    raised: bool = False
    others: tuple[str, ...] = ()

    def rename(self, name: str, layers: int) -> str | None:
        """Return transformers' name of a tensor; None if the architecture has no such tensor."""
        if found := _IN_A_LAYER.fullmatch(name):
            layer, module, kind = found.groups()
            known, where = self.layer.get(module), f"{self.prefix}.{int(layer)}."
            if str(int(layer)) != layer or int(layer) >= layers:
                return None
        elif found := _OUTSIDE.fullmatch(name):
            module, kind = found.groups()
            known, where = self.outer.get(module), ""
        else:
            return None
        if known is None or (kind == "bias" and module not in self.biased):
            return None
        return f"{where}{known}.{kind}"


_LLAMA = Architecture(
    "llama",
    "LlamaForCausalLM",
    _with_rotary_positions,
    {**_BLOCK, **_NORMS_BEFORE},
    interleaved=("attn_q", "attn_k"),
    others=(ROTARY_FACTORS,),
)

ARCHITECTURES = {
    "llama": _LLAMA,
    "smollm3": Architecture(
        "smollm3", "SmolLM3ForCausalLM", _with_rotary_positions, _LLAMA.layer, interleaved=_LLAMA.interleaved
    ),
    "qwen2": Architecture("qwen2", "Qwen2ForCausalLM", _with_rotary_positions, _LLAMA.layer, biased=_QKV),
    "qwen3": Architecture("qwen3", "Qwen3ForCausalLM", _with_rotary_positions, {**_LLAMA.layer, **_NORMS_OF_HEADS}),
    "olmo2": Architecture(
        "olmo2", "Olmo2ForCausalLM", _with_rotary_positions, {**_BLOCK, **_NORMS_OF_HEADS, **_NORMS_AFTER}
    ),
    "gemma2": Architecture("gemma2", "Gemma2ForCausalLM", _gemma2, {**_BLOCK, **_NORMS_AROUND}, raised=True),
    "gemma3": Architecture(
        "gemma3_text", "Gemma3ForCausalLM", _gemma3, {**_BLOCK, **_NORMS_AROUND, **_NORMS_OF_HEADS}, raised=True
    ),
    "phi3": Architecture(
        "phi3",
        "Phi3ForCausalLM",
        _phi3,
        {
            **_NORMS_BEFORE,
            "attn_qkv": "self_attn.qkv_proj",
            "attn_output": "self_attn.o_proj",
            "ffn_up": "mlp.gate_up_proj",
            "ffn_down": "mlp.down_proj",
        },
        others=(LONG_FACTORS, SHORT_FACTORS),
    ),
    "gpt2": Architecture(
        "gpt2",
        "GPT2LMHeadModel",
        _gpt2,
        {
            "attn_norm": "ln_1",
            "attn_qkv": "attn.c_attn",
            "attn_output": "attn.c_proj",
            "ffn_norm": "ln_2",
            "ffn_up": "mlp.c_fc",
            "ffn_down": "mlp.c_proj",
        },
        {
            "token_embd": "transformer.wte",
            "position_embd": "transformer.wpe",
            "output_norm": "transformer.ln_f",
            "output": "lm_head",
        },
        "transformer.h",
        biased=(*_GPT2_MATRICES, "attn_norm", "ffn_norm", "output_norm"),
        transposed=_GPT2_MATRICES,
    ),
    "gptneox": Architecture(
        "gpt_neox",
        "GPTNeoXForCausalLM",
        _gpt_neox,
        {
            "attn_norm": "input_layernorm",
            "attn_qkv": "attention.query_key_value",
            "attn_output": "attention.dense",
            "ffn_norm": "post_attention_layernorm",
            "ffn_up": "mlp.dense_h_to_4h",
            "ffn_down": "mlp.dense_4h_to_h",
        },
        {"token_embd": "gpt_neox.embed_in", "output_norm": "gpt_neox.final_layer_norm", "output": "embed_out"},
        "gpt_neox.layers",
        biased=("attn_norm", "attn_qkv", "attn_output", "ffn_norm", "ffn_up", "ffn_down", "output_norm"),
        fused=("attn_qkv",),
    ),
}


class Translation:
    """The description of a network in a file, in transformers' words.

    config: the entries of config.json, without those of the vocabulary. names: transformers' name of each tensor that
    is converted.

    Raises RequestError for an architecture, a setting or a tensor that attncli does not know, or that is missing.
    """

    def __init__(self, file: GGUFFile) -> None:
        self.file = file
        if file.metadata.get("split.count", 1) != 1:
            raise RequestError(f"{file.path} is one of several parts: join them with `llama-gguf-split --merge`")
        name = file.metadata.get("general.architecture")
        if not isinstance(name, str) or name not in ARCHITECTURES:
            raise RequestError(
                f"{file.path} has the architecture {quoted(str(name))}, which attncli does not read; "
                f"it reads {', '.join(ARCHITECTURES)}"
            )
        self.architecture = ARCHITECTURES[name]
        self.facts = facts = Facts(file, name)
        self.config: dict[str, Any] = {
            "architectures": [self.architecture.network],
            "model_type": self.architecture.model_type,
            **self.architecture.config(facts),
            "tie_word_embeddings": HEAD not in file.tensors,
            "dtype": "float32",
        }
        left = sorted(set(facts.entries) - facts.read)
        if left:  # they may change the network's computation
            raise RequestError(f"{file.path}: attncli does not know the setting {quoted(f'{name}.{left[0]}')}")
        self.names: dict[str, str] = {}
        for tensor in file.tensors:
            renamed = self.architecture.rename(tensor, facts.layers)
            if renamed is not None:
                self.names[tensor] = renamed
            elif tensor not in self.architecture.others:
                raise RequestError(f"{file.path}: attncli does not know the tensor {quoted(tensor)}")
        modules = [f"blk.{layer}.{module}" for layer in range(facts.layers) for module in self.architecture.layer]
        modules += [module for module in self.architecture.outer if module != "output"]
        needed = [f"{module}.weight" for module in modules]
        needed += [f"{module}.bias" for module in modules if module.split(".")[-1] in self.architecture.biased]
        missing = next((tensor for tensor in needed if tensor not in self.names), None)
        if missing is not None:
            raise RequestError(f"{file.path} lacks the tensor {missing}")

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor as transformers has it."""
        shape = self.file.shape(name)
        return shape[::-1] if _module(name) in self.architecture.transposed else shape

    def values(self, name: str) -> Floats:
        """Return a tensor as transformers has it, in float32."""
        found, module, heads = self.file.values(name), _module(name), self.facts.heads
        if module in self.architecture.interleaved:
            found = self._reorder(
                name, found, (heads if module == "attn_q" else self.facts.key_heads, -1, 2), (0, 2, 1)
            )
        if module in self.architecture.fused:
            found = self._reorder(name, found, (3, heads, -1), (1, 0, 2))
        if module in self.architecture.transposed:
            found = found.T
        if self.architecture.raised and name.endswith("norm.weight"):
            with np.errstate(all="ignore"):  # damaged numbers, as in `GGUFFile.values`
                found = found - np.float32(1)
        return np.ascontiguousarray(found)

    def _reorder(self, name: str, found: Floats, shape: tuple[int, ...], order: tuple[int, ...]) -> Floats:
        """Return a tensor with its rows in another order: number them in `shape`, and transpose its axes to `order`."""
        if len(found) % -math.prod(shape):
            raise RequestError(f"{self.file.path}: the rows of {quoted(name)} are not those of whole heads")
        return found[np.arange(len(found)).reshape(shape).transpose(order).ravel()]


def _module(name: str) -> str:
    """Return the module of a tensor, without its layer: "attn_q"."""
    return name.split(".")[-2]
