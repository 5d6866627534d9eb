"""NomicBERT (Nussbaum et al. 2024): nomic-embed-text, CodeRankEmbed, snowflake-arctic-embed-m-long.

BERT with rotary positions and a gated feed-forward part (SwiGLU), and biases only in the norms.
"""

from collections.abc import Mapping
from typing import Any

from attncli.models.families.family import (
    Biases,
    Dense,
    Family,
    Heads,
    Norm,
    Published,
    Values,
    classes,
    fuse,
    query_key_value,
    rotary_positions,
    tensors_of,
    tied,
    tokens,
    words,
)

# The keys of its first config.json, and transformers' names for them.
WORDS = {
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_layer": "num_hidden_layers",
    "layer_norm_epsilon": "layer_norm_eps",
    "max_trained_positions": "max_position_embeddings",
    "rotary_emb_base": "rope_theta",
}
GATES = {"swiglu": "silu", "geglu": "gelu"}
# Further keys about the network, which transformers ignores. Scaling of positions on texts longer than in training
# (rotary_scaling_factor) has no effect up to `max_trained_positions`, the maximum here.
NEVER = (
    "qkv_proj_bias",
    "mlp_fc1_bias",
    "mlp_fc2_bias",
    "prenorm",
    "parallel_block",
    "use_rms_norm",
    "rotary_emb_interleaved",
    "rotary_emb_scale_base",
    "moe_every_n_layers",
)

TENSORS = {
    "embeddings.tokens": tensors_of("embeddings.word_embeddings"),
    "embeddings.segments": tensors_of("embeddings.token_type_embeddings"),
    "embeddings.norm": tensors_of("embeddings.LayerNorm"),
    "layers.{n}.attention.query": tensors_of("layers.{n}.self_attn.q_proj"),
    "layers.{n}.attention.key": tensors_of("layers.{n}.self_attn.k_proj"),
    "layers.{n}.attention.value": tensors_of("layers.{n}.self_attn.v_proj"),
    "layers.{n}.attention.output": tensors_of("layers.{n}.self_attn.o_proj"),
    "layers.{n}.attention_norm": tensors_of("layers.{n}.post_attention_layernorm"),
    "layers.{n}.feed_forward.up": fuse("layers.{n}.mlp.gate_proj", "layers.{n}.mlp.up_proj"),
    "layers.{n}.feed_forward.down": tensors_of("layers.{n}.mlp.down_proj"),
    "layers.{n}.feed_forward_norm": tensors_of("layers.{n}.post_mlp_layernorm"),
}


def native(data: Mapping[str, Any]) -> dict[str, Any]:
    found = {ours: data[theirs] for theirs, ours in WORDS.items() if data.get(theirs) is not None}
    gate = data.get("activation_function")
    if isinstance(gate, str) and gate in GATES:
        found["hidden_act"] = GATES[gate]
    return {**found, **data}


def settings(values: Values) -> dict[str, Any]:
    values.check_only("activation_function", *GATES)
    values.check_only("rotary_emb_fraction", 1)
    for key in NEVER:
        values.check_only(key, False, None, 0)
    return {
        "position_table": False,
        "positions": (rotary_positions(values),) * values.layers,
        "gated": True,
        "biases": Biases(attention=False, feed_forward=False),
    }


def heads(values: Values) -> Heads:
    return {
        "classes": classes(Dense("pooler.dense", "tanh")),
        "tokens": tokens(),
        "words": words(
            Dense("cls.predictions.transform.dense", values.activation("hidden_act")),
            Norm("cls.predictions.transform.layer_norm"),
            scores=tied("cls.predictions.decoder", "cls.predictions.bias"),
        ),
    }


FAMILY = Family(
    name="nomic_bert",
    types={
        "nomic_bert": {
            "vocab_size": 30528,
            "hidden_act": "silu",
            "max_position_embeddings": 2048,
            "rope_theta": 1000.0,
        }
    },
    tensors=TENSORS,
    prefix="nomic_bert.",
    body=("embeddings.", "layers.", "emb_ln.", "encoder."),
    settings=settings,
    heads=heads,
    published=Published(
        tensors={
            "embeddings.tokens": tensors_of("embeddings.word_embeddings"),
            "embeddings.segments": tensors_of("embeddings.token_type_embeddings"),
            "embeddings.norm": tensors_of("emb_ln"),
            **query_key_value("encoder.layers.{n}.attn.Wqkv"),
            "layers.{n}.attention.output": tensors_of("encoder.layers.{n}.attn.out_proj"),
            "layers.{n}.attention_norm": tensors_of("encoder.layers.{n}.norm1"),
            "layers.{n}.feed_forward.up": fuse("encoder.layers.{n}.mlp.fc12", "encoder.layers.{n}.mlp.fc11"),
            "layers.{n}.feed_forward.down": tensors_of("encoder.layers.{n}.mlp.fc2"),
            "layers.{n}.feed_forward_norm": tensors_of("encoder.layers.{n}.norm2"),
        },
        prefix="bert.",
        native=native,
    ),
)
