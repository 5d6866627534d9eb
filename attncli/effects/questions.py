"""What is asked at a network's end: one number of its last vectors, so that a change has an effect.

    effect = the number with the change - the number without it, in the number's own unit

- cosine: of the embeddings of two texts, both under the change, or the first alone.
- logit, probability, log-probability (in nats): of one class, of one word at [MASK], of one label at a token, of the
  next token, or of what a decoder writes.
- divergence: KL(P ‖ P') = Σ P log(P / P') in nats, P without and P' with the change; summed over what is predicted.
- distance: how far the last vectors move, mean over tokens of ‖x' - x‖ / ‖x‖.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.base.arrays import Doubles
from attncli.base.errors import RequestError
from attncli.base.printable import shorten, visible
from attncli.effects.changes import Change
from attncli.effects.copies import Unchanged, under
from attncli.models.output import SIGMOID, Output
from attncli.text.tokens import Tokens

LONGEST = 40  # characters of what is written, in a sentence


class Left(NamedTuple):
    """What is left of a text some of whose tokens were erased: the last vectors, `[token, hidden_size]`, and the places
    that its tokens have in the whole text. deleted: whether the others are gone; else something stands in their place.
    """

    vectors: Tensor
    places: Sequence[int]
    deleted: bool

    def tokens(self, whole: Tokens) -> Tokens:
        """Those that there are vectors of."""
        return whole.take(self.places) if self.deleted else whole

    def row(self, place: int) -> int:
        """Where the vector of one of these tokens stands now."""
        return self.places.index(place) if self.deleted else place


class Question(ABC):
    """A number of the last vectors of its texts.

    kind: of `choices.Asked`; about: what is asked, in words. held: places of the first text's tokens at which it is
    asked, which can't be erased.
    """

    kind: str
    about: str
    held: Sequence[int] = ()

    def __init__(self, texts: Sequence[Unchanged]) -> None:
        self.texts = list(texts)

    @abstractmethod
    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        """The last vectors of each text's copies, `[copy, token, hidden_size]` each -> `[copy]`, float64."""

    @abstractmethod
    def of_left(self, left: Sequence[Left]) -> Tensor:
        """The number where tokens of the first text were erased, `[left]`, float64. What is asked of every token is
        asked of those that are left.
        """

    @property
    @abstractmethod
    def reads(self) -> Sequence[int]:
        """The places of the first text's tokens whose last vectors have a part in the number."""

    @property
    def step(self) -> float:
        """Estimate the rounding of a number of size 1: each layer rounds by one unit in the last place."""
        model = self.texts[0].model
        return torch.finfo(model.dtype).eps * model.depth

    @property
    def rounding(self) -> float:
        """The largest effect that rounding explains; an effect of this size or less counts as 0."""
        return self.step

    @cached_property
    def value(self) -> float:
        """Without any change."""
        return self.of(self.texts)

    def of(self, texts: Sequence[Unchanged]) -> float:
        """Of these texts, in place of the first of its own, without any change."""
        with torch.inference_mode():
            return float(self([text.last for text in [*texts, *self.texts[len(texts) :]]])[0])

    def of_another(self, text: Unchanged) -> "Question":
        """Ask the same of another text of as many tokens in place of the first, at the same places."""
        other = copy(self)
        for name in ("value", "before"):  # what is kept of the first text
            vars(other).pop(name, None)
        other.texts = [text, *self.texts[1:]]
        return other

    def effects(
        self,
        changes: Sequence[Change],
        changed: Sequence[Unchanged] | None = None,
        advance: Callable[[], None] = lambda: None,
        others: Sequence[Change] | None = None,
    ) -> Doubles:
        """The effect of each change by itself, `[change]`.

        changed: the texts under the changes, in place of the first of its own; without it all of these. Others stay as
        they are. What is unchanged is asked beside them: in a product of other size it might be rounded to another
        number. advance: is called for each change that was made. others: the changes of all texts but the first, in
        place of the same ones.

        Raises RequestError where it is no number.
        """
        changed = self.texts if changed is None else changed
        found = np.empty(len(changes))
        for numbers, last in under(changed, changes, others):
            with torch.inference_mode():
                both = [torch.cat([copies, one.last]) for copies, one in zip(last, changed, strict=True)]
                both += [text.last.expand(len(numbers) + 1, -1, -1) for text in self.texts[len(changed) :]]
                asked = self(both)
            self.check_finite(asked)
            found[numbers] = (asked[:-1] - asked[-1]).cpu().numpy()
            for _ in numbers:
                advance()
        return found

    def check_finite(self, asked: Tensor) -> None:
        """Raises RequestError where an answer is no number."""
        if not bool(asked.isfinite().all()):
            model = self.texts[0].model
            raise RequestError(f"{self.about} is no number in {model.dtype_name}: another --dtype has more room")


