"""A text without some of its tokens, and what is asked of it then.

Two ways: [MASK] stands in their place, or they are deleted, and later tokens move up. Neither gives a text such as a
network was trained on where more than a few are gone; that the two disagree is worth knowing.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from attncli.base.arrays import Doubles
from attncli.effects.questions import Left, Question
from attncli.models.outputs import MASKS
from attncli.models.rows import batches
from attncli.models.tapped import TappedModel
from attncli.text.tokens import Tokens

MASKED, DELETED = "mask", "deletion"
FROM_NOTHING = ("divergence", "distance")  # numbers that are 0 of the text itself, and grow with any change

Places = frozenset[int]  # of the tokens that are erased


class Erasing:
    """What erasing tokens of the first text of a question changes, in one way; each set of tokens is tried once.

    change = the number of the whole text - the number without the tokens, as comprehensiveness has it: above 0 they
    speak for it. A divergence and a distance are 0 of the whole text, and are the change themselves.
    erasable: the places of the tokens that may be erased: all but special ones and those that the question is asked at.
    """

    def __init__(self, asked: Question, way: str) -> None:
        self.asked = asked
        self.text = asked.texts[0]
        self.way = way
        self.erasable = erasable(asked)
        self.known: dict[Places, float] = {frozenset(): 0.0}

    def changes(self, erased: Sequence[Places]) -> Doubles:
        """`[set]`"""
        new = [places for places in dict.fromkeys(erased) if places not in self.known]
        texts = [self.without(places) for places in new]
        for numbers in batches(texts, self.text.model.batch_tokens):
            some = [new[number] for number in numbers]
            self.known.update(zip(some, self.measured(some, [texts[number] for number in numbers]), strict=True))
        return np.array([self.known[places] for places in erased])

    def measured(self, erased: Sequence[Places], texts: Sequence[Tokens]) -> list[float]:
        """The changes of sets that go through the network together."""
        spoken = self.text.tokens.spoken
        every = range(len(spoken))
        apart = spoken is not self.text.tokens  # what is erased is read by an encoder, and a decoder is asked
        kept = [[place for place in every if apart or place not in places] for places in erased]
        with torch.inference_mode():
            last = self.text.model.last_hidden(texts, self.text.mask)
            left = [Left(*one, self.way == DELETED and not apart) for one in zip(last, kept, strict=True)]
            numbers = self.asked.of_left(left)
        changes = numbers if self.asked.kind in FROM_NOTHING else self.asked.value - numbers
        return [float(change) for change in changes.cpu()]

    def without(self, erased: Places) -> Tokens:
        tokens = self.text.tokens
        if self.way == DELETED:
            return tokens.take(place for place in range(len(tokens)) if place not in erased)
        mask, number = mask_token(self.text.model)
        return replace(
            tokens,
            ids=[number if place in erased else own for place, own in enumerate(tokens.ids)],
            text=[mask if place in erased else own for place, own in enumerate(tokens.text)],
            shown=[mask if place in erased else own for place, own in enumerate(tokens.shown)],
        )


def erasable(asked: Question) -> list[int]:
    tokens = asked.texts[0].tokens
    held = asked.held if tokens.spoken is tokens else ()
    return [place for place, added in enumerate(tokens.special) if not added and place not in held]


def ways(model: TappedModel) -> list[str]:
    """Those that a model has: without a [MASK], only deletion."""
    return [MASKED, DELETED] if mask_token(model)[0] else [DELETED]


def mask_token(model: TappedModel) -> tuple[str, int]:
    """[MASK] as the vocabulary has it, and its number; "" where it has none."""
    numbers = {name: model.tokenizer.backend.token_to_id(name) for name in MASKS}
    return next(((name, number) for name, number in numbers.items() if number is not None), ("", 0))


def leave_one_out(erasing: Erasing) -> Doubles:
    """What erasing each token by itself changes, `[erasable token]` (Li et al. 2016, "Understanding Neural Networks
    through Representation Erasure").
    """
    return erasing.changes([frozenset([place]) for place in erasing.erasable])
