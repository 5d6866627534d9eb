"""MPNet (Song et al. 2020): BERT without segments, with a bias for each bucket of distances that all layers share."""

from typing import Any

from attncli.models.families.family import Biased, Family, NoOwnNetwork, Values, tensors_of
from attncli.models.families.roberta import heads

PADDING = 1  # the position of [PAD], whatever its id
BUCKETS, FURTHEST = 32, 128  # transformers uses these, whatever config.json says


def settings(values: Values) -> dict[str, Any]:
    if (rows := values.count("relative_attention_num_buckets")) != BUCKETS:
        raise NoOwnNetwork(f"relative_attention_num_buckets is {rows}, but the published code uses {BUCKETS}")
    return {
        "segments": 0,
        "padding_position": PADDING,
        "positions": (Biased(rows, FURTHEST),) * values.layers,
    }


FAMILY = Family(
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
    settings=settings,
    heads=heads,
)
