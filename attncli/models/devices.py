"""What a model computes on, and in."""

from collections.abc import Callable

import torch

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.printable import quoted

DTYPES = {name: getattr(torch, name) for name in choices.names(choices.Dtype)}


def pick_dtype(name: str) -> torch.dtype:
    """The dtype of this name. Raises RequestError when there is none."""
    choices.check("dtype", name, choices.Dtype)
    return DTYPES[name]


def pick_device(name: str) -> torch.device:
    """The device of this name; "auto" is a GPU where there is one. Raises RequestError for one that is not here."""
    counts: dict[str, Callable[[], int]] = {
        "cuda": torch.cuda.device_count,
        "mps": lambda: int(torch.backends.mps.is_available()),
        "cpu": lambda: 1,
    }
    if name == "auto":
        name = next(kind for kind, count in counts.items() if count())
    kind = name.partition(":")[0]
    try:
        device = torch.device(name)
        count = counts[kind]()
    except (RuntimeError, KeyError) as error:
        raise RequestError(
            f"no device {quoted(name)}: it is one of {', '.join(choices.names(choices.Device))}"
        ) from error
    if (device.index or 0) >= count:
        raise RequestError(f"device {quoted(name)} is not on this machine; --device auto takes what there is")
    return device
