"""Output: a checkpoint's prediction as a function of the last hidden states."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncli.base.choices import OutputName
from attncli.text.tokens import Tokens

# Poolings by sentence-transformers' names: from the vectors of real tokens, `[token, size]`, to one, `[size]`.
CLS, MEAN, LAST = "cls", "mean", "lasttoken"


def _weighted_mean(vectors: Tensor) -> Tensor:
    """Return Σ i x_i / Σ i, with tokens counted from 1 (Muennighoff 2022, equation 2)."""
    weights = torch.arange(1, len(vectors) + 1, dtype=vectors.dtype, device=vectors.device)
    return weights @ vectors / weights.sum()


POOLINGS: dict[str, Callable[[Tensor], Tensor]] = {
    CLS: lambda vectors: vectors[0],
    "max": lambda vectors: vectors.max(dim=0).values,
    MEAN: lambda vectors: vectors.mean(dim=0),
    "mean_sqrt_len_tokens": lambda vectors: vectors.sum(dim=0) / len(vectors) ** 0.5,
    "weightedmean": _weighted_mean,
    LAST: lambda vectors: vectors[-1],
}


SOFTMAX, SIGMOID = "softmax", "sigmoid"


class Output:
    """A head, or the computation of a sentence embedding. Its files are read at the first call.

    kind: "classes", "tokens", "span", "words", "next" (the token after each) or "embedding". labels: names along the
    last axis of its values, if they have any. function: turns values into probabilities, "softmax" (one label is
    right) or "sigmoid" (each may be); None for plain numbers, as in a regression.
    pooling: the pooled vectors that it reads, concatenated (`attncli.models.output`); if empty, the vector of each
    token. late: the head reads every token, and pooling applies to its results.
    """

    def __init__(
        self,
        kind: OutputName,
        pooling: Sequence[str],
        function: str | None,
        labels: Callable[[], Sequence[str]],
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
        """Return True if the output is about the text as a whole, not about each token."""
        return bool(self.pooling)

    @cached_property
    def labels(self) -> Sequence[str]:
        return self.make_labels()

    @cached_property
    def network(self) -> nn.Module:
        """Return the network from the vectors read, `[vector, size]`. Raises RequestError if its files are damaged."""
        with torch.inference_mode(False):  # tensors read in inference mode can't have a gradient later
            return self.load()

    def __call__(
        self, hidden: Sequence[Tensor], tokens: Sequence[Tokens], rows: Sequence[Sequence[int]] | None = None
    ) -> list[Tensor]:
        """Return the logits of each text.

        hidden: the last hidden states, `[token, hidden_size]` each, with or without a gradient. rows: for outputs per
        token, the selected tokens of each text; by default all.

        "embedding" `[size]`; "classes" `[label]`; "words", "next" and "tokens" `[token, label]`; "span" `[token, 2]`,
        start and end. Raises ValueError for rows of an output about the text as a whole.
        """
        if rows is not None and self.of_text:
            raise ValueError(f"{self.kind} are about a text, so rows can't select tokens")
        read = [self.read(*one) for one in zip(hidden, tokens, strict=True)]
        if rows is not None:
            read = [vectors[list(some)] for vectors, some in zip(read, rows, strict=True)]
        parts = self.network(torch.cat(read)).split([len(vectors) for vectors in read])
        if self.late:
            parts = [self.pooled(part) for part in parts]
        return [part[0] for part in parts] if self.pooling else list(parts)

    def places(self, tokens: Tokens) -> list[int]:
        """Return the positions of the tokens whose vectors the output depends on."""
        if not self.pooling:
            return list(range(len(tokens)))
        real = tokens.real
        ends = {CLS: real[:1], LAST: real[-1:]}
        return sorted({place for name in self.pooling for place in ends.get(name, real)})

    def read(self, vectors: Tensor, tokens: Tokens) -> Tensor:
        """Return the vectors of a text that the output reads, `[vector, size]`."""
        if not self.pooling:
            return vectors
        real = tokens.real
        vectors = vectors if len(real) == len(tokens) else vectors[real]
        return vectors if self.late else self.pooled(vectors)

    def pooled(self, vectors: Tensor) -> Tensor:
        """Return the poolings of the real tokens' vectors `[token, size]`, concatenated to `[1, size]`."""
        return torch.cat([POOLINGS[name](vectors) for name in self.pooling])[None]

    def probabilities(self, logits: Tensor) -> Tensor | None:
        """Return the labels' probabilities, for a span each token's as its start and end; None if undefined."""
        if self.function is None:
            return None
        if self.function == SIGMOID:
            return logits.sigmoid()
        return logits.softmax(dim=0 if self.kind == "span" else -1)


class AvailableOutputs(NamedTuple):
    """outputs: by name, the checkpoint's main output first. refused: the reasons why others are not available."""

    outputs: dict[str, Output]
    refused: dict[str, str]
