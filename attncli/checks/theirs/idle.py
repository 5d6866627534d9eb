"""What is said of somebody's attention and can have no effect is refused, never ignored."""

import re
from collections.abc import Iterable, Mapping

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.printable import quoted, shorten

LISTED = 150  # characters of the names that are offered
NOWHERE = choices.names(choices.Nowhere)[0]


def refuse_masks(what: str, means: str | None, nowhere: str) -> None:
    """Raises RequestError for what was said of masks, of what takes none."""
    for option, given in (("--mask-means", means is not None), ("--nowhere", nowhere != NOWHERE)):
        if given:
            raise RequestError(f"{option} has no effect, as {what} takes no mask: leave it out")


def refuse_names(said: Mapping[str, str], parameters: Iterable[str], weights: Iterable[str] = ()) -> None:
    """said: roles by name. Raises RequestError for a name that no parameter, no weight and no layer has."""
    layers = [re.sub(r"\.(weight|bias)$", "", name) for name in weights]
    there = list(dict.fromkeys([*parameters, *layers]))
    known = {*there, *weights, *(name.rpartition(".")[2] for name in layers)}
    for name in said:
        if name not in known:
            names = shorten(", ".join(there) or "nothing", LISTED)
            raise RequestError(f"--map {quoted(name)}: nothing has this name; there is {names}")


def refuse_roles(said: Mapping[str, str], roles: Iterable[str]) -> None:
    """Raises RequestError for what is none of these roles."""
    for name, role in said.items():
        if role not in roles:
            raise RequestError(f"--map {quoted(f'{name}={role}')}: that is none of {', '.join(roles)}")
