"""Which queries and which keys are looked at: of a pair's segments, and with or without special tokens."""

from attncli.errors import RequestError
from attncli.text import Tokens

SEGMENTS = ("all", "AA", "AB", "BA", "BB")


def kept(tokens: Tokens, special: bool = True, segments: str = "all") -> tuple[list[int], list[int]]:
    """The tokens that are left as queries, and those that are left as keys.

    special: False leaves out [CLS], [SEP] and [PAD] on both sides.
    segments: "AB" is queries of the first text and keys of the second, and so on; "all" is every token.

    Raises RequestError for another word, where the text has no second segment, and where nothing is left.
    """
    name = segments if segments == "all" else segments.upper()
    if name not in SEGMENTS:
        raise RequestError(f"no segments {segments!r}: it is one of {', '.join(SEGMENTS)}")
    if "B" in name and 1 not in tokens.segments:
        raise RequestError(f"segments {segments}: the text has no second segment; give one with --pair")
    places = [place for place, flag in enumerate(tokens.special) if special or not flag]
    sides = [places, places] if name == "all" else [within(tokens, places, letter) for letter in name]
    if not all(sides):
        raise RequestError("there is nothing to draw: every token is a special one")
    return sides[0], sides[1]


def within(tokens: Tokens, places: list[int], letter: str) -> list[int]:
    """Those of the places that are in segment A or B."""
    return [place for place in places if tokens.segments[place] == "AB".index(letter)]
