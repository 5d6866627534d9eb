"""Questions to a network: numbers computed from its last vectors, to measure the effects of changes to its attention.

    effect = the number with the change - the number without it, in the number's unit

- cosine: of the embeddings of two texts, both under the change, or only the first.
- logit, probability, log-probability (in nats): of one class, of one word at [MASK], of one label at a token, of the
  next token, or of the text that a decoder writes.
- divergence: KL(P ‖ P') = Σ P log(P / P') in nats, with P before and P' after the change, summed over all predictions.
- distance: the distance that the last vectors move, as the mean of ‖x' - x‖ / ‖x‖ over tokens.

`make_question` chooses one of these by the fields of an `Asking` and by the outputs of the checkpoint.
"""

import difflib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.base import choices
from attncli.base.arrays import Doubles
from attncli.base.choices import check_text
from attncli.base.errors import Notice, RequestError
from attncli.base.printable import SPACE, printable, quoted, shorten, visible
from attncli.effects.asking import OPTIONS, Asking, MeasuredOutput
from attncli.effects.change import Change, Unchanged, run_changes
from attncli.models.engine import Engine
from attncli.models.output import SIGMOID, Output
from attncli.models.outputs import embedding_settings, output_of
from attncli.record import Request
from attncli.record.selection import select_token
from attncli.text.tokens import CONTINUED, DecoderInput, EncoderInput, Tokens, mask_positions, unknown_name

_LONGEST = 40  # characters of a written text that a sentence quotes


class RemainingTokens(NamedTuple):
    """A text after some of its tokens were deleted.

    vectors: the last ones, `[token, hidden_size]`. places: the positions of the remaining tokens in the original text.
    """

    vectors: Tensor
    places: Sequence[int]

    def tokens(self, whole: Tokens) -> Tokens:
        """Return the tokens that have vectors."""
        return whole if len(self.places) == len(whole) else whole.take(self.places)


class Question(ABC):
    """A question: a number that is computed from the last vectors of its texts.

    kind: of `choices.QuestionKind`; about: the number in words. protected: positions of the first text at which the
    output is measured, whose tokens can't be deleted.
    """

    kind: str
    about: str
    protected: Sequence[int] = ()

    def __init__(self, texts: Sequence[Unchanged]) -> None:
        self.texts = list(texts)

    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        """Compute `[copy]`, float64, from the last vectors of the copies of each text, `[copy, token, hidden_size]`."""
        return self.after_deletion(_complete(last[0]), *last[1:])

    @abstractmethod
    def after_deletion(self, left: Sequence[RemainingTokens], *others: Tensor) -> Tensor:
        """Compute the number for each item of `left`, after tokens of the first text were deleted, `[left]`, float64.

        A number over all tokens is then over the remaining ones. others: the last vectors of copies of each other text,
        `[copy, token, hidden_size]`; by default those of the unchanged texts.
        """

    @property
    @abstractmethod
    def reads(self) -> Sequence[int]:
        """The positions of the first text whose last vectors the number depends on."""

    @property
    def step(self) -> float:
        """The estimated rounding error of a number of size 1: one unit in the last place per layer."""
        model = self.texts[0].model
        return torch.finfo(model.dtype).eps * model.depth

    @property
    def rounding(self) -> float:
        """The largest effect that rounding explains. Effects up to this size count as 0."""
        return self.step

    @cached_property
    def value(self) -> float:
        """The number without a change."""
        return self.of(self.texts)

    @property
    def answer(self) -> MeasuredOutput:
        """The number without a change, and its description."""
        return MeasuredOutput(self.kind, self.about, self.value, self.texts[0].mask)

    def of(self, texts: Sequence[Unchanged]) -> float:
        """Compute the number without a change, with these texts instead of the first ones."""
        with torch.inference_mode():
            return float(self([text.last for text in [*texts, *self.texts[len(texts) :]]])[0])

    def with_other_text(self, text: Unchanged) -> "Question":
        """Return the same question with another text of equal length instead of the first, at the same positions."""
        other = copy(self)
        for name in ("value", "before"):  # kept from the first text
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
        """Compute the effect of each change separately, `[change]`.

        changed: the texts to change, in place of the question's first texts; by default all of its texts. Each batch
        also has the unchanged texts, because matrix products of another size would round differently. advance: called
        after each change. others: the changes of all texts except the first, by default the same.

        Raises RequestError if a number is not finite.
        """
        changed = self.texts if changed is None else changed
        found = np.empty(len(changes))
        for numbers, last in run_changes(changed, changes, others):
            with torch.inference_mode():
                both = [torch.cat([copies, one.last]) for copies, one in zip(last, changed, strict=True)]
                both += [text.last.expand(len(numbers) + 1, -1, -1) for text in self.texts[len(changed) :]]
                values = self(both)
            if not bool(values.isfinite().all()):
                dtype = self.texts[0].model.dtype_name
                raise RequestError(f"{self.about} overflowed in {dtype}: use --dtype float32")
            found[numbers] = (values[:-1] - values[-1]).cpu().numpy()
            for _ in numbers:
                advance()
        return found


