"""Turn a prediction's numbers into the answers that a record holds: labels, words and spans with probabilities.

This module doesn't import torch, so that `attncli.models.instant` can name the next token without it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attncli.base.arrays import Brief, Doubles, Floats
from attncli.base.choices import OutputName
from attncli.record.parts import Answer
from attncli.text.tokens import Notation, Tokens, text_between

OutputValues = Floats | Doubles  # float64 if the model computes in it


@dataclass(frozen=True, repr=False)
class Prediction(Brief):
    """The prediction of an output for a text.

    output: its name. kind: its kind. labels: names along the last axis, if they have any.

    values: logits: "classes" `[label]`; "words" and "tokens" `[token, label]`; "span" `[token, 2]`, start and end;
    "embedding" `[size]`. probabilities: in the same shape; for a span, of its start and of its end, each over the
    tokens. None if undefined.
    """

    output: str
    kind: OutputName
    labels: Sequence[str]
    values: OutputValues
    probabilities: OutputValues | None


MOST = 20  # labels of a text
_BEST = 3  # words for a [MASK], spans


def answers_of(made: Prediction, rows: Sequence[int], tokens: Tokens, notation: Notation) -> list[Answer]:
    """Return the answers in a prediction. rows: the tokens that the values are about, for outputs per token."""
    match made.kind:
        case "words" | "next":
            return words(made, rows, notation)
        case "tokens":  # the best label for every token of the text
            places = [place for place, special in enumerate(tokens.special) if not special]
            return [_label_of(made, (place, made.values[place].argmax()), None, place, place + 1) for place in places]
        case "span":
            return spans(made, tokens)
        case _:  # all labels of the text, the best first
            return [_label_of(made, (number,)) for number in np.argsort(-made.values, kind="stable")[:MOST]]


def words(made: Prediction, rows: Sequence[int], notation: Notation) -> list[Answer]:
    """Return the best words for every [MASK] or next token. In a next token, the leading space of " a" is kept."""
    found = []
    for row, place in enumerate(rows):
        for number in np.argsort(-made.values[row], kind="stable")[:_BEST]:
            [word] = notation.read([made.labels[number]], [False])
            label = word if made.kind == "next" else word.strip() or word
            found.append(_label_of(made, (row, number), label, place, place + 1))
    return found


def spans(made: Prediction, tokens: Tokens) -> list[Answer]:
    """Return the best spans within the second text, or the only one.

    The probability is that of the start times that of the end, each over the tokens of that text, as in transformers'
    question-answering pipeline.
    """
    last = max(tokens.segments)
    places = [at for at, segment in enumerate(tokens.segments) if segment == last and not tokens.special[at]]
    values = made.values[places].astype(np.float64)  # [token, start and end]
    likely = np.exp(values - values.max(axis=0))
    likely /= likely.sum(axis=0)
    pairs = np.triu(likely[:, :1] * likely[:, 1])  # [start, end]
    found = []
    for best in np.argsort(-pairs, axis=None, kind="stable")[: min(_BEST, len(places))]:
        start, end = divmod(int(best), len(places))
        here = places[start], places[end] + 1
        logit = float(values[start, 0] + values[end, 1])
        found.append(Answer(text_between(tokens, *here), logit, float(pairs[start, end]), *here))
    return found


def _label_of(
    made: Prediction, place: tuple[int, ...], label: str | None = None, start: int | None = None, end: int | None = None
) -> Answer:
    """Return the answer at a place of the values, by default named by its label."""
    probability = None if made.probabilities is None else float(made.probabilities[place])
    return Answer(label or made.labels[place[-1]], float(made.values[place]), probability, start, end)
