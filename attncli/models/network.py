"""Build a network of encoder or decoder layers from `attncli.attention` for a family: BERT, RoBERTa, and others.

One layer, post-norm as published (Vaswani et al. 2017, figure 1, left; Devlin et al. 2019), and pre-norm:

    x ──┬── multi-head attention ──(+)── LayerNorm ──┬── feed-forward ──(+)── LayerNorm ──► x
        └───────────────────────────┘                └──────────────────┘

    x ──┬── LayerNorm ── multi-head attention ──(+)──┬── LayerNorm ── feed-forward ──(+)──► x
        └────────────────────────────────────────────┘  └──────────────────────────────┘

With `output_norm` the outputs of both parts have a norm before they are added, and with `parallel` both parts read x.

This module defines the parts; `attncli.models.walk` runs them layer by layer. Inference only: there is no dropout.

First come the linear layers and embeddings, whose values come from a checkpoint. They are not initialised: torch would
import its decompositions for that, which takes a second. Linear layers take nearly all of a network's time. They use
oneDNN's matrix product if available. For float32 on a CPU, torch uses MKL, which reaches about half of oneDNN's rate
on processors that are not Intel's (126 ms against 63 ms for 4096 x 768 x 3072 on an AMD EPYC 9005, and the same factor
from 1 token to 4096). The numbers agree except in the last bits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.attention import (
    Disentangled,
    FeedForward,
    GatedFeedForward,
    LearnedPositions,
    MultiHeadAttention,
    PositionalScore,
    RelativeBias,
    RMSNorm,
    Rotary,
    RotaryScore,
)
from attncli.attention.multihead import apply_norm, norm_size
from attncli.attention.positions import PROJECTIONS
from attncli.models.config import ModelConfig
from attncli.models.families.family import Conv, Disentangling, Positions, RelativeBiasPositions, RotaryPositions
from attncli.models.weighing import weigh

# torch.compile uses the same operator for frozen weights. It has no gradient.
ONEDNN_LINEAR = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None
ONEDNN_PACK = getattr(torch.ops.mkldnn, "_reorder_linear_weight", None) if ONEDNN_LINEAR is not None else None

NO_ACTIVATION = "none"
_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    NO_ACTIVATION: lambda x: x,
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": torch.tanh,
}  # by their names in config.json
# Activations that oneDNN applies: name and algorithm.
_ONEDNN_NAMES = {NO_ACTIVATION: ("none", None), "gelu": ("gelu", "none")}
ROWS = 64  # typical rows of a product: one packed layout serves every number of rows


class Linear(nn.Linear):
    """y = f(x W^T + b), `[..., in]` -> `[..., out]`. Uses oneDNN in inference mode, in float32 on a CPU.

    activation: the name of f, by default none.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | None = None,
        activation: str = NO_ACTIVATION,
    ) -> None:
        super().__init__(in_features, out_features, bias, device)
        self.activation = activation
        self.packed: Tensor | None = None

    def pack(self) -> None:
        """Pack the weight into oneDNN's layout, which it otherwise computes anew for every product.

        That takes a quarter of the time of a product with few rows. Packing doubles the weight's memory, and the weight
        must not change afterwards.
        """
        if ONEDNN_PACK is not None and self.weight.dtype == torch.float32 and self.weight.device.type == "cpu":
            with torch.inference_mode():
                self.packed = ONEDNN_PACK(self.weight, ROWS)

    def reset_parameters(self) -> None:
        pass

    def forward(self, input: Tensor) -> Tensor:
        function = _FUNCTIONS[self.activation]
        if (
            ONEDNN_LINEAR is None
            or not torch.is_inference_mode_enabled()
            or input.dtype != torch.float32
            or input.device.type != "cpu"
        ):
            return function(F.linear(input, self.weight, self.bias))
        weight = self.weight if self.packed is None else self.packed
        name, algorithm = _ONEDNN_NAMES.get(self.activation, ("none", None))
        product: Tensor = ONEDNN_LINEAR(input, weight, self.bias, name, [], algorithm)
        return product if self.activation in _ONEDNN_NAMES else function(product)


def lay_out(module: nn.Module) -> None:
    """Pack every linear layer in the module that is not packed yet."""
    for part in module.modules():
        if isinstance(part, Linear) and part.packed is None:
            part.pack()


