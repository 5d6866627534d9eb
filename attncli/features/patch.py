"""Patch outputs of heads from another text's run into the run of a text, and measure how the output changes.

Vig et al. 2020, "Investigating Gender Bias in Language Models Using Causal Mediation Analysis"; Meng et al. 2022,
"Locating and Editing Factual Associations in GPT". Outputs of heads on B replace those on A, before the projection that
joins the heads: at every token, or, for all heads of a layer, at one token. Token t of B replaces token t of A, so the
texts must have the same length.

    share = (patched - A) / (B - A)

A and B are the outputs for the two texts, at the same positions. 0: the patch changes nothing. 1: it turns the output
of A into that of B. A share may be below 0 or above 1, and shares don't add up, because heads may cancel each other. A
distance and a divergence are measured from the run of B, where they are 0. From the run of A, they would grow with any
patch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, TypedDict

import numpy as np

from attncli.base import choices
from attncli.base.arrays import Doubles, largest_first, titled
from attncli.base.choices import check_text
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PICTURES
from attncli.base.printable import visible
from attncli.base.progress import progress
from attncli.effects.asking import MeasuredOutput, OutputDocument
from attncli.features import options
from attncli.features.inputs import AskedRun
from attncli.features.measure import measure, no_effect
from attncli.features.options import SELECTION, argument, choice
from attncli.record import ModelInfo
from attncli.record.display import model_name
from attncli.record.parts import ModelDocument
from attncli.record.selection import Choice, Request, name_of, number_list
from attncli.report import Column, HeadGrid, MapAxis, Maps, NextCommand, Panel, Part, Report, Result, Table, TextLine
from attncli.report.parts import signed, three_digits
from attncli.text.tokens import DecoderInput, Tokens

if TYPE_CHECKING:
    from torch import Tensor, dtype

    from attncli.base.typed import Unpack
    from attncli.effects.change import Head, Put

FROM_B = {
    "distance": "distance of the last vectors from the second text's, as a share of their lengths",
    "divergence": "KL divergence of the prediction from the second text's prediction, in nats",
}
DRAWS = 5  # draws of outputs on other texts, as a control
ROUNDING = 16  # units in the last place of an output; a smaller difference is too small to divide by
LEAST = 1e-6  # the smallest difference to divide by
LISTED = 10  # patches in the terminal


@measure(options.AskedOptions, saves=(*PICTURES, *DOCUMENTS), saved_as="patches")
def patch(
    model: options.ModelOption = None,
    first: Annotated[str | None, argument("A", "The text whose run is patched.")] = None,
    second: Annotated[str | None, argument("B", "The text whose outputs are patched in.")] = None,
    *,
    by: Annotated[choices.Patched, choice(SELECTION, choices.Patched, "--by", help="What to patch one at a time: ")] = (
        "head"
    ),
    layer: options.Layers = None,
    head: options.HeadsOption = None,
    top: Annotated[
        int | None, options.top("List the N patches with the largest shares.", rare=True, show_default=str(LISTED))
    ] = None,
    **asked: "Unpack[options.AskedOptions]",
) -> "PatchResult":
    """Patch head outputs from text B into the run of text A.

    Shows how far each patched head, layer or token moves A's output towards B's. As a control, it patches in head
    outputs from other texts. The output is chosen as in ablate; by default it is the distance of the last vectors from
    B's.
    The texts need the same number of tokens.

    \b
    Examples:
      attncli patch "The cat sat on the mat." "The dog sat on the mat."
      attncli patch --by token -o tokens.png "The cat sat on the mat." "The dog sat on the mat."
      attncli patch -l 3-5 --similar-to "A dog is resting." "The cat sat on the mat." "The dog sat on the mat."
    """
    from attncli.effects.change import Unchanged, of_batch, put, usual_outputs
    from attncli.effects.question import Distance, Divergence, make_question

    if first is None or second is None:
        raise RequestError("patch needs two texts: A, whose run is patched, and B, whose outputs are patched in")
    if by == "layer":
        no_effect("with --by layer, which lists them all", top=top)
    check_text("first", first)
    check_text("second", second)
    choices.check("part", by, choices.Patched)
    run = AskedRun.of(model, first, **asked)
    engine, asking = run.engine, run.asking
    request = Request("all" if layer is None else layer, "all" if head is None else head)
    choice = request.choose(engine.select_layers, engine.heads)
    question = make_question(engine, first, asking)
    tokens = engine.ready(engine.tokenizer.encode(second, asking.pair), asking.target, answer=True)
    ours = question.texts[0]
    _check_lengths(ours.tokens, tokens)
    aim = Unchanged.of(engine, tokens, asking.mask)
    if isinstance(question, Distance):  # measured from the run of B, at the same positions
        question = Distance([aim])
    elif isinstance(question, Divergence):
        question = Divergence(aim, question.output, question.places)
    answer = MeasuredOutput(question.kind, FROM_B.get(question.kind, question.about), question.of([ours]), ours.mask)
    other = question.of([aim])
    _check_apart(answer, other, ours.last.dtype)

    own, theirs = (of_batch(engine, [one], asking.mask) for one in (ours.tokens, tokens))
    texts = usual_outputs(engine, asking.mask)
    drawn = [texts.draw(len(tokens), draw) for draw in range(DRAWS)]
    parts, everything = _parts(by, choice, len(tokens)), choice.each
    sources = [theirs, *drawn]
    changes = [_change(part, token, source, own) for source in sources for part, token in parts]
    changes += [put(everything, source) for source in sources]
    with progress(len(changes), "patches") as advance:
        found = question.effects(changes, [ours], advance)
    [itself] = question.effects([put(everything, own)], [ours])
    each, together = np.split(found, [len(sources) * len(parts)])
    each = each.reshape(len(sources), -1)
    each = choice.spread(each) if by == "head" else each.reshape(len(sources), len(choice.layers), -1)
    return PatchResult(
        texts=(first, second),
        model=engine.info,
        answer=answer,
        other=other,
        tokens=ours.tokens,
        other_tokens=tokens,
        by=by,
        layers=choice.layers,
        heads=choice.heads,
        pairs=choice.pairs,
        effects=each[0],
        controls=each[1:],
        together=float(together[0]),
        together_controls=together[1:],
        itself=float(itself),
        listed=LISTED if top is None else top,
    )


def _check_lengths(ours: Tokens, theirs: Tokens) -> None:
    """Raises RequestError for texts of different lengths."""
    if theirs.sizes == ours.sizes:
        return
    first, second = (one.encoder_input if isinstance(one, DecoderInput) else one for one in (ours, theirs))
    if len(first) == len(second):
        raise RequestError(
            f"the decoder writes {len(ours.output_tokens)} tokens for the first text and "
            f"{len(theirs.output_tokens)} for the second: give its output with --target"
        )
    raise RequestError(
        f"the first text has {len(first)} tokens and the second {len(second)}: give two texts with the same number "
        "of tokens (attncli run shows them)"
    )


def _check_apart(answer: MeasuredOutput, other: float, dtype: "dtype") -> None:
    """Raises RequestError if the two outputs differ by less than rounding, or than LEAST."""
    import torch

    least = max(LEAST, ROUNDING * torch.finfo(dtype).eps * max(abs(answer.value), abs(other)))
    if not abs(other - answer.value) > least:
        raise RequestError(
            f"{answer.about}: {answer.value:.7g} for the first text and {other:.7g} for the second; the difference is "
            f"too small to divide by (less than {least:.1g}, with rounding in {str(dtype).removeprefix('torch.')}): "
            "give texts that differ more for the model"
        )


def _parts(by: str, choice: Choice, tokens: int) -> "list[tuple[list[Head], int | None]]":
    """Return the parts to patch, layer by layer: heads, and their token, or None for all tokens."""
    if by == "head":
        return [([head], None) for head in choice.each]
    places: Sequence[int | None] = range(tokens) if by == "token" else [None]
    return [([head for head in choice.each if head[0] == layer], place) for layer in choice.layers for place in places]


def _change(heads: "Sequence[Head]", token: int | None, source: "Tensor", own: "Tensor") -> "Put":
    """Return the change that puts outputs `[layer, token, head, head_dim]` of a source in, at one token or all
    tokens."""
    from attncli.effects.change import Put, put

    if token is None:
        return put(heads, source)
    outputs: dict[Head, Tensor | float] = {}
    for layer, head in heads:
        patched = own[layer, :, head].clone()
        patched[token] = source[layer, token, head]
        outputs[layer, head] = patched
    return Put(outputs)


# --- results --------------------------------------------------------------------------------------------


class _OutputEntry(OutputDocument):
    """For the first text; a divergence or a distance is from the second text's run."""

    other: Annotated[float, "for the second text; 0 for a divergence or a distance", "in that unit"]


