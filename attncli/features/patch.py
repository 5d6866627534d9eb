"""Patch outputs of heads from another text's run into the run of a text, and measure what the output does.

Vig et al. 2020, "Investigating Gender Bias in Language Models Using Causal Mediation Analysis"; Meng et al. 2022,
"Locating and Editing Factual Associations in GPT". Outputs of heads on B replace those on A, before the projection that
joins the heads: at every token, or, for all heads of a layer, at one token. Token t of B replaces token t of A, so that
the texts are equally long.

    share = (patched - A) / (B - A)

A and B are the outputs for the two texts, asked at the same places. 0: the patch changes nothing. 1: it turns the
output of A into that of B. A share may be below 0 or above 1, and shares don't add up: one head may take away what
another one brings. A distance and a divergence are measured from the run of B, where they are 0. Measured from the run
of A, they would grow with any patch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from attncli.base import choices
from attncli.base.arrays import Doubles, largest_first, titled
from attncli.base.choices import check_text
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PICTURES
from attncli.base.printable import visible
from attncli.base.progress import Progress, silent
from attncli.effects.asking import Asking, MeasuredOutput, merge_asking, takes_fields
from attncli.features import options
from attncli.features.inputs import AskingFeature, chosen_layers
from attncli.features.options import SELECTION, argument, choice
from attncli.record import ModelInfo
from attncli.record.display import model_name
from attncli.record.selection import Choice, Heads, Request, Selection, name_of, number_list
from attncli.report import Column, HeadGrid, MapAxis, Maps, NextCommand, Panel, Part, Report, Table, TextLine
from attncli.report.parts import signed, three_digits
from attncli.text.tokens import Fed, Tokens

if TYPE_CHECKING:
    from torch import Tensor, dtype
    from typing_extensions import Unpack

    from attncli.effects.asking import AskingFields
    from attncli.effects.change import Head, Put
    from attncli.models.engine import Engine

FROM_B = {
    "distance": "how far the last vectors are from the second text's, as a share of their lengths",
    "divergence": "KL divergence of what is predicted, from what is predicted of the second text, in nats",
}
DRAWS = 5  # of outputs on other texts, as a control
ROUNDING = 16  # units in the last place of an output; a smaller difference is too small to divide by
LEAST = 1e-6  # the least difference to divide by


@dataclass(eq=False)
class Patch(AskingFeature):
    """Patch outputs of heads on text B into the run of text A.

    For each head, layer or token: how much of the way from A's output to B's it leads, compared with outputs of heads
    on other texts. The output is the one that ablate measures; by default the distance of the last vectors from B's.
    Both texts have the same number of tokens: they differ in a word, say.

    \b
    Examples:
      attncli patch "The cat sat on the mat." "The dog sat on the mat."
      attncli patch --by token -o tokens.png "The cat sat on the mat." "The dog sat on the mat."
      attncli patch -l 3-5 --similar-to "A dog is resting." "The cat sat on the mat." "The dog sat on the mat."
    """

    saves = (*PICTURES, *DOCUMENTS)
    group = "Does it matter"
    saved_as = "patches"

    first: Annotated[str | None, argument("A", "The text whose run is patched.")] = None
    second: Annotated[str | None, argument("B", "The text whose outputs are put there.")] = None
    by: Annotated[choices.Patched, choice(SELECTION, choices.Patched, "--by", help="What is patched by itself: ")] = (
        "head"
    )
    layer: options.Layer = None
    head: options.Head = None
    top: Annotated[int, options.top("List the N patches with the largest shares.", rare=True)] = 10

    def report(self, progress: Progress = silent) -> Report:
        if self.first is None or self.second is None:
            raise RequestError("patch needs two texts: A, whose run is patched, and B, whose outputs are put there")
        if self.by == "layer":
            self.refuse("with --by layer, which lists them all", "top")
        opened = self.open_model()
        layers, heads = chosen_layers(self, "all"), self.head or "all"
        found = patch(opened, self.first, self.second, self.by, layers, heads, self.asking, progress)
        return _report(found, self.top, {"first": self.first, "second": self.second})


@dataclass(frozen=True)
class PatchResult:
    """Parts of B's run patched into A's, each by itself.

    answer: the output, with A's value; other: B's. tokens, other_tokens: theirs, equally many.
    by: the part, one of `choices.Patched`; layers, heads: numbers in the model.
    pairs: the heads, (layer, head), if they are not all `heads` of all `layers`; other heads have effects of NaN.
    effects: patched - A; by head `[layer, head]`, by layer `[layer, 1]`, by token `[layer, token]`.
    controls: `[draw, ...]`, the same with outputs at tokens drawn from other texts.
    together: patched - A for all these heads of all these layers together, at all tokens; together_controls: `[draw]`.
    itself: the same with A's own outputs, which is exactly 0.
    """

    model: ModelInfo
    answer: MeasuredOutput
    other: float
    tokens: Tokens
    other_tokens: Tokens
    by: str
    layers: list[int]
    heads: list[int]
    effects: Doubles
    controls: Doubles
    together: float
    together_controls: Doubles
    itself: float
    pairs: list[tuple[int, int]] | None = None

    def __repr__(self) -> str:
        outputs = f"{self.answer}, of the other text {self.other:.4g}"
        return titled(self, self.model.full_name, f"by {self.by}", str(self.choice), outputs)

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
        """The shares of the way from A to B, as `effects`."""
        return self.effects / self.difference

    @property
    def control_shares(self) -> Doubles:
        """The mean share over draws, as `effects`."""
        return self.controls.mean(axis=0) / self.difference

    def document(self) -> dict[str, Any]:
        """Return the document of --json."""
        shares, controls, patches = self.shares, self.control_shares, []
        for row, column in np.ndindex(*self.effects.shape):
            if np.isnan(self.effects[row, column]):
                continue
            part: dict[str, Any] = {"layer": self.layers[row]}
            if self.by == "head":
                part["head"] = self.heads[column]
            if self.by == "token":
                part["index"] = column
                part |= {"token": self.tokens.text[column], "other_token": self.other_tokens.text[column]}
            part["effect"] = float(self.effects[row, column])
            part |= {"share": float(shares[row, column]), "control": float(controls[row, column])}
            patches.append(part)
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


# --- what is computed -----------------------------------------------------------------------------------


@takes_fields
def patch(
    model: "Engine",
    a: str,
    b: str,
    by: str = "head",
    layers: Selection = "all",
    heads: Heads = "all",
    asking: Asking | None = None,
    progress: Progress = silent,
    **fields: "Unpack[AskingFields]",
) -> PatchResult:
    """Patch each head, layer or token of B's run into A's, and measure the output.

    by: of `choices.Patched`; "layer" and "token" patch these heads of a layer together.
    asking: the question, as an `Asking`; or its fields by name, as in similar_to="Another text." and target="it".
    progress: advances with every patch: each part, and all parts together, 1 + DRAWS times.

    Raises RequestError for texts of different lengths, for outputs too close to divide by their difference, for a layer
    or head that does not exist, and as `make_question` does.
    """
    from attncli.effects.change import Unchanged, of_batch, put, usual_outputs
    from attncli.effects.question import Distance, Divergence, make_question
    from attncli.models.engine import require_tapped

    asking = merge_asking(asking, fields)
    model = require_tapped(model, asking.which)
    check_text("b", b)
    choices.check("part", by, choices.Patched)
    choice = Request(layers, heads).choose(model.select_layers, model.heads)
    question = make_question(model, a, asking)
    tokens = model.with_answer(model.tokenizer.encode(b, asking.pair), asking.target)
    ours = question.texts[0]
    _check_lengths(ours.tokens, tokens)
    aim = Unchanged.of(model, tokens, asking.mask)
    if isinstance(question, Distance):  # measured from the run of B, at the same places
        question = Distance([aim])
    elif isinstance(question, Divergence):
        question = Divergence(aim, question.output, question.places)
    answer = MeasuredOutput(question.kind, FROM_B.get(question.kind, question.about), question.of([ours]), ours.mask)
    other = question.of([aim])
    _check_apart(answer, other, ours.last.dtype)

    own, theirs = (of_batch(model, [one], asking.mask) for one in (ours.tokens, tokens))
    texts = usual_outputs(model, asking.mask)
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
        model=model.info,
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
    )


def _check_lengths(ours: Tokens, theirs: Tokens) -> None:
    """Raises RequestError for texts of different lengths."""
    if theirs.sizes == ours.sizes:
        return
    first, second = (one.read if isinstance(one, Fed) else one for one in (ours, theirs))
    if len(first) == len(second):
        raise RequestError(
            f"the decoder writes {len(ours.spoken)} tokens for the first text and {len(theirs.spoken)} for the "
            "second: name with --target what it is to write"
        )
    raise RequestError(
        f"the first text has {len(first)} tokens and the second {len(second)}: a patch puts a token's output "
        "in the place of the same token's; give two texts of equal length (attncli run shows their tokens)"
    )


def _check_apart(answer: MeasuredOutput, other: float, dtype: "dtype") -> None:
    """Raises RequestError where the two outputs are closer to each other than rounding, or than LEAST."""
    import torch

    least = max(LEAST, ROUNDING * torch.finfo(dtype).eps * max(abs(answer.value), abs(other)))
    if not abs(other - answer.value) > least:
        raise RequestError(
            f"{answer.about}: {answer.value:.7g} for the first text and {other:.7g} for the second; that is too near "
            f"to divide by (less than {least:.1g}, with rounding in {str(dtype).removeprefix('torch.')}): "
            "give texts that the model tells apart"
        )


def _parts(by: str, choice: Choice, tokens: int) -> "list[tuple[list[Head], int | None]]":
    """Return the parts to patch, layer by layer: heads, and their token, or None for all tokens."""
    if by == "head":
        return [([head], None) for head in choice.each]
    places: Sequence[int | None] = range(tokens) if by == "token" else [None]
    return [([head for head in choice.each if head[0] == layer], place) for layer in choice.layers for place in places]


def _change(heads: "Sequence[Head]", token: int | None, source: "Tensor", own: "Tensor") -> "Put":
    """Put outputs `[layer, token, head, head_dim]` of a source in place of the heads' own, at one token or at all."""
    from attncli.effects.change import Put, put

    if token is None:
        return put(heads, source)
    outputs: dict[Head, Tensor | float] = {}
    for layer, head in heads:
        patched = own[layer, :, head].clone()
        patched[token] = source[layer, token, head]
        outputs[layer, head] = patched
    return Put(outputs)


