"""Llama 2 and 3 (Touvron et al. 2023; Grattafiori et al. 2024), and networks of the same parts: Mistral, with a window
(Jiang et al. 2023); Qwen 2, with biases of queries, keys and values (Yang et al. 2024); SmolLM 2; SmolLM 3, some of
whose layers have no positions.

RMSNorm before both parts of a layer and after the last layer; rotary positions; SwiGLU; groups of heads share keys.

Qwen 3, OLMo 2 and Phi 3, at the end of this file, change some of these parts.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attncli.base.errors import RequestError
from attncli.models.families.family import (
    FULL,
    SLIDING,
    Biases,
    Family,
    Source,
    TaskHeads,
    Values,
    decoder_heads,
    fuse,
    grouped_query_key_value,
    rotary_positions,
    tensors_of,
)


def settings(values: Values) -> dict[str, Any]:
    rotary = rotary_positions(values)
    return {
        "segments": 0,
        "position_table": False,
        "positions": tuple(rotary if rotates else None for rotates in rotary_layers(values)),
        "reach": reach_of_layers(values, layer_kinds(values)),
        "norm_first": True,
        "rms_norm": True,
        "embedding_norm": False,
        "causal": True,
        "key_heads": values.key_heads,
        "head_dim": values.head_dim,
        "gated": True,
        "biases": biases(values),
    }


def biases(values: Values) -> Biases:
    if values.data["model_type"] == "qwen2":
        return Biases(True, False, norms=False, output=False)
    return Biases(values.flag("attention_bias"), values.flag("mlp_bias"), norms=False)


def rotary_layers(values: Values) -> Sequence[bool]:
    """Return for each layer whether it has rotary positions."""
    stated, every = values.value("no_rope_layers"), values.value("no_rope_layer_interval")
    if stated is None:
        return [every is None or (number + 1) % every != 0 for number in range(values.layers)]
    if not isinstance(stated, list) or len(stated) != values.layers or not all(one in (0, 1) for one in stated):
        raise RequestError(f"no_rope_layers must be 0 or 1 for each of {values.layers} layers")
    return [one == 1 for one in stated]  # 1 for a layer with positions, in spite of the name


def layer_kinds(values: Values) -> Sequence[str]:
    """Return the kind of every layer. In Qwen 2 only the layers after the first `max_window_layers` have a window."""
    stated, layers = values.layer_types, values.layers
    if stated is not None:
        return stated
    if values.data["model_type"] == "mistral":
        return [SLIDING] * layers
    if not values.flag("use_sliding_window"):
        return [FULL] * layers
    if values.data["model_type"] == "smollm3":
        return [FULL if rotates else SLIDING for rotates in rotary_layers(values)]
    first = values.count("max_window_layers", least=0)
    return [SLIDING if number >= first else FULL for number in range(layers)]


def reach_of_layers(values: Values, kinds: Sequence[str]) -> tuple[int | None, ...]:
    """Return how far each layer sees. The width of a window counts the query itself."""
    if values.value("sliding_window") is None or SLIDING not in kinds:
        return (None,) * len(kinds)
    reach = values.count("sliding_window", least=2) - 1
    return tuple(reach if kind == SLIDING else None for kind in kinds)


def heads(values: Values) -> TaskHeads:
    return decoder_heads(tied=values.flag("tie_word_embeddings"))


TENSORS: dict[str, Source] = {
    "embeddings.tokens": tensors_of("embed_tokens"),
    "layers.{n}.attention.query": tensors_of("layers.{n}.self_attn.q_proj"),
    "layers.{n}.attention.key": tensors_of("layers.{n}.self_attn.k_proj"),
    "layers.{n}.attention.value": tensors_of("layers.{n}.self_attn.v_proj"),
    "layers.{n}.attention.output": tensors_of("layers.{n}.self_attn.o_proj"),
    "layers.{n}.attention_norm": tensors_of("layers.{n}.input_layernorm"),
    "layers.{n}.feed_forward.up": fuse("layers.{n}.mlp.gate_proj", "layers.{n}.mlp.up_proj"),
    "layers.{n}.feed_forward.down": tensors_of("layers.{n}.mlp.down_proj"),
    "layers.{n}.feed_forward_norm": tensors_of("layers.{n}.post_attention_layernorm"),
    "final_norm": tensors_of("norm"),
}
DEFAULTS: dict[str, Any] = {
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "hidden_act": "silu",
    "layer_norm_eps": 1e-6,
    "pad_token_id": None,
    "head_dim": None,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "rope_theta": 10_000.0,
}
QWEN: dict[str, Any] = {
    **DEFAULTS,
    "vocab_size": 151_936,
    "intermediate_size": 22016,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
    "max_window_layers": 28,
    "num_key_value_heads": 32,
}
FAMILY = Family(
    name="llama",
    types={
        "llama": DEFAULTS,
        "mistral": {
            **DEFAULTS,
            "intermediate_size": 14336,
            "num_key_value_heads": 8,
            "max_position_embeddings": 131_072,
            "sliding_window": 4096,
        },
        "qwen2": QWEN,
        "smollm3": {
            **DEFAULTS,
            "vocab_size": 128_256,
            "hidden_size": 2048,
            "num_hidden_layers": 36,
            "num_attention_heads": 16,
            "num_key_value_heads": 4,
            "max_position_embeddings": 32768,
            "pad_token_id": 128_004,
            "tie_word_embeddings": True,
            "rope_theta": 2_000_000.0,
            "no_rope_layer_interval": 4,
        },
    },
    tensors=TENSORS,
    prefix="model.",
    other_prefix="transformer.",  # for question answering
    body=("embed_tokens.", "layers.", "norm."),
    keys={"layer_norm_eps": "rms_norm_eps", "type_vocab_size": None},
    settings=settings,
    heads=heads,
)


# --- Qwen 3 ---------------------------------------------------------------------------------------------

# Qwen 3 (Yang et al. 2025): Llama's parts, with a norm of each head's queries and keys.


QWEN3 = replace(
    FAMILY,
    name="qwen3",
    types={"qwen3": {**QWEN, "head_dim": 128}},
    tensors={
        **TENSORS,
        "layers.{n}.attention.query_norm": tensors_of("layers.{n}.self_attn.q_norm"),
        "layers.{n}.attention.key_norm": tensors_of("layers.{n}.self_attn.k_norm"),
    },
    settings=lambda values: {
        **settings(values),
        "query_key_norm": "head",
        "biases": Biases(values.flag("attention_bias"), False, norms=False),
    },
)


# --- OLMo 2 ---------------------------------------------------------------------------------------------

# OLMo 2 (Team OLMo 2024): Llama's parts, with norms after both parts of a layer instead of before them, and norms of
# the joined queries and the joined keys of all heads.


_PRE_NORMS = ("layers.{n}.attention_norm", "layers.{n}.feed_forward_norm")
OLMO2 = replace(
    FAMILY,
    name="olmo2",
    types={"olmo2": {**DEFAULTS, "vocab_size": 50304, "pad_token_id": 1, "layer_norm_eps": 1e-5}},
    tensors={
        **{name: source for name, source in TENSORS.items() if name not in _PRE_NORMS},
        "layers.{n}.attention.query_norm": tensors_of("layers.{n}.self_attn.q_norm"),
        "layers.{n}.attention.key_norm": tensors_of("layers.{n}.self_attn.k_norm"),
        "layers.{n}.attention_output_norm": tensors_of("layers.{n}.post_attention_layernorm"),
        "layers.{n}.feed_forward_output_norm": tensors_of("layers.{n}.post_feedforward_layernorm"),
    },
    settings=lambda values: {
        **settings(values),
        "norm_first": False,
        "output_norm": True,
        "query_key_norm": "all",
        "biases": Biases(values.flag("attention_bias"), False, norms=False),
    },
)


# --- Phi 3 ----------------------------------------------------------------------------------------------

# Phi 3 (Abdin et al. 2024): Llama's parts, with query, key and value in one matrix, and a window in every layer.


PHI3 = replace(
    FAMILY,
    name="phi3",
    types={
        "phi3": {
            **DEFAULTS,
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
        **TENSORS,
        **grouped_query_key_value("layers.{n}.self_attn.qkv_proj"),
        "layers.{n}.feed_forward.up": tensors_of("layers.{n}.mlp.gate_up_proj"),
    },
    settings=lambda values: {
        **settings(values),
        "reach": reach_of_layers(values, [SLIDING] * values.layers),
        "biases": Biases(False, False, norms=False),
    },
)
