"""What somebody's function, class or object is, found by looking at it."""

import inspect
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor, nn

from attncli.base.printable import printable
from attncli.checks.theirs.subjects.subject import Parameter

KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_POSITIONAL: "many",
    inspect.Parameter.VAR_KEYWORD: "many",
}
ARRAYS = {"numpy", "jax", "tensorflow"}
DEEP = 3  # how far weights are looked for in the attributes of what is no module


def name_of(thing: Any) -> str:
    return printable(str(getattr(thing, "__name__", type(thing).__name__)))


def called(thing: Any) -> Any:
    """What has the parameters of a call: a module's are those of its forward."""
    cls = thing if inspect.isclass(thing) else None if inspect.isroutine(thing) else type(thing)
    if cls is None:
        return thing
    forward = issubclass(cls, nn.Module) or "__call__" not in dir(cls)
    method = getattr(cls, "forward" if forward else "__call__")
    return types.MethodType(method, object())  # bound, so that self is none of them


def parameters(function: Any) -> tuple[Parameter, ...]:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(Parameter(one.name, KINDS[one.kind], one.default is one.empty, plain(one.default)) for one in found)


def plain(value: Any) -> Any:
    return value if type(value) in (bool, int, float, str) else None


def source_of(thing: Any) -> tuple[str, int, str]:
    """Its text, the number of its first line, and its file; empty where there is none."""
    try:
        lines, first = inspect.getsourcelines(thing)
        return "".join(lines), max(first, 1), inspect.getsourcefile(thing) or ""
    except (OSError, TypeError):
        return "", 1, ""


def speaks(thing: Any) -> str:
    """Which arrays it takes: by the libraries that a function names, else by those that its file does. torch's, where
    there are any of torch.
    """
    module = inspect.getmodule(thing)
    there = dict(getattr(thing, "__globals__", None) or vars(module or types))
    names = getattr(getattr(thing, "__code__", None), "co_names", ())
    for some in ([there[name] for name in names if name in there], list(there.values())):
        libraries = {library_of(value) for value in some}
        if "torch" in libraries or libraries & ARRAYS:
            return "torch" if "torch" in libraries else "numpy"
    return "torch"


def library_of(value: Any) -> str:
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", "")
    return str(name).partition(".")[0]


def weights_of(thing: Any, part: bool = False) -> Iterator[tuple[str, Any, str]]:
    """Name, array, and what has it. part: it is a layer that something has, and no subject."""
    if isinstance(thing, nn.Module):
        owners = dict(thing.named_modules())
        for name, parameter in thing.named_parameters():
            owner = owners[name.rpartition(".")[0]]
            kind = "linear" if isinstance(owner, nn.Linear) else type(owner).__name__.lower()
            own = (owner is thing and not part) or "ParameterList" in type(owner).__name__
            yield name, parameter.data, "" if own else kind
    elif not inspect.isroutine(thing):
        yield from arrays_of(thing, "", DEEP)


def arrays_of(thing: Any, prefix: str, deep: int) -> Iterator[tuple[str, Any, str]]:
    """Arrays of real numbers among the attributes of what is no module, and in their lists and objects."""
    inside = dict(enumerate(thing)) if isinstance(thing, list | tuple) else thing
    for name, value in (inside if isinstance(inside, dict) else getattr(inside, "__dict__", {})).items():
        path = f"{prefix}{name}"
        if isinstance(value, nn.Module):
            yield from ((f"{path}.{inner}", array, owner) for inner, array, owner in weights_of(value, part=True))
        elif isinstance(value, np.ndarray | Tensor):
            real = value.is_floating_point() if isinstance(value, Tensor) else np.issubdtype(value.dtype, np.floating)
            if real and value.ndim:
                yield path, value, ""
        elif isinstance(value, type | types.ModuleType):
            continue
        elif deep and (isinstance(value, list | tuple | dict) or hasattr(value, "__dict__")):
            yield from arrays_of(value, f"{path}.", deep - 1)


def numbers_of(thing: Any) -> dict[str, int]:
    """Whole numbers among its attributes, and its modules'."""
    inside = list(thing.named_modules()) if isinstance(thing, nn.Module) else [("", thing)]
    return {
        f"{path}.{name}" if path else name: value
        for path, one in inside
        for name, value in getattr(one, "__dict__", {}).items()
        if type(value) is int
    }