# --- the report -----------------------------------------------------------------------------------------

SHARE = "share: (patched - first) / (second - first); 0 is the first text's output, 1 the second's"
ENDS = "0: the first text's output, 1: the second's"
CONTROL = f"control: the same with outputs of heads at tokens drawn from other texts, mean of {DRAWS} draws"
PARTS = {
    "head": "each head's output",
    "layer": "the outputs of each layer's heads",
    "token": "the outputs of each layer's heads at each token",
}


def _report(found: PatchResult, top: int, texts: dict[str, str]) -> Report:
    """Report a share per part, the `top` parts with the largest shares, and all parts together."""
    outputs = f"{found.answer.about}: {found.answer.value:.4g} for the first text, {found.other:.4g} for the second"
    whose = "" if len(found.heads) == found.model.heads else f" (heads {number_list(found.heads)})"
    if found.pairs is not None:
        whose = f" ({found.choice})"
    patched = f"{PARTS[found.by]}{whose}, from the second text's run into the first's, each by itself"
    maps = _maps(found, [Panel("second text", found.shares), Panel("control", found.control_shares)])
    return Report(
        [model_name(found.model.full_name), outputs, f"mask {found.answer.mask}"],
        [
            TextLine(patched, caption=True),
            TextLine(SHARE, caption=True),
            *([] if found.by == "layer" else [_maps(found, [Panel("share", found.shares)])]),
            _table(found, top),
            TextLine(CONTROL),
        ],
        found.document,
        itemgetter("patches"),
        picture=[TextLine(ENDS, caption=True), maps],
        next=NextCommand("diff", texts),
    )