class Distance(Question):
    kind = "distance"
    about = "how far the last vectors move, as a share of their lengths"

    @property
    def reads(self) -> Sequence[int]:
        return range(len(self.texts[0].tokens.spoken))

    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        [text], [vectors] = self.texts, last
        moved = (vectors - text.last).double().norm(dim=-1) / text.last.double().norm(dim=-1)
        return moved.mean(dim=-1)

    def of_left(self, left: Sequence[Left]) -> Tensor:
        whole, found = self.texts[0].last[0].double(), []
        for one in left:
            vectors, before = one.vectors[[one.row(place) for place in one.places]], whole[list(one.places)]
            found.append(((vectors - before).norm(dim=-1) / before.norm(dim=-1)).mean())
        return torch.stack(found)


class Cosine(Question):
    kind = "cosine"
    about = "cosine of the embeddings of the two texts"

    def __init__(self, texts: Sequence[Unchanged], output: Output) -> None:
        super().__init__(texts)
        self.output = output

    @property
    def reads(self) -> Sequence[int]:
        return self.output.places(self.texts[0].tokens.spoken)

    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        one, other = (
            said(self.output, copies, text.tokens.spoken) for text, copies in zip(self.texts, last, strict=True)
        )
        return torch.cosine_similarity(one, other, dim=-1)

    def of_left(self, left: Sequence[Left]) -> Tensor:
        text, other = self.texts
        fixed = said(self.output, other.last, other.tokens)
        return torch.cosine_similarity(said_of_left(self.output, left, text.tokens.spoken), fixed, dim=-1)


class Target(Question):
    """The logit or the probability of one label: of the text, or of a token of it where each has labels."""

    def __init__(self, text: Unchanged, output: Output, kind: str, label: int, place: int | None) -> None:
        super().__init__([text])
        self.output, self.kind, self.label, self.place = output, kind, label, place
        at = "" if place is None else f" at token {place} ({visible(text.tokens.spoken.shown[place])})"
        self.about = f"{kind} of {visible(label_name(text, output, label))}{at}"
        self.held = () if place is None else (place,)

    @property
    def reads(self) -> Sequence[int]:
        return self.output.places(self.texts[0].tokens.spoken) if self.place is None else [self.place]

    @property
    def rounding(self) -> float:
        """That of the logit; a probability P changes by P (1 - P) times as much."""
        text = self.texts[0]
        size = size_of(said(self.output, text.last, text.tokens.spoken, self.held or None))
        return self.step * size * (self.value * (1 - self.value) if self.kind == "probability" else 1.0)

    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        [text], [copies] = self.texts, last
        return self.of_logits(
            said(self.output, copies, text.tokens.spoken, None if self.place is None else [self.place])
        )

    def of_left(self, left: Sequence[Left]) -> Tensor:
        return self.of_logits(said_of_left(self.output, left, self.texts[0].tokens.spoken, self.held or None))

    def of_logits(self, logits: Tensor) -> Tensor:
        numbers = logits
        if self.kind != "logit":
            numbers = log_probabilities(self.output, logits)
        if self.kind == "probability":
            numbers = numbers.exp()
        return numbers[..., self.label].flatten()


class Written(Question):
    """The probability of what an encoder-decoder's decoder is made to write: the product over its tokens.

    Or the log-probability, log P in nats, as the mean over its tokens: what is long is hardly ever probable.
    """

    def __init__(self, text: Unchanged, output: Output, kind: str, labels: Sequence[int]) -> None:
        super().__init__([text])
        self.output, self.kind, self.labels = output, kind, list(labels)
        self.held = range(len(self.labels))
        names = "".join([*text.tokens.spoken.shown[1:], label_name(text, output, self.labels[-1])]).strip()
        of = f"{len(self.labels)} tokens" if kind == "probability" else f"mean of {len(self.labels)} tokens, in nats"
        self.about = f"{kind} of {shorten(names, LONGEST)} ({of})"

    @property
    def reads(self) -> Sequence[int]:
        return self.held

    @property
    def rounding(self) -> float:
        """That of the logits; a product of N probabilities P changes by N P times as much."""
        text = self.texts[0]
        size = size_of(said(self.output, text.last, text.tokens.spoken))
        return self.step * size * (len(self.labels) * self.value if self.kind == "probability" else 1.0)

    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        [text], [copies] = self.texts, last
        return self.of_logits(said(self.output, copies, text.tokens.spoken))

    def of_left(self, left: Sequence[Left]) -> Tensor:
        return self.of_logits(said_of_left(self.output, left, self.texts[0].tokens.spoken, self.held))

    def of_logits(self, logits: Tensor) -> Tensor:
        labels = torch.tensor(self.labels, device=logits.device).expand(len(logits), -1)[..., None]
        found = logits.log_softmax(dim=-1).gather(-1, labels)[..., 0]
        return found.sum(dim=-1).exp() if self.kind == "probability" else found.mean(dim=-1)


