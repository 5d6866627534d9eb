"""A head's map under another score or mask, and what such a map looks like beside the head's own."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attncli.analysis.masking import total_variation
from attncli.analysis.patterns import counted_queries, entropy
from attncli.attention import MultiHeadAttention, PositionalScore, combine_masks, masked_softmax
from attncli.base.arrays import Bools, Doubles, Floats
from attncli.models.head import OneHead
from attncli.models.model import Model


@dataclass(frozen=True)
class Look:
    """A map `[query, key]`, and what it looks like. Figures are means over the queries that count.

    entropy: in nats. distance: how many tokens away its weight is. moved: the weight that would have to move to make it
    the head's own map (total variation). same_key: the share of queries whose strongest key is the same.
    """

    weights: Floats
    entropy: float
    distance: float
    moved: float
    same_key: float

    @classmethod
    def of(cls, weights: Floats, own: Floats, counted: Bools) -> "Look":
        rows, theirs = weights[counted], own[counted]
        return cls(
            weights,
            entropy=float(entropy(rows).mean()),
            distance=float(distances(weights)[counted].mean()),
            moved=float(total_variation(rows, theirs).mean()),
            same_key=float((rows.argmax(axis=-1) == theirs.argmax(axis=-1)).mean()),
        )


@dataclass(frozen=True)
class HeadInLayer:
    """A head among those of its layer, whose queries and keys are `[head, token, head_dim]`, before any rotation.

    attention, score: the layer's. mask: bool `[query, key]`. real: bool `[token]`, False at [PAD]. counted: the queries
    that figures are means over. own: its map.
    """

    attention: MultiHeadAttention
    score: PositionalScore
    number: int
    query: Tensor
    key: Tensor
    mask: Tensor
    real: Tensor
    counted: Bools
    own: Floats

    @classmethod
    def of(cls, model: Model, head: OneHead) -> "HeadInLayer":
        [layer], [number] = head.record.layers, head.record.heads
        of_layer = model.network.layer(layer)
        with torch.inference_mode():
            query, key, _ = of_layer.attention.project(torch.from_numpy(head.x).to(model.device)[None])
        return cls(
            of_layer.attention,
            of_layer.score,
            number,
            query[0],
            key[0],
            mask=torch.from_numpy(head.record.mask_of(layer).copy()).to(model.device),
            real=~torch.tensor(head.record.tokens.padding, device=model.device),
            counted=counted_queries(head.record, layer),
            own=head.record.map(layer, number),
        )

    def look(
        self,
        score: PositionalScore,
        mask: Tensor | None = None,
        temperature: float = 1.0,
        key: Tensor | None = None,
        order: Tensor | None = None,
    ) -> Look:
        """Its map under a score and a mask besides its own, with these keys of the layer in place of its own.

        order: score and mask are told that token order[i] stands at place i; by default each stands where it does.
        """
        places = torch.arange(len(self.mask), device=self.mask.device) if order is None else order
        its_own = slice(self.number, self.number + 1)
        keys = (self.key if key is None else key)[its_own]
        with torch.inference_mode():
            scores = score(self.query[its_own][:, places], keys[:, places], [self.number])[0]
            allowed = combine_masks(self.mask[places][:, places], None if mask is None else mask.to(scores.device))
            told = masked_softmax(scores, allowed, temperature)
            back = places.argsort()
            weights = told[back][:, back].float().cpu().numpy()
        return Look.of(weights, self.own, self.counted)

    def shuffled(self, generator: torch.Generator) -> Tensor:
        """An order in which real tokens stand in each other's places, and [PAD] where it does."""
        order = torch.arange(len(self.real))
        places = order[self.real.cpu()]
        order[places] = places[torch.randperm(len(places), generator=generator)]
        return order.to(self.real.device)


def distances(weights: Floats) -> Doubles:
    """Σ_key w |query - key|, how many tokens away a row's weight is. `[query, key]` -> `[query]`."""
    queries, keys = weights.shape
    away = np.abs(np.arange(queries)[:, None] - np.arange(keys))
    result: Doubles = (weights.astype(np.float64) * away).sum(axis=-1)
    return result