def _maps(found: PatchResult, panels: list[Panel]) -> Part:
    """Return a map of shares: layers by heads or tokens, with the largest share of the second text's in full colour."""
    most = float(np.nanmax(np.abs(found.shares))) or None
    if found.by == "head":
        return HeadGrid(panels, found.layers, found.heads, "share", signed=True, most=most)
    across, places = MapAxis("head", ["all heads"]), range(len(found.tokens))
    if found.by == "token":
        across = MapAxis("token", [_token_pair(found, place) for place in places], places)
    wide = len(str(max(found.layers)))
    rows = MapAxis("layer", [f"layer {layer:>{wide}}" for layer in found.layers])
    return Maps([panels], rows, across, scale="share", signed=True, most=most)


def _table(found: PatchResult, top: int) -> Table:
    """Return a row per part; below, all parts together, and the first text's own outputs as a check."""
    places = np.ndindex(*found.effects.shape) if found.by == "layer" else largest_first(found.effects)[:top]
    rows = []
    for row, column in places:
        if np.isnan(found.effects[row, column]):
            continue
        name = f"layer {found.layers[row]}"
        if found.by == "head":
            name = f"{found.layers[row]}.{found.heads[column]}"
        elif found.by == "token":
            name += f", {_token_pair(found, column)}"
        rows.append((name, signed(found.shares[row, column]), signed(found.control_shares[row, column])))
    control = float(found.together_controls.mean()) / found.difference
    rows.append(("all of these at once", signed(found.together / found.difference), signed(control)))
    rows.append(("the first text's own", three_digits(abs(found.itself / found.difference)), ""))
    return Table([Column("patched"), Column("share"), Column("control")], rows)


