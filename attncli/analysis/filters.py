"""Choose queries and keys: by a pair's segments, and with or without special tokens."""

from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.text.tokens import Tokens

SEGMENTS = ("all", "AA", "AB", "BA", "BB")


def kept(
    tokens: Tokens, special: bool = True, segments: str = "all", keys: Tokens | None = None
) -> tuple[list[int], list[int]]:
    """The tokens that are left as queries, and those that are left as keys.

    special: False leaves out [CLS], [SEP] and [PAD] on both sides.
    segments: "AB" is queries of the first text and keys of the second, and so on; "all" is every token.
    keys: the tokens along the keys, where they are others than those along the queries.

    Raises RequestError for another word, where the text has no second segment, and where nothing is left.
    """
    name = check_segments(segments)
    keys = tokens if keys is None else keys
    if "B" in name and 1 not in tokens.segments + keys.segments:
        raise RequestError(f"segments {segments}: the text has no second segment; give one with --pair")
    letters = ("", "") if name == "all" else name
    sides = [within(side, special, letter) for side, letter in zip((tokens, keys), letters, strict=True)]
    if not all(sides):
        raise RequestError("there is nothing to draw: every token is a special one")
    return sides[0], sides[1]


def check_segments(segments: str) -> str:
    """One of SEGMENTS, whatever its case. Raises RequestError when it is none of them."""
    name = segments if segments == "all" else segments.upper()
    if name not in SEGMENTS:
        raise RequestError(f"no segments {quoted(segments)}: it is one of {', '.join(SEGMENTS)}")
    return name


def within(tokens: Tokens, special: bool, letter: str) -> list[int]:
    """The tokens of segment A or B, of both where no letter says which; special ones only if they are wanted."""
    return [
        place
        for place, (flag, segment) in enumerate(zip(tokens.special, tokens.segments, strict=True))
        if (special or not flag) and (letter == "" or segment == "AB".index(letter))
    ]
