"""The values that a shell offers at Tab. Without any, it completes the names of files.

The user waits at every Tab, so nothing heavy is imported and nothing is fetched. Typer itself offers the choices that
are an option's type (`attncli.base.choices`). A completer takes the beginning of a value.
"""

from collections.abc import Callable, Iterable
from typing import Any

from attncli.base import choices


def with_prefix(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the names that begin with a text."""
    return [name for name in names if name.startswith(incomplete)]


def last_of_list(names: Iterable[str], incomplete: str) -> list[str]:
    """Complete the last name of a list by names that are not in it yet: "none,ca" -> "none,causal"."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in with_prefix(names, last) if name not in before.split(",")]


def several(choice: Any) -> Callable[[str], list[str]]:
    """Return the completer of an option that takes several names of a choice, separated by commas."""
    return lambda incomplete: last_of_list(choices.names(choice), incomplete)


def sample(incomplete: str) -> list[str]:
    from attncli.text.samples import samples

    return with_prefix((one.name for one in samples()), incomplete)


def device(incomplete: str) -> list[str]:
    return with_prefix(choices.names(choices.DeviceName), incomplete)


def segments(incomplete: str) -> list[str]:
    from attncli.record.selection import SEGMENTS

    return with_prefix(SEGMENTS, incomplete)


def model(incomplete: str) -> list[str]:
    """Return aliases; the shell itself completes directories."""
    from attncli.models.aliases import ALIASES

    return with_prefix(ALIASES, incomplete)


def models(incomplete: str) -> list[str]:
    """Complete a list of aliases."""
    from attncli.models.aliases import ALIASES

    return last_of_list(ALIASES, incomplete)
