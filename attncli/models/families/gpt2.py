"""GPT-2 (Radford et al. 2019): pre-norm layers with learned positions. Its matrices are stored `[in, out]`."""

from typing import Any

from attncli.models.families.family import (
    Family,
    NoOwnNetwork,
    Source,
    TaskHeads,
    Values,
    decoder_heads,
    tensors_of,
    transpose,
)


def settings(values: Values) -> dict[str, Any]:
    for key, usual in (("scale_attn_weights", True), ("scale_attn_by_inverse_layer_idx", False)):
        if values.flag(key) is not usual:
            raise NoOwnNetwork(f"{key} is {str(not usual).lower()}, which attncli does not support")
    if values.flag("add_cross_attention"):
        raise NoOwnNetwork("add_cross_attention is set, which attncli does not support")
    return {
        "segments": 0,
        "norm_first": True,
        "embedding_norm": False,
        "causal": True,
    }


def heads(values: Values) -> TaskHeads:
    made = dict(decoder_heads(tied=values.flag("tie_word_embeddings")))
    return {**made, "tokens": made["tokens"].of("classifier")}


def third(part: int) -> Source:
    """Return the query, key or value in the stacked matrix."""
    return Source(("h.{n}.attn.c_attn",), (part,), 3, transposed=True)


FAMILY = Family(
    name="gpt2",
    types={
        "gpt2": {
            "hidden_act": "gelu_new",
            "vocab_size": 50257,
            "max_position_embeddings": 1024,
            "layer_norm_eps": 1e-5,
            "pad_token_id": None,
            "intermediate_size": None,
            "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
            "add_cross_attention": False,
            "tie_word_embeddings": True,
        }
    },
    tensors={
        "embeddings.tokens": tensors_of("wte"),
        "embeddings.positions.table": tensors_of("wpe"),
        "layers.{n}.attention.query": third(0),
        "layers.{n}.attention.key": third(1),
        "layers.{n}.attention.value": third(2),
        "layers.{n}.attention.output": transpose("h.{n}.attn.c_proj"),
        "layers.{n}.attention_norm": tensors_of("h.{n}.ln_1"),
        "layers.{n}.feed_forward.up": transpose("h.{n}.mlp.c_fc"),
        "layers.{n}.feed_forward.down": transpose("h.{n}.mlp.c_proj"),
        "layers.{n}.feed_forward_norm": tensors_of("h.{n}.ln_2"),
        "final_norm": tensors_of("ln_f"),
    },
    prefix="transformer.",
    body=("wte.", "wpe.", "h.", "ln_f."),
    keys={
        "hidden_size": "n_embd",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "intermediate_size": "n_inner",
        "max_position_embeddings": "n_positions",
        "hidden_act": "activation_function",
        "layer_norm_eps": "layer_norm_epsilon",
        "type_vocab_size": None,
    },
    settings=settings,
    heads=heads,
    tokenizer="GPT2Tokenizer",
)
