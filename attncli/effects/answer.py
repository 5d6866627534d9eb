"""Answers to questions: which output of a network was measured, in which unit, and which way is up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attncli.record.selection import number_list

UP = {
    "cosine": "effect: cosine without {0} minus cosine with it; below 0 {0} makes the two texts more alike",
    "logit": "effect: logit without {0} minus logit with it; below 0 {0} speaks for it",
    "probability": "effect: probability without {0} minus probability with it; below 0 {0} speaks for it",
    "log-probability": "effect: log P without {0} minus log P with it, in nats; below 0 {0} speaks for it",
    "divergence": "effect: nats by which the prediction changes without {0}; 0 is no change",
    "distance": "effect: how far the last vectors move without {0}, as a share of their lengths; 0 is no move",
}
FROM_NOTHING = ("divergence", "distance")  # kinds whose numbers are 0 without a change, and never below


@dataclass(frozen=True)
class Answer:
    """The output that was measured.

    kind: of `choices.Asked`; about: the output in words; value: without a change, the mean over several texts; mask: of
    the network's attention, of `choices.Mask`.
    """

    kind: str
    about: str
    value: float
    mask: str = "padding"

    def __str__(self) -> str:
        """cosine of the embeddings of the two texts 0.8123"""
        return f"{self.about} {self.value:.4g}"

    def document(self) -> dict[str, Any]:
        """Return the entry "output" of a document."""
        return {"kind": self.kind, "value": self.value, "about": self.about}


def numbered(layers: Sequence[int], heads: Sequence[int]) -> str:
    """layers 0-5, heads 3,7"""
    return f"layers {number_list(layers)}, heads {number_list(heads)}"


def which_way(kind: str, what: str = "the head") -> str:
    """Return the unit and the direction of an effect; `what` names the part that the output goes without."""
    return UP[kind].format(what)


def answered(answer: Answer) -> str:
    """Return the output with its value; a divergence and a distance have none."""
    if answer.kind in FROM_NOTHING:
        return answer.about
    return f"{answer.about} {answer.value:.4f}"


def signed(effect: float) -> str:
    """Return an effect with its sign and three digits that matter."""
    return f"{effect:+.3g}" if abs(effect) < 0.1 else f"{effect:+.3f}"
