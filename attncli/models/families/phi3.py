"""Phi 3 (Abdin et al. 2024): Llama's parts, with query, key and value in one matrix, and a window in every layer."""

from dataclasses import replace
from typing import Any

from attncli.models.families import llama
from attncli.models.families.family import SLIDING, Biases, Values, grouped_query_key_value, tensors_of


def settings(values: Values) -> dict[str, Any]:
    return {
        **llama.settings(values),
        "reach": llama.reach_of_layers(values, [SLIDING] * values.layers),
        "biases": Biases(False, False, norms=False),
    }


FAMILY = replace(
    llama.FAMILY,
    name="phi3",
    types={
        "phi3": {
            **llama.DEFAULTS,
            "vocab_size": 32064,
            "hidden_size": 3072,
            "intermediate_size": 8192,
            "max_position_embeddings": 4096,
            "layer_norm_eps": 1e-5,
            "pad_token_id": 32000,
            "partial_rotary_factor": 1.0,
        }
    },
    tensors={
        **llama.TENSORS,
        **grouped_query_key_value("layers.{n}.self_attn.qkv_proj"),
        "layers.{n}.feed_forward.up": tensors_of("layers.{n}.mlp.gate_up_proj"),
    },
    settings=settings,
)
