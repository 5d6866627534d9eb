"""BERT with rotary positions in place of a table: RoFormer, NomicBERT, GTE, jina-embeddings-v3."""

from collections.abc import Mapping
from typing import Any

from attncli.models.families import bert, roberta
from attncli.models.families.family import (
    ABOVE_ONE,
    LINEAR,
    Biases,
    Dense,
    Family,
    Norm,
    Published,
    RotaryPositions,
    TaskHeads,
    Values,
    classes,
    fuse,
    number_from,
    query_key_value,
    rotary_positions,
    rotated_size,
    span,
    swap,
    tensors_of,
    tied,
    tokens,
    words,
)

# --- RoFormer -------------------------------------------------------------------------------------------

# RoFormer (Su et al. 2021): BERT with only rotary positions. Its embeddings may be smaller than the hidden size.
# Checkpoints contain its sines and cosines as a table, which attncli computes. Some rotate values too.


BASE = 10_000.0  # as in the published code, which ignores config.json


def roformer_settings(values: Values) -> dict[str, Any]:
    stated = "hidden_size" if values.value("embedding_size") is None else "embedding_size"
    rotary = RotaryPositions(
        rotated_size(values), BASE, interleaved=True, values=values.flag("rotary_value"), exact=True
    )
    return {
        "embedding_size": values.count(stated),
        "widens": values.count(stated) != values.count("hidden_size"),
        "position_table": False,
        "positions": (rotary,) * values.layers,
    }


def roformer_heads(values: Values) -> TaskHeads:
    return {
        "classes": classes(Dense("classifier.dense", values.activation("hidden_act")), scores="classifier.out_proj"),
        "tokens": tokens(),
        "span": span(),
        "words": bert.transformed_words(values, size="embedding_size"),
    }


ROFORMER = Family(
    name="roformer",
    types={
        "roformer": {
            "vocab_size": 50000,
            "max_position_embeddings": 1536,
            "embedding_size": None,
            "rotary_value": False,
        }
    },
    tensors={**bert.TENSORS, "embeddings.project": tensors_of("embeddings_project")},
    prefix="roformer.",
    body=("embeddings.", "embeddings_project.", "encoder."),
    tokenizer="RoFormerTokenizer",
    settings=roformer_settings,
    heads=roformer_heads,
)


# --- NomicBERT ------------------------------------------------------------------------------------------

# NomicBERT (Nussbaum et al. 2024): nomic-embed-text, CodeRankEmbed, snowflake-arctic-embed-m-long.
# BERT with rotary positions and a gated feed-forward part (SwiGLU), and biases only in the norms.


# The keys of its first config.json, and transformers' names for them.
NOMIC_KEYS = {
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_layer": "num_hidden_layers",
    "layer_norm_epsilon": "layer_norm_eps",
    "max_trained_positions": "max_position_embeddings",
    "rotary_emb_base": "rope_theta",
}
GATES = {"swiglu": "silu", "geglu": "gelu"}
# Keys that change the network, but that transformers ignores: they must be false. (rotary_scaling_factor is not among
# them: it has no effect up to `max_trained_positions`, the maximum here.)
UNSUPPORTED = (
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


def nomic_native(data: Mapping[str, Any]) -> dict[str, Any]:
    found = {ours: data[theirs] for theirs, ours in NOMIC_KEYS.items() if data.get(theirs) is not None}
    gate = data.get("activation_function")
    if isinstance(gate, str) and gate in GATES:
        found["hidden_act"] = GATES[gate]
    return {**found, **data}


def nomic_settings(values: Values) -> dict[str, Any]:
    values.check_only("activation_function", *GATES)
    values.check_only("rotary_emb_fraction", 1)
    for key in UNSUPPORTED:
        values.check_only(key, False, None, 0)
    return {
        "position_table": False,
        "positions": (rotary_positions(values),) * values.layers,
        "gated": True,
        "biases": Biases(attention=False, feed_forward=False),
    }


def nomic_heads(values: Values) -> TaskHeads:
    return {
        "classes": classes(Dense("pooler.dense", "tanh")),
        "tokens": tokens(),
        "words": words(
            Dense("cls.predictions.transform.dense", values.activation("hidden_act")),
            Norm("cls.predictions.transform.layer_norm"),
            scores=tied("cls.predictions.decoder", "cls.predictions.bias"),
        ),
    }


NOMIC = Family(
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
    settings=nomic_settings,
    heads=nomic_heads,
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
        native=nomic_native,
    ),
)


# --- GTE ------------------------------------------------------------------------------------------------

# The second generation of GTE (Zhang et al. 2024, mGTE): gte-*-en-v1.5, gte-multilingual and
# snowflake-arctic-embed-m-v2.0. BERT with rotary positions and a gated feed-forward part (GeGLU) with a bias only in
# its second projection. Most came with their own code, under the model type "new".


# transformers' defaults for missing keys, and those of the code published with "new".
GTE_DEFAULTS = {
    "vocab_size": 250048,
    "max_position_embeddings": 8192,
    "segments": 1,
    "pad_token_id": 1,
    "rope_theta": 160_000.0,
}
NEW_DEFAULTS = {"vocab_size": 30528, "max_position_embeddings": 2048, "pad_token_id": 0, "rope_theta": 10_000.0}


