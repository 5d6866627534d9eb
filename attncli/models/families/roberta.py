"""RoBERTa (Liu et al. 2019), XLM-RoBERTa (Conneau et al. 2020), CamemBERT (Martin et al. 2020).

A position's number counts the real tokens before it, from `padding_idx + 1` on; [PAD] has the number `padding_idx`.
The published models have one kind of segment. If a checkpoint has more, transformers uses only the first.
"""

from typing import Any

from attncli.models.families.bert import TENSORS
from attncli.models.families.family import Dense, Family, Heads, Norm, Values, classes, span, tied, tokens, words


def settings(values: Values) -> dict[str, Any]:
    values.check_positions()
    return {"padding_position": values.pad_id, "tells_segments": False}


def heads(values: Values) -> Heads:
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
    body=("embeddings.", "encoder."),
    settings=settings,
    heads=heads,
)