class Distance(Question):
    kind = "distance"
    about = "distance that the last vectors move, as a share of their lengths"

    @property
    def reads(self) -> Sequence[int]:
        return range(len(self.texts[0].tokens.output_tokens))

    def after_deletion(self, left: Sequence[RemainingTokens], *others: Tensor) -> Tensor:
        whole, found = self.texts[0].last[0].double(), []
        for one in left:
            before = whole[list(one.places)]
            found.append(((one.vectors - before).norm(dim=-1) / before.norm(dim=-1)).mean())
        return torch.stack(found)


class Cosine(Question):
    kind = "cosine"
    about = "cosine of the embeddings of the two texts"

    def __init__(self, texts: Sequence[Unchanged], output: Output) -> None:
        super().__init__(texts)
        self.output = output

    @property
    def reads(self) -> Sequence[int]:
        return self.output.places(self.texts[0].tokens.output_tokens)

    def after_deletion(self, left: Sequence[RemainingTokens], *others: Tensor) -> Tensor:
        text, other = self.texts
        [copies] = others or [other.last]
        fixed = _logits_of(self.output, _complete(copies), other.tokens.output_tokens)
        return torch.cosine_similarity(_logits_of(self.output, left, text.tokens.output_tokens), fixed, dim=-1)


class Predicted(Question):
    """A number computed from the prediction for the text, or, with `places`, for some of its tokens."""

    def __init__(self, text: Unchanged, output: Output, places: Sequence[int] | None) -> None:
        super().__init__([text])
        self.output, self.places = output, places

    @property
    def reads(self) -> Sequence[int]:
        return self.output.places(self.texts[0].tokens.output_tokens) if self.places is None else self.places

    @property
    def logits(self) -> Tensor:
        """The logits without a change, `[1, ...]`."""
        return self.logits_of(_complete(self.texts[0].last))

    def logits_of(self, left: Sequence[RemainingTokens]) -> Tensor:
        """Compute the logits at the positions, float64 `[left, ...]`."""
        return _logits_of(self.output, left, self.texts[0].tokens.output_tokens, self.places)


class LabelQuestion(Predicted):
    """The logit or the probability of one label, of the text or of one of its tokens."""

    def __init__(self, text: Unchanged, output: Output, kind: str, label: int, place: int | None) -> None:
        super().__init__(text, output, None if place is None else [place])
        self.kind, self.label = kind, label
        at = "" if place is None else f" at token {place} ({visible(text.tokens.output_tokens.shown[place])})"
        self.label_name = visible(_label_name(text.model, output, label))
        self.about = f"{kind} of {self.label_name}{at}"
        self.protected = self.places or ()

    @property
    def rounding(self) -> float:
        """The rounding of the logit, times P (1 - P) for a probability P."""
        size = _logit_size(self.logits)
        return self.step * size * (self.value * (1 - self.value) if self.kind == "probability" else 1.0)

    def after_deletion(self, left: Sequence[RemainingTokens], *others: Tensor) -> Tensor:
        numbers = self.logits_of(left)
        if self.kind != "logit":
            numbers = _log_probabilities(self.output, numbers)
        if self.kind == "probability":
            numbers = numbers.exp()
        return numbers[..., self.label].flatten()


