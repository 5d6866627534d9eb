"""Gemma 3, its text part (Gemma Team 2025): Gemma 2 with norms of each head's queries and keys instead of bounds, and
rotations of another base in layers with a window.
"""

from dataclasses import replace
from typing import Any

from attncli.models.families import gemma2
from attncli.models.families.family import FULL, SLIDING, Turned, Values, plus_one, turned_by

BASES = {FULL: ("rope_theta", 1_000_000.0), SLIDING: ("rope_local_base_freq", 10_000.0)}


def settings(values: Values) -> dict[str, Any]:
    kinds = gemma2.layer_kinds(values)
    turned = {kind: turned_in(values, kind) for kind in set(kinds)}
    plain = Values({**values.data, "rope_parameters": None, "rope_scaling": None}, values.keys, values.defaults)
    return {
        **gemma2.settings(plain),
        "positions": tuple(turned[kind] for kind in kinds),
        "query_key_norm": "head",
    }


def turned_in(values: Values, kind: str) -> Turned:
    """Return the rotation in layers of this kind. Configurations older than transformers 5 stretch only full layers."""
    key, base = BASES[kind]
    every = values.value("rope_parameters") or {}
    stated = every.get(kind) if kind in every else values.value("rope_scaling") if kind == FULL else None
    return turned_by(values, stated, values.data.get(key, base), kind)


FAMILY = replace(
    gemma2.FAMILY,
    name="gemma3",
    types={
        "gemma3_text": {
            **gemma2.DEFAULTS,
            "vocab_size": 262_208,
            "max_position_embeddings": 131_072,
            "sliding_window_pattern": 6,
        }
    },
    tensors={
        **gemma2.FAMILY.tensors,
        "layers.{n}.attention.query_norm": plus_one("layers.{n}.self_attn.q_norm"),
        "layers.{n}.attention.key_norm": plus_one("layers.{n}.self_attn.k_norm"),
    },
    settings=settings,
)
