"""A network of encoder layers, built from `attncli.attention` by what a family says: BERT, RoBERTa, and others.

One layer, post-norm as published (Vaswani et al. 2017, figure 1, left; Devlin et al. 2019), and pre-norm:

    x ──┬── multi-head attention ──(+)── LayerNorm ──┬── feed-forward ──(+)── LayerNorm ──► x
        └───────────────────────────┘                └──────────────────┘

    x ──┬── LayerNorm ── multi-head attention ──(+)──┬── LayerNorm ── feed-forward ──(+)──► x
        └────────────────────────────────────────────┘  └──────────────────────────────┘

Here stand the parts. What walks through them, layer by layer, is `attncli.models.walk`. Inference only: there is no
dropout.
"""

import torch
from torch import Tensor, nn

from attncli.attention import LearnedPositions, MultiHeadAttention
from attncli.models.config import ModelConfig
from attncli.models.linear import FUNCTIONS, NO_ACTIVATION, Embedding, Linear


class Embeddings(nn.Module):
    """token vector + segment vector + position vector, normalised; ELECTRA then widens it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.tokens = Embedding(config.vocab_size, config.embedding_size)
        self.positions = LearnedPositions(config.position_rows, config.embedding_size, Embedding)
        self.segments = Embedding(config.segments, config.embedding_size) if config.segments else None
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.project = Linear(config.embedding_size, config.hidden_size) if config.widens else None

    def forward(self, ids: Tensor, segments: Tensor, positions: Tensor | None) -> Tensor:
        """Numbers of tokens, segments and positions, `[row]` each -> `[row, hidden_size]`.

        Without `positions` the network is not told the order of the tokens.
        """
        x: Tensor = self.tokens(ids)
        if self.segments is not None:
            x = x + self.segments(segments)
        if positions is not None:
            x = x + self.positions(positions)
        x = self.norm(x)
        return x if self.project is None else self.project(x)


class FeedForward(nn.Module):
    """f(x W_up) W_down; gated: (f(x W) * (x V)) W_down, with W and V one under the other in `up` (Shazeer 2020)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate = FUNCTIONS[config.activation] if config.gated else None
        wide = config.intermediate_size * (2 if config.gated else 1)
        self.up = Linear(config.hidden_size, wide, activation=NO_ACTIVATION if config.gated else config.activation)
        self.down = Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """`[row, hidden_size]` -> the same shape."""
        wide: Tensor = self.up(x)
        if self.gate is not None:
            opened, values = wide.chunk(2, dim=-1)
            wide = self.gate(opened) * values
        y: Tensor = self.down(wide)
        return y


class Layer(nn.Module):
    """An encoder layer, drawn at the head of this file: what comes before its attention, and what follows."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm_first = config.norm_first
        self.attention = MultiHeadAttention(config.hidden_size, config.heads, linear=Linear)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def before(self, x: Tensor) -> Tensor:
        """What the attention is given; x `[row, hidden_size]`."""
        given: Tensor = self.attention_norm(x) if self.norm_first else x
        return given

    def after(self, x: Tensor, attended: Tensor) -> Tensor:
        """The layer's output; x and what the heads gave, joined, `[row, hidden_size]`."""
        attended = self.attention.output(attended)
        if self.norm_first:
            x = x + attended
            return x + self.feed_forward(self.feed_forward_norm(x))
        x = self.attention_norm(x + attended)
        x = self.feed_forward_norm(x + self.feed_forward(x))
        return x


class Network(nn.Module):
    """Embeddings, then layers; of pre-norm ones, a norm after the last."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.final_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps) if config.norm_first else None

    def layer(self, number: int) -> Layer:
        layer = self.layers[number]
        assert isinstance(layer, Layer)
        return layer

    @property
    def parts(self) -> list[str]:
        """What a checkpoint is read by, in the order in which a text goes through them."""
        layers = [f"layers.{number}" for number in range(len(self.layers))]
        return ["embeddings", *layers, *(["final_norm"] if self.final_norm is not None else [])]


def empty_network(config: ModelConfig) -> Network:
    """One that takes no memory until its parameters are loaded."""
    with torch.device("meta"):
        network = Network(config)
    return network.requires_grad_(False)
