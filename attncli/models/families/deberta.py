"""DeBERTa, versions 1 to 3 (He et al. 2021, 2023): disentangled attention.

The published models add no positions to the input. Scores have terms between content and offsets, whose normalised
vectors all layers share. The largest models of version 2 have a convolution parallel to the first layer.
"""

from dataclasses import replace
from typing import Any

from attncli.base.errors import RequestError
from attncli.models.families.bert import TENSORS, transformed_words
from attncli.models.families.family import (
    Biases,
    Conv,
    Dense,
    Disentangling,
    Family,
    NoOwnNetwork,
    Norm,
    Scores,
    TaskHeads,
    Values,
    classes,
    span,
    split_by_head,
    tensors_of,
    tokens,
    words,
)

KINDS = {"c2p": "content to position", "p2c": "position to content"}


def settings(values: Values) -> dict[str, Any]:
    if values.value("embedding_size") not in (None, values.value("hidden_size")):
        raise NoOwnNetwork("its token vectors are widened before they are normalised, which attncli does not support")
    disentangling = relative(values)
    conv = None
    if tokens := values.count("conv_kernel_size", least=0, most=99):
        if tokens % 2 == 0:
            raise RequestError(f"conv_kernel_size is {tokens}, not an odd number")
        conv = Conv(tokens, values.count("conv_groups"), values.activation("conv_act"))
        if (size := values.count("hidden_size")) % conv.groups:
            raise RequestError(f"hidden_size {size} is not divisible by {conv.groups} conv_groups")
    return {
        "segments": values.count("segments", least=0),
        "position_table": values.flag("position_biased_input"),
        "positions": (disentangling,) * values.layers,
        "conv": conv,
    }


def relative(values: Values) -> Disentangling | None:
    """Return the terms that positions add to the scores."""
    stated = values.value("pos_att_type") or []
    named = [name.strip() for name in stated.lower().split("|")] if isinstance(stated, str) else stated
    if not isinstance(named, list) or not all(isinstance(name, str) and name in KINDS for name in named):
        raise NoOwnNetwork("pos_att_type has terms other than c2p and p2c")
    if len(set(named)) < len(named):
        raise NoOwnNetwork("pos_att_type has a term twice")
    if not values.flag("relative_attention"):
        if named:
            raise NoOwnNetwork("it has pos_att_type without relative_attention")
        return None
    furthest = values.count("max_relative_positions", least=-1)
    furthest = furthest if furthest > 0 else values.count("max_position_embeddings")
    near = max(0, values.count("position_buckets", least=-1))
    if near == 1:
        raise RequestError("position_buckets is 1, but there must be at least one for each side")
    norms = values.value("norm_rel_ebd")
    if not isinstance(norms, str):
        raise RequestError("norm_rel_ebd is not a text")
    return Disentangling(
        kinds=tuple(kind for name, kind in KINDS.items() if name in named),
        span=near or furthest,
        near=near,
        furthest=furthest,
        normed="layer_norm" in [part.strip() for part in norms.lower().split("|")],
        shared=values.flag("share_att_key"),
    )


def heads(values: Values) -> TaskHeads:
    published = words(
        Dense("lm_predictions.lm_head.dense", values.activation("hidden_act")),
        Norm("lm_predictions.lm_head.LayerNorm"),
        scores=Scores("embeddings.word_embeddings", ("lm_predictions.lm_head.bias",)),
    )
    return {
        "classes": classes(Dense("pooler.dense", values.activation("pooler_hidden_act"))),
        "tokens": tokens(),
        "span": span(),
        "words": transformed_words(values) if values.flag("legacy") else published,
    }


DEFAULTS: dict[str, Any] = {
    "layer_norm_eps": 1e-7,
    "segments": 0,
    "relative_attention": False,
    "max_relative_positions": -1,
    "position_buckets": -1,
    "position_biased_input": True,
    "share_att_key": False,
    "norm_rel_ebd": "none",
    "conv_kernel_size": 0,
    "conv_groups": 1,
    "conv_act": "tanh",
    "pooler_hidden_act": "gelu",
    "legacy": True,
}
VERSION_2 = Family(
    name="deberta-v2",
    types={
        "deberta-v2": {
            **DEFAULTS,
            "num_hidden_layers": 24,
            "num_attention_heads": 24,
            "hidden_size": 1536,
            "intermediate_size": 6144,
            "vocab_size": 128100,
            "type_vocab_size": 1,
        }
    },
    tensors={
        **{name: source for name, source in TENSORS.items() if ".attention." not in name},
        "layers.{n}.attention.query": tensors_of("encoder.layer.{n}.attention.self.query_proj"),
        "layers.{n}.attention.key": tensors_of("encoder.layer.{n}.attention.self.key_proj"),
        "layers.{n}.attention.value": tensors_of("encoder.layer.{n}.attention.self.value_proj"),
        "layers.{n}.attention.output": tensors_of("encoder.layer.{n}.attention.output.dense"),
        "layers.{n}.attention.score.vectors": tensors_of("encoder.rel_embeddings"),
        "layers.{n}.attention.score.norm": tensors_of("encoder.LayerNorm"),
        "layers.{n}.attention.score.own.query": tensors_of("encoder.layer.{n}.attention.self.pos_query_proj"),
        "layers.{n}.attention.score.own.key": tensors_of("encoder.layer.{n}.attention.self.pos_key_proj"),
        "neighbours.conv": tensors_of("encoder.conv.conv"),
        "neighbours.norm": tensors_of("encoder.conv.LayerNorm"),
    },
    prefix="deberta.",
    keys={"type_vocab_size": None, "segments": "type_vocab_size"},
    settings=settings,
    heads=heads,
)

# --- version 1, with a vector for each offset -----------------------------------------------------------

# Query, key and value are one matrix, grouped by head. Queries and values have separate biases; keys have none.

SELF = "encoder.layer.{n}.attention.self"
# Introduced by version 2; transformers ignores them here.
NOT_ITS_OWN = ("position_buckets", "norm_rel_ebd", "share_att_key", "conv_kernel_size")


def version_1_settings(values: Values) -> dict[str, Any]:
    if values.flag("talking_head"):
        raise NoOwnNetwork("talking_head mixes the scores of heads, which attncli does not support")
    return {**settings(values), "biases": Biases(bare_keys=True)}


VERSION_1 = replace(
    VERSION_2,
    name="deberta",
    types={"deberta": {**DEFAULTS, "vocab_size": 50265, "talking_head": False}},
    tensors={
        **VERSION_2.tensors,
        "layers.{n}.attention.query": split_by_head(f"{SELF}.in_proj", 0, 3, bias=f"{SELF}.q_bias"),
        "layers.{n}.attention.key": split_by_head(f"{SELF}.in_proj", 1, 3),
        "layers.{n}.attention.value": split_by_head(f"{SELF}.in_proj", 2, 3, bias=f"{SELF}.v_bias"),
        "layers.{n}.attention.score.own.query": tensors_of(f"{SELF}.pos_q_proj"),
        "layers.{n}.attention.score.own.key": tensors_of(f"{SELF}.pos_proj"),
    },
    keys={**VERSION_2.keys, **dict.fromkeys(NOT_ITS_OWN)},
    settings=version_1_settings,
)
