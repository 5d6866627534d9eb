"""Patching: what a text's output becomes when heads give what they give on another text (Vig et al. 2020,
"Investigating Gender Bias in Language Models Using Causal Mediation Analysis"; Meng et al. 2022, "Locating and Editing
Factual Associations in GPT").

A head's output of B's run is put into A's run, before the projection that joins the heads: at every token, or, of all
heads of a layer, at one token. Token t of the one stands for token t of the other, so that the texts are equally long.

    share = (patched - A) / (B - A)

B is what is asked of B's last vectors, at the places where it is asked of A's. A distance or a divergence is how far
the run is from B's: of A all the way, of B 0, so that the share is how much of the way is gone, and below 0 where a
patch leads elsewhere. (How far it is from A's would grow whatever is put there.)
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from attncli.analysis.effects import Answer
from attncli.analysis.patches import Patch
from attncli.base import choices
from attncli.base.arguments import check_text
from attncli.base.errors import RequestError
from attncli.base.progress import Progress, silent
from attncli.effects.asking import Asking, merge_asking, question
from attncli.effects.changes import Head, Put, put
from attncli.effects.copies import Unchanged
from attncli.effects.questions import Distance, Divergence, Question
from attncli.effects.reference import of_batch, usual_reference
from attncli.models.engine import Engine
from attncli.models.tapped import require_tapped
from attncli.record.selection import Selection, select
from attncli.text.tokens import Fed

FROM_B = {
    "distance": "how far the last vectors are from the second text's, as a share of their lengths",
    "divergence": "KL divergence of what is predicted, from what is predicted of the second text, in nats",
}
DRAWS = 5  # of what heads give on other texts, beside what they give on B
ROUNDING = 16  # units in the last place of an output, that a difference has to be larger than
LEAST = 1e-6  # that it has to be larger than in any case


def patch(
    model: Engine,
    a: str,
    b: str,
    by: str = "head",
    layers: Selection = "all",
    heads: Selection = "all",
    asking: Asking | None = None,
    progress: Progress = silent,
    *,
    pair: str | None = None,
    similar_to: str | None = None,
    target: str | None = None,
    at: str | None = None,
    kind: str | None = None,
    output: str | None = None,
    mask: str | None = None,
    which: str | None = None,
) -> Patch:
    """What each head, layer or token of B's run does to what is asked of A.

    by: of `choices.Patched`; "layer" and "token" patch these heads of a layer at once.
    asking: what to ask, as an `Asking`; or say so by its fields, as in similar_to="Another text." and target="it".
    progress: is told of every patch that was made: of each part, and of all at once, 1 + DRAWS.

    Raises RequestError for texts of different lengths, where the two outputs are too near to divide by their
    difference, for a layer or head that there is not, and as `question` does.
    """
    asking = merge_asking(
        asking, pair=pair, similar_to=similar_to, target=target, at=at, kind=kind, output=output, mask=mask, which=which
    )
    model = require_tapped(model, asking.which)
    check_text("b", b)
    choices.check("part", by, choices.Patched)
    of_layers, of_heads = model.select_layers(layers), select(heads, model.heads, "head")
    asked = question(model, a, asking)
    tokens = model.with_answer(model.tokenizer.encode(b, asking.pair), asking.target)
    ours = asked.texts[0]
    a_read, b_read = (one.read if isinstance(one, Fed) else one for one in (ours.tokens, tokens))
    if len(a_read) == len(b_read) and tokens.sizes != ours.tokens.sizes:
        raise RequestError(
            f"the decoder writes {len(ours.tokens.spoken)} tokens for the first text and {len(tokens.spoken)} for the "
            "second: name with --target what it is to write"
        )
    if tokens.sizes != ours.tokens.sizes:
        raise RequestError(
            f"the first text has {len(a_read)} tokens and the second {len(b_read)}: a patch puts a token's output "
            "in the place of the same token's; give two texts of equal length (attncli run shows their tokens)"
        )
    aim = Unchanged.of(model, tokens, asking.mask)
    asked = towards(asked, aim)
    answer = Answer(asked.kind, FROM_B.get(asked.kind, asked.about), asked.of([ours]), ours.mask)
    other = asked.of([aim])
    check_apart(answer, other, ours.last.dtype)

    own, theirs = (of_batch(model, [one], asking.mask) for one in (ours.tokens, tokens))
    texts = usual_reference(model, asking.mask)
    drawn = [texts.drawn(len(tokens), draw) for draw in range(DRAWS)]
    parts = parts_of(by, of_layers, of_heads, len(tokens))
    everything = [(layer, head) for layer in of_layers for head in of_heads]
    sources = [theirs, *drawn]
    changes = [patched(part, token, source, own) for source in sources for part, token in parts]
    changes += [put(everything, source) for source in sources]
    with progress(len(changes), "patches") as advance:
        found = asked.effects(changes, [ours], advance)
    [itself] = asked.effects([put(everything, own)], [ours])
    each, together = np.split(found, [len(sources) * len(parts)])
    each = each.reshape(len(sources), len(of_layers), -1)
    return Patch(
        model=model.info,
        answer=answer,
        other=other,
        tokens=ours.tokens,
        other_tokens=tokens,
        by=by,
        layers=of_layers,
        heads=of_heads,
        effects=each[0],
        controls=each[1:],
        together=float(together[0]),
        together_controls=together[1:],
        itself=float(itself),
    )


def towards(asked: Question, aim: Unchanged) -> Question:
    """What is asked, measured from the run of B where it is measured from a run; at the same places."""
    if isinstance(asked, Distance):
        return Distance([aim])
    return Divergence(aim, asked.output, asked.places) if isinstance(asked, Divergence) else asked


def check_apart(answer: Answer, other: float, dtype: torch.dtype) -> None:
    """Raises RequestError where the two outputs are nearer to each other than rounding tells, or than LEAST."""
    least = max(LEAST, ROUNDING * torch.finfo(dtype).eps * max(abs(answer.value), abs(other)))
    if not abs(other - answer.value) > least:
        raise RequestError(
            f"{answer.about}: {answer.value:.7g} for the first text and {other:.7g} for the second; that is too near "
            f"to divide by (less than {least:.1g}, with rounding in {str(dtype).removeprefix('torch.')}): "
            "give texts that the model tells apart"
        )


def parts_of(by: str, layers: Sequence[int], heads: Sequence[int], tokens: int) -> list[tuple[list[Head], int | None]]:
    """What is patched, layer by layer: heads, and the token at which, or None for all."""
    if by == "head":
        return [([(layer, head)], None) for layer in layers for head in heads]
    places: Sequence[int | None] = range(tokens) if by == "token" else [None]
    return [([(layer, head) for head in heads], place) for layer in layers for place in places]


def patched(heads: Sequence[Head], token: int | None, source: Tensor, own: Tensor) -> Put:
    """Outputs `[layer, token, head, head_dim]` of a source in place of these heads' own, at one token or at all."""
    if token is None:
        return put(heads, source)
    outputs = {}
    for layer, head in heads:
        outputs[layer, head] = own[layer, :, head].clone()
        outputs[layer, head][token] = source[layer, token, head]
    return Put(outputs)
