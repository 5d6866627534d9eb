"""Gemma and Gemma 2 (Gemma Team 2024): Llama's parts with GeGLU and scaled embeddings. Norms are stored minus 1.

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
    Heads,
    NoOwnNetwork,
    Source,
    Values,
    decoder_heads,
    plus_one,
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


def heads(values: Values) -> Heads:
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
FAMILY = replace(
    llama.FAMILY,
    name="gemma2",
    types={"gemma2": {**DEFAULTS, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}},
    tensors=tensors(both_norms=True),
    keys={**llama.FAMILY.keys, "hidden_act": "hidden_activation"},
    settings=settings,
    heads=heads,
)
