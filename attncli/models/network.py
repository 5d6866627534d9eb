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

from attncli.attention import (
    Disentangled,
    FeedForward,
    GatedFeedForward,
    LearnedPositions,
    MultiHeadAttention,
    PositionalScore,
    RMSNorm,
)
from attncli.models.config import ModelConfig
from attncli.models.families.parts import Conv, Positions
from attncli.models.linear import FUNCTIONS, NO_ACTIVATION, Convolution, Embedding, Linear
from attncli.models.scoring import layer_scores


def layer_norm(config: ModelConfig, size: int) -> nn.Module:
    """A norm, which takes the mean away or does not."""
    if config.rms_norm:
        return RMSNorm(size, config.layer_norm_eps)
    return nn.LayerNorm(size, eps=config.layer_norm_eps, bias=config.biases.norms)


class Embeddings(nn.Module):
    """token vector + segment vector + position vector + the first task's, normalised in most families; then widened."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.tokens = Embedding(config.vocab_size, config.embedding_size)
        size, rows = config.embedding_size, config.position_rows
        self.positions = LearnedPositions(rows, size, Embedding) if config.position_table else None
        self.segments = Embedding(config.segments, size) if config.segments else None
        self.tasks = Embedding(config.tasks, size) if config.tasks else None
        self.norm = layer_norm(config, size) if config.embedding_norm else nn.Identity()
        self.project = Linear(size, config.hidden_size) if config.widens else None

    def forward(self, ids: Tensor, segments: Tensor, positions: Tensor | None) -> Tensor:
        """Numbers of tokens, segments and positions, `[row]` each -> `[row, hidden_size]`.

        Without `positions` the network is not told the order of the tokens.
        """
        x: Tensor = self.tokens(ids)
        if self.segments is not None:
            x = x + self.segments(segments)
        if positions is not None and self.positions is not None:
            x = x + self.positions(positions)
        if self.tasks is not None:
            x = x + self.tasks.weight[0]
        x = self.norm(x)
        return x if self.project is None else self.project(x)


def feed_forward(config: ModelConfig) -> FeedForward | GatedFeedForward:
    """f(x W_up) W_down, its activation applied by the product where that can; or the gated one."""
    size, wide, function, biases = config.hidden_size, config.intermediate_size, config.activation, config.biases
    if config.gated:
        return GatedFeedForward(size, wide, FUNCTIONS[function], biases.feed_forward, Linear, biases.down)
    made = FeedForward(size, wide, FUNCTIONS[NO_ACTIVATION], biases.feed_forward, Linear, biases.down)
    assert isinstance(made.up, Linear)
    made.up.activation = config.activation
    return made


class Layer(nn.Module):
    """An encoder layer, drawn at the head of this file: what comes before its attention, and what follows."""

    def __init__(self, config: ModelConfig, number: int, score: PositionalScore) -> None:
        super().__init__()
        size = config.hidden_size
        self.norm_first = config.norm_first
        self.attention = MultiHeadAttention(
            size,
            config.heads,
            bias=config.biases.attention,
            score=score,
            linear=Linear,
            key_heads=config.key_heads,
        )
        if config.biases.bare_keys:
            self.attention.key = Linear(size, size, bias=False)
        if isinstance(score, Disentangled):
            score.share(self.attention.query, self.attention.key)
        self.attention_norm = layer_norm(config, size) if number or config.first_norm else nn.Identity()
        self.feed_forward = feed_forward(config)
        self.feed_forward_norm = layer_norm(config, size)

    @property
    def score(self) -> PositionalScore:
        """The attention's."""
        score = self.attention.score
        assert isinstance(score, PositionalScore)
        return score

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


class NeighbourMix(nn.Module):
    """Beside the first layer, y = LayerNorm(layer(x) + f(conv(x))), conv over each token and those next to it.

    Source: He et al. 2021, the published DeBERTa of version 2; its largest models have it.
    """

    def __init__(self, config: ModelConfig, conv: Conv) -> None:
        super().__init__()
        self.conv = Convolution(config.hidden_size, conv.tokens, conv.groups)
        self.function = FUNCTIONS[conv.activation]
        self.norm = layer_norm(config, config.hidden_size)

    def forward(self, x: Tensor, y: Tensor, shown: Tensor | None) -> Tensor:
        """What goes into the first layer, and what comes out, of texts of one length, `[text, token, hidden_size]` ->
        the same shape. shown: bool `[text, token, 1]`, False at what is hidden from all, which counts as nothing.
        """
        x = x if shown is None else x * shown
        mixed: Tensor = self.norm(y + self.function(self.conv(x.mT).mT))
        return mixed


class Network(nn.Module):
    """Embeddings, then layers; of pre-norm ones, a norm after the last. A layer may stand in several places.

    silenced: heads, (layer, head), in place of whose outputs stands 0.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(layers_of(config))
        self.neighbours = None if config.conv is None else NeighbourMix(config, config.conv)
        self.final_norm = layer_norm(config, config.hidden_size) if config.norm_first else None
        self.silenced: list[tuple[int, int]] = []

    def layer(self, number: int) -> Layer:
        layer = self.layers[number]
        assert isinstance(layer, Layer)
        return layer

    def parts_of(self, layers: int) -> list[str]:
        """Those that a walk through the first layers needs: all of them, and it needs what follows them."""
        mixed = ["neighbours"] if self.neighbours is not None else []
        last = ["final_norm"] if self.final_norm is not None and layers == len(self.layers) else []
        every = list(self.layers)
        own = [f"layers.{number}" for number in range(layers) if every.index(every[number]) == number]
        return ["embeddings", *mixed, *own, *last]


def layers_of(config: ModelConfig) -> list[Layer]:
    """All of them; those that are called alike in a checkpoint, and told of positions alike, are one."""
    made: dict[tuple[str, Positions | None], Layer] = {}
    alike = list(zip(config.layer_names, config.positions, strict=True))
    for number, (key, score) in enumerate(zip(alike, layer_scores(config), strict=True)):
        if key not in made:
            made[key] = Layer(config, number, score)
    return [made[key] for key in alike]


def empty_network(config: ModelConfig) -> Network:
    """One that takes no memory until its parameters are loaded."""
    with torch.device("meta"):
        network = Network(config)
    return network.requires_grad_(False)
