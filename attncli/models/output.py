"""Output: what a checkpoint says, as a function of the last hidden states."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncli.base.arrays import Doubles, Floats
from attncli.base.brief import Brief
from attncli.base.choices import Output as Kind
from attncli.text.tokens import Tokens

# Poolings by sentence-transformers' names: vectors of the real tokens, `[token, size]`, become one, `[size]`.
CLS, MEAN, LAST = "cls", "mean", "lasttoken"


def weighted_mean(vectors: Tensor) -> Tensor:
    """Σ i x_i / Σ i, tokens counted from 1 (Muennighoff 2022, equation 2)."""
    weights = torch.arange(1, len(vectors) + 1, dtype=vectors.dtype, device=vectors.device)
    return weights @ vectors / weights.sum()


POOLINGS: dict[str, Callable[[Tensor], Tensor]] = {
    CLS: lambda vectors: vectors[0],
    "max": lambda vectors: vectors.max(dim=0).values,
    MEAN: lambda vectors: vectors.mean(dim=0),
    "mean_sqrt_len_tokens": lambda vectors: vectors.sum(dim=0) / len(vectors) ** 0.5,
    "weightedmean": weighted_mean,
    LAST: lambda vectors: vectors[-1],
}


SOFTMAX, SIGMOID = "softmax", "sigmoid"
Numbers = Floats | Doubles  # float64 of a model that computes in it


class Output:
    """A head, or what makes a sentence embedding. It is read from its files when it is first called.

    kind: "classes", "tokens", "span", "words", "next" (the token after each) or "embedding". labels: names along the
    last axis of what it gives, where they have any. function: what makes probabilities of that, "softmax" (one label
    is right), "sigmoid" (each may be); None where it is a number, as in a regression.
    pooling: which of a text's vectors it reads, put after each other (`attncli.models.output`); each token's
    where there is none. late: it reads all of them, and what it makes of them is put together so.
    """

    def __init__(
        self,
        kind: Kind,
        pooling: Sequence[str],
        function: str | None,
        labels: Callable[[], list[str]],
        load: Callable[[], nn.Module],
        late: bool = False,
    ) -> None:
        self.kind = kind
        self.pooling = tuple(pooling)
        self.function = function
        self.make_labels = labels
        self.load = load
        self.late = late

    @property
    def of_text(self) -> bool:
        """Whether it says one thing of a text, and not something of each token."""
        return bool(self.pooling)

    @cached_property
    def labels(self) -> list[str]:
        return self.make_labels()

    @cached_property
    def network(self) -> nn.Module:
        """What is done to those vectors, `[vector, size]`. Raises RequestError where its files are damaged."""
        with torch.inference_mode(False):  # what is read in inference mode could have no gradient later
            return self.load()

    def __call__(
        self, hidden: Sequence[Tensor], tokens: Sequence[Tokens], rows: Sequence[Sequence[int]] | None = None
    ) -> list[Tensor]:
        """What it says of each text, before probabilities are made of it (logits).

        hidden: the last hidden states, `[token, hidden_size]` each, with a gradient or without. rows: of each text the
        tokens that are meant, where it says something of each; by default all of them.

        "embedding" `[size]`; "classes" `[label]`; "words", "next" and "tokens" `[token, label]`; "span" `[token, 2]`,
        start and end. Raises ValueError for rows where it says one thing of a text.
        """
        if rows is not None and self.of_text:
            raise ValueError(f"{self.kind} are of a text, and not of some of its tokens")
        read = [self.read(*one) for one in zip(hidden, tokens, strict=True)]
        if rows is not None:
            read = [vectors[list(some)] for vectors, some in zip(read, rows, strict=True)]
        parts = self.network(torch.cat(read)).split([len(vectors) for vectors in read])
        if self.late:
            parts = [self.pooled(part) for part in parts]
        return [part[0] for part in parts] if self.pooling else list(parts)

    def places(self, tokens: Tokens) -> list[int]:
        """Return the places of the tokens whose vectors have a part in what it says."""
        if not self.pooling:
            return list(range(len(tokens)))
        real = [place for place, padding in enumerate(tokens.padding) if not padding]
        ends = {CLS: real[:1], LAST: real[-1:]}
        return sorted({place for name in self.pooling for place in ends.get(name, real)})

    def read(self, vectors: Tensor, tokens: Tokens) -> Tensor:
        """The vectors that it reads of a text's, `[vector, size]`."""
        if not self.pooling:
            return vectors
        real = [place for place, padding in enumerate(tokens.padding) if not padding]
        vectors = vectors if len(real) == len(tokens) else vectors[real]
        return vectors if self.late else self.pooled(vectors)

    def pooled(self, vectors: Tensor) -> Tensor:
        """Of the real tokens' `[token, size]`, put after each other, `[1, size]`."""
        return torch.cat([POOLINGS[name](vectors) for name in self.pooling])[None]

    def probabilities(self, logits: Tensor) -> Tensor | None:
        """Of the labels; of a span, of each token to be its start, and its end. None where there are none."""
        if self.function is None:
            return None
        if self.function == SIGMOID:
            return logits.sigmoid()
        return logits.softmax(dim=0 if self.kind == "span" else -1)


class Found(NamedTuple):
    """outputs: by name, the one that the checkpoint is for first. refused: why others, which it names, can't be had."""

    outputs: dict[str, Output]
    refused: dict[str, str]


@dataclass(frozen=True, repr=False)
class Prediction(Brief):
    """What an output says of a text.

    output: its name; kind: what it says. labels: names along the last axis, where they have any.
    values: before probabilities are made of them (logits): "classes" `[label]`; "words" and "tokens" `[token, label]`;
    "span" `[token, 2]`, start and end; "embedding" `[size]`. probabilities: in the same shape, of a span's start and
    end each over the tokens; None where there are none.
    """

    output: str
    kind: Kind
    labels: list[str]
    values: Numbers
    probabilities: Numbers | None