class TextProbability(Predicted):
    """The probability of a given output text of a decoder: the product over its tokens.

    Or the log-probability in nats, as the mean over its tokens, because the probability of a long text is tiny.
    """

    def __init__(self, text: Unchanged, output: Output, kind: str, labels: Sequence[int]) -> None:
        super().__init__(text, output, range(len(labels)))
        self.kind, self.labels, self.protected = kind, list(labels), range(len(labels))
        names = "".join(
            [*text.tokens.output_tokens.shown[1:], _label_name(text.model, output, self.labels[-1])]
        ).strip()
        of = f"{len(self.labels)} tokens" if kind == "probability" else f"mean of {len(self.labels)} tokens, in nats"
        self.about = f"{kind} of {shorten(names, _LONGEST)} ({of})"

    @property
    def rounding(self) -> float:
        """The rounding of the logits, times N P for a product P of N probabilities."""
        size = _logit_size(self.logits)
        return self.step * size * (len(self.labels) * self.value if self.kind == "probability" else 1.0)

    def after_deletion(self, left: Sequence[RemainingTokens], *others: Tensor) -> Tensor:
        logits = self.logits_of(left)
        labels = torch.tensor(self.labels, device=logits.device).expand(len(logits), -1)[..., None]
        found = logits.log_softmax(dim=-1).gather(-1, labels)[..., 0]
        return found.sum(dim=-1).exp() if self.kind == "probability" else found.mean(dim=-1)


class Divergence(Predicted):
    kind = "divergence"

    def __init__(self, text: Unchanged, output: Output, places: Sequence[int] | None) -> None:
        super().__init__(text, output, places)
        at = "" if places is None else f" at {len(places)} token{'s' if len(places) > 1 else ''}"
        self.about = f"KL divergence of the predicted {output.kind}{at}, in nats"
        words = [place for place, special in enumerate(text.tokens.output_tokens.special) if not special]
        self.protected = () if places is None or list(places) == words else places

    @cached_property
    def before(self) -> Tensor:
        """The prediction without a change."""
        return self.log_probabilities(self.texts[0].last)

    @property
    def rounding(self) -> float:
        """The largest divergence that rounding explains.

        The gradient of a divergence is 0 without a change, so logits that differ by d change it by at most d² / 2.
        """
        logits = self.logits
        return logits[..., 0].numel() * (self.step * _logit_size(logits)) ** 2 / 2

    def log_probabilities(self, copies: Tensor) -> Tensor:
        """Return log P of the prediction of each copy, `[copy, ...]`."""
        return _log_probabilities(self.output, self.logits_of(_complete(copies)))

    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        return _kl_divergence(self.before, self.log_probabilities(last[0]))

    def after_deletion(self, left: Sequence[RemainingTokens], *others: Tensor) -> Tensor:
        text, found = self.texts[0], []
        for one in left:
            places, before = None, self.before
            if self.places is not None:
                places = [place for place in self.places if place in one.places]
                before = before[:, [self.places.index(place) for place in places]]
            elif self.output.kind == "span":  # over the remaining tokens
                before = before[:, list(one.places)].log_softmax(dim=1)
            after = _log_probabilities(self.output, _logits_of(self.output, [one], text.tokens.output_tokens, places))
            found.append(_kl_divergence(before, after))
        return torch.cat(found)


def _label_name(model: Engine, output: Output, label: int) -> str:
    """Return the readable name of a label: " Paris" for "ĠParis" of a vocabulary."""
    if output.kind not in ("next", "words"):
        return output.labels[label]
    [shown] = model.tokenizer.notation.read([output.labels[label]], [False])
    return shown


def _complete(copies: Tensor) -> list[RemainingTokens]:
    """Wrap copies of a text, `[copy, token, hidden_size]`, without deleted tokens."""
    return [RemainingTokens(vectors, range(len(vectors))) for vectors in copies]


def _logits_of(
    output: Output, left: Sequence[RemainingTokens], whole: Tokens, places: Sequence[int] | None = None
) -> Tensor:
    """Compute the logits of texts with deleted tokens, float64 `[left, ...]`.

    places: the tokens to compute them at, by their positions in the full text.
    """
    rows = None if places is None else [[one.places.index(place) for place in places] for one in left]
    return torch.stack(output([one.vectors for one in left], [one.tokens(whole) for one in left], rows)).double()


def _logit_size(logits: Tensor) -> float:
    """Estimate the size of the terms that add up to these logits: twice the largest logit, at least 2."""
    return 2 * max(1.0, float(logits.abs().max()))


def _kl_divergence(before: Tensor, after: Tensor) -> Tensor:
    """Compute KL(P ‖ P') from log P and log P', `[copy, ...]` -> `[copy]`, summed over all predictions."""
    return (before.exp() * (before - after)).flatten(1).sum(dim=-1)


def _log_probabilities(output: Output, logits: Tensor) -> Tensor:
    """Return log P of every label `[copy, ...]`; with a sigmoid, of the label and of its opposite, `[..., 2]`."""
    if output.function == SIGMOID:
        return F.logsigmoid(torch.stack([logits, -logits], dim=-1))
    return logits.log_softmax(dim=1 if output.kind == "span" else -1)


