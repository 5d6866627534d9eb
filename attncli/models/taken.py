"""What a walk takes of texts: what is asked of it, by numbers, and the tensors that records are made of."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attncli.attention import RotaryScore
from attncli.base.arrays import Floats
from attncli.models.attending import KeepLengths, KeepMaps, KeepTerms, KeepVectors, attend_heads
from attncli.models.grouping import KeepGrouped, grouped_masks
from attncli.models.rows import Rows, Run, of_layers
from attncli.models.walk import Attend, Ending, walk
from attncli.record import AttentionRecord, Request, Vectors
from attncli.record.grouping import Axes, axes_of
from attncli.record.parts import Turning
from attncli.record.prediction import Said
from attncli.text.tokens import Tokens

if TYPE_CHECKING:
    from attncli.models.model import Model


class Asked(NamedTuple):
    """Whose weights are asked for, counted from 0; and the (layer, head), among these, whose queries and keys are."""

    layers: list[int]
    heads: list[int]
    vectors: list[tuple[int, int]]


class Taken(NamedTuple):
    """What a walk took of a text.

    axes: what stands along its maps; vectors and terms are of all tokens.
    weights `[layer, head, query, key]`, or norms where the request asks for them, in the model's `map_dtype`; vectors
    `[2, head, token, head_dim]`, queries and then keys, in its own; terms: what positions add to the scores of these
    heads, by name, `[head, query, key]`; masks: of the layers that are asked for, bool `[layer, query, key]`; said:
    what the model says of the text, where that is asked for.
    """

    axes: Axes
    asked: Asked
    weights: Tensor
    vectors: Tensor
    terms: dict[str, Tensor]
    masks: Tensor
    said: Said | None

    @property
    def tokens(self) -> Tokens:
        return self.axes.queries.tokens


def take_batch(model: "Model", batch: Sequence[Tokens], asked: Asked, request: Request, inside: Attend) -> list[Taken]:
    """What is asked of texts that go through the network together, in one walk, which ends where nothing more is asked
    for.
    """
    norms, speaks = request.measure == "norm", False
    if request.predict:
        from attncli.models.outputs.predicting import answering, said

        speaks = any(answering(model, tokens) for tokens in batch)
    ending = None if speaks else Ending(max(asked.layers), asked.heads, norms or inside is not attend_heads)
    model.need(model.config.layers if ending is None else ending.layer + 1)
    rows = model.rows(batch, request.mask)
    axes = [axes_of(request.grouping, one) for one in batch]
    if not all(one.apart for one in axes):  # several tokens have no q and k together
        asked = asked._replace(vectors=[])
    like = torch.empty(0, dtype=model.dtype, device=model.device)
    vectors = KeepVectors(rows, asked.vectors, like, model.config.head_dim, inside)
    terms = KeepTerms(rows, asked.vectors, like, vectors)
    maps = Maps(rows, axes, asked, norms, like.to(model.map_dtype), terms)
    with torch.inference_mode():
        for x in walk(model.network, rows, maps.attend, ending):
            last = x
        spoken = said(model, batch, rows.texts(last)) if speaks else [None] * len(batch)
        taken = []
        for run in rows.runs:
            added = terms.kept[run.number]
            of_each = [{name: term[place] for name, term in added.items()} for place in range(len(run.texts))]
            kept = zip(maps.of_run(run), vectors.kept[run.number].transpose(0, 1), of_each, strict=True)
            taken.append(
                [
                    Taken(axes[text], asked, weights, both, named, masks, spoken[text])
                    for text, ((weights, masks), both, named) in zip(run.texts, kept, strict=True)
                ]
            )
    return rows.in_order(taken)


class Maps:
    """What keeps the maps of a batch: whole ones, or between the units of each text's axes."""

    def __init__(
        self, rows: Rows, axes: Sequence[Axes], asked: Asked, norms: bool, like: Tensor, inside: Attend
    ) -> None:
        self.axes, self.asked, self.norms, self.device = axes, asked, norms, like.device
        self.attend: KeepMaps | KeepGrouped
        if all(one.whole for one in axes):
            self.lengths = KeepLengths(rows, asked.layers if norms else [], asked.heads, like, inside)
            self.attend = KeepMaps(rows, asked.layers, asked.heads, like, self.lengths)
        else:
            self.attend = KeepGrouped(rows, axes, asked.layers, asked.heads, like, norms, inside)

    def of_run(self, run: Run) -> Iterable[tuple[Tensor, Tensor]]:
        """The weights and the masks of its texts, `[layer, query, ...]`."""
        masks = [run.masks[layer] for layer in self.asked.layers]
        if isinstance(self.attend, KeepMaps):
            weights = self.attend.kept[run.number]
            if self.norms:
                weights *= self.lengths.kept[run.number][..., None, :]
            return zip(weights, of_layers(masks, len(run.texts), run.length, self.device), strict=True)
        kept, axes = self.attend.kept, self.axes
        return [
            (kept[text], grouped_masks(masks, axes[text], place, self.device)) for place, text in enumerate(run.texts)
        ]