class Divergence(Question):
    kind = "divergence"

    def __init__(self, text: Unchanged, output: Output, places: Sequence[int] | None) -> None:
        super().__init__([text])
        self.output, self.places = output, places
        at = "" if places is None else f" at {len(places)} token{'s' if len(places) > 1 else ''}"
        self.about = f"KL divergence of the predicted {output.kind}{at}, in nats"
        words = [place for place, special in enumerate(text.tokens.spoken.special) if not special]
        self.held = () if places is None or list(places) == words else places

    @cached_property
    def before(self) -> Tensor:
        """What is predicted without any change."""
        return self.log_probabilities(self.texts[0].last)

    @property
    def reads(self) -> Sequence[int]:
        return self.output.places(self.texts[0].tokens.spoken) if self.places is None else self.places

    @property
    def rounding(self) -> float:
        """A divergence is flat where nothing changes: logits that differ by d change it by d² / 2 at most."""
        text = self.texts[0]
        logits = said(self.output, text.last, text.tokens.spoken, self.places)
        return logits[..., 0].numel() * (self.step * size_of(logits)) ** 2 / 2

    def log_probabilities(self, copies: Tensor) -> Tensor:
        """`[copy, ...]`"""
        return log_probabilities(self.output, said(self.output, copies, self.texts[0].tokens.spoken, self.places))

    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        return apart(self.before, self.log_probabilities(last[0]))

    def of_left(self, left: Sequence[Left]) -> Tensor:
        text, found = self.texts[0], []
        for one in left:
            places = None if self.places is None else [place for place in self.places if place in one.places]
            after = log_probabilities(self.output, said_of_left(self.output, [one], text.tokens.spoken, places))
            found.append(apart(self.before_at(one, places), after))
        return torch.cat(found)

    def before_at(self, left: Left, places: Sequence[int] | None) -> Tensor:
        """What was predicted of the same: at these places, or, of a span, of the tokens that are left."""
        if places is not None:
            assert self.places is not None
            return self.before[:, [self.places.index(place) for place in places]]
        if self.output.kind != "span":
            return self.before
        before = self.before[:, list(left.places)] if left.deleted else self.before
        return before.log_softmax(dim=1)


def label_name(text: Unchanged, output: Output, label: int) -> str:
    """Return the name of a label as a reader sees it: " Paris" for "ĠParis" of a vocabulary."""
    if output.kind != "next":
        return output.labels[label]
    [shown] = text.model.tokenizer.notation.read([output.labels[label]], [False])
    return shown


def said(output: Output, copies: Tensor, tokens: Tokens, places: Sequence[int] | None = None) -> Tensor:
    """The logits that an output gives of each copy, float64 `[copy, ...]`; of some tokens only where each has some."""
    rows = None if places is None else [places] * len(copies)
    return torch.stack(output(list(copies), [tokens] * len(copies), rows)).double()


def said_of_left(output: Output, left: Sequence[Left], whole: Tokens, places: Sequence[int] | None = None) -> Tensor:
    """The same of texts some of whose tokens were erased, `[left, ...]`."""
    rows = None if places is None else [[one.row(place) for place in places] for one in left]
    return torch.stack(output([one.vectors for one in left], [one.tokens(whole) for one in left], rows)).double()


def size_of(logits: Tensor) -> float:
    """Estimate the size of the terms whose sums are these logits: twice the largest logit, and at least 2."""
    return 2 * max(1.0, float(logits.abs().max()))


def apart(before: Tensor, after: Tensor) -> Tensor:
    """KL(P ‖ P') from log P and log P', `[copy, ...]` -> `[copy]`, summed over what is predicted."""
    return (before.exp() * (before - after)).flatten(1).sum(dim=-1)


def log_probabilities(output: Output, logits: Tensor) -> Tensor:
    """log P of every label `[copy, ...]`; where each may be right (sigmoid), of it and of its contrary `[..., 2]`."""
    if output.function == SIGMOID:
        return F.logsigmoid(torch.stack([logits, -logits], dim=-1))
    return logits.log_softmax(dim=1 if output.kind == "span" else -1)
