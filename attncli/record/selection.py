"""Selections of layers, heads and tokens: "3", "0,3,5", "0-3", "-1", "all", or numbers.

Single heads, such as those to keep queries and keys of, are named "4.7", "4.0-3", "4.all", "-1.0,2.5", "all" or "none",
or by pairs of numbers.
"""

import difflib
import re
import reprlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from operator import index
from typing import Any

from attncli.base.errors import RequestError
from attncli.base.printable import quoted, visible
from attncli.text.tokens import Tokens, characters

Selection = str | int | Sequence[int]

ITEM = re.compile(r"\s*(-?\d{1,9})(?:\s*-\s*(-?\d{1,9}))?\s*")


def select(selection: Selection, count: int, what: str) -> list[int]:
    """Return the selected numbers, counted from 0, in the order given, without duplicates.

    A negative number counts from the end: -1 is the last of `count`. "0-3" is 0, 1, 2, 3.

    Raises RequestError with the valid range for anything else. `what` is "layer" or "head".
    """
    if isinstance(selection, str):
        numbers = parse(selection, count, what)
    else:
        numbers = [position(number, count, what) for number in whole_numbers(selection, count, what)]
    if not numbers:
        raise RequestError(f"no {what} is selected: {choices(count, what)}")
    return list(dict.fromkeys(numbers))


def whole_numbers(selection: Any, count: int, what: str) -> list[int]:
    """Return whole numbers of any library as ints. Raises RequestError for anything else."""
    with suppress(TypeError):
        return [index(selection)]
    try:
        return [index(number) for number in selection]
    except TypeError as error:
        raise RequestError(f"{what} {reprlib.repr(selection)} is not a number: {choices(count, what)}") from error


def select_one(selection: Selection, count: int, what: str) -> int:
    """Return the single selected number. Raises RequestError as `select` does, and if there are several."""
    numbers = select(selection, count, what)
    if len(numbers) != 1:
        raise RequestError(f"exactly one {what} is needed, not {len(numbers)}: {what}s are 0 to {count - 1}")
    return numbers[0]


def parse(text: str, count: int, what: str) -> list[int]:
    if text.strip().lower() == "all":
        return list(range(count))
    numbers: list[int] = []
    for part in text.split(","):
        match = ITEM.fullmatch(part)
        if match is None:
            raise RequestError(f"{what} {quoted(text)} is not a number: {choices(count, what)}")
        first = position(int(match[1]), count, what)
        last = first if match[2] is None else position(int(match[2]), count, what)
        if last < first:
            raise RequestError(f"{what} {quoted(part.strip())} runs backwards: write the smaller number first")
        numbers.extend(range(first, last + 1))
    return numbers


def position(number: int, count: int, what: str) -> int:
    if not -count <= number < count:
        raise RequestError(f"{what} {number} is out of range: {choices(count, what)}")
    return int(number) % count


def choices(count: int, what: str) -> str:
    return f'{what}s are 0 to {count - 1}, as in "3", "0,3", "0-{count - 1}", "-1" or "all"'


NTH = re.compile(r"(?P<text>.+)#(?P<count>[1-9]\d{0,5})", re.DOTALL)


def select_token(name: str, tokens: Tokens) -> int:
    """Return the place of a token: "it" is the first that reads so, "it#2" the second, "7" is token 7, "-1" the last.

    A number is always an index; a token that is a number is named as in "7#1". `places_of` defines which tokens match.

    Raises RequestError, suggesting similar tokens, if there is none.
    """
    if is_number(name):
        if not -len(tokens) <= int(name) < len(tokens):
            raise RequestError(f"token {name} is out of range: tokens are 0 to {len(tokens) - 1}")
        return int(name) % len(tokens)
    match = NTH.fullmatch(name)
    text, count = (match["text"], int(match["count"])) if match and not exact_places(name, tokens) else (name, 1)
    places = places_of(text, tokens)
    if not places:
        there = list(dict.fromkeys(map(visible, tokens.shown)))
        near = difflib.get_close_matches(text, there, n=5, cutoff=0.5) or there[:8]
        raise RequestError(f"no token {quoted(text)} in the text: it has {', '.join(near)}")
    if count > len(places):
        times = f"{len(places)} time{'s' if len(places) > 1 else ''}"
        raise RequestError(f"token {quoted(name)}: {quoted(text)} occurs {times}")
    return places[count - 1]


def name_of(place: int, tokens: Tokens) -> str:
    """Return the name by which `select_token` finds this token: "it", or "it#2" for the second; else its number."""
    shown = tokens.shown[place].strip(" ")
    places = places_of(shown, tokens)
    count = places.index(place) + 1 if place in places else 0
    for name in ([shown] if count == 1 else []) + ([f"{shown}#{count}"] if count else []):
        with suppress(RequestError):
            if select_token(name, tokens) == place:
                return name
    return str(place)


