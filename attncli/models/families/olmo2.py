"""OLMo 2 (Team OLMo 2024): Llama's parts, with norms after both parts of a layer instead of before them, and norms of
the joined queries and the joined keys of all heads.
"""

from dataclasses import replace
from typing import Any

from attncli.models.families import llama
from attncli.models.families.family import Biases, Values, tensors_of


def settings(values: Values) -> dict[str, Any]:
    changed = {"norm_first": False, "output_norm": True, "query_key_norm": "all"}
    bias = values.flag("attention_bias")
    return {**llama.settings(values), **changed, "biases": Biases(bias, False, norms=False)}


_PRE_NORMS = ("layers.{n}.attention_norm", "layers.{n}.feed_forward_norm")
FAMILY = replace(
    llama.FAMILY,
    name="olmo2",
    types={"olmo2": {**llama.DEFAULTS, "vocab_size": 50304, "pad_token_id": 1, "layer_norm_eps": 1e-5}},
    tensors={
        **{name: source for name, source in llama.TENSORS.items() if name not in _PRE_NORMS},
        "layers.{n}.attention.query_norm": tensors_of("layers.{n}.self_attn.q_norm"),
        "layers.{n}.attention.key_norm": tensors_of("layers.{n}.self_attn.k_norm"),
        "layers.{n}.attention_output_norm": tensors_of("layers.{n}.post_attention_layernorm"),
        "layers.{n}.feed_forward_output_norm": tensors_of("layers.{n}.post_feedforward_layernorm"),
    },
    settings=settings,
)
