"""ALBERT (Lan et al. 2020): BERT with one set of weights for all layers, or for each group of layers.

Its embeddings of tokens, positions and segments are smaller than the hidden size and projected to it.
"""

from typing import Any

from attncli.base.errors import RequestError
from attncli.models.families.bert import TENSORS
from attncli.models.families.family import (
    FIRST,
    Dense,
    Family,
    Norm,
    Scores,
    TaskHead,
    TaskHeads,
    Values,
    classes,
    span,
    tensors_of,
    tied,
    tokens,
    words,
)

MOST_LAYERS = 1000


def settings(values: Values) -> dict[str, Any]:
    values.check_positions()
    steps, inner = values.count("num_hidden_layers", most=MOST_LAYERS), values.count("inner_group_num")
    groups = values.count("num_hidden_groups")
    if steps * inner > MOST_LAYERS:
        raise RequestError(f"num_hidden_layers {steps} times inner_group_num {inner} is more than {MOST_LAYERS} layers")
    of_steps = [int(step / (steps / groups)) for step in range(steps)]  # rounded as the published code does
    return {
        "layers": steps * inner,
        "layer_names": tuple(f"{group}.albert_layers.{layer}" for group in of_steps for layer in range(inner)),
        "embedding_size": values.count("embedding_size"),
        "widens": True,
    }


def heads(values: Values) -> TaskHeads:
    pooler = Dense("pooler", "tanh")
    return {
        "classes": classes(pooler),
        "tokens": tokens(),
        "span": span(),
        "words": words(
            Dense("predictions.dense", values.activation("hidden_act"), size="embedding_size"),
            Norm("predictions.LayerNorm"),
            scores=tied("predictions.decoder", "predictions.bias"),
        ),
        "sentence order": TaskHead(
            "classes",
            FIRST,
            (pooler,),
            Scores("sop_classifier.classifier"),
            "ForPreTraining",
            alone=True,
            labels=("in order", "swapped"),
        ),
    }


LAYER = "encoder.albert_layer_groups.{n}"

FAMILY = Family(
    name="albert",
    types={
        "albert": {
            "num_attention_heads": 64,
            "hidden_size": 4096,
            "intermediate_size": 16384,
            "hidden_act": "gelu_new",
            "vocab_size": 30000,
            "embedding_size": 128,
            "num_hidden_groups": 1,
            "inner_group_num": 1,
        }
    },
    tensors={
        **{name: source for name, source in TENSORS.items() if name.startswith("embeddings.")},
        "embeddings.project": tensors_of("encoder.embedding_hidden_mapping_in"),
        "layers.{n}.attention.query": tensors_of(f"{LAYER}.attention.query"),
        "layers.{n}.attention.key": tensors_of(f"{LAYER}.attention.key"),
        "layers.{n}.attention.value": tensors_of(f"{LAYER}.attention.value"),
        "layers.{n}.attention.output": tensors_of(f"{LAYER}.attention.dense"),
        "layers.{n}.attention_norm": tensors_of(f"{LAYER}.attention.LayerNorm"),
        "layers.{n}.feed_forward.up": tensors_of(f"{LAYER}.ffn"),
        "layers.{n}.feed_forward.down": tensors_of(f"{LAYER}.ffn_output"),
        "layers.{n}.feed_forward_norm": tensors_of(f"{LAYER}.full_layer_layer_norm"),
    },
    prefix="albert.",
    settings=settings,
    heads=heads,
)
