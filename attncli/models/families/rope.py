"""The base of rotary positions, as config.json says it: "default" ones of `rope_parameters`, and no others."""

import reprlib
from typing import Any

from attncli.base.errors import RequestError
from attncli.models.families.values import NoEncoder

STRETCHED = "it stretches its rotary positions (rope_type), which attncli does not"


def rope_base(stated: Any, default: Any, where: str = "") -> float:
    """What one object of `rope_parameters` says; `where` it is of some layers only, of which. Without a base `default`.

    Raises NoEncoder for positions that are stretched; RequestError for what can be no base.
    """
    stated = {} if stated is None else stated
    if not isinstance(stated, dict):
        raise RequestError(f"rope_parameters is not one object{where and ' for each kind of layer'}")
    if stated.get("rope_type", stated.get("type", "default")) != "default":
        raise NoEncoder(STRETCHED)
    theta = stated.get("rope_theta", default)
    if not isinstance(theta, float | int) or isinstance(theta, bool) or not 1 < theta < 1e12:
        of = f" of {where}" if where else ""
        raise RequestError(f"rope_theta{of} is {reprlib.repr(theta)}, not a number between 1 and 1e12")
    return float(theta)
