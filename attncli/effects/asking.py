"""Which question is meant: of which of a checkpoint's outputs, at which token, for which label."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, fields

from attncli.base import choices
from attncli.base.arguments import check_instance, check_optional_text, check_text
from attncli.base.errors import RequestError
from attncli.base.printable import SPACE, printable, quoted
from attncli.effects.copies import Unchanged
from attncli.effects.questions import Cosine, Distance, Divergence, Question, Target, Written, said
from attncli.models.output import Output
from attncli.models.outputs import last_real, manner_of, masked, output_of
from attncli.models.tapped import TappedModel
from attncli.record.selection import select_token
from attncli.text.tokens import Fed, Read, Tokens

ONE = ("logit", "probability", "log-probability")  # of one label
WRITTEN = {
    "pair": "--pair", "similar_to": "--similar-to", "target": "--target", "at": "--at", "kind": "--ask",
    "output": "--task", "mask": "--mask", "which": "--which",
}  # fmt: skip
WORD_BEGINS = ("Ġ", "▁")  # how vocabularies write a word that stands after a space
NAMED = 5  # labels in an error


@dataclass(frozen=True)
class Asking:
    """What to ask of a text.

    pair: its second segment. similar_to: another text, for the cosine of the two. target: a class, a word for [MASK],
    the token that comes next, what an encoder-decoder is to write, or the label of the token `at`. kind: of
    `choices.Asked`; by default what the rest leads to. output: the name of the one of a checkpoint's outputs, where it
    has several. mask: of `choices.Mask`; None is what the network was trained with. which: of an encoder-decoder the
    attention that is looked into, "encoder", "decoder" or "cross" (the default).
    """

    pair: str | None = None
    similar_to: str | None = None
    target: str | None = None
    at: str | None = None
    kind: str | None = None
    output: str | None = None
    mask: str | None = None
    which: str | None = None

    def __post_init__(self) -> None:
        """Raises TypeError for what is no text."""
        for field in fields(self):
            check_optional_text(field.name, getattr(self, field.name))
        if self.which is not None:
            choices.check("part", self.which, choices.Kind)


def merge_asking(asking: Asking | None, **named: str | None) -> Asking:
    """Return what to ask, as an `Asking` or by the names of its fields. Raises TypeError for both at once."""
    if asking is None:
        return Asking(**named)  # type: ignore[arg-type]  # only mask has no None
    check_instance("asking", asking, Asking, "give an attncli.Asking, or its fields by name, as in similar_to=...")
    usual = Asking()
    for name, value in named.items():
        if value != getattr(usual, name):
            raise TypeError(f"{name} is a field of asking too: give asking=... or {name}=..., not both")
    return asking


def question(model: TappedModel, text: str, asking: Asking = Asking()) -> Question:
    """What is asked of a text: the cosine where there is another one, the probability of a target where one is named,
    the divergence of what is predicted where something is, else the distance.

    Raises RequestError for what the checkpoint can't be asked, and as `Tokenizer.encode` does.
    """
    check_text("a text", text)
    if asking.kind is not None:
        choices.check("question", asking.kind, choices.Asked)
    tokens = model.with_answer(model.tokenizer.encode(text, asking.pair), asking.target)
    output = output_asked(model, tokens, asking)
    kind = asking.kind or usual_kind(output, asking, several=isinstance(tokens, Read | Fed) and len(tokens.goal) > 1)
    check_fitting(kind, asking)
    if kind == "cosine" and output is not None and asking.similar_to is not None:
        manner = manner_of(model.place.path, model.tokenizer.max_tokens)
        both = (manner.tokens(model.tokenizer, one) for one in (text, asking.similar_to))
        return Cosine([Unchanged.of(model, one, asking.mask) for one in both], output)
    one = Unchanged.of(model, tokens, asking.mask)
    if output is None:
        return Distance([one])
    if output.function is None and kind != "logit":
        raise RequestError(f"{model.place.name} predicts a number, not labels: what can be asked is its logit")
    if kind == "divergence":
        return Divergence(one, output, places_asked(model, output, tokens, asking.at))
    if isinstance(tokens, Read | Fed):
        return written(one, output, kind, tokens.goal, asking.at)
    return target(one, output, kind, asking)


def written(text: Unchanged, output: Output, kind: str, goal: Sequence[int], at: str | None) -> Question:
    """All that an encoder-decoder's decoder is made to write, or one token of it. Raises RequestError for its logit."""
    if at is None and len(goal) > 1:
        if kind == "logit":
            raise RequestError(f"a logit is of one token, and {len(goal)} are written: name one with --at TOKEN")
        return Written(text, output, kind, goal)
    place = 0 if at is None else select_token(at, text.tokens.spoken)
    return Target(text, output, kind, goal[place], place)


