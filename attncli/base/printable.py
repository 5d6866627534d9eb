"""Make untrusted text safe to print: it can't move the cursor, change colours or reorder a line."""

import re

# Control characters, line and paragraph separators, and lone surrogates; overrides and embeddings, which change the
# order of what follows them, beyond their own text.
HARMFUL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u202a\u202b\u202c\u202d\u202e\u2066-\u2069\u200e\u200f\u061c]"
)
# A zero-width joiner, and spaces that look like the usual one, at the beginning or the end.
INVISIBLE = re.compile("^[\u200d\xa0\u2000-\u200a\u202f\u3000]+|[\u200d\xa0\u2000-\u200a\u202f\u3000]+$")
LONGEST_QUOTED = 42  # characters, including two quotes
SPACE = "␣"  # replaces a space that would be invisible


def printable(text: str) -> str:
    r"""Escape every character of `text` that could control a terminal: ESC becomes \x1b."""
    if text.isascii() and text.isprintable():
        return text
    return HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def visible_text(text: str) -> str:
    """Return a text that is safe for a terminal: line breaks stay, all other control characters are escaped."""
    return "\n".join(map(printable, text.split("\n")))


def visible(token: str) -> str:
    r"""Return a token in printable form, with the spaces around it written as "␣".

    Other invisible characters at its beginning or end are escaped: a zero-width joiner would join the token to adjacent
    text.
    """
    inner = token.strip(" ")
    before = len(token) - len(token.lstrip(" "))
    shown = INVISIBLE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), printable(inner))
    return SPACE * before + shown + SPACE * (len(token) - before - len(inner))


def as_sentence(text: str) -> str:
    """Return a printable text with a capital and a full stop."""
    shown = printable(text)
    return f"{shown[:1].upper()}{shown[1:]}{'' if shown.endswith('.') else '.'}"


def shorten(text: str, length: int = 40) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def shorten_start(text: str) -> str:
    """Truncate the beginning of a long path, and make the path printable."""
    return printable(text if len(text) <= 60 else f"…{text[-59:]}")


def quoted(text: str) -> str:
    """Quote user input for a message as a Python literal, which is safe to print. Long input is truncated."""
    written = repr(text)
    return written if len(written) <= LONGEST_QUOTED else f"{shorten(written[:-1], LONGEST_QUOTED - 1)}{written[-1]}"


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, shortened if it is very long."""
    return shorten(printable((str(error).strip() or type(error).__name__).splitlines()[0]), 200)


def short(number: float) -> str:
    """Format a number in few characters: 1e-05, 0.25, 0."""
    return f"{number:.0e}" if 0 < number < 0.01 else f"{number:.2g}" if 0 < number < 1 else f"{number:g}"