def _token_pair(found: PatchResult, place: int) -> str:
    """Return a token, with the token of the second text where that is another one."""
    one, other = (visible(name_of(place, tokens)) for tokens in (found.tokens, found.other_tokens))
    return one if found.tokens.text[place] == found.other_tokens.text[place] else f"{one} <- {other}"


# The fields of its document (`attncli.features.document`).
FIELDS = """
### patch

model | model
output | output | | for the first text; a divergence or a distance is from the second text's run
output.other | float | in that unit | for the second text; 0 for a divergence or a distance
tokens | [str] | `[token]` | of the first text
other_tokens | [str] | `[token]` | of the second text, equally many
by | str | | what is patched alone: head, layer or token
layers | [int] | `[layer]`
heads | [int] | `[head]`
patches | [object] | | by layer
patches.layer | int
patches.head | int? | | with `--by head`
patches.index | int? | | with `--by token`: its position in both texts
patches.token | str? | | the first text's token there
patches.other_token | str? | | the second text's token there
patches.effect | float | in that unit | the first text's output with the patch minus the output without it
patches.share | float | share of the way | effect / (other - value): 0 is the first text's output, 1 the second's
patches.control | float | share of the way | the same with head outputs at random tokens of other texts, mean of 5
    draws
together | object | | all these heads of all these layers together
together.effect | float | in that unit
together.share | float | share of the way
together.control | float | share of the way
together.itself | float | in that unit | the effect of patching the first text's own outputs into it

`.csv`: a row per entry of `patches`.
"""
