"""BERT (Devlin et al. 2019), on which the other families are based, and variants. MiniLM belongs to it."""

from dataclasses import replace
from typing import Any

from attncli.models.families.family import (
    EACH,
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


def heads(values: Values) -> TaskHeads:
    pooler = Dense("pooler.dense", "tanh")
    return {
        "classes": classes(pooler),
        "tokens": tokens(),
        "span": span(),
        "words": transformed_words(values),
        "next sentence": TaskHead(
            "classes",
            FIRST,
            (pooler,),
            Scores("cls.seq_relationship"),
            "ForNextSentencePrediction",
            alone=True,
            labels=("follows", "does not follow"),
        ),
    }


def transformed_words(values: Values, size: str = "hidden_size") -> TaskHead:
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


ERNIE = replace(
    FAMILY,
    name="ernie",
    types={"ernie": {"use_task_id": False, "task_type_vocab_size": 3}},
    tensors={**TENSORS, "embeddings.tasks": tensors_of("embeddings.task_type_embeddings")},
    prefix="ernie.",
    settings=lambda values: {
        **settings(values),
        "tasks": values.count("task_type_vocab_size") if values.flag("use_task_id") else 0,
    },
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


# --- ELECTRA --------------------------------------------------------------------------------------------

# ELECTRA (Clark et al. 2020): BERT with embeddings that may be smaller than the hidden size.


def electra_settings(values: Values) -> dict[str, Any]:
    values.check_positions()
    size = values.count("embedding_size")
    return {"embedding_size": size, "widens": size != values.count("hidden_size")}


def electra_heads(values: Values) -> TaskHeads:
    activation = values.activation("hidden_act")
    return {
        "classes": classes(Dense("classifier.dense", "gelu"), scores="classifier.out_proj"),
        "tokens": tokens(),
        "span": span(),
        "words": words(
            Dense("generator_predictions.dense", "gelu", size="embedding_size"),
            Norm("generator_predictions.LayerNorm"),
            scores=tied("generator_lm_head"),
        ),
        "replaced": TaskHead(
            "tokens",
            EACH,
            (Dense("discriminator_predictions.dense", activation),),
            Scores("discriminator_predictions.dense_prediction"),
            "ForPreTraining",
            alone=True,
            labels=("replaced",),
        ),
    }


ELECTRA = Family(
    name="electra",
    types={"electra": {"num_attention_heads": 4, "hidden_size": 256, "intermediate_size": 1024, "embedding_size": 128}},
    tensors={**TENSORS, "embeddings.project": tensors_of("embeddings_project")},
    prefix="electra.",
    body=("embeddings.", "embeddings_project.", "encoder."),
    settings=electra_settings,
    heads=electra_heads,
)


# --- DistilBERT -----------------------------------------------------------------------------------------

# DistilBERT (Sanh et al. 2019): BERT without segments, and with its own tensor names.


def distilbert_heads(values: Values) -> TaskHeads:
    return {
        "classes": classes(Dense("pre_classifier", "relu")),
        "tokens": tokens(),
        "span": span(),
        "words": words(
            Dense("vocab_transform", values.activation("hidden_act")),
            Norm("vocab_layer_norm"),
            scores=tied("vocab_projector"),
        ),
    }


DISTILBERT = Family(
    name="distilbert",
    types={"distilbert": {"num_hidden_layers": 6}},
    tensors={
        "embeddings.tokens": tensors_of("embeddings.word_embeddings"),
        "embeddings.positions.table": tensors_of("embeddings.position_embeddings"),
        "embeddings.norm": tensors_of("embeddings.LayerNorm"),
        "layers.{n}.attention.query": tensors_of("transformer.layer.{n}.attention.q_lin"),
        "layers.{n}.attention.key": tensors_of("transformer.layer.{n}.attention.k_lin"),
        "layers.{n}.attention.value": tensors_of("transformer.layer.{n}.attention.v_lin"),
        "layers.{n}.attention.output": tensors_of("transformer.layer.{n}.attention.out_lin"),
        "layers.{n}.attention_norm": tensors_of("transformer.layer.{n}.sa_layer_norm"),
        "layers.{n}.feed_forward.up": tensors_of("transformer.layer.{n}.ffn.lin1"),
        "layers.{n}.feed_forward.down": tensors_of("transformer.layer.{n}.ffn.lin2"),
        "layers.{n}.feed_forward_norm": tensors_of("transformer.layer.{n}.output_layer_norm"),
    },
    prefix="distilbert.",
    body=("embeddings.", "transformer."),
    keys={
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "hidden_size": "dim",
        "intermediate_size": "hidden_dim",
        "hidden_act": "activation",
        "layer_norm_eps": None,
        "type_vocab_size": None,
    },
    settings=lambda values: {"segments": 0},
    heads=distilbert_heads,
)
