"""Qwen 3 (Yang et al. 2025): Llama's parts, with a norm of each head's queries and keys."""

from dataclasses import replace
from typing import Any

from attncli.models.families import llama
from attncli.models.families.family import Biases, Values, tensors_of


def settings(values: Values) -> dict[str, Any]:
    bias = values.flag("attention_bias")
    return {**llama.settings(values), "query_key_norm": "head", "biases": Biases(bias, False, norms=False)}


FAMILY = replace(
    llama.FAMILY,
    name="qwen3",
    types={"qwen3": {**llama.QWEN, "head_dim": 128}},
    tensors={
        **llama.TENSORS,
        "layers.{n}.attention.query_norm": tensors_of("layers.{n}.self_attn.q_norm"),
        "layers.{n}.attention.key_norm": tensors_of("layers.{n}.self_attn.k_norm"),
    },
    settings=settings,
)