class _Convolution(nn.Conv1d):
    """A convolution over each token and its neighbours, `[text, size, token]` -> the same. tokens: an odd number."""

    def __init__(self, size: int, tokens: int, groups: int) -> None:
        super().__init__(size, size, tokens, padding=(tokens - 1) // 2, groups=groups)

    def reset_parameters(self) -> None:
        pass


class Embedding(nn.Embedding):
    """A table of vectors: row numbers `[...]` -> `[..., embedding_dim]`."""

    def reset_parameters(self) -> None:
        pass


def layer_scores(config: ModelConfig) -> list[PositionalScore]:
    """Return one score per layer. Layers of the same kind share one module.

    Disentangled scores have their own projections, and share only the table of offset vectors.
    """
    size = config.hidden_size
    shared: dict[Positions | None, PositionalScore] = {}
    tables: dict[Disentangling, tuple[nn.Embedding, nn.Module | None]] = {}
    made: list[PositionalScore] = []
    for positions in config.positions:
        if isinstance(positions, Disentangling):
            if positions not in tables:
                norm = nn.LayerNorm(size, eps=config.layer_norm_eps) if positions.normed else None
                tables[positions] = Embedding(2 * positions.span, size), norm
            names = [PROJECTIONS[kind] for kind in positions.kinds]
            biases = {name: not (name == "key" and config.biases.bare_keys) for name in names}
            own = None if positions.shared else {name: Linear(size, size, bias) for name, bias in biases.items()}
            near, furthest = positions.near, positions.furthest
            made.append(Disentangled(*tables[positions], own, positions.kinds, near, furthest))
        else:
            if positions not in shared:
                match positions:
                    case RotaryPositions():
                        shared[positions] = RotaryScore(Rotary(**asdict(positions)))
                    case RelativeBiasPositions():
                        shared[positions] = RelativeBias(config.heads, positions.buckets, positions.furthest, Embedding)
                    case _:
                        shared[positions] = PositionalScore()
            made.append(shared[positions])
    for score in made:
        score.factor, score.softcap = config.score_scale, config.softcap
    return made


def layer_norm(config: ModelConfig, size: int) -> nn.Module:
    """Return a norm, which subtracts the mean unless the configuration has `rms_norm`."""
    if config.rms_norm:
        return RMSNorm(size, config.layer_norm_eps)
    return nn.LayerNorm(size, eps=config.layer_norm_eps, bias=config.biases.norms)


class _Embeddings(nn.Module):
    """token + segment + position + first task embedding, usually normalised, then projected to the hidden size."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.tokens = Embedding(config.vocab_size, config.embedding_size)
        self.scale = config.embedding_scale
        size, rows = config.embedding_size, config.position_rows
        self.positions = LearnedPositions(rows, size, Embedding) if config.position_table else None
        self.segments = Embedding(config.segments, size) if config.segments else None
        self.tasks = Embedding(config.tasks, size) if config.tasks else None
        self.norm = layer_norm(config, size) if config.embedding_norm else nn.Identity()
        self.project = Linear(size, config.hidden_size) if config.widens else None

    def forward(self, ids: Tensor, segments: Tensor, positions: Tensor | None) -> Tensor:
        """Embed the numbers of tokens, segments and positions, `[row]` each -> `[row, hidden_size]`.

        Without `positions` the network does not receive the order of the tokens.
        """
        x: Tensor = self.tokens(ids)
        if self.scale != 1.0:
            x = x * torch.tensor(self.scale, dtype=x.dtype)
        if self.segments is not None:
            x = x + self.segments(segments)
        if positions is not None and self.positions is not None:
            x = x + self.positions(positions)
        if self.tasks is not None:
            x = x + self.tasks.weight[0]
        x = self.norm(x)
        return x if self.project is None else self.project(x)


def feed_forward(config: ModelConfig) -> FeedForward | GatedFeedForward:
    """Return f(x W_up) W_down, with the activation fused into the product if possible; or the gated variant."""
    size, wide, function, biases = config.hidden_size, config.intermediate_size, config.activation, config.biases
    if config.gated:
        return GatedFeedForward(size, wide, _FUNCTIONS[function], biases.feed_forward, Linear, biases.down)
    made = FeedForward(size, wide, _FUNCTIONS[NO_ACTIVATION], biases.feed_forward, Linear, biases.down)
    assert isinstance(made.up, Linear)
    made.up.activation = config.activation
    return made


class Layer(nn.Module):
    """A layer, as drawn at the top of this file: the parts before and after its attention."""

    def __init__(self, config: ModelConfig, number: int, score: PositionalScore) -> None:
        super().__init__()
        size = config.hidden_size
        self.norm_first = config.norm_first
        self.parallel = config.parallel
        query_norm = key_norm = None
        if config.query_key_norm is not None:
            joined = (config.heads, config.key_heads) if config.query_key_norm == "all" else (1, 1)
            query_norm, key_norm = (layer_norm(config, count * config.head_dim) for count in joined)
        self.attention = MultiHeadAttention(
            size,
            config.heads,
            bias=config.biases.attention,
            score=score,
            linear=Linear,
            key_heads=config.key_heads,
            head_dim=config.head_dim,
            output_bias=config.biases.output,
            query_norm=query_norm,
            key_norm=key_norm,
        )
        if config.biases.bare_keys:
            self.attention.key = Linear(size, size, bias=False)
        if isinstance(score, Disentangled):
            score.share(self.attention.query, self.attention.key)
        summed = not config.output_norm  # a norm of the sum, unless it is pre-norm
        has_norm = (config.norm_first or summed) and (number > 0 or config.first_norm)
        self.attention_norm = layer_norm(config, size) if has_norm else nn.Identity()
        self.attention_output_norm = layer_norm(config, size) if config.output_norm else nn.Identity()
        self.feed_forward = feed_forward(config)
        self.feed_forward_norm = layer_norm(config, size) if config.norm_first or summed else nn.Identity()
        self.feed_forward_output_norm = layer_norm(config, size) if config.output_norm else nn.Identity()

    @property
    def score(self) -> PositionalScore:
        """Return the positional score of the attention."""
        score = self.attention.score
        assert isinstance(score, PositionalScore)
        return score

    def project(
        self, x: Tensor, heads: Sequence[int] | None = None, values: bool = True
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value, `[batch, head, token, head_dim]`, of some heads, by default all.

        values: they are needed; else they have a width of 0, so that their weighted sum costs nothing.
        """
        attention = self.attention
        if heads is None:
            return attention.project(x)
        query = _some_heads(attention, attention.query, x, heads, attention.query_norm)
        key = _some_heads(attention, attention.key, x, heads, attention.key_norm)
        return query, key, _some_heads(attention, attention.value, x, heads) if values else key[..., :0]

    def projection(self, name: str) -> tuple[Tensor, Tensor | None]:
        """Return W `[head * head_dim, hidden_size]` and b of the projection to "query", "key" or "value"."""
        part = getattr(self.attention, name)
        return part.weight, part.bias

    def output_by_head(self) -> Tensor:
        """Return the output projection divided by head, `[hidden_size, head, head_dim]`."""
        return self.attention.output_by_head()

    def before(self, x: Tensor) -> Tensor:
        """Return the attention's input; x `[row, hidden_size]`."""
        return self.attention_norm(x) if self.norm_first else x

    def after(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return the layer's output from x and the concatenated outputs of the heads, `[row, hidden_size]`."""
        after = x
        for _, vectors, _ in self.stations(x, attended):
            after = vectors
        return after

    def stations(self, x: Tensor, attended: Tensor) -> Iterator[tuple[str, Tensor, str]]:
        """Yield the name, the vectors and the kind of every step after the heads; the last one is the layer's output.

        Kinds: "stream", the residual stream; "added", vectors added to it; "read", the input of feed-forward.
        """
        attended = self.attention_output_norm(self.attention.output(attended))
        yield "attention", attended, "added"
        if not self.norm_first:
            x = x + attended
            yield "sum", x, "stream"
            x = self.attention_norm(x)
            if not isinstance(self.attention_norm, nn.Identity):
                yield "norm", x, "stream"
            read = x
        else:
            after = x + attended
            read = self.feed_forward_norm(x if self.parallel else after)
            x = after
            yield "sum", x, "stream"
            yield "norm", read, "read"
        made = self.feed_forward_output_norm(self.feed_forward(read))
        yield "feed-forward", made, "added"
        x = x + made
        yield "sum", x, "stream"
        if not self.norm_first and not isinstance(self.feed_forward_norm, nn.Identity):
            yield "norm", self.feed_forward_norm(x), "stream"


def _some_heads(
    attention: MultiHeadAttention, part: nn.Linear, x: Tensor, heads: Sequence[int], norm: nn.Module | None = None
) -> Tensor:
    """Project x for some heads, `[batch, head, token, head_dim]`. Shared projections are computed once.

    For queries, head i has the rows i * head_dim to (i + 1) * head_dim. For keys and values, its key head i does.
    """
    own = list(heads) if part is attention.query else [attention.key_head(head) for head in heads]
    needed = list(dict.fromkeys(own))
    weight = part.weight.unflatten(0, (-1, attention.head_dim))
    if norm is not None and norm_size(norm) != attention.head_dim:  # the norm reads all heads
        needed = list(range(len(weight)))
    if needed == list(range(len(weight))):
        made = part(x)
    else:
        bias = None if part.bias is None else part.bias.unflatten(0, (-1, attention.head_dim))[needed].flatten()
        made = F.linear(x, weight[needed].flatten(0, 1), bias)
    by_head = attention.split_heads(apply_norm(norm, made))
    return by_head if needed == own else by_head[:, [needed.index(one) for one in own]]


class _NeighbourMix(nn.Module):
    """Parallel to the first layer: y = LayerNorm(layer(x) + f(conv(x))), conv over each token and its neighbours.

    Source: He et al. 2021, the published DeBERTa of version 2; its largest models have it.
    """

    def __init__(self, config: ModelConfig, conv: Conv) -> None:
        super().__init__()
        self.conv = _Convolution(config.hidden_size, conv.tokens, conv.groups)
        self.function = _FUNCTIONS[conv.activation]
        self.norm = layer_norm(config, config.hidden_size)

    def forward(self, x: Tensor, y: Tensor, shown: Tensor | None) -> Tensor:
        """Combine the first layer's input x and output y for texts of one length, `[text, token, hidden_size]` each.

        shown: bool `[text, token, 1]`, False at hidden tokens, which count as 0.
        """
        x = x if shown is None else x * shown
        return self.norm(y + self.function(self.conv(x.mT).mT))


class Network(nn.Module):
    """Embeddings, then layers, then a final norm if layers end without one. One layer may occur in several places.

    silenced_heads: (layer, head), whose outputs are replaced with 0.
    """

    weigh = staticmethod(weigh)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = _Embeddings(config)
        made: dict[tuple[str, Positions | None], Layer] = {}  # layers of one name and the same positions are one module
        keys = list(zip(config.layer_names, config.positions, strict=True))
        for number, (key, score) in enumerate(zip(keys, layer_scores(config), strict=True)):
            if key not in made:
                made[key] = Layer(config, number, score)
        self.layers = nn.ModuleList([made[key] for key in keys])
        self.neighbours = None if config.conv is None else _NeighbourMix(config, config.conv)
        self.final_norm = layer_norm(config, config.hidden_size) if config.final_norm else None
        self.silenced_heads: list[tuple[int, int]] = []

    def layer(self, number: int) -> Layer:
        layer = self.layers[number]
        assert isinstance(layer, Layer)
        return layer

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the parameters, by name."""
        return {name: tuple(parameter.shape) for name, parameter in self.named_parameters()}

    def parts_of(self, layers: int) -> list[str]:
        """Return the modules needed for the first `layers` layers. With all layers, include the modules after them."""
        mixed = ["neighbours"] if self.neighbours is not None else []
        last = ["final_norm"] if self.final_norm is not None and layers == len(self.layers) else []
        every = list(self.layers)
        own = [f"layers.{number}" for number in range(layers) if every.index(every[number]) == number]
        return ["embeddings", *mixed, *own, *last]


def empty_network(config: ModelConfig) -> Network:
    """Build a network that takes no memory until its parameters are loaded."""
    with torch.device("meta"):
        network = Network(config)
    return network.requires_grad_(False)
