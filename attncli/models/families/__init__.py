"""The families of encoders: every module in this folder with a FAMILY."""

import pkgutil
from importlib import import_module

from attncli.models.families.family import Family

# From config.json's `model_type` to the family.
FAMILIES: dict[str, Family] = {
    model_type: family
    for module in sorted(found.name for found in pkgutil.iter_modules(__path__))
    if (family := getattr(import_module(f"{__name__}.{module}"), "FAMILY", None)) is not None
    for model_type in family.types
}
