"""DeBERTa, version 1 (He et al. 2021): disentangled attention, as in version 2, with a vector for each offset.

Query, key and value are one matrix, grouped by head. Queries and values have separate biases; keys have none.
"""

from typing import Any

from attncli.models.families.deberta_v2 import FAMILY as VERSION_2
from attncli.models.families.deberta_v2 import heads, relative
from attncli.models.families.family import Biases, Family, NoOwnNetwork, Values, split_by_head, tensors_of

SELF = "encoder.layer.{n}.attention.self"
NOT_ITS_OWN = (
    "position_buckets",
    "norm_rel_ebd",
    "share_att_key",
)  # introduced by version 2; transformers ignores them here


def settings(values: Values) -> dict[str, Any]:
    if values.flag("talking_head"):
        raise NoOwnNetwork("talking_head mixes the scores of heads, which attncli does not support")
    if values.value("embedding_size") not in (None, values.value("hidden_size")):
        raise NoOwnNetwork("its token vectors are widened before they are normalised, which attncli does not support")
    return {
        "segments": values.count("segments", least=0),
        "position_table": values.flag("position_biased_input"),
        "positions": (relative(values),) * values.count("num_hidden_layers", most=1000),
        "biases": Biases(bare_keys=True),
    }


FAMILY = Family(
    name="deberta",
    types={
        "deberta": {
            "vocab_size": 50265,
            "layer_norm_eps": 1e-7,
            "segments": 0,
            "relative_attention": False,
            "max_relative_positions": -1,
            "position_buckets": -1,
            "position_biased_input": True,
            "share_att_key": False,
            "norm_rel_ebd": "none",
            "talking_head": False,
            "pooler_hidden_act": "gelu",
            "legacy": True,
        }
    },
    tensors={
        **VERSION_2.tensors,
        "layers.{n}.attention.query": split_by_head(f"{SELF}.in_proj", 0, 3, bias=f"{SELF}.q_bias"),
        "layers.{n}.attention.key": split_by_head(f"{SELF}.in_proj", 1, 3),
        "layers.{n}.attention.value": split_by_head(f"{SELF}.in_proj", 2, 3, bias=f"{SELF}.v_bias"),
        "layers.{n}.attention.score.own.query": tensors_of(f"{SELF}.pos_q_proj"),
        "layers.{n}.attention.score.own.key": tensors_of(f"{SELF}.pos_proj"),
    },
    prefix="deberta.",
    body=("embeddings.", "encoder."),
    keys={**VERSION_2.keys, **dict.fromkeys(NOT_ITS_OWN)},
    settings=settings,
    heads=heads,
)
