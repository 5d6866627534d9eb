"""Checkpoints that come with their own code, which attncli never runs."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attncli.base.errors import Notice, RequestError
from attncli.base.printable import shorten


def own_code(config: Mapping[str, Any]) -> str | None:
    """Return the network class that a config.json names, "module.Class" or "owner/name--module.Class", or None."""
    named = config.get("auto_map")
    if not isinstance(named, dict):
        return None
    networks = [kind for kind in named if kind.startswith("AutoModel")]
    for kind in ("AutoModel", *networks, "AutoConfig"):
        if isinstance(named.get(kind), str):
            return shorten(named[kind], 80)
    return None


def own_code_error(code: str, why: str) -> str:
    """Return the error text for a checkpoint whose network needs its own code."""
    return (
        f"it needs its own code (auto_map: {code}), which attncli does not run: {shorten(why, 120)}; use another "
        "model, such as those that attncli models lists"
    )


@contextmanager
def without_own_code(name: str, config: Mapping[str, Any]) -> Iterator[str | None]:
    """Read a checkpoint's tensors inside the block without running the checkpoint's own code. Yields `own_code`.

    If there is such code, a RequestError inside the block becomes one that says that the code is needed. If there is no
    error, a Notice says that the code is not run.
    """
    code = own_code(config)
    try:
        yield code
    except RequestError as error:
        if code is None:
            raise
        raise RequestError(f"{name}: {own_code_error(code, str(error))}") from error
    if code is not None:
        text = f"{name} comes with its own code (auto_map: {code}), which is not run: its tensors fit the network"
        warnings.warn(f"{text} of type {config['model_type']}, which is run instead", Notice, stacklevel=4)