class _PlaceEntry(TypedDict, total=False):
    head: Annotated[int, "with `--by head`"]
    index: Annotated[int, "with `--by token`: its position in both texts"]
    token: Annotated[str, "the first text's token there"]
    other_token: Annotated[str, "the second text's token there"]


class _PatchEntry(_PlaceEntry):
    """The effects by layer."""

    layer: int
    effect: Annotated[float, "the first text's output with the patch minus the output without it", "in that unit"]
    share: Annotated[
        float, "effect / (other - value): 0 is the first text's output, 1 the second's", "share of the way"
    ]
    control: Annotated[
        float, "the same with head outputs at random tokens of other texts, mean of 5 draws", "share of the way"
    ]


class _TogetherEntry(TypedDict):
    """All selected heads of all selected layers together."""

    effect: Annotated[float, "", "in that unit"]
    share: Annotated[float, "", "share of the way"]
    control: Annotated[float, "", "share of the way"]
    itself: Annotated[float, "the effect of patching the first text's own outputs into it", "in that unit"]


class PatchDocument(TypedDict):
    """`.csv`: a row per entry of `patches`."""

    model: ModelDocument
    output: _OutputEntry
    tokens: Annotated[list[str], "of the first text", "`[token]`"]
    other_tokens: Annotated[list[str], "of the second text, in the same number", "`[token]`"]
    by: Annotated[choices.Patched, "what is patched one at a time"]
    layers: Annotated[list[int], "", "`[layer]`"]
    heads: Annotated[list[int], "", "`[head]`"]
    patches: list[_PatchEntry]
    together: _TogetherEntry


