"""ModernBERT (Warner et al. 2024) and its children: Ettin, mmBERT, gte-modernbert, granite r2.

Pre-norm and gated, rotary positions, and a window in most layers. Layer 0 has no norm before its attention.
The key `position_embedding_type: absolute` in its config.json (`sans_pos` in mmBERT's) has no effect.
"""

import reprlib
from typing import Any

from attncli.base.errors import RequestError
from attncli.models.families.family import (
    FIRST,
    FULL,
    MEAN,
    SLIDING,
    Biases,
    Dense,
    Family,
    NoOwnNetwork,
    Norm,
    TaskHeads,
    Values,
    classes,
    query_key_value,
    read_rotation,
    span,
    tensors_of,
    tied,
    tokens,
    words,
)

POOLING = {"cls": FIRST, "mean": MEAN}
BASES = {FULL: ("global_rope_theta", 160_000.0), SLIDING: ("local_rope_theta", 10_000.0)}


def settings(values: Values) -> dict[str, Any]:
    if (kinds := values.layer_types) is None:  # older than transformers 5
        every = values.count("global_attn_every_n_layers")
        kinds = [SLIDING if number % every else FULL for number in range(values.layers)]
    if values.value("rope_scaling") is not None:
        raise NoOwnNetwork("it scales its rotary positions (rope_scaling), which attncli does not support")
    rotations, turned = values.value("rope_parameters") or {}, {}
    for kind in set(kinds):
        old, default = BASES[kind]
        stated = rotations.get(kind) if isinstance(rotations, dict) else rotations
        turned[kind] = read_rotation(values, stated, values.data.get(old, default), kind)
    reach = values.count("local_attention", least=2) // 2  # the window's width counts both sides
    return {
        "segments": 0,
        "position_table": False,
        "positions": tuple(turned[kind] for kind in kinds),
        "reach": tuple(reach if kind == SLIDING else None for kind in kinds),
        "norm_first": True,
        "first_norm": False,
        "gated": True,
        "biases": Biases(*(values.flag(name) for name in ("attention_bias", "mlp_bias", "norm_bias"))),
    }


def heads(values: Values) -> TaskHeads:
    bias, pooling = values.flag("classifier_bias"), values.value("classifier_pooling")
    if pooling not in POOLING:
        raise RequestError(f"classifier_pooling is {reprlib.repr(pooling)}, not one of {', '.join(POOLING)}")
    parts = (
        Dense("head.dense", values.activation("classifier_activation"), bias=bias),
        Norm("head.norm", values.flag("norm_bias")),
    )
    decoder = tied("decoder")
    return {
        "classes": classes(*parts, reads=POOLING[pooling]),
        "tokens": tokens(*parts),
        "span": span(*parts, scores="classifier"),
        "words": words(*parts, scores=decoder if values.flag("decoder_bias") else decoder._replace(biases=())),
    }


FAMILY = Family(
    name="modernbert",
    types={
        "modernbert": {
            "num_hidden_layers": 22,
            "intermediate_size": 1152,
            "vocab_size": 50368,
            "max_position_embeddings": 8192,
            "layer_norm_eps": 1e-5,
            "pad_token_id": 50283,
            "type_vocab_size": 1,
            "local_attention": 128,
            "global_attn_every_n_layers": 3,
            "attention_bias": False,
            "mlp_bias": False,
            "norm_bias": False,
            "classifier_bias": False,
            "classifier_pooling": "cls",
            "classifier_activation": "gelu",
            "decoder_bias": True,
        }
    },
    tensors={
        "embeddings.tokens": tensors_of("embeddings.tok_embeddings"),
        "embeddings.norm": tensors_of("embeddings.norm"),
        **query_key_value("layers.{n}.attn.Wqkv"),
        "layers.{n}.attention.output": tensors_of("layers.{n}.attn.Wo"),
        "layers.{n}.attention_norm": tensors_of("layers.{n}.attn_norm"),
        "layers.{n}.feed_forward.up": tensors_of("layers.{n}.mlp.Wi"),
        "layers.{n}.feed_forward.down": tensors_of("layers.{n}.mlp.Wo"),
        "layers.{n}.feed_forward_norm": tensors_of("layers.{n}.mlp_norm"),
        "final_norm": tensors_of("final_norm"),
    },
    prefix="model.",
    body=("embeddings.", "layers.", "final_norm."),
    keys={
        "hidden_act": "hidden_activation",
        "layer_norm_eps": "norm_eps",
        "type_vocab_size": None,
    },
    settings=settings,
    heads=heads,
)
