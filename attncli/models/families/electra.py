"""ELECTRA (Clark et al. 2020): BERT with embeddings that may be smaller than the hidden size."""

from typing import Any

from attncli.models.families.bert import TENSORS
from attncli.models.families.family import (
    EACH,
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


def settings(values: Values) -> dict[str, Any]:
    values.check_positions()
    size = values.count("embedding_size")
    return {"embedding_size": size, "widens": size != values.count("hidden_size")}


def heads(values: Values) -> Heads:
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
        "replaced": Head(
            "tokens",
            EACH,
            (Dense("discriminator_predictions.dense", activation),),
            Scores("discriminator_predictions.dense_prediction"),
            "ForPreTraining",
            alone=True,
            labels=("replaced",),
        ),
    }


FAMILY = Family(
    name="electra",
    types={"electra": {"num_attention_heads": 4, "hidden_size": 256, "intermediate_size": 1024, "embedding_size": 128}},
    tensors={**TENSORS, "embeddings.project": tensors_of("embeddings_project")},
    prefix="electra.",
    body=("embeddings.", "embeddings_project.", "encoder."),
    settings=settings,
    heads=heads,
)
