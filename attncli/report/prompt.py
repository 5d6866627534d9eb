"""A prompt with its answer, in a terminal and on a page: parts and sentences are shaded by their numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from attncli.base import __version__
from attncli.base.printable import as_sentence, printable, visible_text
from attncli.report.parts import Part

if TYPE_CHECKING:
    from rich.console import RenderableType

    from attncli.report.canvas import Canvas

DIGITS = 6  # of the numbers of a page


class PromptPiece(NamedTuple):
    """A piece of a prompt: the place of its part, that of its sentence if parts have sentences, and its text."""

    part: int
    sentence: int | None
    text: str


class AnswerPiece(NamedTuple):
    """A piece of an answer: its text, and for each part its share of attention and its effect, None if unknown; and
    the same for each sentence of the prompt.
    """

    text: str
    shares: Sequence[float]
    effects: Sequence[float | None]
    sentence_shares: Sequence[float]
    sentence_effects: Sequence[float | None]


@dataclass(frozen=True)
class PromptAndAnswer(Part):
    """A prompt in pieces, the names of its parts, and an answer: as a whole first, then in pieces.

    facts: for each part sentences about it. about: sentences below the page. A terminal without colour shows none of
    it.
    """

    heading: Sequence[str]
    names: Sequence[str]
    prompt: Sequence[PromptPiece]
    answer: Sequence[AnswerPiece]
    facts: Sequence[Sequence[str]]
    says: Sequence[str]
    about: Sequence[str]

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        from rich.text import Text

        from attncli.report.terminal import ground

        if not canvas.colour:
            return []
        whole = self.answer[0]
        largest = max((one for one in whole.effects if one is not None), default=0.0) or 1.0
        shown, before = Text(), None
        for part, sentence, text in self.prompt:
            effect = whole.effects[part]
            if sentence is not None and whole.sentence_effects[sentence] is not None:
                effect = whole.sentence_effects[sentence]
            if part != before:
                shown.append(f"{printable(self.names[part])} ", canvas.faint)
            style = "" if effect is None or effect <= 0 else ground(min(effect / largest, 1.0), canvas)
            shown.append(visible_text(text.strip("\n")), style)
            shown.append("\n" if text.endswith("\n") else " ")
            before = part
        return [shown]

    def page(self) -> str:
        """Return the page: the prompt on the left, the answer on the right, and a choice of shadings."""
        from attncli.page.document import assemble, script

        def known(numbers: Sequence[float | None]) -> list[float | None]:
            return [None if one is None else round(float(one), DIGITS) for one in numbers]

        description = {
            "names": [printable(name) for name in self.names],
            "prompt": [list(one) for one in self.prompt],
            "answer": [
                {
                    "text": one.text,
                    "parts": {"share": known(one.shares), "effect": known(one.effects)},
                    "sentences": {"share": known(one.sentence_shares), "effect": known(one.sentence_effects)},
                }
                for one in self.answer
            ],
            "facts": [list(map(as_sentence, some)) for some in self.facts],
            "says": list(map(as_sentence, self.says)),
            "about": [*map(as_sentence, self.about), f"made by attncli {__version__}"],
        }
        heading = " · ".join(map(printable, self.heading))
        code = script("sources")
        return assemble(["sources.html"], ["style.css", "sources.css"], code, heading, description, {})
