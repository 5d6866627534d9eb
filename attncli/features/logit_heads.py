"""Rank heads by what they add to the logit of a token, with the effect of silencing them: `attncli find --by logit`.

One run gives what all heads add, but each effect takes a run from its layer on. So the terminal measures the effects of
the listed heads only, and a document those of all heads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from attncli.base.arrays import titled
from attncli.base.errors import RequestError
from attncli.base.progress import progress
from attncli.effects.asking import Asking, describe_direction
from attncli.features.inputs import SavedRecords, Texts, check_one, open_tappable
from attncli.features.measure import no_effect
from attncli.record.display import model_shown
from attncli.report import Column, NextCommand, Report, Result, Table, TextLine
from attncli.report.parts import signed

if TYPE_CHECKING:
    from attncli.effects.question import LabelQuestion

Head = tuple[int, int]  # (layer, head)
ADDS = (
    "adds: what the head's output adds to the logit directly, through the residual connection to the output head, with "
    "the scales of norms frozen. Its effect through later layers is only in the effect of silencing it. A head that is "
    "not listed may have a larger effect: --json has the effects of all"
)
REST = "the rest of the logit comes from embeddings, feed-forward parts and biases"


@dataclass(frozen=True, repr=False)
class LogitHeads(Result):
    """Heads ordered by what they add to a logit.

    adds: by (layer, head), the largest first. text: the text, if it was given. listed: the number of heads that the
    terminal lists. look: the options of `explain` for this logit. known: the effects that were measured.
    """

    question: "LabelQuestion"
    adds: Mapping[Head, float]
    text: str | None
    listed: int
    look: Mapping[str, Any]
    known: dict[Head, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        return titled(self, self.question.texts[0].model.info.full_name, str(self.question.answer))

    def effects(self, heads: Sequence[Head]) -> list[float]:
        """Return the logit without each of these heads, minus the logit with it."""
        from attncli.effects.change import silence

        missing = [head for head in heads if head not in self.known]
        if missing:
            with progress(len(missing), "heads") as advance:
                found = self.question.effects([silence([head]) for head in missing], advance=advance)
            self.known.update(zip(missing, found.tolist(), strict=True))
        return [self.known[head] for head in heads]

    def document(self) -> Mapping[str, Any]:
        """Return what --json prints."""
        [text] = self.question.texts
        effects = self.effects(list(self.adds))
        return {
            "model": text.model.info.document(),
            "by": "logit",
            "output": self.question.answer.document(),
            "mask": text.mask,
            "measure": "weight",
            "texts": 1,
            "of": 1,
            "tokens": text.tokens.output_tokens.text,
            "heads": [
                {"layer": layer, "head": head, "adds": added, "effect": effect}
                for ((layer, head), added), effect in zip(self.adds.items(), effects, strict=True)
            ],
        }

    def report(self) -> Report:
        """Show the first heads as a table."""
        [text], answer, first = self.question.texts, self.question.answer, list(self.adds)[: self.listed]
        rows = [
            ["{}.{}".format(*head), signed(self.adds[head]), signed(effect)]
            for head, effect in zip(first, self.effects(first), strict=True)
        ]
        count = f"{len(first)} of {len(self.adds)} heads"
        tokens = f"{len(text.tokens.output_tokens)} tokens"
        model = model_shown(text.model.info.document())
        layer, head = first[0]
        return Report(
            [model, str(answer), "by logit", f"mask {text.mask}", tokens, count],
            [
                Table([Column("head"), Column("adds to the logit"), Column("effect of silencing it")], rows),
                TextLine(f"these {len(self.adds)} heads add {signed(sum(self.adds.values()))} in all: {REST}"),
                TextLine(ADDS),
                TextLine(describe_direction("logit")),
            ],
            self.document,
            itemgetter("heads"),
            next=NextCommand("explain", {"layer": layer, "head": head, "text": self.text, "logit": True, **self.look}),
        )


def logit_heads(source: SavedRecords | Texts, text: str | None, at: str | None, listed: int) -> LogitHeads:
    """Order the heads of a request by what they add to the logit of its target, or of the likeliest token.

    Raises RequestError for a record, several texts, and as `logit_question` and `direct_paths` do.
    """
    from attncli.effects.logits import direct_paths, logit_question

    if isinstance(source, SavedRecords):
        raise RequestError("a saved record has no logits: --by logit needs a model and a text")
    check_one(len(source), "give one as TEXT")
    request, [one] = source.request, source.inputs
    measure = None if request.measure == "weight" else request.measure
    no_effect("with --by logit, which uses no weights", measure=measure, pad_to=request.pad_to)
    model = open_tappable(source.opening, request.which)
    choice = request.choose(model.select_layers, model.heads)
    question = logit_question(model, one.text, Asking(one.pair, None, request.target, at, mask=request.mask))
    added = {layer: way.adds for layer, way in direct_paths(question).items()}
    adds = {(layer, head): added[layer][head] for layer, head in choice.each}
    ranked = dict(sorted(adds.items(), key=lambda one: -one[1]))
    return LogitHeads(question, ranked, text, listed, {"query": at, "target": request.target})
