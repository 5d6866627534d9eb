"""What a model says of a text beside its attention, as a record holds it: the labels or words that it answers with."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from attncli.base.choices import Output

NOTHING = "O"  # the label of a token that is none of what is looked for (Ramshaw and Marcus 1995)
LIKELY = 0.5  # a label that has to do with no other is meant from this probability on


@dataclass(frozen=True)
class Answer:
    """One of them. logit: its score; of a span, of its first and its last token together. probability: None where there
    is none, as of a regression, whose answer the logit is. start, end: the tokens [start, end) that it is for; None
    where it is for the text as a whole.
    """

    label: str
    logit: float
    probability: float | None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Said:
    """output: which of the model's outputs says so, by its name. answers: the best first; of tokens in their order, and
    of each [MASK] the best first.

    single: whether one label is right, so that the probabilities of all sum to 1.
    """

    output: str
    kind: Output
    single: bool
    answers: list[Answer]

    def document(self) -> dict[str, Any]:
        """As `run --json` has it."""
        return asdict(self)

    def between(self, groups: Sequence[Sequence[int]]) -> "Said":
        """The same of a text whose tokens are groups of these, in their order; what is for none of them is left out."""
        where = {place: number for number, group in enumerate(groups) for place in group}
        kept = []
        for answer in self.answers:
            if answer.start is None or answer.end is None:
                kept.append(answer)
            elif here := [where[place] for place in range(answer.start, answer.end) if place in where]:
                kept.append(replace(answer, start=here[0], end=here[-1] + 1))
        return replace(self, answers=kept)


def said_of(document: dict[str, Any] | None) -> Said | None:
    """From what a file holds, which has been held to its schema."""
    return None if document is None else Said(**{**document, "answers": [Answer(**one) for one in document["answers"]]})
