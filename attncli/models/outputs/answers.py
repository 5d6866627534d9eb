"""The answers among the numbers that an output gives of a text: the best labels, words or spans."""

from collections.abc import Sequence

import numpy as np

from attncli.models.output import Prediction
from attncli.record.prediction import Answer
from attncli.text.shown import Notation
from attncli.text.tokens import Tokens
from attncli.text.words import text_between

MASKS = ("[MASK]", "<mask>", "<|mask|>")  # as vocabularies call the token whose word is to be found
MOST = 20  # labels of a text
BEST = 3  # words for a [MASK], spans


def masked(tokens: Tokens) -> list[int]:
    """The places of [MASK]."""
    return [place for place, token in enumerate(tokens.text) if token in MASKS]


def last_real(tokens: Tokens) -> list[int]:
    """The place of the last token that is no [PAD]."""
    return [place for place, padding in enumerate(tokens.padding) if not padding][-1:]


def answers_of(made: Prediction, rows: Sequence[int], tokens: Tokens, notation: Notation) -> list[Answer]:
    """rows: the tokens whose values these are, where the output says something of each."""
    match made.kind:
        case "words" | "next":
            return words(made, rows, notation)
        case "tokens":
            return token_labels(made, tokens)
        case "span":
            return spans(made, tokens)
        case _:
            return classes(made)


def classes(made: Prediction) -> list[Answer]:
    """All labels of the text, the best first."""
    return [label_of(made, (number,)) for number in np.argsort(-made.values, kind="stable")[:MOST]]


def words(made: Prediction, rows: Sequence[int], notation: Notation) -> list[Answer]:
    """Return the best words for every [MASK], or for what comes next: there a space before it tells " a" from "a"."""
    found = []
    for row, place in enumerate(rows):
        for number in np.argsort(-made.values[row], kind="stable")[:BEST]:
            [word] = notation.read([made.labels[number]], [False])
            label = word if made.kind == "next" else word.strip() or word
            found.append(label_of(made, (row, number), label, place, place + 1))
    return found


def token_labels(made: Prediction, tokens: Tokens) -> list[Answer]:
    """Of every token of the text the best label."""
    places = [place for place, special in enumerate(tokens.special) if not special]
    return [label_of(made, (place, made.values[place].argmax()), None, place, place + 1) for place in places]


def spans(made: Prediction, tokens: Tokens) -> list[Answer]:
    """The best spans within the second text, or the only one. Their probability is that of a start times that of an
    end, each over the tokens of that text, as transformers' pipeline for answering questions has it.
    """
    last = max(tokens.segments)
    places = [at for at, segment in enumerate(tokens.segments) if segment == last and not tokens.special[at]]
    values = made.values[places].astype(np.float64)  # [token, start and end]
    likely = np.exp(values - values.max(axis=0))
    likely /= likely.sum(axis=0)
    pairs = np.triu(likely[:, :1] * likely[:, 1])  # [start, end]
    found = []
    for best in np.argsort(-pairs, axis=None, kind="stable")[: min(BEST, len(places))]:
        start, end = divmod(int(best), len(places))
        here = places[start], places[end] + 1
        logit = float(values[start, 0] + values[end, 1])
        found.append(Answer(text_between(tokens, *here), logit, float(pairs[start, end]), *here))
    return found


def label_of(
    made: Prediction,
    place: tuple[int, ...],
    label: str | None = None,
    start: int | None = None,
    end: int | None = None,
) -> Answer:
    """The answer at a place of the values, by default under the name of its label."""
    probability = None if made.probabilities is None else float(made.probabilities[place])
    return Answer(label or made.labels[place[-1]], float(made.values[place]), probability, start, end)
