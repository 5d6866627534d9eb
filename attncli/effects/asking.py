"""The output of a network to measure: the request for it, and the answer with its unit and direction."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypedDict, TypeVar

from attncli.base import choices
from attncli.base.choices import check_optional_text

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS = {
    "pair": "--pair", "similar_to": "--similar-to", "target": "--target", "at": "--at", "ask": "--ask",
    "task": "--task", "mask": "--mask", "which": "--which",
}  # fmt: skip


@dataclass(frozen=True)
class Asking:
    """The output of a text to measure.

    pair: its second segment. similar_to: another text, for the cosine of the two. target: a class, a word for [MASK],
    the next token, the output text of an encoder-decoder, or the label of the token `at`. ask: a
    `choices.QuestionKind`; by default it follows from the other fields. task: the name of an output, for a checkpoint
    with several. mask: a `choices.MaskName`; None is the one that the network was trained with. which: the attention of
    an encoder-decoder to change: "encoder", "decoder" or "cross" (the default).
    """

    pair: str | None = None
    similar_to: str | None = None
    target: str | None = None
    at: str | None = None
    ask: str | None = None
    task: str | None = None
    mask: str | None = None
    which: str | None = None

    def __post_init__(self) -> None:
        """Raises TypeError for a value that is not text."""
        for field in fields(self):
            check_optional_text(field.name, getattr(self, field.name))
        if self.which is not None:
            choices.check("part", self.which, choices.KindName)


UP = {
    "cosine": "effect: cosine without {0} minus cosine with it; below 0, {0} made the two texts more similar",
    "logit": "effect: logit without {0} minus logit with it; below 0, {0} raised it",
    "probability": "effect: probability without {0} minus probability with it; below 0, {0} raised it",
    "log-probability": "effect: log P without {0} minus log P with it, in nats; below 0, {0} raised it",
    "divergence": "effect: change of the prediction without {0}, in nats; 0 is no change",
    "distance": "effect: distance that the last vectors move without {0}, as a share of their lengths; 0 is no change",
}
RANDOM_SPANS = 5  # random spans to compare with each part of a prompt
FROM_NOTHING = ("divergence", "distance")  # kinds that are 0 without a change, and never negative


class OutputDocument(TypedDict):
    """The measured output (`ablate`, `cut`, `patch`, `trust`)."""

    kind: Annotated[
        str,
        "cosine, logit, probability, divergence (nats) or distance (share of the vectors' lengths): the unit of every "
        "effect",
    ]
    value: Annotated[float, "without any change; the mean over several texts", "in that unit"]
    about: Annotated[str, "in words"]


@dataclass(frozen=True)
class MeasuredOutput:
    """The output that was measured.

    kind: a `choices.QuestionKind`; about: the output in words; value: its value without a change, the mean over several
    texts; mask: the network's mask, a `choices.MaskName`.
    """

    kind: str
    about: str
    value: float
    mask: str = "padding"

    def __str__(self) -> str:
        """Return the output with its value, if the kind has one: "cosine of the embeddings of the two texts 0.8123"."""
        return self.about if self.kind in FROM_NOTHING else f"{self.about} {self.value:.4g}"

    def document(self) -> OutputDocument:
        """Return the entry "output" of a document."""
        return {"kind": self.kind, "value": self.value, "about": self.about}


def describe_direction(kind: str, what: str = "the head") -> str:
    """Describe the unit and the direction of an effect; `what` names the part that is removed."""
    return UP[kind].format(what)


SCALES = {
    "cosine": "effect on the cosine",
    "logit": "effect on the logit",
    "probability": "effect on the probability",
    "log-probability": "effect on log P (nats)",
    "divergence": "divergence (nats)",
    "distance": "distance moved",
}  # the name of an effect's scale, by the kind of the output