# --- choosing the question ------------------------------------------------------------------------------

_ONE = ("logit", "probability", "log-probability")  # of one label
_WORD_BEGINS = ("Ġ", "▁")  # prefixes of words after a space in vocabularies
_NAMED = 5  # labels in an error


def make_question(
    model: Engine, text: str, asking: Asking = Asking(), quiet: bool = False, request: Request | None = None
) -> Question:
    """Choose the output to measure.

    It is the cosine if there is another text, the probability of the target if one is named, the divergence if the
    checkpoint predicts something, and the distance otherwise. quiet: give no Notice of the target's token. request: the
    maps of the text to keep (`Unchanged.record`), and whether the text contains its special tokens.

    Raises RequestError for an output that the checkpoint does not have, and as `Tokenizer.encode` does.
    """
    check_text("a text", text)
    if asking.ask is not None:
        choices.check("question", asking.ask, choices.QuestionKind)
    marked = request is not None and request.grouping.marked
    own = model.tokenizer.encode_marked(text) if marked else model.tokenizer.encode(text, asking.pair)
    tokens = model.ready(own, asking.target, answer=True)
    output = _select_output(model, tokens, asking)
    kind = asking.ask or _usual_kind(
        output, asking, several=isinstance(tokens, EncoderInput | DecoderInput) and len(tokens.labels) > 1
    )
    _check_fields(kind, asking)
    if kind == "cosine" and output is not None and asking.similar_to is not None:
        manner = embedding_settings(model.place.path, model.tokenizer.max_tokens)
        first, second = (manner.tokens(model.tokenizer, one) for one in (text, asking.similar_to))
        asked = Unchanged.of(model, first, asking.mask, request=request)
        return Cosine([asked, Unchanged.of(model, second, asking.mask)], output)
    one = Unchanged.of(model, tokens, asking.mask, request=request)
    if output is None:
        return Distance([one])
    if output.function is None and kind != "logit":
        raise RequestError(f"{model.place.name} predicts a number, not labels: measure its logit (--ask logit)")
    if kind == "divergence":
        return Divergence(one, output, _select_places(model, output, tokens, asking.at))
    if isinstance(tokens, EncoderInput | DecoderInput):
        if asking.at is None and len(tokens.labels) > 1:
            if kind == "logit":
                raise RequestError(
                    f"a logit belongs to one token, and {len(tokens.labels)} are written: name one with --at TOKEN"
                )
            return TextProbability(one, output, kind, tokens.labels)
        place = 0 if asking.at is None else select_token(asking.at, tokens.output_tokens)
        return LabelQuestion(one, output, kind, tokens.labels[place], place)
    return _label_question(one, output, kind, asking, quiet)


def _select_output(model: Engine, tokens: Tokens, asking: Asking) -> Output | None:
    """Return the requested output; None for the last vectors. Raises RequestError if there is none."""
    if asking.ask == "distance":
        return None
    if asking.similar_to is not None or asking.ask == "cosine":
        return output_of(model, "embedding")[1]
    if asking.task is not None:
        named = output_of(model, asking.task)[1]
        if named.kind == "words" and asking.at is None and not mask_positions(tokens):
            raise RequestError(
                f"{model.place.name} predicts the word at [MASK], and there is none in this text: write one, or name a "
                "token with --at"
            )
        return named
    predicting = {name: output for name, output in model.outputs().items() if output.kind != "embedding"}
    for output in predicting.values():
        if output.kind != "words" or asking.at is not None or mask_positions(tokens):
            return output
    if asking.ask is None and asking.target is None and asking.at is None:
        return None
    why = "it predicts only the word at [MASK]" if predicting else "its files have no output head"
    raise RequestError(f"{model.place.name} predicts nothing for this text ({why}): use --ask distance")


def _usual_kind(output: Output | None, asking: Asking, several: bool) -> str:
    """Return the default kind of a question. several: whether a decoder writes several tokens."""
    if output is None:
        return "distance"
    if output.kind == "embedding":
        return "cosine"
    if output.function is None:
        return "logit"
    if output.kind == "next":
        return "log-probability" if several and asking.at is None else "probability"
    return "divergence" if asking.target is None else "probability"


