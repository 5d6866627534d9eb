"""Why texts are similar, as plain results: a cosine as a sum over pairs of tokens, and the cosines of many texts."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from attncli.analysis.effects import Ablation
from attncli.base.arrays import Doubles
from attncli.base.brief import titled
from attncli.record import ModelInfo
from attncli.text.tokens import Tokens, word_groups, word_tokens


@dataclass(frozen=True)
class References:
    """What two texts a and b are held against where input tokens are credited, and how well that was added up.

    first, second, both: cos(r_a, b), cos(a, r_b), cos(r_a, r_b), of their references r.
    steps: of the integrals; half_difference: what `Similarity.difference` is with half of them.
    """

    first: float
    second: float
    both: float
    steps: int
    half_difference: float

    @property
    def sum(self) -> float:
        """What the sum of the cells lacks of the cosine."""
        return self.first + self.second - self.both


class Pair(NamedTuple):
    """Two tokens by their places, and what they contribute."""

    token: int
    key: int
    contribution: float


@dataclass(frozen=True)
class Similarity:
    """The cosine of two texts as a sum over pairs of a token of one and a token of the other.

    cosine: as the checkpoint itself has it. tokens, key_tokens: of the two texts. contributions: `[token, key token]`.
    pooling: which of a text's vectors make its embedding; biased: whether a Dense with a bias follows, of which tokens
    have shares. references: where input tokens are credited; None: their last vectors are.
    effects: of each head on the cosine.
    """

    model: ModelInfo
    cosine: float
    tokens: Tokens
    key_tokens: Tokens
    contributions: Doubles
    pooling: Sequence[str]
    biased: bool
    effects: Ablation
    references: References | None = None

    def __repr__(self) -> str:
        tokens = f"{len(self.tokens)} x {len(self.key_tokens)} tokens"
        return titled(self, self.model.shown, f"cosine {self.cosine:.4g}", tokens)

    @property
    def sum(self) -> float:
        """Of all cells, and of the terms of the references where there are some."""
        return float(self.contributions.sum()) + (0.0 if self.references is None else self.references.sum)

    @property
    def difference(self) -> float:
        """Of the sum and the cosine: what rounding does, and what integrals lack."""
        return self.sum - self.cosine

    def merged(self) -> "Similarity":
        """The same between words: what their pieces contribute, added up."""
        rows, columns = ([group[0] for group in word_groups(one)] for one in (self.tokens, self.key_tokens))
        added = np.add.reduceat(np.add.reduceat(self.contributions, columns, axis=1), rows, axis=0)
        tokens, key_tokens = word_tokens(self.tokens), word_tokens(self.key_tokens)
        return replace(self, tokens=tokens, key_tokens=key_tokens, contributions=added)

    def strongest(self, count: int) -> list[Pair]:
        """The pairs that contribute most, for or against."""
        order = np.argsort(-np.abs(self.contributions), axis=None, kind="stable")[:count]
        rows, columns = np.unravel_index(order, self.contributions.shape)
        return [
            Pair(row, column, float(self.contributions[row, column]))
            for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
        ]

    def document(self) -> dict[str, Any]:
        """What --json prints."""
        document: dict[str, Any] = {
            "model": self.model.document(),
            "cosine": self.cosine,
            "sum": self.sum,
            "difference": self.difference,
            "credited": "vectors" if self.references is None else "inputs",
            "pooling": list(self.pooling),
            "tokens": self.tokens.text,
            "key_tokens": self.key_tokens.text,
            "contributions": self.contributions.tolist(),
            "effects": self.effects.document()["effects"],
        }
        if self.references is not None:
            document["references"] = asdict(self.references)
        return document

    def rows(self) -> Iterator[dict[str, Any]]:
        """What a .csv has: a row a cell."""
        for (row, column), contribution in np.ndenumerate(self.contributions):
            yield {
                "index": row,
                "key_index": column,
                "token": self.tokens.text[row],
                "key_token": self.key_tokens.text[column],
                "contribution": float(contribution),
            }


@dataclass(frozen=True)
class Cosines:
    """The cosines of texts: values `[text, text]`."""

    model: ModelInfo
    texts: Sequence[str]
    values: Doubles

    def __repr__(self) -> str:
        return titled(self, self.model.shown, f"{len(self.texts)} texts")

    def document(self) -> dict[str, Any]:
        """What --json prints."""
        return {"model": self.model.document(), "texts": list(self.texts), "cosines": self.values.tolist()}

    def rows(self) -> Iterator[dict[str, Any]]:
        """What a .csv has: a row a pair of texts."""
        for (one, other), cosine in np.ndenumerate(self.values):
            yield {"text": one, "other": other, "cosine": float(cosine)}