def output_asked(model: TappedModel, tokens: Tokens, asking: Asking) -> Output | None:
    """Which of the checkpoint's outputs is meant; None where its last vectors are. Raises RequestError for none."""
    if asking.kind == "distance":
        return None
    if asking.similar_to is not None or asking.kind == "cosine":
        return output_of(model, "embedding")[1]
    if asking.output is not None:
        named = output_of(model, asking.output)[1]
        if named.kind == "words" and asking.at is None and not masked(tokens):
            raise RequestError(
                f"{model.place.name} predicts the word at [MASK], and there is none in this text: write one, or name a "
                "token with --at"
            )
        return named
    predicting = {name: output for name, output in model.outputs().items() if output.kind != "embedding"}
    for output in predicting.values():
        if output.kind != "words" or asking.at is not None or masked(tokens):
            return output
    if asking.kind is None and asking.target is None and asking.at is None:
        return None
    why = "what it predicts is the word at [MASK]" if predicting else "its files have no head for that"
    raise RequestError(f"{model.place.name} predicts nothing of this text ({why}): ask for the distance")


def usual_kind(output: Output | None, asking: Asking, several: bool) -> str:
    """What is meant where nothing is said of it. several: whether a decoder writes several tokens."""
    if output is None:
        return "distance"
    if output.kind == "embedding":
        return "cosine"
    if output.function is None:
        return "logit"
    if output.kind == "next":
        return "log-probability" if several and asking.at is None else "probability"
    return "divergence" if asking.target is None else "probability"


def check_fitting(kind: str, asking: Asking) -> None:
    """Raises RequestError for what says something of another question, and for what is missing of this one."""
    predicted = (*ONE, "divergence")
    takes = {"similar_to": ("cosine",), "target": ONE, "at": predicted, "output": predicted}
    takes["pair"] = (*predicted, "distance")
    for name, kinds in takes.items():
        if getattr(asking, name) is not None and kind not in kinds:
            raise RequestError(f"{WRITTEN[name]} has no part in the {kind}: leave it out")
    if kind == "cosine" and asking.similar_to is None:
        raise RequestError("a cosine is of two texts: name the other one with --similar-to")


def places_asked(model: TappedModel, output: Output, tokens: Tokens, at: str | None) -> list[int] | None:
    """The tokens whose labels are asked for: the one that is named, else all [MASK], or all that are of the text; None
    where an output says one thing of a text. Raises RequestError where a token is named then.
    """
    if output.kind not in ("words", "tokens", "next"):
        if at is not None:
            raise RequestError(f"--at names a token, and {output.kind} are of the text: leave it out")
        return None
    if at is not None:
        return [select_token(at, tokens.spoken)]
    if output.kind == "words":
        return masked(tokens)
    if output.kind == "next":
        return last_real(tokens.spoken)
    return [place for place, special in enumerate(tokens.special) if not special]


def target(text: Unchanged, output: Output, kind: str, asking: Asking) -> Target:
    """One label of an output. Raises RequestError for a label or a token that is not there, or not named."""
    if output.kind == "span":
        raise RequestError("an answer's place has no label: ask for the divergence")
    places = places_asked(text.model, output, text.tokens, asking.at)
    if places is not None and len(places) != 1:
        raise RequestError(f"{output.kind} are predicted at {len(places)} tokens: say at which one (--at TOKEN)")
    if output.kind == "next" and asking.target is None:
        [likeliest] = said(output, text.last, text.tokens, places)[0].argmax(dim=-1).tolist()
        return Target(text, output, kind, likeliest, places[0] if places else None)
    return Target(text, output, kind, label_asked(output, asking.target), None if places is None else places[0])


def label_asked(output: Output, name: str | None) -> int:
    """The number of a label: by its name, in any capitals where no other one is meant, or as a word of a vocabulary.

    Raises RequestError, which names labels like it, for another one, and for none where there are several.
    """
    labels = output.labels
    if name is None:
        if len(labels) == 1:
            return 0
        raise RequestError(f"of which label? Name it with --target: {', '.join(map(printable, labels[:NAMED]))}")
    begun = [begin + name.lstrip(f" {SPACE}") for begin in WORD_BEGINS]
    for spelled in [*begun, name] if output.kind == "next" else [name, *begun]:
        if spelled in labels:
            return labels.index(spelled)
    alike = [number for number, label in enumerate(labels) if label.casefold() == name.casefold()]
    if len(alike) == 1:
        return alike[0]
    near = difflib.get_close_matches(name, labels, n=NAMED) or labels[:NAMED]
    raise RequestError(f"no label {quoted(name)}: there is {', '.join(map(printable, near))}")