@dataclass(frozen=True)
class PatchResult(Result):
    """Parts of B's run patched into A's, one at a time.

    texts: A and B. answer: the output, with A's value; other: B's. tokens, other_tokens: those of A and B.
    by: the part, one of `choices.Patched`; layers, heads: numbers in the model.
    pairs: the heads, (layer, head), if they are not all `heads` of all `layers`; other heads have effects of NaN.
    effects: patched - A; by head `[layer, head]`, by layer `[layer, 1]`, by token `[layer, token]`.
    controls: `[draw, ...]`, the same with outputs at tokens drawn from other texts.
    together: patched - A for all selected heads together, at all tokens; together_controls: `[draw]`. itself: the same
    with A's own outputs, which is exactly 0. listed: the number of patches that the terminal lists.
    """

    texts: tuple[str, str]
    model: ModelInfo
    answer: MeasuredOutput
    other: float
    tokens: Tokens
    other_tokens: Tokens
    by: choices.Patched
    layers: list[int]
    heads: list[int]
    effects: Doubles
    controls: Doubles
    together: float
    together_controls: Doubles
    itself: float
    pairs: list[tuple[int, int]] | None = None
    listed: int = LISTED

    def __repr__(self) -> str:
        return titled(self, self.model.full_name, f"by {self.by}", str(self.choice), self.outputs)

    @property
    def outputs(self) -> str:
        """The output without a patch, of both texts."""
        return f"{self.answer.about}: {self.answer.value:.4g} for the first text, {self.other:.4g} for the second"

    @property
    def choice(self) -> Choice:
        """The heads."""
        return Choice(self.layers, self.heads, self.pairs)

    @property
    def difference(self) -> float:
        """B - A."""
        return self.other - self.answer.value

    @property
    def shares(self) -> Doubles:
        """The shares of the way from A to B, in the shape of `effects`."""
        return self.effects / self.difference

    @property
    def control_shares(self) -> Doubles:
        """The mean share over draws, in the shape of `effects`."""
        return self.controls.mean(axis=0) / self.difference

    def document(self) -> PatchDocument:
        """Return what --json prints."""
        shares, controls = self.shares, self.control_shares
        patches: list[_PatchEntry] = []
        for row, column in np.ndindex(*self.effects.shape):
            if np.isnan(self.effects[row, column]):
                continue
            place: _PlaceEntry = {}
            if self.by == "head":
                place = {"head": self.heads[column]}
            elif self.by == "token":
                token, other = self.tokens.text[column], self.other_tokens.text[column]
                place = {"index": column, "token": token, "other_token": other}
            entry: _PatchEntry = {
                "layer": self.layers[row],
                **place,
                "effect": float(self.effects[row, column]),
                "share": float(shares[row, column]),
                "control": float(controls[row, column]),
            }
            patches.append(entry)
        return {
            "model": self.model.document(),
            "output": {**self.answer.document(), "other": self.other},
            "tokens": self.tokens.text,
            "other_tokens": self.other_tokens.text,
            "by": self.by,
            "layers": self.layers,
            "heads": self.heads,
            "patches": patches,
            "together": {
                "effect": self.together,
                "share": self.together / self.difference,
                "control": float(self.together_controls.mean()) / self.difference,
                "itself": self.itself,
            },
        }

    def report(self) -> Report:
        """Show a share per part, the parts with the largest shares, and all parts together."""
        whose = "" if len(self.heads) == self.model.heads else f" (heads {number_list(self.heads)})"
        if self.pairs is not None:
            whose = f" ({self.choice})"
        patched = f"{PARTS[self.by]}{whose}, from the second text's run into the first's, one at a time"
        maps = self._maps([Panel("second text", self.shares), Panel("control", self.control_shares)])
        count = int((~np.isnan(self.effects)).sum())
        beyond = int((np.abs(self.effects) > np.abs(self.controls).max(axis=0)).sum())
        above = (
            f"{beyond} of {count} change the output more than each of their {DRAWS} controls (chance: 1 in {DRAWS + 1})"
        )
        return Report(
            [model_name(self.model.full_name), self.outputs, f"mask {self.answer.mask}"],
            [
                TextLine(patched, caption=True),
                TextLine(SHARE, caption=True),
                *([] if self.by == "layer" else [self._maps([Panel("share", self.shares)])]),
                self._table(),
                TextLine(CONTROL),
                TextLine(above),
            ],
            self.document,
            itemgetter("patches"),
            picture=[TextLine(ENDS, caption=True), maps],
            next=NextCommand("diff", {"first": self.texts[0], "second": self.texts[1]}),
        )

    def _maps(self, panels: list[Panel]) -> Part:
        """Return a map of shares, layers by heads or tokens; the largest share has the full colour."""
        most = float(np.nanmax(np.abs(self.shares))) or None
        if self.by == "head":
            return HeadGrid(panels, self.layers, self.heads, "share", signed=True, most=most)
        across, places = MapAxis("head", ["all heads"]), range(len(self.tokens))
        if self.by == "token":
            across = MapAxis("token", [self._token_pair(place) for place in places], places)
        wide = len(str(max(self.layers)))
        rows = MapAxis("layer", [f"layer {layer:>{wide}}" for layer in self.layers])
        return Maps([panels], rows, across, scale="share", signed=True, most=most)

    def _table(self) -> Table:
        """Return a row per part; below, all parts together, and the first text's own outputs as a check."""
        places = np.ndindex(*self.effects.shape) if self.by == "layer" else largest_first(self.effects)[: self.listed]
        rows = []
        for row, column in places:
            if np.isnan(self.effects[row, column]):
                continue
            name = f"layer {self.layers[row]}"
            if self.by == "head":
                name = f"{self.layers[row]}.{self.heads[column]}"
            elif self.by == "token":
                name += f", {self._token_pair(column)}"
            rows.append((name, signed(self.shares[row, column]), signed(self.control_shares[row, column])))
        control = float(self.together_controls.mean()) / self.difference
        rows.append(("all of these together", signed(self.together / self.difference), signed(control)))
        rows.append(("the first text's own outputs", three_digits(abs(self.itself / self.difference)), ""))
        return Table([Column("patched"), Column("share"), Column("control")], rows)

    def _token_pair(self, place: int) -> str:
        """Return a token, with the second text's token if it differs."""
        one, other = (visible(name_of(place, tokens)) for tokens in (self.tokens, self.other_tokens))
        return one if self.tokens.text[place] == self.other_tokens.text[place] else f"{one} <- {other}"


SHARE = "share: (patched - first) / (second - first); 0 is the first text's output, 1 the second's"
ENDS = "0: the first text's output, 1: the second's"
CONTROL = f"control: the same with outputs of heads at random tokens of other texts, mean of {DRAWS} draws"
PARTS = {
    "head": "each head's output",
    "layer": "the outputs of each layer's heads",
    "token": "the outputs of each layer's heads at each token",
}
