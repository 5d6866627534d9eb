"""Make text from outside safe to print: it can't move the cursor, change colours or reorder a line."""

import re

# Control characters, line and paragraph separators, and lone surrogates; overrides and embeddings, which change the
# order of what follows them, beyond their own text.
HARMFUL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u202a\u202b\u202c\u202d\u202e\u2066-\u2069\u200e\u200f\u061c]"
)
JOINERS = re.compile("^\u200d+|\u200d+$")
LONGEST_QUOTED = 42  # characters, including two quotes
SPACE = "␣"  # replaces a space that would be invisible


def printable(text: str) -> str:
    r"""Escape every character of `text` that could control a terminal: ESC becomes \x1b."""
    if text.isascii() and text.isprintable():
        return text
    return HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def visible_text(text: str) -> str:
    """Return a text for a terminal: line breaks stay, and what a terminal would act on is written out."""
    return "\n".join(map(printable, text.split("\n")))


def visible(token: str) -> str:
    r"""Return a token in printable form, with the spaces around it written as "␣".

    A zero-width joiner at its beginning or end is escaped: it would join the token to what stands beside it.
    """
    inner = token.strip(" ")
    before = len(token) - len(token.lstrip(" "))
    shown = JOINERS.sub(lambda found: r"\u200d" * len(found[0]), printable(inner))
    return SPACE * before + shown + SPACE * (len(token) - before - len(inner))


def shorten(text: str, length: int = 40) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def shorten_start(text: str) -> str:
    """Cut the beginning of a path that is long, and make it printable."""
    return printable(text if len(text) <= 60 else f"…{text[-59:]}")


def quoted(text: str) -> str:
    """Quote user input for a message as Python writes it, so that it is harmless. Long input is cut."""
    written = repr(text)
    return written if len(written) <= LONGEST_QUOTED else f"{shorten(written[:-1], LONGEST_QUOTED - 1)}{written[-1]}"


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, shortened if it is very long."""
    return shorten(printable((str(error).strip() or type(error).__name__).splitlines()[0]), 200)


def short(number: float) -> str:
    """Format a number in few characters: 1e-05, 0.25, 0."""
    return f"{number:.0e}" if 0 < number < 0.01 else f"{number:.2g}" if 0 < number < 1 else f"{number:g}"
