"""What is asked at a network's end: one number of its last vectors, so that a change has an effect.

    effect = the number with the change - the number without it, in the number's own unit

- cosine: of the embeddings of two texts, both under the change.
- logit, probability: of one class, of one word at [MASK], or of one label at a token.
- divergence: KL(P ‖ P') = Σ P log(P / P') in nats, P without and P' with the change; summed over what is predicted.
- distance: how far the last vectors move, mean over tokens of ‖x' - x‖ / ‖x‖.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor

from attncli.effects.changes import Change
from attncli.effects.copies import Unchanged, under
from attncli.models.outputs.output import SIGMOID, Output
from attncli.text.tokens import Tokens


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
        return float(self([text.last for text in self.texts])[0])

    def effects(self, changes: Sequence[Change]) -> Iterator[tuple[list[int], Tensor]]:
        """The numbers of some changes and their effects, until all were told.

        What is unchanged is asked beside them: in a product of other size it might be rounded to another number.
        """
        for numbers, last in under(self.texts, changes):
            with torch.inference_mode():
                both = self([torch.cat([copies, one.last]) for copies, one in zip(last, self.texts, strict=True)])
                yield numbers, both[:-1] - both[-1]


class Distance(Question):
    kind = "distance"
    about = "how far the last vectors move, as a share of their lengths"

    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        [text], [vectors] = self.texts, last
        moved = (vectors - text.last).double().norm(dim=-1) / text.last.double().norm(dim=-1)
        return moved.mean(dim=-1)


class Cosine(Question):
    kind = "cosine"
    about = "cosine of the embeddings of the two texts"

    def __init__(self, texts: Sequence[Unchanged], output: Output) -> None:
        super().__init__(texts)
        self.output = output

    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        one, other = (said(self.output, copies, text.tokens) for text, copies in zip(self.texts, last, strict=True))
        return torch.cosine_similarity(one, other, dim=-1)


class Target(Question):
    """The logit or the probability of one label: of the text, or of a token of it where each has labels."""

    def __init__(self, text: Unchanged, output: Output, kind: str, label: int, place: int | None) -> None:
        super().__init__([text])
        self.output, self.kind, self.label, self.place = output, kind, label, place
        at = "" if place is None else f" at token {place} ({text.tokens.shown[place]})"
        self.about = f"{kind} of {output.labels[label]}{at}"

    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        [text], [copies] = self.texts, last
        logits = said(self.output, copies, text.tokens, None if self.place is None else [self.place])
        numbers = logits if self.kind == "logit" else log_probabilities(self.output, logits).exp()
        return numbers[..., self.label].flatten()


class Divergence(Question):
    kind = "divergence"

    def __init__(self, text: Unchanged, output: Output, places: Sequence[int] | None) -> None:
        super().__init__([text])
        self.output, self.places = output, places
        at = "" if places is None else f" at {len(places)} token{'s' if len(places) > 1 else ''}"
        self.about = f"KL divergence of the predicted {output.kind}{at}, in nats"
        self.before = self.log_probabilities(text.last)

    def log_probabilities(self, copies: Tensor) -> Tensor:
        """`[copy, ...]`"""
        return log_probabilities(self.output, said(self.output, copies, self.texts[0].tokens, self.places))

    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        apart = self.before.exp() * (self.before - self.log_probabilities(last[0]))
        return apart.nan_to_num(0.0).flatten(1).sum(dim=-1)  # 0 log 0 is 0


def said(output: Output, copies: Tensor, tokens: Tokens, places: Sequence[int] | None = None) -> Tensor:
    """The logits that an output gives of each copy, float64 `[copy, ...]`; of some tokens only where each has some."""
    rows = None if places is None else [places] * len(copies)
    return torch.stack(output(list(copies), [tokens] * len(copies), rows)).double()


def log_probabilities(output: Output, logits: Tensor) -> Tensor:
    """log P of every label `[copy, ...]`; where each may be right (sigmoid), of it and of its contrary `[..., 2]`."""
    if output.function == SIGMOID:
        return torch.stack([logits, -logits], dim=-1).sigmoid().log()
    return logits.log_softmax(dim=1 if output.kind == "span" else -1)
