"""A text in pieces, each as dark as its number is large."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from attncli.base.printable import printable
from attncli.report.parts import Part

if TYPE_CHECKING:
    from rich.console import RenderableType

    from attncli.report.canvas import Canvas


class ShadedPiece(NamedTuple):
    """A piece of a text. name: stands before it, if it begins a part. share: from 0 to 1, or None without a colour."""

    name: str
    text: str
    share: float | None


@dataclass(frozen=True)
class ShadedText(Part):
    """A text in pieces. Only a terminal with colour has it: elsewhere a table says the same."""

    pieces: Sequence[ShadedPiece]

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        from rich.text import Text

        from attncli.report.terminal import ground

        if not canvas.colour:
            return []
        shown = Text()
        for name, text, share in self.pieces:
            if name:
                shown.append(f"{printable(name)} ", canvas.faint)
            shown.append(printable(text.strip("\n")), "" if share is None else ground(share, canvas))
            shown.append("\n" if text.endswith("\n") else " ")
        return [shown]