def _check_fields(kind: str, asking: Asking) -> None:
    """Raises RequestError for fields that belong to questions of another kind, and for missing ones."""
    predicted = (*_ONE, "divergence")
    takes = {"similar_to": ("cosine",), "target": _ONE, "at": predicted, "task": predicted}
    takes["pair"] = (*predicted, "distance")
    for name, kinds in takes.items():
        if getattr(asking, name) is not None and kind not in kinds:
            raise RequestError(f"{OPTIONS[name]} has no effect on the {kind}: omit it")
    if kind == "cosine" and asking.similar_to is None:
        raise RequestError("a cosine needs two texts: add the second with --similar-to")


def _select_places(model: Engine, output: Output, tokens: Tokens, at: str | None) -> list[int] | None:
    """Return the tokens whose labels are measured: the named one, or all [MASK], or all that are not special.

    None for an output that has one label per text. Raises RequestError if a token is named for such an output.
    """
    if output.kind not in ("words", "tokens", "next"):
        if at is not None:
            raise RequestError(f"--at names a token, but {output.kind} are predicted for the whole text: omit it")
        return None
    if at is not None:
        return [select_token(at, tokens.output_tokens)]
    if output.kind == "words":
        return mask_positions(tokens)
    if output.kind == "next":
        return tokens.output_tokens.real[-1:]
    return [place for place, special in enumerate(tokens.special) if not special]


def _label_question(text: Unchanged, output: Output, kind: str, asking: Asking, quiet: bool) -> LabelQuestion:
    """Return the question for one label of an output.

    Raises RequestError for an unknown or a missing label or token.
    """
    if output.kind == "span":
        raise RequestError("the position of an answer has no label: use --ask divergence")
    places = _select_places(text.model, output, text.tokens, asking.at)
    if places is not None and len(places) != 1:
        raise RequestError(f"{output.kind} are predicted at {len(places)} tokens: choose one with --at TOKEN")
    if output.kind in ("next", "words") and asking.target is None:
        [likeliest] = _logits_of(output, _complete(text.last), text.tokens, places)[0].argmax(dim=-1).tolist()
        return LabelQuestion(text, output, kind, likeliest, places[0] if places else None)
    label = _label_number(text.model, output, asking.target, quiet)
    return LabelQuestion(text, output, kind, label, None if places is None else places[0])


def _label_number(model: Engine, output: Output, name: str | None, quiet: bool) -> int:
    """Return the index of a label by its name, or by a word of a vocabulary. Case counts only if names differ by case.

    If a vocabulary has a word both with and without a leading space, the first is used, and a Notice offers the other:
    "␣ix" names the one, "##ix" the other.

    Raises RequestError for an unknown label, naming similar ones; for a word of several tokens; and without a name if
    there are several labels.
    """
    labels = output.labels
    if name is None:
        if len(labels) == 1:
            return 0
        raise RequestError(f"no label given: name one with --target: {', '.join(map(printable, labels[:_NAMED]))}")
    vocabulary, bare = output.kind in ("next", "words"), name.lstrip(f" {SPACE}")
    spelled = [*(begin + bare for begin in _WORD_BEGINS if vocabulary), name]
    if vocabulary and name.startswith(CONTINUED) and name not in labels:
        spelled = [name.removeprefix(CONTINUED)]
    exact = [labels.index(one) for one in spelled if one in labels]
    folded = [] if exact else [label.casefold() for label in labels]
    found = exact or [folded.index(one) for one in map(str.casefold, spelled) if folded.count(one) == 1]
    if not found:
        near = difflib.get_close_matches(name, labels, n=_NAMED) or labels[:_NAMED]
        if vocabulary:
            word = model.tokenizer.encode(f" {bare}" if model.tokenizer.notation.of_bytes else bare)
            pieces = [visible(shown) for shown, added in zip(word.shown, word.special, strict=True) if not added]
            if len(pieces) > 1 and not any(map(unknown_name, word.shown)):
                raise RequestError(
                    f"{quoted(name)} is {len(pieces)} tokens ({', '.join(pieces)}): --target names one token"
                )
        raise RequestError(f"there is no label {quoted(name)}: use one such as {', '.join(map(printable, near))}")
    if vocabulary and not quiet and (len(found) > 1 or not exact):
        taken = visible(_label_name(model, output, found[0]))
        other = f"; write {CONTINUED}{bare} for the one without a space" if len(found) > 1 else ""
        warnings.warn(f"--target {quoted(name)} is the token {taken}{other}", Notice, stacklevel=2)
    return found[0]
