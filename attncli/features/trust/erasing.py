"""Delete tokens of a text, and score rankings of the tokens by the change of the output.

Later tokens move up. A network was not trained on texts with many tokens missing.

A ranking is scored by deleting the tokens that it puts first, and all others (DeYoung et al. 2020, "ERASER"):

    comprehensiveness_k = change if the first k are deleted            large if the ranking is right
    sufficiency_k       = change if all except the first k are deleted    small if it is

k is 1, 5, 10, 20 and 50 % of the deletable tokens, rounded up, without repetitions. AOPC is the mean over k (section
4.2 there; Samek et al. 2017, "area over the perturbation curve").
"""

import math
from collections.abc import Sequence

import numpy as np
import torch

from attncli.base.arrays import Doubles, Ints
from attncli.effects.asking import FROM_NOTHING
from attncli.effects.question import Question, RemainingTokens
from attncli.models.rows import batches
from attncli.text.tokens import Tokens, word_groups

_Places = frozenset[int]  # positions of deleted tokens


class Erasing:
    """The changes from deleting tokens of the first text of a question; each set of tokens is tried once.

    change = the output of the full text - the output without the tokens, as in comprehensiveness: above 0 if the tokens
    raise it. A divergence or a distance is 0 for the full text, so it is the change itself. erasable: the positions of
    the deletable tokens: all except special ones and those that the output is about.
    """

    def __init__(self, question: Question) -> None:
        self.question = question
        self.text = question.texts[0]
        self.erasable = erasable(question)
        self.known: dict[_Places, float] = {frozenset(): 0.0}

    def changes(self, erased: Sequence[_Places]) -> Doubles:
        """Return the change for each set of tokens, `[set]`."""
        new = [places for places in dict.fromkeys(erased) if places not in self.known]
        texts = [self.without(places) for places in new]
        for numbers in batches(texts, self.text.model.batch_tokens):
            some = [new[number] for number in numbers]
            self.known.update(zip(some, self.measured(some, [texts[number] for number in numbers]), strict=True))
        return np.array([self.known[places] for places in erased])

    def measured(self, erased: Sequence[_Places], texts: Sequence[Tokens]) -> list[float]:
        """Measure the changes of sets in one batch."""
        output_tokens = self.text.tokens.output_tokens
        every = range(len(output_tokens))
        # In an encoder-decoder, tokens of the encoder are deleted, and the decoder gives the output.
        apart = output_tokens is not self.text.tokens
        kept = [[place for place in every if apart or place not in places] for places in erased]
        with torch.inference_mode():
            last = self.text.model.last_hidden(texts, self.text.mask)
            left = [RemainingTokens(*one) for one in zip(last, kept, strict=True)]
            numbers = self.question.after_deletion(left)
        changes = numbers if self.question.kind in FROM_NOTHING else self.question.value - numbers
        return [float(change) for change in changes.cpu()]

    def without(self, erased: _Places) -> Tokens:
        """Return the text without these tokens."""
        tokens = self.text.tokens
        return tokens.take(place for place in range(len(tokens)) if place not in erased)


def erasable(question: Question) -> list[int]:
    """Return the positions of the deletable tokens."""
    tokens = question.texts[0].tokens
    protected = question.protected if tokens.output_tokens is tokens else ()
    return [place for place, added in enumerate(tokens.special) if not added and place not in protected]


def leave_one_out(erasing: Erasing) -> Doubles:
    """Return the change from deleting each token alone, `[erasable token]`.

    Li et al. 2016, "Understanding Neural Networks through Representation Erasure".
    """
    return erasing.changes([frozenset([place]) for place in erasing.erasable])


DRAWS = 20  # sets of other tokens, as a control


def words(tokens: Tokens, erasable: Sequence[int]) -> list[list[int]]:
    """Return the positions of the deletable tokens of each word."""
    groups = ([place for place in group if place in erasable] for group in word_groups(tokens))
    return [group for group in groups if group]


def leave_word_out(erasing: Erasing, words: Sequence[Sequence[int]], seed: int) -> tuple[Doubles, Doubles]:
    """Return the change from deleting each word, and the mean change from deleting as many other tokens, `[word]` each.

    For a single token, all others are tried; for larger sets, DRAWS random ones. NaN if too few tokens are left.
    """
    generator, control = np.random.default_rng(seed), []
    for word in words:
        others = [place for place in erasing.erasable if place not in word]
        drawn = [[place] for place in others]
        if len(word) > 1:
            possible = len(others) >= len(word)
            drawn = [generator.choice(others, len(word), replace=False).tolist() for _ in range(DRAWS * possible)]
        control.append(erasing.changes([frozenset(some) for some in drawn]).mean() if drawn else math.nan)
    return erasing.changes([frozenset(word) for word in words]), np.array(control)


# --- AOPC -----------------------------------------------------------------------------------------------

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)


def sizes(count: int) -> list[int]:
    """Return the numbers of tokens to delete out of `count`, ascending."""
    return sorted({math.ceil(round(share * count, 9)) for share in SHARES})


def order(importance: Doubles) -> Ints:
    """Order tokens by importance, the largest first; equal ones keep their order."""
    return np.argsort(-importance, kind="stable")


def aopc(erasing: Erasing, orders: Sequence[Ints]) -> tuple[Doubles, Doubles]:
    """Return comprehensiveness and sufficiency of rankings, `[ranking]` each.

    orders: indices of the erasable tokens, the most important first.
    """
    erasable = erasing.erasable
    every, counts = frozenset(erasable), sizes(len(erasable))
    first = [frozenset(erasable[place] for place in ranked[:count]) for ranked in orders for count in counts]
    changes = erasing.changes([*first, *(every - places for places in first)])
    comprehensiveness, sufficiency = changes.reshape(2, len(orders), len(counts)).mean(axis=-1)
    return comprehensiveness, sufficiency
