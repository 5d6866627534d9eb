"""jina-embeddings-v3 (Sturua et al. 2024) in transformers' format: XLM-RoBERTa with rotary positions instead of a
table.

Its task adapters are in folders beside the network, and are not applied, as in transformers by default. A checkpoint
with adapters inside the network (`model_type: xlm-roberta`) is rejected.
"""

from typing import Any

from attncli.models.families.family import Family, Published, Values, query_key_value, rotary_positions, tensors_of
from attncli.models.families.nomic_bert import TENSORS
from attncli.models.families.roberta import heads


def settings(values: Values) -> dict[str, Any]:
    return {
        "position_table": False,
        "positions": (rotary_positions(values),) * values.layers,
    }


FAMILY = Family(
    name="jina_embeddings_v3",
    types={
        "jina_embeddings_v3": {
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "vocab_size": 250002,
            "max_position_embeddings": 8194,
            "type_vocab_size": 1,
            "layer_norm_eps": 1e-5,
            "pad_token_id": 1,
            "rope_theta": 20_000.0,
        }
    },
    tensors={
        **TENSORS,
        "layers.{n}.feed_forward.up": tensors_of("layers.{n}.mlp.fc1"),
        "layers.{n}.feed_forward.down": tensors_of("layers.{n}.mlp.fc2"),
    },
    prefix="roberta.",
    body=("embeddings.", "layers.", "emb_ln.", "encoder."),
    settings=settings,
    heads=heads,
    published=Published(
        tensors={
            "embeddings.tokens": tensors_of("embeddings.word_embeddings"),
            "embeddings.segments": tensors_of("embeddings.token_type_embeddings"),
            "embeddings.norm": tensors_of("emb_ln"),
            **query_key_value("encoder.layers.{n}.mixer.Wqkv"),
            "layers.{n}.attention.output": tensors_of("encoder.layers.{n}.mixer.out_proj"),
            "layers.{n}.attention_norm": tensors_of("encoder.layers.{n}.norm1"),
            "layers.{n}.feed_forward.up": tensors_of("encoder.layers.{n}.mlp.fc1"),
            "layers.{n}.feed_forward.down": tensors_of("encoder.layers.{n}.mlp.fc2"),
            "layers.{n}.feed_forward_norm": tensors_of("encoder.layers.{n}.norm2"),
        },
        prefix="roberta.",
    ),
)
