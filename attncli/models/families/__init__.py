"""The families of encoders, a file each: whatever lies in this folder and has a FAMILY is one."""

import pkgutil
from importlib import import_module

from attncli.models.families.family import Family

# What config.json calls the architecture (`model_type`) -> the family.
FAMILIES: dict[str, Family] = {
    model_type: family
    for module in sorted(found.name for found in pkgutil.iter_modules(__path__))
    if (family := getattr(import_module(f"{__name__}.{module}"), "FAMILY", None)) is not None
    for model_type in family.types
}
