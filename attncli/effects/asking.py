"""What is asked at a network's end: one number of its last vectors, so that a change has an effect.

    effect = the number with the change - the number without it, in the number's own unit

- cosine: of the embeddings of two texts, both under the change.
- logit, probability: of one class, of one word at [MASK], or of one label at a token.
- divergence: KL(P ‖ P') = Σ P log(P / P') in nats, P without and P' with the change; summed over what is predicted.
- distance: how far the last vectors move, mean over tokens of ‖x' - x‖ / ‖x‖.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attncli.effects.changes import Change
from attncli.effects.copies import Unchanged, under
from attncli.models.model import Model
from attncli.record.request import Input
from attncli.text.tokens import Tokens

if TYPE_CHECKING:
    from attncli.models.outputs import Output


@dataclass(frozen=True)
class Asking:
    """What to ask of a text.

    pair: its second segment. similar_to: another text, for the cosine of the two. target: a class, a word for [MASK],
    or the label of the token `at`. kind: of `choices.Asked`; by default what the rest leads to. output: the name of
    the one of a checkpoint's outputs, where it has several. mask: of `choices.Mask`.
    """

    pair: str | None = None
    similar_to: str | None = None
    target: str | None = None
    at: str | None = None
    kind: str | None = None
    output: str | None = None
    mask: str = "padding"


class Question(ABC):
    """A number of the last vectors of its texts.

    kind: of `choices.Asked`; about: what is asked, in words.
    """

    kind: str
    about: str

    def __init__(self, texts: Sequence[Unchanged]) -> None:
        self.texts = list(texts)

    @abstractmethod
    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        """The last vectors of each text's copies, `[copy, token, hidden_size]` each -> `[copy]`, float64."""

    @cached_property
    def value(self) -> float:
        """Without any change."""
        return self.of(self.texts)

    def of(self, texts: Sequence[Unchanged]) -> float:
        """Of these texts, in place of the first of its own, without any change."""
        with torch.inference_mode():
            return float(self([text.last for text in [*texts, *self.texts[len(texts) :]]])[0])

    def effects(
        self, changes: Sequence[Change], changed: Sequence[Unchanged] | None = None
    ) -> Iterator[tuple[list[int], Tensor]]:
        """The numbers of some changes and their effects, until all were told.

        changed: the texts under the changes, in place of the first of its own; without it all of these. Others stay as
        they are.
        """
        changed = self.texts if changed is None else changed
        before = self.of(changed)
        for numbers, last in under(changed, changes):
            last += [text.last.expand(len(numbers), -1, -1) for text in self.texts[len(changed) :]]
            with torch.inference_mode():
                yield numbers, self(last) - before


class Distance(Question):
    kind = "distance"
    about = "how far the last vectors move, as a share of their lengths"

    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        [text], [vectors] = self.texts, last
        moved = (vectors - text.last).double().norm(dim=-1) / text.last.double().norm(dim=-1)
        return moved.mean(dim=-1)


class Cosine(Question):
    kind = "cosine"
    about = "cosine of the two embeddings"

    def __init__(self, texts: Sequence[Unchanged], output: "Output") -> None:
        super().__init__(texts)
        self.output = output

    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        one, other = (
            torch.stack(self.output(list(copies), [text.tokens] * len(copies))).double()
            for text, copies in zip(self.texts, last, strict=True)
        )
        return torch.cosine_similarity(one, other, dim=-1)


class Target(Question):
    """A logit or the probability of one label: of the whole text, or of one token where labels are a token's."""

    def __init__(self, text: Unchanged, output: "Output", label: int, kind: str, place: int | None) -> None:
        super().__init__([text])
        self.output, self.label, self.kind, self.place = output, label, kind, place
        name = output.labels[label] if output.labels else str(label)
        self.about = f"{kind} of {name}" + ("" if place is None else f" at {text.tokens.shown[place]}")

    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        [text], [copies] = self.texts, last
        logits = said(self.output, copies, text.tokens, None if self.place is None else [self.place])
        numbers = self.output.probabilities(logits) if self.kind == "probability" else logits
        return numbers[..., self.label].reshape(len(copies))


class Divergence(Question):
    kind = "divergence"

    def __init__(self, text: Unchanged, output: "Output", places: Sequence[int] | None) -> None:
        super().__init__([text])
        self.output, self.places = output, places
        self.about = f"KL divergence of what {output.kind} are predicted"
        self.before = self.log_probabilities(text.last)

    def log_probabilities(self, copies: Tensor) -> Tensor:
        [text] = self.texts
        return self.output.log_probabilities(said(self.output, copies, text.tokens, self.places))

    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        after = self.log_probabilities(last[0])
        return (self.before.exp() * (self.before - after)).flatten(1).sum(dim=-1)


def said(output: "Output", copies: Tensor, tokens: Tokens, places: Sequence[int] | None) -> Tensor:
    """The logits that an output gives of each copy, float64, of some tokens only where they are a token's."""
    made = output(list(copies), [tokens] * len(copies), places)
    return torch.stack(made).double()


def question(model: Model, text: str, asking: Asking) -> Question:
    """What is asked of this text. Raises RequestError for what the checkpoint can't be asked."""
    [tokens] = model.tokenize([Input(text, asking.pair)], None)
    return Distance([Unchanged.of(model, tokens, asking.mask)])
