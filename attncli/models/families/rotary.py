"""How a config.json says that queries and keys are turned, by transformers' keys of versions 4 and 5."""

import reprlib
from typing import Any

from attncli.base.errors import RequestError
from attncli.models.families.parts import Turned
from attncli.models.families.values import NoEncoder, Values

LINEAR = "linear"
LARGEST = 1e12


def turned(values: Values) -> Turned:
    """In all layers alike; without a word of it with the base that stands under "rope_theta" in the defaults.

    Raises as `turned_by` does.
    """
    stated = values.data.get("rope_scaling") or values.data.get("rope_parameters")
    return turned_by(values, stated, values.value("rope_theta"))


def turned_by(values: Values, stated: Any, base: Any, where: str = "") -> Turned:
    """What one object of `rope_parameters` says, with this base where it says none. where: of which layers, if not all.

    Raises NoEncoder for angles that depend on more than the position, and for a part of a head; RequestError for what
    makes no sense.
    """
    stated = {} if stated is None else stated
    if not isinstance(stated, dict):
        raise RequestError(f"rope_parameters is not one object{' for each kind of layer' if where else ''}")
    if stated.get("partial_rotary_factor", values.data.get("partial_rotary_factor", 1)) not in (None, 1):
        raise NoEncoder("it turns a part of each head (partial_rotary_factor), which attncli does not")
    kind = stated.get("rope_type", stated.get("type", "default"))
    if kind not in ("default", LINEAR):
        raise NoEncoder(f"it stretches its rotary positions (rope_type {reprlib.repr(kind)}), which attncli does not")
    of = f" of {where}" if where else ""
    theta = more_than_one(f"rope_theta{of}", stated.get("rope_theta", base))
    stretch = more_than_one(f"factor{of}", stated.get("factor"), least=1.0) if kind == LINEAR else 1.0
    return Turned(turned_size(values), theta, stretch=stretch)


def turned_size(values: Values) -> int:
    """How many elements a head's vectors have, which are turned in pairs.

    Raises RequestError for an odd number, and NoEncoder where those of all heads are not hidden_size.
    """
    size = values.count("hidden_size") // values.count("num_attention_heads")
    if values.value("head_dim") not in (None, size):
        raise NoEncoder(f"head_dim is {reprlib.repr(values.value('head_dim'))}, not hidden_size / num_attention_heads")
    if size % 2:
        raise RequestError(f"heads of {size} elements can't be turned in pairs")
    return size


def more_than_one(name: str, number: Any, least: float = 1 + 1e-9) -> float:
    """Raises RequestError when it is no such number."""
    if not isinstance(number, float | int) or isinstance(number, bool) or not least <= number < LARGEST:
        raise RequestError(f"{name} is {reprlib.repr(number)}, not a number between 1 and 1e12")
    return float(number)
