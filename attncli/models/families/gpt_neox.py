"""GPT-NeoX (Black et al. 2022) and Pythia (Biderman et al. 2023): both parts of a layer read its input, and positions
rotate a quarter of each head's vectors.
"""

from typing import Any

from attncli.models.families.family import (
    Biases,
    Family,
    TaskHeads,
    Values,
    decoder_heads,
    rotary_positions,
    split_by_head,
    tensors_of,
)


def settings(values: Values) -> dict[str, Any]:
    return {
        "segments": 0,
        "position_table": False,
        "positions": (rotary_positions(values),) * values.layers,
        "norm_first": True,
        "embedding_norm": False,
        "causal": True,
        "parallel": values.flag("use_parallel_residual"),
        "biases": Biases(values.flag("attention_bias"), True),
    }


def heads(values: Values) -> TaskHeads:
    made = dict(decoder_heads(tied=values.flag("tie_word_embeddings")))
    return {**made, "tokens": made["tokens"].of("classifier"), "next": made["next"].of("embed_out")}


QKV = "layers.{n}.attention.query_key_value"
FAMILY = Family(
    name="gpt_neox",
    types={
        "gpt_neox": {
            "vocab_size": 50432,
            "hidden_size": 6144,
            "num_hidden_layers": 44,
            "num_attention_heads": 64,
            "intermediate_size": 24576,
            "max_position_embeddings": 2048,
            "layer_norm_eps": 1e-5,
            "pad_token_id": None,
            "use_parallel_residual": True,
            "attention_bias": True,
            "tie_word_embeddings": False,
            "rope_theta": 10_000.0,
            "partial_rotary_factor": 0.25,
        }
    },
    tensors={
        "embeddings.tokens": tensors_of("embed_in"),
        "layers.{n}.attention.query": split_by_head(QKV, 0, 3),
        "layers.{n}.attention.key": split_by_head(QKV, 1, 3),
        "layers.{n}.attention.value": split_by_head(QKV, 2, 3),
        "layers.{n}.attention.output": tensors_of("layers.{n}.attention.dense"),
        "layers.{n}.attention_norm": tensors_of("layers.{n}.input_layernorm"),
        "layers.{n}.feed_forward.up": tensors_of("layers.{n}.mlp.dense_h_to_4h"),
        "layers.{n}.feed_forward.down": tensors_of("layers.{n}.mlp.dense_4h_to_h"),
        "layers.{n}.feed_forward_norm": tensors_of("layers.{n}.post_attention_layernorm"),
        "final_norm": tensors_of("final_layer_norm"),
    },
    prefix="gpt_neox.",
    body=("embed_in.", "layers.", "final_layer_norm."),
    keys={"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct", "type_vocab_size": None},
    settings=settings,
    heads=heads,
)
