"""RoBERTa (Liu et al. 2019), XLM-RoBERTa (Conneau et al. 2020), CamemBERT (Martin et al. 2020).

A position's number counts the real tokens before it, from `padding_idx + 1` on; [PAD] has the number `padding_idx`.
The published models have one kind of segment. If a checkpoint has more, transformers uses only the first.
"""

from dataclasses import replace
from typing import Any

from attncli.base.errors import RequestError
from attncli.models.families.bert import TENSORS
from attncli.models.families.family import (
    Dense,
    Family,
    NoOwnNetwork,
    Norm,
    RelativeBiasPositions,
    TaskHeads,
    Values,
    classes,
    span,
    tensors_of,
    tied,
    tokens,
    words,
)


def settings(values: Values) -> dict[str, Any]:
    values.check_positions()
    if values.pad_id is None:
        raise RequestError(f"pad_token_id is {values.value('pad_token_id')}, but positions are counted from it")
    return {"padding_position": values.pad_id, "returns_segments": False}


def heads(values: Values) -> TaskHeads:
    return {
        "classes": classes(Dense("classifier.dense", "tanh"), scores="classifier.out_proj"),
        "tokens": tokens(),
        "span": span(),
        "words": words(
            Dense("lm_head.dense", "gelu"), Norm("lm_head.layer_norm"), scores=tied("lm_head.decoder", "lm_head.bias")
        ),
    }


FAMILY = Family(
    name="roberta",
    types={
        "roberta": {"vocab_size": 50265, "pad_token_id": 1},
        "xlm-roberta": {"pad_token_id": 1},
        "camembert": {"pad_token_id": 1},
    },
    tensors=TENSORS,
    prefix="roberta.",
    settings=settings,
    heads=heads,
)

# --- with norms before both parts of a layer ------------------------------------------------------------

# XLM-RoBERTa XL and XXL (Goyal et al. 2021) have no norm after the embeddings. The models of Wettig et al. 2023
# (fairseq, Ott et al. 2019) have one, and normalise the input of the first layer once more.


XL = replace(
    FAMILY,
    name="xlm-roberta-xl",
    types={
        "xlm-roberta-xl": {
            "num_hidden_layers": 36,
            "num_attention_heads": 32,
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "vocab_size": 250880,
            "max_position_embeddings": 514,
            "type_vocab_size": 1,
            "layer_norm_eps": 1e-5,
            "pad_token_id": 1,
        }
    },
    tensors={
        **FAMILY.tensors,
        "layers.{n}.attention_norm": tensors_of("encoder.layer.{n}.attention.self_attn_layer_norm"),
        "layers.{n}.feed_forward_norm": tensors_of("encoder.layer.{n}.LayerNorm"),
        "final_norm": tensors_of("encoder.LayerNorm"),
    },
    settings=lambda values: {**settings(values), "norm_first": True, "embedding_norm": False},
)


PRE_NORM = replace(
    FAMILY,
    name="roberta-prelayernorm",
    types={"roberta-prelayernorm": {"vocab_size": 50265, "pad_token_id": 1}},
    tensors={
        **FAMILY.tensors,
        "layers.{n}.attention_norm": tensors_of("encoder.layer.{n}.attention.LayerNorm"),
        "layers.{n}.feed_forward_norm": tensors_of("encoder.layer.{n}.intermediate.LayerNorm"),
        "final_norm": tensors_of("LayerNorm"),
    },
    prefix="roberta_prelayernorm.",
    body=("embeddings.", "encoder.", "LayerNorm."),
    settings=lambda values: {**settings(values), "norm_first": True},
)


# --- MPNet ----------------------------------------------------------------------------------------------

# MPNet (Song et al. 2020): BERT without segments, with a bias for each bucket of distances that all layers share.


PADDING = 1  # the position of [PAD], independent of its id
BUCKETS, FURTHEST = 32, 128  # transformers uses these and ignores config.json


def mpnet_settings(values: Values) -> dict[str, Any]:
    if (rows := values.count("relative_attention_num_buckets")) != BUCKETS:
        raise NoOwnNetwork(f"relative_attention_num_buckets is {rows}, but the published code uses {BUCKETS}")
    return {
        "segments": 0,
        "padding_position": PADDING,
        "positions": (RelativeBiasPositions(rows, FURTHEST),) * values.layers,
    }


MPNET = Family(
    name="mpnet",
    types={"mpnet": {"vocab_size": 30527, "pad_token_id": 1, "relative_attention_num_buckets": BUCKETS}},
    tensors={
        "embeddings.tokens": tensors_of("embeddings.word_embeddings"),
        "embeddings.positions.table": tensors_of("embeddings.position_embeddings"),
        "embeddings.norm": tensors_of("embeddings.LayerNorm"),
        "layers.{n}.attention.query": tensors_of("encoder.layer.{n}.attention.attn.q"),
        "layers.{n}.attention.key": tensors_of("encoder.layer.{n}.attention.attn.k"),
        "layers.{n}.attention.value": tensors_of("encoder.layer.{n}.attention.attn.v"),
        "layers.{n}.attention.output": tensors_of("encoder.layer.{n}.attention.attn.o"),
        "layers.{n}.attention.score.table": tensors_of("encoder.relative_attention_bias"),
        "layers.{n}.attention_norm": tensors_of("encoder.layer.{n}.attention.LayerNorm"),
        "layers.{n}.feed_forward.up": tensors_of("encoder.layer.{n}.intermediate.dense"),
        "layers.{n}.feed_forward.down": tensors_of("encoder.layer.{n}.output.dense"),
        "layers.{n}.feed_forward_norm": tensors_of("encoder.layer.{n}.output.LayerNorm"),
    },
    prefix="mpnet.",
    keys={"type_vocab_size": None},
    settings=mpnet_settings,
    heads=heads,
)
