"""The second generation of GTE (Zhang et al. 2024, mGTE): gte-*-en-v1.5, gte-multilingual,
snowflake-arctic-embed-m-v2.0.

BERT with rotary positions and a gated feed-forward part (GeGLU) with a bias only in its second projection. Most came
with their own code, under the model type "new".
"""

from collections.abc import Mapping
from typing import Any

from attncli.models.families.family import (
    LINEAR,
    Biases,
    Dense,
    Family,
    Heads,
    Norm,
    Published,
    Values,
    classes,
    more_than_one,
    query_key_value,
    rotary_positions,
    swap,
    tensors_of,
    tied,
    tokens,
    words,
)
from attncli.models.families.nomic_bert import TENSORS

# transformers' defaults for missing keys, and those of the code published with "new".
DEFAULTS = {
    "vocab_size": 250048,
    "max_position_embeddings": 8192,
    "segments": 1,
    "pad_token_id": 1,
    "rope_theta": 160_000.0,
}
NEW = {"vocab_size": 30528, "max_position_embeddings": 2048, "pad_token_id": 0, "rope_theta": 10_000.0}


def native(data: Mapping[str, Any]) -> dict[str, Any]:
    """Translate fixed NTK scaling by s to a base times s, with positions divided by s^(2 / head_dim).

    Source: Su 2023, kexue.fm/archives/9706, equation 6, and the code published with the models.
    """
    found = {**(NEW if data.get("model_type") == "new" else {}), **data, "model_type": "gte"}
    scaling = found.get("rope_scaling")
    if not isinstance(scaling, dict) or scaling.get("type") != "ntk" or scaling.get("mixed_b") is not None:
        return found
    values = Values(found, {}, DEFAULTS)
    base, factor = (
        more_than_one("rope_theta", values.value("rope_theta")),
        more_than_one("factor", scaling.get("factor")),
    )
    stretch = factor ** (2 * values.count("num_attention_heads") / values.count("hidden_size"))
    found["rope_parameters"] = {"rope_type": LINEAR, "rope_theta": base * factor, "factor": stretch}
    return {key: value for key, value in found.items() if key not in ("rope_scaling", "rope_theta")}


def settings(values: Values) -> dict[str, Any]:
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


def heads(values: Values) -> Heads:
    return {
        "classes": classes(Dense("pooler.dense", "tanh")),
        "tokens": tokens(),
        "words": words(
            Dense("lm_head.dense", "gelu"),
            Norm("lm_head.layer_norm", published="lm_head.norm"),
            scores=tied("lm_head.decoder"),
        ),
    }


FAMILY = Family(
    name="gte",
    types={"gte": DEFAULTS, "new": DEFAULTS},
    tensors=TENSORS,
    prefix="gte.",
    body=("embeddings.", "layers.", "encoder."),
    keys={"type_vocab_size": None, "segments": "type_vocab_size"},
    settings=settings,
    heads=heads,
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
        native=native,
    ),
)
