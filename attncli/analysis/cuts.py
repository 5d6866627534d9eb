"""Cut edges as plain results: effect = an output with edges cut minus the output without.

An edge leads from a query to a key: (query, key), both places in the text.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from attncli.analysis.effects import Answer, numbered
from attncli.analysis.ranks import RankCorrelation, rank_correlation
from attncli.base.arrays import Bools, Doubles
from attncli.base.brief import Brief, titled
from attncli.record import ModelInfo
from attncli.text.tokens import Tokens

Edge = tuple[int, int]


@dataclass(frozen=True, repr=False)
class CutIn(Brief):
    """Where edges were cut, and how.

    layers, heads: numbers in the model; every one of these heads of every one of these layers. keep_rest: whether a
    row's other weights stayed as they were; otherwise they sum to 1 again, as when a mask hides the key.
    """

    model: ModelInfo
    answer: Answer
    tokens: Tokens
    layers: list[int]
    heads: list[int]
    keep_rest: bool
    key_tokens: Tokens | None = None

    @property
    def keys(self) -> Tokens:
        """The tokens that keys are: another text's in cross-attention."""
        return self.tokens if self.key_tokens is None else self.key_tokens

    @property
    def facts(self) -> tuple[str, str]:
        """What the line of a result says of it."""
        return numbered(self.layers, self.heads), str(self.answer)

    def document(self) -> dict[str, Any]:
        return {
            "model": self.model.document(),
            "output": self.answer.document(),
            "tokens": self.tokens.text,
            **({} if self.key_tokens is None else {"key_tokens": self.key_tokens.text}),
            "layers": self.layers,
            "heads": self.heads,
            "keep_rest": self.keep_rest,
        }

    def edge(self, edge: Edge) -> dict[str, Any]:
        """An edge as it stands in a document."""
        query, key = edge
        return {
            "query": {"index": query, "token": self.tokens.text[query]},
            "key": {"index": key, "token": self.keys.text[key]},
        }


@dataclass(frozen=True)
class Cut:
    """Some edges cut at once.

    edges; weights: of each the mean weight over the heads, `[edge]`. effects: `[1 + layer]`, in all layers and in each
    alone. controls: `[draw, 1 + layer]`, the same where as many other edges from the same queries are cut, drawn alike;
    None where a query has not as many others.
    """

    where: CutIn
    edges: list[Edge]
    weights: Doubles
    effects: Doubles
    controls: Doubles | None

    def __repr__(self) -> str:
        edges = f"{len(self.edges)} edge{'s' if len(self.edges) != 1 else ''} cut"
        return titled(self, self.where.model.shown, edges, *self.where.facts, f"effect {self.effects[0]:.4g}")

    @property
    def first(self) -> Edge:
        return self.edges[0]

    def document(self) -> dict[str, Any]:
        """What --json prints; the entry of "effects" whose layer is None is of all layers at once."""
        edges = zip(self.edges, self.weights.tolist(), strict=True)
        effects = []
        for place, layer in enumerate([None, *self.where.layers]):
            entry: dict[str, Any] = {"layer": layer, "effect": float(self.effects[place]), "control": None}
            if self.controls is not None:
                drawn = self.controls[:, place]
                entry["control"] = {"mean": float(drawn.mean()), "low": float(drawn.min()), "high": float(drawn.max())}
            effects.append(entry)
        return {
            **self.where.document(),
            "edges": [{**self.where.edge(edge), "weight": weight} for edge, weight in edges],
            "effects": effects,
        }


@dataclass(frozen=True)
class EdgeEffects:
    """Each of some edges cut by itself, in all of the layers at once.

    queries, keys: the tokens along the rows and the columns. effects: `[query, key]`, NaN where the mask hides the key,
    so that there is nothing to cut. weights: `[query, key]`, the mean over the heads. can_matter: `[query, key]`,
    whether the network has a path from the edge to the output; the effects of other edges are 0.
    """

    where: CutIn
    queries: list[int]
    keys: list[int]
    effects: Doubles
    weights: Doubles
    can_matter: Bools

    def __repr__(self) -> str:
        edges = f"{int(np.isfinite(self.effects).sum())} edges cut one by one"
        return titled(self, self.where.model.shown, edges, *self.where.facts)

    @property
    def seen_weights(self) -> Doubles:
        """The weights, NaN where the mask hides the key, as in `effects`."""
        return np.where(np.isnan(self.effects), np.nan, self.weights)

    def correlation(self) -> RankCorrelation | None:
        """Of the weights with the sizes of the effects, over the edges that can matter."""
        return rank_correlation(self.weights[self.can_matter], np.abs(self.effects[self.can_matter]))

    @property
    def first(self) -> Edge:
        """That with the largest effect."""
        return self.ranked()[0][0]

    def ranked(self) -> list[tuple[Edge, float, float]]:
        """Every edge with its effect and its weight: those that can matter first, of these the largest effect first."""
        cut = np.argwhere(~np.isnan(self.effects))
        places = tuple(cut.T)
        order = np.lexsort((-np.abs(self.effects[places]), ~self.can_matter[places]))
        return [
            (
                (self.queries[row], self.keys[column]),
                float(self.effects[row, column]),
                float(self.weights[row, column]),
            )
            for row, column in cut[order]
        ]

    def document(self) -> dict[str, Any]:
        """What --json prints."""
        found, can = self.correlation(), int(self.can_matter.sum())
        return {
            **self.where.document(),
            "edges": [
                {**self.where.edge(edge), "weight": weight, "effect": effect, "can_matter": place < can}
                for place, (edge, effect, weight) in enumerate(self.ranked())
            ],
            "correlation": None if found is None else asdict(found),
        }