def numbered_names(tokens: Tokens) -> list[str]:
    """Return a name for each token in a list: "it", or "it#1" and "it#2" if it occurs twice.

    `select_token` reads them.
    """
    shown = list(map(visible, tokens.shown))
    total, so_far = Counter(shown), Counter[str]()
    names = []
    for name in shown:
        so_far[name] += 1
        names.append(name if total[name] == 1 else f"{name}#{so_far[name]}")
    return names


def is_number(name: str) -> bool:
    return re.fullmatch(r"-?\d{1,9}", name) is not None


def places_of(name: str, tokens: Tokens) -> list[int]:
    """Return all tokens that read so: exactly (`exact_places`), else ignoring case. "猫" matches "[UNK:猫]" too."""
    wanted = loosely(name)
    return exact_places(name, tokens) or [
        place for place, token in enumerate(tokens.shown) if wanted and loosely(token) == wanted
    ]


def exact_places(name: str, tokens: Tokens) -> list[int]:
    """Return all tokens that equal the name in the first notation with a match: the vocabulary's, "ĠgrÃ¼ÃŁt"; as
    displayed, " grüßt"; as printed, "␣grüßt"; or as displayed without surrounding spaces, "grüßt".
    """
    bare = (token.strip(" ") for token in tokens.shown)
    for reading in (tokens.text, tokens.shown, map(visible, tokens.shown), bare):
        if places := [place for place, token in enumerate(reading) if token == name != ""]:
            return places
    return []


def loosely(token: str) -> str:
    return characters(token).strip().casefold()


def number_list(numbers: Sequence[int]) -> str:
    """0, 1, 2, 3 -> "0-3";  0, 2, 3 -> "0,2-3"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


NamedHeads = str | Sequence[tuple[int, int]] | None

HEAD_EXAMPLES = '"4.7" (layer 4, head 7), "4.0-3", "4.all", "-1.0,2.5", "all" or "none"'


def select_heads(
    selection: NamedHeads, layers: Sequence[int], heads: Sequence[int], model_layers: int, model_heads: int
) -> list[tuple[int, int]]:
    """Return the selected heads as (layer, head), counted from 0, in the order given, without duplicates.

    selection: LAYERS.HEADS, separated by commas; each side is a number, a range or "all" as in
    `attncli.record.selection`, so that "4.0-3" is four heads of layer 4, and a negative number counts from the model's
    end. Or pairs of such numbers. "all" means all that are kept: "4.all" is every kept head of layer 4. None and
    "none" are no head.
    layers, heads: those whose weights are kept. The selected heads must be among them.
    model_layers, model_heads: the numbers of layers and heads in the model.

    Raises RequestError for an invalid notation, or for heads that are out of range or not kept.
    """
    if selection is None:
        return []
    if isinstance(selection, str):
        named = parse_heads(selection, layers, heads, model_layers, model_heads)
    else:
        try:
            pairs = [(index(layer), index(head)) for layer, head in selection]
        except (TypeError, ValueError) as error:
            raise RequestError(
                f"heads {reprlib.repr(selection)} are not pairs: write [(4, 7)] for layer 4, head 7, or {HEAD_EXAMPLES}"
            ) from error
        named = [(position(layer, model_layers, "layer"), position(head, model_heads, "head")) for layer, head in pairs]
    for layer, head in named:
        if layer not in layers or head not in heads:
            kept = f"layers {number_list(layers)}, heads {number_list(heads)}"
            raise RequestError(f"head {layer}.{head} is not kept ({kept}): include it in -l and -H")
    return list(dict.fromkeys(named))


def heads_list(heads: Sequence[tuple[int, int]]) -> str:
    """Format heads as `select_heads` reads them: (3, 1), (4, 0), (4, 1) -> "3.1,4.0-1"."""
    of_layers: dict[int, list[int]] = {}
    for layer, head in heads:
        of_layers.setdefault(layer, []).append(head)
    runs = [f"{layer}.{run}" for layer, numbers in of_layers.items() for run in number_list(numbers).split(",")]
    return ",".join(runs)


def parse_heads(
    text: str, layers: Sequence[int], heads: Sequence[int], model_layers: int, model_heads: int
) -> list[tuple[int, int]]:
    word = text.strip().lower()
    if word == "none":
        return []
    if word == "all":
        return [(layer, head) for layer in layers for head in heads]
    named: list[tuple[int, int]] = []
    for part in text.split(","):
        layer_text, dot, head_text = part.partition(".")
        if not dot:
            raise RequestError(f"heads {quoted(part.strip())} is not LAYER.HEAD: write {HEAD_EXAMPLES}")
        of_layers = numbers(layer_text, layers, model_layers, "layer")
        of_heads = numbers(head_text, heads, model_heads, "head")
        named.extend((layer, head) for layer in of_layers for head in of_heads)
    return named


def numbers(text: str, kept: Sequence[int], count: int, what: str) -> Sequence[int]:
    """Parse one side of the dot."""
    return kept if text.strip().lower() == "all" else parse(text, count, what)
