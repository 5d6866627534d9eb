"""Arguments for the constructor of somebody's attention, of sizes that tell its parts from each other."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from attncli.base.errors import RequestError
from attncli.checks.code.failing import OR_ADAPTER
from attncli.checks.code.subject import Description, Made, Parameter
from attncli.checks.theirs.calling.roles import NAMES, role_of


class Sizes(NamedTuple):
    """d_model, heads, key_heads, hidden (of the feed-forward network), length, window: in tokens."""

    d_model: int = 32
    heads: int = 4
    key_heads: int = 2
    hidden: int = 48
    length: int = 64
    window: int = 3
    softcap: float = 1.5

    @property
    def head_dim(self) -> int:
        return self.d_model // self.heads

    def document(self) -> dict[str, Any]:
        """By role."""
        return {**self._asdict(), "head_dim": self.head_dim, "dropout": 0.1, "index": 0}


def arguments(description: Description, sizes: Sizes, given: Mapping[str, Any]) -> dict[str, Any]:
    """For the constructor: what was given, what it needs, and how many heads there are where it asks.

    Raises RequestError when what it needs can't be told.
    """
    made = {}
    values = sizes.document()
    inside = {name for name in given if name.startswith("config.")}
    for one in description.constructor:
        role = role_of(one.name)
        if one.name in given:
            made[one.name] = given[one.name]
        elif one.kind == "many":
            continue
        elif role == "config" and one.required:
            named = {name: value for of, value in values.items() for name in NAMES[of].split()}
            said = {name.partition(".")[2]: given[name] for name in inside}
            made[one.name] = {**named, "bias": True, **said}
        elif role in values and (one.required or takes_size(one, role)):
            made[one.name] = values[role]
        elif one.required:
            raise RequestError(
                f"{description.name} wants {one.name!r}, and what that is can't be told: "
                f"--give {one.name}=VALUE{OR_ADAPTER}"
            )
    unknown = sorted(set(given) - inside - {one.name for one in description.constructor})
    if unknown and not any(one.kind == "many" for one in description.constructor):
        raise RequestError(f"--give {unknown[0]}: {description.name}'s constructor has no such parameter")
    return made | {name: value for name, value in given.items() if name in unknown}


def takes_size(one: Parameter, role: str | None) -> bool:
    """Whether a parameter with a default is a number that everything else has to agree with."""
    return role in ("d_model", "heads", "hidden") and type(one.default) is int and one.default > 1


def heads_of(made: Made, given: Mapping[str, object]) -> int | None:
    """As many as the constructor was given, or as are among its attributes; None where neither says it."""
    numbers = [*given.items(), *((name.rpartition(".")[2], number) for name, number in made.numbers.items())]
    return next((number for name, number in numbers if role_of(name) == "heads" and type(number) is int), None)
