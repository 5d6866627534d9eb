"""The BERT-family encoder, built from `attncli.attention`: BERT, RoBERTa, DistilBERT, ELECTRA.

One layer, post-norm as published (Vaswani et al. 2017, figure 1, left; Devlin et al. 2019):

      x ──┬── multi-head attention ──(+)── LayerNorm ──┬── up ── activation ── down ──(+)── LayerNorm ──► x
          └─────────────────────────┘                  └──────────────────────────────┘

Inference only: there is no dropout.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncli.attention import LearnedPositions, MultiHeadAttention
from attncli.models.config import ModelConfig
from attncli.models.linear import Embedding, Linear


class Encoded(NamedTuple):
    """What one forward pass gives.

    weights: `[batch, layer, head, query, key]`, of the layers and heads asked for.
    hidden: `[batch, token, hidden_size]` each: the embeddings' output, then every layer's; empty unless
    asked for.
    vectors: `[2, batch, head, token, head_dim]`: queries, then keys, in the order of the `vectors` asked for.
    """

    weights: Tensor
    hidden: list[Tensor]
    vectors: Tensor


class Embeddings(nn.Module):
    """token vector + position vector + segment vector, normalised; ELECTRA then widens it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pad_id = config.pad_id if config.family == "roberta" else None
        self.tokens = Embedding(config.vocab_size, config.embedding_size)
        self.positions = LearnedPositions(config.position_rows, config.embedding_size, Embedding)
        self.segments = Embedding(config.segments, config.embedding_size) if config.segments else None
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        widen = config.embedding_size != config.hidden_size
        self.project = Linear(config.embedding_size, config.hidden_size) if widen else None

    def forward(self, ids: Tensor, segments: Tensor | None = None, positions: bool = True) -> Tensor:
        """ids and segments `[batch, token]` -> `[batch, token, hidden_size]`.

        Without `positions` the network is not told the order of the tokens.
        """
        x: Tensor = self.tokens(ids)
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(ids) if segments is None else segments)
        if positions:
            x = x + self.positions(self.position_numbers(ids))
        x = self.norm(x)
        return x if self.project is None else self.project(x)

    def position_numbers(self, ids: Tensor) -> Tensor:
        """0, 1, 2, ...; in RoBERTa [PAD] has its own number and real tokens count on from there."""
        if self.pad_id is None:
            return torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        real = (ids != self.pad_id).long()
        return real.cumsum(dim=1) * real + self.pad_id


class EncoderLayer(nn.Module):
    """x <- norm(x + attention(x));  x <- norm(x + mlp(x)). Drawn at the head of this file."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config.hidden_size, config.heads, linear=Linear)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.up = Linear(config.hidden_size, config.intermediate_size, activation=config.activation)
        self.down = Linear(config.intermediate_size, config.hidden_size)
        self.mlp_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        heads: Sequence[int] = (),
        maps: Tensor | None = None,
        vectors: Mapping[int, Tensor] | None = None,
    ) -> Tensor:
        """x `[batch, token, hidden_size]` -> the same shape; `heads`, `maps`, `vectors` as in MultiHeadAttention."""
        return self.rest(x, self.attention.forward_keeping(x, mask=mask, heads=heads, maps=maps, vectors=vectors))

    def rest(self, x: Tensor, attended: Tensor) -> Tensor:
        """What follows the attention, token by token; x and attended `[..., hidden_size]`."""
        x = self.attention_norm(x + attended)
        x = self.mlp_norm(x + self.down(self.up(x)))
        return x


class Encoder(nn.Module):
    """Embeddings, then layers."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))

    def forward(
        self,
        ids: Tensor,
        segments: Tensor | None = None,
        mask: Tensor | None = None,
        layers: Sequence[int] = (),
        heads: Sequence[int] = (),
        hidden: bool = False,
        positions: bool = True,
        vectors: Sequence[tuple[int, int]] = (),
    ) -> Encoded:
        """Run the tokens through the network and keep what is asked for.

        ids, segments: int `[batch, token]`; mask: bool, broadcasts to `[batch, head, query, key]`, True where
        a query may look. `layers` and `heads` (counted from 0) say whose weights to keep; `vectors`, which are
        (layer, head) and some of these, whose queries and keys. Unless `hidden` is asked for, nothing after the
        weights of the last layer in `layers` is computed.
        """
        batch, length = ids.shape
        x = self.embeddings(ids, segments, positions)
        weights = torch.empty(batch, len(layers), len(heads), length, length, dtype=x.dtype, device=x.device)
        kept = torch.empty(2, batch, len(vectors), length, self.config.head_dim, dtype=x.dtype, device=x.device)
        last = max(layers, default=-1)
        states = [x] if hidden else []
        for number in range(len(self.layers)):
            layer = self.layer(number)
            maps = weights[:, layers.index(number)] if number in layers else None
            places = {head: kept[:, :, place] for place, (of, head) in enumerate(vectors) if of == number}
            if not hidden and number >= last:
                if maps is not None:
                    layer.attention.maps_into(maps, x, mask, heads, places)
                break
            x = layer(x, mask, heads, maps, places)
            if hidden:
                states.append(x)
        return Encoded(weights, states, kept)

    def layer(self, number: int) -> EncoderLayer:
        layer = self.layers[number]
        assert isinstance(layer, EncoderLayer)
        return layer
