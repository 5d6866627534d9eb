"""Code that a checkpoint brings for its own network (`auto_map` in config.json). It is never imported and never run.

That it is there says little: fine-tunes of a plain BERT bring a head of their own, or a copy of transformers' own file.
What a checkpoint holds is the network of its model type where config.json says nothing else and the tensors are that
network's, none missing, none of another shape, none left over. It is run as that then, with a Notice; and refused where
one of these fails, or nobody here knows the model type.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attncli.base.errors import Notice, RequestError
from attncli.base.printable import shorten


def own_code(config: Mapping[str, Any]) -> str | None:
    """The class that a config.json names as its network, "module.Class" or "owner/name--module.Class", or None."""
    named = config.get("auto_map")
    if not isinstance(named, dict):
        return None
    networks = [kind for kind in named if kind.startswith("AutoModel")]
    for kind in ("AutoModel", *networks, "AutoConfig"):
        if isinstance(named.get(kind), str):
            return shorten(named[kind], 80)
    return None


def needs_its_code(code: str, why: str) -> str:
    """What is said of a checkpoint that is another network than those that are known here."""
    return (
        f"it needs code of its own (auto_map: {code}), which attncli does not run: {shorten(why, 120)}; take another "
        "model, attncli models lists some"
    )


@contextmanager
def left_aside(name: str, config: Mapping[str, Any]) -> Iterator[str | None]:
    """Around the reading of a checkpoint's tensors into the network of its model type; gives `own_code`.

    Where there is such code, a RequestError from within says that it is needed, and that there is none that it is not.
    """
    code = own_code(config)
    try:
        yield code
    except RequestError as error:
        if code is None:
            raise
        raise RequestError(f"{name}: {needs_its_code(code, str(error))}") from error
    if code is not None:
        text = f"{name} brings code of its own (auto_map: {code}), which is not run: its tensors are those of"
        warnings.warn(f"{text} {config['model_type']}, and it is run as one", Notice, stacklevel=4)
