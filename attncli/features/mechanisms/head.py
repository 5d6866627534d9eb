"""A head within its layer: its map under another score, mask or keys, compared with its own map."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attncli.analysis.patterns import counted_queries, entropy, total_variation
from attncli.attention import MultiHeadAttention, PositionalScore, combine_masks, masked_softmax
from attncli.attention.scores import ScoreFunction
from attncli.base.arrays import Bools, Doubles, Floats
from attncli.models.engine import Engine
from attncli.models.head import OneHead

SAME = 1e-4  # tolerance for rounding in float32, with scores of about 10


@dataclass(frozen=True)
class Figures:
    """A map `[query, key]` and its numbers, means over the counted queries.

    entropy: in nats. distance: mean distance of its weight, in tokens. moved: the weight that must move to turn it into
    the head's own map (total variation). same_key: the share of queries whose strongest key is the same.
    """

    weights: Floats
    entropy: float
    distance: float
    moved: float
    same_key: float

    @classmethod
    def of(cls, weights: Floats, own: Floats, counted: Bools, sinks: bool = False) -> "Figures":
        """Compute the numbers of a map. sinks: whether rows may sum to less than 1."""
        rows, theirs = weights[counted], own[counted]
        return cls(
            weights,
            entropy=float(entropy(rows).mean()),
            distance=float(distances(weights)[counted].mean()),
            moved=float(total_variation(rows, theirs, sinks).mean()),
            same_key=float((rows.argmax(axis=-1) == theirs.argmax(axis=-1)).mean()),
        )


@dataclass(frozen=True)
class HeadInLayer:
    """A head within its layer, whose queries and keys are `[head, token, head_dim]`, before any rotation.

    If the projections are unknown it is alone in its layer, and its queries and keys are rotated already.

    attention, score: the layer's; None if the projections are unknown. mask: bool `[query, key]`. real: bool `[token]`,
    False at [PAD]. positions: of the tokens. counted: the queries that enter means. own: its map. scores, sink: the
    head's own scores `[query, key]`, and its sink score if it has one, if the projections are unknown.
    """

    attention: MultiHeadAttention | None
    score: PositionalScore | None
    number: int
    query: Tensor
    key: Tensor
    mask: Tensor
    real: Tensor
    positions: Tensor
    counted: Bools
    own: Floats
    scores: Tensor | None = None
    sink: float | None = None

    @classmethod
    def of(cls, model: Engine, head: OneHead) -> "HeadInLayer":
        record, device = head.record, "cpu" if head.x is None else model.device
        [layer], [number] = record.layers, record.heads
        of_text: dict[str, Any] = {
            "mask": torch.from_numpy(record.mask_of(layer).copy()).to(device),
            "real": ~torch.tensor(record.tokens.padding, device=device),
            "positions": torch.tensor(record.tokens.positions, device=device),
            "counted": counted_queries(record, layer),
            "own": record.map(layer, number),
        }
        if head.x is None:
            query, key, vectors = torch.from_numpy(head.query), torch.from_numpy(head.key), record.vectors
            assert vectors is not None
            scores = torch.from_numpy(np.sum(list(vectors.parts(layer, number).values()), axis=0))
            sink = vectors.sink(layer, number)
            return cls(None, None, 0, query[None], key[None], **of_text, scores=scores, sink=sink)
        whole = model.network.layer(layer)
        with torch.inference_mode():
            query, key, _ = whole.attention.project(torch.from_numpy(head.x).to(device)[None])
        return cls(whole.attention, whole.score, number, query[0], key[0], **of_text)

    @property
    def own_figures(self) -> Figures:
        """The numbers of its own map."""
        return Figures.of(self.own, self.own, self.counted)

    def under(
        self,
        score: PositionalScore | None,
        mask: Tensor | None = None,
        temperature: float = 1.0,
        key: Tensor | None = None,
        order: Tensor | None = None,
    ) -> Figures:
        """Return its map under a score and an additional mask, with these keys of the layer instead of its own.

        order: for score and mask, token order[i] is at position i; by default tokens keep their positions. A score of
        None is the head's own, which already includes positions, so the order applies only to the mask.
        """
        places = torch.arange(len(self.mask), device=self.mask.device) if order is None else order
        its_own = slice(self.number, self.number + 1)
        keys = (self.key if key is None else key)[its_own]
        with torch.inference_mode():
            if score is None:
                assert self.scores is not None
                scores = self.scores[places][:, places]
            else:
                query = self.query[its_own][:, places]
                scores = score(query, keys[:, places], [self.number], self.positions)[0]
            allowed = combine_masks(self.mask[places][:, places], None if mask is None else mask.to(scores.device))
            ordered = self.normalised(scores, allowed, temperature)
            back = places.argsort()
            weights = ordered[back][:, back].float().cpu().numpy()
        return Figures.of(weights, self.own, self.counted, self.sink is not None)

    def normalised(self, scores: Tensor, mask: Tensor | None, temperature: float) -> Tensor:
        """Return the softmax of scores, including the head's sink if it has one."""
        if self.sink is None:
            return masked_softmax(scores, mask, temperature)
        with_sink = torch.cat([scores, scores.new_full((len(scores), 1), self.sink)], dim=1)
        allowed = torch.ones_like(with_sink, dtype=torch.bool)
        allowed[:, :-1] = True if mask is None else mask
        allowed[:, -1] = allowed[:, :-1].any(dim=1)
        return masked_softmax(with_sink, allowed, temperature)[:, :-1]

    def shuffled(self, generator: torch.Generator) -> Tensor:
        """Return a random order of the real tokens, with [PAD] in its positions."""
        order = torch.arange(len(self.real))
        places = order[self.real.cpu()]
        order[places] = places[torch.randperm(len(places), generator=generator)]
        return order.to(self.real.device)


def distances(weights: Floats) -> Doubles:
    """Return Σ_key w |query - key|, the mean distance of a row's weight in tokens. `[query, key]` -> `[query]`."""
    queries, keys = weights.shape
    away = np.abs(np.arange(queries)[:, None] - np.arange(keys))
    return (weights.astype(np.float64) * away).sum(axis=-1)


def mask_of(head: OneHead) -> Tensor:
    """Return the head's mask, bool `[query, key]`."""
    return torch.from_numpy(head.record.mask.copy())  # which may share one row among all queries


def own_score(head: OneHead) -> ScoreFunction:
    """Return the head's own score, a function of queries and keys before rotation."""
    vectors = head.record.vectors
    assert vectors is not None
    scale, positions = float(vectors.scale[0]), torch.tensor(head.record.tokens.positions)
    terms = [torch.from_numpy(term[0]) for term in vectors.terms.values()]

    def score(query: Tensor, key: Tensor) -> Tensor:
        if head.rotary is not None:
            angles = head.rotary.angles(positions, query.dtype)
            query, key = head.rotary.turn(query, angles), head.rotary.turn(key, angles)
        return sum(terms, start=scale * query @ key.mT)

    return score
