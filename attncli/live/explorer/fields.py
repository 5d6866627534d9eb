"""A line to type in, whatever is in it."""

from typing import Any

from rich.highlighter import Highlighter
from rich.text import Text
from textual.widgets import Input

from attncli.base.printable import is_harmful

HARMLESS = "\N{REPLACEMENT CHARACTER}"


class Harmless(Highlighter):
    """What could command the terminal is drawn as "�". It stays part of the text: the model reads what `run` reads."""

    def highlight(self, text: Text) -> None:
        text.plain = "".join(
            HARMLESS if is_harmful(character) and character != "\t" else character for character in text.plain
        )


class Field(Input):
    """Textual's, which draws what is typed and pasted as it is, escape sequences too."""

    def __init__(self, value: str, **more: Any) -> None:
        super().__init__(value, compact=True, highlighter=Harmless(), **more)
