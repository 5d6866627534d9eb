"""The Transformer (Vaswani et al. 2017), small: the layers of `attention.transformer`, from characters to characters.

the text's characters + positions ── encoder layers ──► memory
START and what was written + positions ── decoder layers, which look at the memory ──► what follows
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncli.align.characters import SOURCE, TARGET, Batch
from attncli.align.network import Decoded
from attncli.attention import (
    SinusoidalPositions,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    causal_mask,
    padding_mask,
)


class TransformerMemory(NamedTuple):
    """The encoder's output `[batch, key, d_model]`, the mask that hides PAD `[batch, 1, 1, key]`, and the encoder's
    weights `[batch, layer, head, key, key]`."""

    output: Tensor
    mask: Tensor
    weights: Tensor


class Transformer(nn.Module):
    """Encoder and decoder of `layers` layers each; post-norm, as in the paper, without dropout.

    Raises ValueError when `d_model` is odd or not divisible by `heads`.
    """

    def __init__(self, d_model: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.source = nn.Embedding(len(SOURCE), d_model)
        self.target = nn.Embedding(len(TARGET), d_model)
        self.positions = SinusoidalPositions(d_model)
        self.encoder = nn.ModuleList(TransformerEncoderLayer(d_model, heads) for _ in range(layers))
        self.decoder = nn.ModuleList(TransformerDecoderLayer(d_model, heads) for _ in range(layers))
        self.output = nn.Linear(d_model, len(TARGET))
        for table in (
            self.source,
            self.target,
        ):  # of size 1 once multiplied, so that positions can be heard beside them
            nn.init.normal_(table.weight, std=d_model**-0.5)

    def encode(self, batch: Batch) -> TransformerMemory:
        mask = padding_mask(batch.real)
        x = self.embed(self.source, batch.source)  # [batch, key, d_model]
        weights = []
        for layer in self.encoder:
            x, attention = layer(x, mask)
            weights.append(attention.weights)
        return TransformerMemory(x, mask, torch.stack(weights, dim=1))

    def decode(self, memory: TransformerMemory, previous: Tensor) -> Decoded:
        mask = causal_mask(previous.shape[1], device=previous.device)
        x = self.embed(self.target, previous)  # [batch, query, d_model]
        own, cross = [], []
        for layer in self.decoder:
            step = layer(x, memory.output, mask, memory.mask)
            x = step.output
            own.append(step.attention.weights)
            cross.append(step.cross.weights)
        return Decoded(self.output(x), torch.stack(cross, dim=1), memory.weights, torch.stack(own, dim=1))

    def embed(self, table: nn.Embedding, numbers: Tensor) -> Tensor:
        """Characters and their positions as vectors, the characters times √d_model (section 3.4)."""
        positions = torch.arange(numbers.shape[1], device=numbers.device)
        return table(numbers) * table.embedding_dim**0.5 + self.positions(positions)
