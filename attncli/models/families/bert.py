"""BERT (Devlin et al. 2019), on which the other families are based, and variants. MiniLM belongs to it."""

from dataclasses import replace
from typing import Any

from attncli.models.families.family import (
    FIRST,
    Dense,
    Family,
    Head,
    Heads,
    Norm,
    Scores,
    Values,
    classes,
    span,
    tensors_of,
    tied,
    tokens,
    words,
)

TENSORS = {
    "embeddings.tokens": tensors_of("embeddings.word_embeddings"),
    "embeddings.positions.table": tensors_of("embeddings.position_embeddings"),
    "embeddings.segments": tensors_of("embeddings.token_type_embeddings"),
    "embeddings.norm": tensors_of("embeddings.LayerNorm"),
    "layers.{n}.attention.query": tensors_of("encoder.layer.{n}.attention.self.query"),
    "layers.{n}.attention.key": tensors_of("encoder.layer.{n}.attention.self.key"),
    "layers.{n}.attention.value": tensors_of("encoder.layer.{n}.attention.self.value"),
    "layers.{n}.attention.output": tensors_of("encoder.layer.{n}.attention.output.dense"),
    "layers.{n}.attention_norm": tensors_of("encoder.layer.{n}.attention.output.LayerNorm"),
    "layers.{n}.feed_forward.up": tensors_of("encoder.layer.{n}.intermediate.dense"),
    "layers.{n}.feed_forward.down": tensors_of("encoder.layer.{n}.output.dense"),
    "layers.{n}.feed_forward_norm": tensors_of("encoder.layer.{n}.output.LayerNorm"),
}


def settings(values: Values) -> dict[str, Any]:
    values.check_positions()
    return {}


def heads(values: Values) -> Heads:
    pooler = Dense("pooler.dense", "tanh")
    return {
        "classes": classes(pooler),
        "tokens": tokens(),
        "span": span(),
        "words": transformed_words(values),
        "next sentence": Head(
            "classes",
            FIRST,
            (pooler,),
            Scores("cls.seq_relationship"),
            "ForNextSentencePrediction",
            alone=True,
            labels=("follows", "does not follow"),
        ),
    }


def transformed_words(values: Values, size: str = "hidden_size") -> Head:
    return words(
        Dense("cls.predictions.transform.dense", values.activation("hidden_act"), size),
        Norm("cls.predictions.transform.LayerNorm"),
        scores=tied("cls.predictions.decoder", "cls.predictions.bias"),
    )


FAMILY = Family(
    name="bert",
    types={"bert": {}},
    tensors=TENSORS,
    prefix="bert.",
    settings=settings,
    heads=heads,
)

# --- ERNIE (Sun et al. 2019), also of version 2 and 3 (Sun et al. 2020, 2021) ---------------------------

# BERT with task embeddings. No tokenizer returns a task, so every text has the first one, the default in transformers.


def ernie_settings(values: Values) -> dict[str, Any]:
    return {**settings(values), "tasks": values.count("task_type_vocab_size") if values.flag("use_task_id") else 0}


ERNIE = replace(
    FAMILY,
    name="ernie",
    types={"ernie": {"use_task_id": False, "task_type_vocab_size": 3}},
    tensors={**TENSORS, "embeddings.tasks": tensors_of("embeddings.task_type_embeddings")},
    prefix="ernie.",
    settings=ernie_settings,
)

# --- Megatron-BERT (Shoeybi et al. 2019, figure 7, right), and GatorTron --------------------------------

# Norms are before the attention, before the feed-forward part and after the last layer; none is before the first.


MEGATRON = replace(
    FAMILY,
    name="megatron-bert",
    types={
        "megatron-bert": {
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "vocab_size": 29056,
        }
    },
    tensors={
        **TENSORS,
        "layers.{n}.attention_norm": tensors_of("encoder.layer.{n}.attention.ln"),
        "layers.{n}.feed_forward_norm": tensors_of("encoder.layer.{n}.ln"),
        "final_norm": tensors_of("encoder.ln"),
    },
    settings=lambda values: {**settings(values), "norm_first": True, "embedding_norm": False},
)
