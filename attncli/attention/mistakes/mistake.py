"""A mistake: what it is, where people make it, and the steps of the formula that it replaces."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Change = Mapping[str, Callable[..., Any]]


class Mistake(NamedTuple):
    """A mistake.

    says: goes on from "this is attention"; where: people make it; remedy: what to write; step: the field of Formula by
    whose operation the line is looked for; changes: the steps that it replaces, one way of making it each; needs: what
    it takes for it to show, where not every text and every layer has that.
    """

    name: str
    says: str
    where: str
    remedy: str
    step: str
    changes: tuple[Change, ...]
    needs: str = ""
