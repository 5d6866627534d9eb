"""What is said to a process that runs somebody's code, and back: JSON, and tensors as .safetensors. Nothing in it runs.

Lists and tuples arrive as lists, named tuples as dicts.
"""

import json
import math
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from attncli.base.untrusted import parse_json
from attncli.checks.theirs.subjects.frames import LENGTH

DEEPEST = 64  # lists in lists


def pack(value: Any) -> bytes:
    """The length of the JSON, the JSON, the tensors. Raises TypeError for what can't be sent."""
    tensors: list[Tensor] = []
    told = json.dumps(plain(value, tensors), allow_nan=False).encode()
    return LENGTH.pack(len(told)) + told + (save({str(i): one for i, one in enumerate(tensors)}) if tensors else b"")


def plain(value: Any, tensors: list[Tensor]) -> Any:
    """As JSON has it; an object there has one field that says what it stands for."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"number": str(value)}
    if isinstance(value, Tensor):
        tensors.append(block(value))
        return {"tensor": len(tensors) - 1}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {"fields": [[str(name), plain(one, tensors)] for name, one in value.items()]}
    if isinstance(value, list | tuple):
        return [plain(one, tensors) for one in value]
    raise TypeError(f"{type(value).__name__} is nothing that can be sent")


def block(tensor: Tensor) -> Tensor:
    """Its numbers in a block of memory of their own."""
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        raise TypeError(f"a tensor of layout {tensor.layout} on {tensor.device} is nothing that can be sent")
    return tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


def unpack(message: bytes) -> Any:
    """Raises ValueError for what no `pack` has written."""
    if len(message) < LENGTH.size:
        raise ValueError("too few bytes")
    (size,) = LENGTH.unpack_from(message)
    end = LENGTH.size + size
    if end > len(message):
        raise ValueError("too few bytes")
    told = parse_json(message[LENGTH.size : end])
    try:
        tensors = load(message[end:]) if message[end:] else {}
    except (SafetensorError, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"tensors that are none ({error})") from error
    return read(told, tensors, DEEPEST)


def read(told: Any, tensors: dict[str, Tensor], deep: int) -> Any:
    if not deep:
        raise ValueError("lists too deep")
    if isinstance(told, list):
        return [read(one, tensors, deep - 1) for one in told]
    if not isinstance(told, dict):
        return told
    if len(told) != 1:
        raise ValueError("an object of more than one field")
    ((kind, inside),) = told.items()
    if kind == "number" and inside in ("nan", "inf", "-inf"):
        return float(inside)
    if kind == "tensor" and type(inside) is int and str(inside) in tensors:
        return tensors[str(inside)]
    if kind == "fields" and isinstance(inside, list) and all(map(is_field, inside)):
        return {name: read(one, tensors, deep - 1) for name, one in inside}
    raise ValueError(f"an object that is nothing: {kind[:40]!r}")


def is_field(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)