def gte_native(data: Mapping[str, Any]) -> dict[str, Any]:
    """Translate fixed NTK scaling by s to a base times s, with positions divided by s^(2 / head_dim).

    Source: Su 2023, kexue.fm/archives/9706, equation 6, and the code published with the models.
    """
    found = {**(NEW_DEFAULTS if data.get("model_type") == "new" else {}), **data, "model_type": "gte"}
    scaling = found.get("rope_scaling")
    if not isinstance(scaling, dict) or scaling.get("type") != "ntk" or scaling.get("mixed_b") is not None:
        return found
    values = Values(found, {}, GTE_DEFAULTS)
    base = number_from(ABOVE_ONE, "rope_theta", values.value("rope_theta"))
    factor = number_from(ABOVE_ONE, "factor", scaling.get("factor"))
    stretch = factor ** (2 * values.count("num_attention_heads") / values.count("hidden_size"))
    found["rope_parameters"] = {"rope_type": LINEAR, "rope_theta": base * factor, "factor": stretch}
    return {key: value for key, value in found.items() if key not in ("rope_scaling", "rope_theta")}


def gte_settings(values: Values) -> dict[str, Any]:
    values.check_only("position_embedding_type", "rope")
    values.check_only("layer_norm_type", "layer_norm")
    values.check_only("logn_attention_scale", False, None)
    values.check_only("pack_qkv", True, None)
    return {
        "segments": values.count("segments", least=0),
        "position_table": False,
        "positions": (rotary_positions(values),) * values.layers,
        "gated": True,
        "biases": Biases(feed_forward=False, down=True),
    }


def gte_heads(values: Values) -> TaskHeads:
    return {
        "classes": classes(Dense("pooler.dense", "tanh")),
        "tokens": tokens(),
        "words": words(
            Dense("lm_head.dense", "gelu"),
            Norm("lm_head.layer_norm", published="lm_head.norm"),
            scores=tied("lm_head.decoder"),
        ),
    }


GTE = Family(
    name="gte",
    types={"gte": GTE_DEFAULTS, "new": GTE_DEFAULTS},
    tensors=TENSORS,
    prefix="gte.",
    body=("embeddings.", "layers.", "encoder."),
    keys={"type_vocab_size": None, "segments": "type_vocab_size"},
    settings=gte_settings,
    heads=gte_heads,
    published=Published(
        tensors={
            "embeddings.tokens": tensors_of("embeddings.word_embeddings"),
            "embeddings.segments": tensors_of("embeddings.token_type_embeddings"),
            "embeddings.norm": tensors_of("embeddings.LayerNorm"),
            **query_key_value("encoder.layer.{n}.attention.qkv_proj"),
            "layers.{n}.attention.output": tensors_of("encoder.layer.{n}.attention.o_proj"),
            "layers.{n}.attention_norm": tensors_of("encoder.layer.{n}.attn_ln"),
            "layers.{n}.feed_forward.up": swap("encoder.layer.{n}.mlp.up_gate_proj"),
            "layers.{n}.feed_forward.down": tensors_of("encoder.layer.{n}.mlp.down_proj"),
            "layers.{n}.feed_forward_norm": tensors_of("encoder.layer.{n}.mlp_ln"),
        },
        prefix="new.",
        native=gte_native,
    ),
)


# --- jina-embeddings-v3 ---------------------------------------------------------------------------------

# jina-embeddings-v3 (Sturua et al. 2024) in transformers' format: XLM-RoBERTa with rotary positions instead of a table.
# Its task adapters are in folders beside the network, and are not applied, as in transformers by default. A checkpoint
# with adapters inside the network (`model_type: xlm-roberta`) is rejected.


JINA = Family(
    name="jina_embeddings_v3",
    types={
        "jina_embeddings_v3": {
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "vocab_size": 250002,
            "max_position_embeddings": 8194,
            "type_vocab_size": 1,
            "layer_norm_eps": 1e-5,
            "pad_token_id": 1,
            "rope_theta": 20_000.0,
        }
    },
    tensors={
        **TENSORS,
        "layers.{n}.feed_forward.up": tensors_of("layers.{n}.mlp.fc1"),
        "layers.{n}.feed_forward.down": tensors_of("layers.{n}.mlp.fc2"),
    },
    prefix="roberta.",
    body=("embeddings.", "layers.", "emb_ln.", "encoder."),
    settings=lambda values: {
        "position_table": False,
        "positions": (rotary_positions(values),) * values.layers,
    },
    heads=roberta.heads,
    published=Published(
        tensors={
            "embeddings.tokens": tensors_of("embeddings.word_embeddings"),
            "embeddings.segments": tensors_of("embeddings.token_type_embeddings"),
            "embeddings.norm": tensors_of("emb_ln"),
            **query_key_value("encoder.layers.{n}.mixer.Wqkv"),
            "layers.{n}.attention.output": tensors_of("encoder.layers.{n}.mixer.out_proj"),
            "layers.{n}.attention_norm": tensors_of("encoder.layers.{n}.norm1"),
            "layers.{n}.feed_forward.up": tensors_of("encoder.layers.{n}.mlp.fc1"),
            "layers.{n}.feed_forward.down": tensors_of("encoder.layers.{n}.mlp.fc2"),
            "layers.{n}.feed_forward_norm": tensors_of("encoder.layers.{n}.norm2"),
        },
        prefix="roberta.",
    ),
)
