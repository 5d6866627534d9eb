"""XLM-RoBERTa XL and XXL (Goyal et al. 2021): RoBERTa with pre-norm layers, and no norm after the embeddings."""

from typing import Any

from attncli.models.families import roberta
from attncli.models.families.family import Family, Values, tensors_of


def settings(values: Values) -> dict[str, Any]:
    return {**roberta.settings(values), "norm_first": True, "embedding_norm": False}


FAMILY = Family(
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
        **roberta.FAMILY.tensors,
        "layers.{n}.attention_norm": tensors_of("encoder.layer.{n}.attention.self_attn_layer_norm"),
        "layers.{n}.feed_forward_norm": tensors_of("encoder.layer.{n}.LayerNorm"),
        "final_norm": tensors_of("encoder.LayerNorm"),
    },
    prefix="roberta.",
    body=("embeddings.", "encoder."),
    settings=settings,
    heads=roberta.heads,
)
