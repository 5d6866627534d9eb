"""Gemma 1 to 3 (Gemma Team 2024, 2025): Llama's parts with GeGLU and scaled embeddings. Norms are stored minus 1.

Gemma 2 has norms before and after both parts of a layer, windows in every second layer, and bounds of the scores and
the logits (softcap).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attncli.models.families import llama
from attncli.models.families.family import (
    FULL,
    SLIDING,
    Biases,
    NoOwnNetwork,
    Source,
    TaskHeads,
    Values,
    decoder_heads,
    plus_one,
    read_rotation,
)

FIRST_GEMMA = "gemma"


def settings(values: Values) -> dict[str, Any]:
    if values.value("use_bidirectional_attention"):
        raise NoOwnNetwork("use_bidirectional_attention is set, but attncli supports only decoders of this type")
    scaled = {
        **llama.settings(values),
        "embedding_scale": values.count("hidden_size") ** 0.5,
        "biases": Biases(values.flag("attention_bias"), False, norms=False),
    }
    if values.data["model_type"] == FIRST_GEMMA:  # "gelu" in its first files is the approximation with tanh
        return {**scaled, "activation": "gelu_pytorch_tanh"} if values.activation("hidden_act") == "gelu" else scaled
    return {
        **scaled,
        "reach": llama.reach_of_layers(values, layer_kinds(values)),
        "output_norm": True,
        "score_scale": float(values.positive("query_pre_attn_scalar") or 1.0) ** -0.5,
        "softcap": values.positive("attn_logit_softcapping"),
    }


def layer_kinds(values: Values) -> Sequence[str]:
    """Return the kind of every layer: by default every `sliding_window_pattern`-th sees everything."""
    if (stated := values.layer_types) is not None:
        return stated
    every = values.count("sliding_window_pattern")
    return [SLIDING if (number + 1) % every else FULL for number in range(values.layers)]


def heads(values: Values) -> TaskHeads:
    return decoder_heads(values.positive("final_logit_softcapping"), values.flag("tie_word_embeddings"))


def tensors(both_norms: bool) -> dict[str, Source]:
    """Return Llama's tensors with norms stored minus 1, and the names of Gemma 2's norms if there are both."""
    norms = {name: plus_one(source.names[0]) for name, source in llama.TENSORS.items() if name.endswith("norm")}
    if both_norms:
        norms |= {
            "layers.{n}.attention_output_norm": plus_one("layers.{n}.post_attention_layernorm"),
            "layers.{n}.feed_forward_norm": plus_one("layers.{n}.pre_feedforward_layernorm"),
            "layers.{n}.feed_forward_output_norm": plus_one("layers.{n}.post_feedforward_layernorm"),
        }
    return {**llama.TENSORS, **norms}


DEFAULTS: dict[str, Any] = {
    **llama.DEFAULTS,
    "vocab_size": 256_000,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "max_position_embeddings": 8192,
    "hidden_act": "gelu_pytorch_tanh",
    "pad_token_id": 0,
    "tie_word_embeddings": True,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "sliding_window_pattern": 2,
}
GEMMA2 = replace(
    llama.FAMILY,
    name="gemma2",
    types={"gemma2": {**DEFAULTS, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}},
    tensors=tensors(both_norms=True),
    keys={**llama.FAMILY.keys, "hidden_act": "hidden_activation"},
    settings=settings,
    heads=heads,
)
GEMMA = replace(
    GEMMA2,
    name="gemma",
    types={
        FIRST_GEMMA: {
            **DEFAULTS,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "hidden_size": 3072,
            "intermediate_size": 24576,
        }
    },
    tensors=tensors(both_norms=False),
    keys=llama.FAMILY.keys,
)


# --- Gemma 3, its text part -----------------------------------------------------------------------------

# Gemma 3, its text part (Gemma Team 2025): Gemma 2 with norms of each head's queries and keys instead of bounds, and
# rotations of another base in layers with a window.


BASES = {FULL: ("rope_theta", 1_000_000.0), SLIDING: ("rope_local_base_freq", 10_000.0)}


def gemma3_settings(values: Values) -> dict[str, Any]:
    kinds, rotations, turned = layer_kinds(values), values.value("rope_parameters") or {}, {}
    for kind in set(kinds):
        key, base = BASES[kind]
        # Configurations older than transformers 5 stretch only full layers.
        older = values.value("rope_scaling") if kind == FULL else None
        stated = rotations.get(kind) if kind in rotations else older
        turned[kind] = read_rotation(values, stated, values.data.get(key, base), kind)
    plain = Values({**values.data, "rope_parameters": None, "rope_scaling": None}, values.keys, values.defaults)
    return {
        **settings(plain),
        "positions": tuple(turned[kind] for kind in kinds),
        "query_key_norm": "head",
    }


GEMMA3 = replace(
    GEMMA2,
    name="gemma3",
    types={
        "gemma3_text": {
            **DEFAULTS,
            "vocab_size": 262_208,
            "max_position_embeddings": 131_072,
            "sliding_window_pattern": 6,
        }
    },
    tensors={
        **GEMMA2.tensors,
        "layers.{n}.attention.query_norm": plus_one("layers.{n}.self_attn.q_norm"),
        "layers.{n}.attention.key_norm": plus_one("layers.{n}.self_attn.k_norm"),
    },
    settings=gemma3_settings,
)