def as_record(model: "Model", taken: Taken, request: Request) -> AttentionRecord:
    """Raises RequestError when the numbers are no numbers."""
    weights = taken.weights.to(device="cpu", dtype=torch.float32).numpy()
    heads = taken.asked.vectors
    query, key = taken.vectors.to(device="cpu", dtype=torch.float32).numpy()
    terms = {name: term.to(device="cpu", dtype=torch.float32).numpy() for name, term in taken.terms.items()}
    norms = request.measure == "norm"
    check_finite(model, "norms" if norms else "scores", weights, taken.asked)
    check_vectors_finite(model, [query, key, *terms.values()], heads)
    scale = np.array([model.network.layer(layer).score.scale(model.config.head_dim) for layer, _ in heads])
    turning = turning_of(model, heads, len(taken.tokens))
    vectors = Vectors(list(heads), query, key, scale, terms, turning) if heads and not norms else None
    queries, keys, part = taken.axes
    spoken = taken.said if taken.axes.whole or taken.said is None else taken.said.between(queries.groups)
    return AttentionRecord(
        weights=weights,
        layers=list(taken.asked.layers),
        heads=list(taken.asked.heads),
        tokens=taken.tokens,
        masks=taken.masks.cpu().numpy(),
        mask_name=request.mask,
        model=model.info,
        vectors=None if vectors is None else vectors.between(queries.taken, keys.taken),
        measure=request.measure,
        prediction=spoken,
        dtype=str(model.map_dtype).removeprefix("torch."),
        part=part,
    )


def turning_of(model: "Model", heads: Sequence[tuple[int, int]], tokens: int) -> Turning | None:
    """How the queries and keys of these heads were turned, if they were: in a network all in the same pairs."""
    scores = [model.network.layer(layer).score for layer, _ in heads]
    turned = [score.rotary for score in scores if isinstance(score, RotaryScore)]
    if not turned:
        return None
    pairs, places = turned[0].pairs().numpy(), np.arange(tokens)
    rates = np.zeros((len(heads), len(pairs)))
    for number, score in enumerate(scores):
        if isinstance(score, RotaryScore):
            rates[number] = score.rotary.rates(torch.float64)
    return Turning(rates, pairs, places, places)


def check_finite(model: "Model", what: str, weights: Floats, asked: Asked) -> None:
    """Raises RequestError when the weights are no numbers: a row of them that is NaN is so at its first key."""
    bad = np.argwhere(~np.isfinite(weights[..., 0] if what == "scores" else weights.max(axis=-1)))
    if len(bad):
        layer, head, _ = bad[0]
        raise model.too_large(what, asked.layers[layer], asked.heads[head])


def check_vectors_finite(model: "Model", arrays: Sequence[Floats], heads: Sequence[tuple[int, int]]) -> None:
    """Raises RequestError when a query, a key or a term of theirs, `[head, ...]` each, is no number: at a token
    that the mask hides, no weight says so.
    """
    for array in arrays:
        bad = np.flatnonzero(~np.isfinite(array).all(axis=(1, 2)))
        if len(bad):
            raise model.too_large("queries or keys", *heads[bad[0]])
