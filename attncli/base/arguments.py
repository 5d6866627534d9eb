"""Check the arguments that callers pass: a TypeError names the parameter, its value and the remedy."""

from collections.abc import Iterable, Iterator, Sized

from attncli.base.printable import quoted, shorten


def check_text(name: str, given: object, hint: str = "give a str") -> None:
    """Raises TypeError unless `given` is a str."""
    if not isinstance(given, str):
        raise TypeError(f"{name} is one text, not {describe(given)}: {hint}")


def check_optional_text(name: str, given: object) -> None:
    """Raises TypeError unless `given` is a str or None."""
    if given is not None:
        check_text(name, given, "give a str, or None")


def check_texts(name: str, given: Iterable[object], hint: str = "put it into a list") -> None:
    """Raises TypeError for a single text or a value that is not iterable. `each_text` checks the items."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"{name} is a list of texts, not {describe(given)}: {hint}")


def each_text(name: str, given: Iterable[str]) -> Iterator[str]:
    """Yield the texts. Raises TypeError for the first that is not a str."""
    for number, text in enumerate(given):
        check_text(f"{name}[{number}]", text)
        yield text


def check_instance(name: str, given: object, wanted: type, hint: str) -> None:
    """Raises TypeError unless `given` is an instance of `wanted`."""
    if not isinstance(given, wanted):
        raise TypeError(f"{name} is {describe(given)}: {hint}")


def describe(given: object) -> str:
    """Describe a value: "the str 'mean'", "the int 3", "a list of 2", "None"."""
    if given is None:
        return "None"
    kind = type(given).__name__
    if isinstance(given, str):
        return f"the str {quoted(given)}"
    if isinstance(given, (bool, int, float, complex)):
        return f"the {kind} {shorten(repr(given))}"
    article = "an" if kind[0].lower() in "aeiou" else "a"
    return f"{article} {kind} of {len(given)}" if isinstance(given, Sized) else f"{article} {kind}"
