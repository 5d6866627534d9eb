"""How a config.json says that queries and keys are turned, in all layers alike, by transformers' keys of versions 4
and 5.
"""

import reprlib
from typing import Any

from attncli.base.errors import RequestError
from attncli.models.families.parts import Turned
from attncli.models.families.values import NoEncoder, Values

LINEAR = "linear"
LARGEST = 1e12


def turned(values: Values) -> Turned:
    """Whole heads are turned; without a word of it, with the base that stands under "rope_theta" in the defaults.

    Raises NoEncoder for angles that depend on more than the position, and for a part of a head; RequestError for what
    makes no sense.
    """
    head_dim = values.count("hidden_size") // values.count("num_attention_heads")
    if values.value("head_dim") not in (None, head_dim):
        raise NoEncoder("its heads have another size than hidden_size / num_attention_heads")
    if head_dim % 2:
        raise RequestError(f"heads of {head_dim} elements can't be turned in pairs")
    stated = values.data.get("rope_scaling") or values.data.get("rope_parameters") or {}
    if not isinstance(stated, dict):
        raise RequestError("rope_parameters is not one object for all layers")
    if stated.get("partial_rotary_factor", values.data.get("partial_rotary_factor", 1)) not in (None, 1):
        raise NoEncoder("it turns a part of each head (partial_rotary_factor), which attncli does not")
    kind = stated.get("rope_type", stated.get("type", "default"))
    if kind not in ("default", LINEAR):
        raise NoEncoder(f"it stretches its rotary positions (rope_type {reprlib.repr(kind)}), which attncli does not")
    base = more_than_one("rope_theta", stated.get("rope_theta", values.value("rope_theta")))
    if kind != LINEAR:
        return Turned(head_dim, base)
    return Turned(head_dim, base, stretch=more_than_one("factor", stated.get("factor"), least=1.0))


def more_than_one(name: str, number: Any, least: float = 1 + 1e-9) -> float:
    """Raises RequestError when it is no such number."""
    if not isinstance(number, float | int) or isinstance(number, bool) or not least <= number < LARGEST:
        raise RequestError(f"{name} is {reprlib.repr(number)}, not a number between 1 and 1e12")
    return float(number)
