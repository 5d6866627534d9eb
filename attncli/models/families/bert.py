"""BERT (Devlin et al. 2019), on which the other families are based. MiniLM belongs to it."""

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
    body=("embeddings.", "encoder."),
    settings=settings,
    heads=heads,
)
