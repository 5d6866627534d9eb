"""Instant: the network of an encoder or a decoder in NumPy, so that short texts need no import of torch.

Importing torch takes longer than everything else that a short text needs. The walk through the layers
(`attncli.models.walk.walk`), the place where queries meet keys (`attncli.models.block.meet`) and the taps are the
same as in torch. This file has the parts that they call: embeddings and a layer's parts. The weights are mapped from
the checkpoint, by the same names (`attncli.models.families`).

It supports networks with learned or rotary positions, in float32. For long texts, predictions and gradients, `Instant`
opens the model in torch.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache, cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attncli.base.arrays import Bools, Floats, Ints
from attncli.base.errors import RequestError
from attncli.models.answers import Prediction, answers_of
from attncli.models.block import Block, Tap
from attncli.models.checkpoint_files import MODULES_FILE, Place
from attncli.models.config import TABLE, ModelConfig
from attncli.models.families.family import RotaryPositions, TaskHead, tensors_of
from attncli.models.own_model import OwnModel, find_heads, pairs, rates
from attncli.models.rows import LayerMask, OwnRows, arrange, every_text
from attncli.models.walk import Predictor
from attncli.models.weights import Checkpoint, read_parameters
from attncli.record import AttentionRecord, Request
from attncli.record.formula import MASKS, near, no_padding, self_mask, softmax
from attncli.record.parts import PredictionSummary
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens, mask_positions

if TYPE_CHECKING:
    from attncli.models.engine import Engine
    from attncli.models.output import AvailableOutputs

# --- functions ------------------------------------------------------------------------------------------


def erf(x: Floats) -> Floats:
    """Return 2/√π ∫ exp(-t²) dt from 0 to x, with an error below 2e-7.

    Computed in float64, since float32 would round to three times that error near 0.

    Source: Abramowitz and Stegun 1964, formula 7.1.26.
    """
    wide = x.astype(np.float64)
    t = 1.0 / (1.0 + 0.3275911 * np.abs(wide))
    powers = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.copysign(1.0 - powers * np.exp(-wide * wide), wide).astype(np.float32)


def gelu(x: Floats) -> Floats:
    """x Φ(x), Φ the normal distribution (Hendrycks and Gimpel 2016)."""
    return x * (0.5 * (1.0 + erf(x * np.float32(0.5**0.5))))


def gelu_tanh(x: Floats) -> Floats:
    """The approximation x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))) (Hendrycks and Gimpel 2016, section 2)."""
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + np.tanh(inner))


def silu(x: Floats) -> Floats:
    """x σ(x), σ the logistic function; written with tanh, which can't overflow."""
    return 0.5 * x * (1.0 + np.tanh(0.5 * x))


FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {
    "gelu": gelu,
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": lambda x: np.maximum(x, 0),
    "silu": silu,
    "swish": silu,
    "tanh": np.tanh,
}  # by their names in config.json


def weigh(
    part: Block, out: Floats | None = None, differentiable: bool = False, need_weights: bool = True
) -> tuple[Floats, Floats | None]:
    """Compute outputs `[text, head, query, head_dim]` and weights `[text, head, query, key]` of a part.

    Arguments as for `attncli.models.weighing.weigh`; `differentiable` has no effect, since nothing has a gradient.
    """
    scores = (np.float32(part.scale) * part.query) @ part.key.swapaxes(-2, -1)  # [text, head, query, key]
    if part.softcap is not None:
        scores = np.float32(part.softcap) * np.tanh(scores / np.float32(part.softcap))
    weights = softmax(scores, part.allowed()).weights
    if out is not None:
        out[...] = weights
        weights = out
    return weights @ part.value, weights if need_weights else None


# --- masks and positions --------------------------------------------------------------------------------


def layer_masks(real: Bools, config: ModelConfig, name: str) -> list[LayerMask | None]:
    """Return for each layer the mask of this name combined with the layer's window; None if everything is allowed.

    real: False at [PAD], bool `[text, token]`.
    """
    masks: dict[int | None, LayerMask | None] = {}
    for reach in set(config.reach):
        mask = self_mask(real, *MASKS[name], *([] if reach is None else [near(reach)]))
        masks[reach] = None if mask.all() else LayerMask(mask, None)
    return [masks[reach] for reach in config.reach]


class Score(NamedTuple):
    """The scaled dot product of a layer, after queries and keys are rotated if `rotary` is given.

    Names as in `attncli.attention.PositionalScore`, whose other kinds are not here.
    """

    rotary: RotaryPositions | None
    factor: float | None
    softcap: float | None
    names: tuple[str, ...] = ()
    by_offset: bool = False
    has_terms: bool = False

    @property
    def turned(self) -> tuple[str, ...]:
        return ("query", "key", "value") if self.rotary is not None and self.rotary.values else ("query", "key")

    def scale(self, d_k: int) -> float:
        """Return the factor of the dot product: 1 / sqrt(d_k), or the network's own."""
        return float(d_k**-0.5) if self.factor is None else self.factor

    def rotation(self, positions: Ints, dtype: Any) -> Callable[[Floats], Floats]:
        """Return the function that rotates `[..., head, token, head_dim]` vectors at these positions `[token]`."""
        if self.rotary is None:
            return lambda x: x
        rotary = self.rotary
        wide = np.float64 if rotary.exact else np.float32
        angles = positions[:, None].astype(wide) * rates(rotary, wide)  # [token, rotated / 2]
        cos, sin = np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)
        first, second = pairs(rotary).T

        def turn(x: Floats) -> Floats:
            turned = x.copy()
            turned[..., first] = x[..., first] * cos - x[..., second] * sin
            turned[..., second] = x[..., second] * cos + x[..., first] * sin
            return turned

        return turn


# --- the network ----------------------------------------------------------------------------------------


def why_not(config: ModelConfig) -> str | None:
    """Return why there is no network in NumPy for a configuration; None if there is one."""
    if config.conv is not None:
        return "it has a convolution"
    plain = all(one is None or isinstance(one, RotaryPositions) for one in config.positions)
    return None if plain else f"it has {config.position_words} positions"


class NumpyNetwork:
    """Embeddings, layers, and a final norm if layers end without one, as in `attncli.models.network`.

    parameters: by their names there; a layer that shares those of another is named as that one. stacked: parameters
    that are several tensors in the checkpoint, whose rows follow each other; copying them would take as long as a short
    text. silenced_heads: (layer, head), whose outputs are replaced with 0.
    """

    weigh = staticmethod(weigh)
    neighbours = None

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.parameters: dict[str, Floats] = {}
        self.stacked: dict[str, list[Floats]] = {}
        self.silenced_heads: list[tuple[int, int]] = []
        of_layers = list(zip(config.layer_names, config.positions, strict=True))
        self.layers = [of_layers.index(one) for one in of_layers]  # for each, the first with the same parameters

    def parts_of(self, layers: int) -> list[str]:
        """Return the parts needed for the first `layers` layers. With all layers, include the norm after them."""
        last = ["final_norm"] if self.config.final_norm and layers == len(self.layers) else []
        return ["embeddings", *dict.fromkeys(f"layers.{number}" for number in self.layers[:layers]), *last]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the parameters, by name."""
        config = self.config
        made: dict[str, tuple[int, ...]] = {}

        def linear(name: str, size: int, out: int, bias: bool = True) -> None:
            made[f"{name}.weight"] = (out, size)
            if bias:
                made[f"{name}.bias"] = (out,)

        def norm(name: str, size: int) -> None:
            made[f"{name}.weight"] = (size,)
            if config.biases.norms and not config.rms_norm:
                made[f"{name}.bias"] = (size,)

        size, wide, biases = config.hidden_size, config.intermediate_size, config.biases
        joined, key_joined = config.heads * config.head_dim, config.key_heads * config.head_dim
        down = biases.feed_forward if biases.down is None else biases.down
        output = biases.attention if biases.output is None else biases.output
        before = config.norm_first or not config.output_norm  # a norm of the sum, if it is not before
        made["embeddings.tokens.weight"] = (config.vocab_size, config.embedding_size)
        if config.position_table:
            made["embeddings.positions.table.weight"] = (config.position_rows, config.embedding_size)
        if config.segments:
            made["embeddings.segments.weight"] = (config.segments, config.embedding_size)
        if config.tasks:
            made["embeddings.tasks.weight"] = (config.tasks, config.embedding_size)
        if config.embedding_norm:
            norm("embeddings.norm", config.embedding_size)
        if config.widens:
            linear("embeddings.project", config.embedding_size, size)
        for number in dict.fromkeys(self.layers):
            layer = f"layers.{number}"
            linear(f"{layer}.attention.query", size, joined, biases.attention)
            linear(f"{layer}.attention.key", size, key_joined, biases.attention and not biases.bare_keys)
            linear(f"{layer}.attention.value", size, key_joined, biases.attention)
            linear(f"{layer}.attention.output", joined, size, output)
            if config.query_key_norm is not None:
                each = config.query_key_norm == "head"
                norm(f"{layer}.attention.query_norm", config.head_dim if each else joined)
                norm(f"{layer}.attention.key_norm", config.head_dim if each else key_joined)
            if before and (number or config.first_norm):
                norm(f"{layer}.attention_norm", size)
            linear(f"{layer}.feed_forward.up", size, wide * (2 if config.gated else 1), biases.feed_forward)
            linear(f"{layer}.feed_forward.down", wide, size, down)
            if before:
                norm(f"{layer}.feed_forward_norm", size)
            if config.output_norm:
                norm(f"{layer}.attention_output_norm", size)
                norm(f"{layer}.feed_forward_output_norm", size)
        if config.final_norm:
            norm("final_norm", size)
        return made

    def linear(self, name: str, x: Floats) -> Floats:
        """x W^T + b, `[..., in]` -> `[..., out]`."""
        parts = self.stacked.get(f"{name}.weight")
        if parts is not None:
            y = np.concatenate([x @ part.T for part in parts], axis=-1)
        else:
            y = x @ self.parameters[f"{name}.weight"].T
        bias = self.parameters.get(f"{name}.bias")
        if f"{name}.bias" in self.stacked:
            bias = np.concatenate(self.stacked[f"{name}.bias"])
        return y if bias is None else y + bias

    def norm(self, name: str, x: Floats) -> Floats:
        """LayerNorm, (x - mean) / √(variance + ε) · g + b; or RMSNorm, which subtracts no mean and has no b."""
        if not self.config.rms_norm:
            x = x - x.mean(axis=-1, keepdims=True)
        variance = np.mean(x * x, axis=-1, keepdims=True)
        y = x / np.sqrt(variance + np.float32(self.config.layer_norm_eps)) * self.parameters[f"{name}.weight"]
        bias = self.parameters.get(f"{name}.bias")
        return y if bias is None else y + bias

    def embeddings(self, ids: Ints, segments: Ints, positions: Ints | None) -> Floats:
        """Embed the numbers of tokens, segments and positions, `[row]` each -> `[row, hidden_size]`."""
        config, tables = self.config, self.parameters
        x = tables["embeddings.tokens.weight"][ids]  # [row, embedding_size]
        if config.embedding_scale != 1.0:
            x = x * np.float32(config.embedding_scale)
        if config.segments:
            x = x + tables["embeddings.segments.weight"][segments]
        if config.position_table and positions is not None:
            x = x + tables["embeddings.positions.table.weight"][positions]
        if config.tasks:
            x = x + tables["embeddings.tasks.weight"][0]
        if config.embedding_norm:
            x = self.norm("embeddings.norm", x)
        return self.linear("embeddings.project", x) if config.widens else x

    def layer(self, number: int) -> "NumpyLayer":
        config = self.config
        score = Score(config.positions[number], config.score_scale, config.softcap)  # type: ignore[arg-type]
        return NumpyLayer(self, f"layers.{self.layers[number]}", score)

    def final_norm(self, x: Floats) -> Floats:
        return self.norm("final_norm", x) if self.config.final_norm else x


class NumpyLayer(NamedTuple):
    """A layer: the parts before and after its attention, as drawn in `attncli.models.network`."""

    network: NumpyNetwork
    name: str
    score: Score

    def before(self, x: Floats) -> Floats:
        """Return the attention's input; x `[row, hidden_size]`."""
        return self.norm("attention_norm", x) if self.network.config.norm_first else x

    def norm(self, name: str, x: Floats) -> Floats:
        """Return x normalised by the layer's norm of this name, if it has one."""
        name = f"{self.name}.{name}"
        return self.network.norm(name, x) if f"{name}.weight" in self.network.parameters else x

    def project(
        self, x: Floats, heads: Sequence[int] | None = None, values: bool = True
    ) -> tuple[Floats, Floats, Floats]:
        """Return query, key and value, `[1, head, row, head_dim]`, as `attncli.models.network.Layer.project`."""
        config = self.network.config
        own = np.arange(config.heads) if heads is None else np.array(heads)
        shared = own * config.key_heads // config.heads
        query, key = self.heads("query", x, own), self.heads("key", x, shared)
        return query, key, self.heads("value", x, shared) if values else key[..., :0]

    def heads(self, name: str, x: Floats, heads: Ints) -> Floats:
        """Project x `[1, row, hidden_size]` for some heads, `[1, head, row, head_dim]`."""
        y = self.network.linear(f"{self.name}.attention.{name}", x)  # [1, row, head * head_dim]
        gain = self.network.parameters.get(f"{self.name}.attention.{name}_norm.weight")
        if gain is not None:  # of each head, or of all joined
            y = self.norm(f"attention.{name}_norm", y.reshape(*y.shape[:2], -1, len(gain))).reshape(y.shape)
        by_head = y.reshape(*y.shape[:2], -1, self.network.config.head_dim).swapaxes(1, 2)
        every = np.array_equal(heads, np.arange(by_head.shape[1]))
        return by_head if every else by_head[:, heads]

    def projection(self, name: str) -> tuple[Floats, Floats | None]:
        """Return W `[head * head_dim, hidden_size]` and b of the projection to "query", "key" or "value"."""
        parameters, name = self.network.parameters, f"{self.name}.attention.{name}"
        return parameters[f"{name}.weight"], parameters.get(f"{name}.bias")

    def output_by_head(self) -> Floats:
        """Return the output projection divided by head, `[hidden_size, head, head_dim]`."""
        weight = self.network.parameters[f"{self.name}.attention.output.weight"]
        return weight.reshape(len(weight), -1, self.network.config.head_dim)

    def after(self, x: Floats, attended: Floats) -> Floats:
        """Return the layer's output from x and the concatenated outputs of the heads, `[row, hidden_size]`."""
        config, norm = self.network.config, self.norm
        attended = norm("attention_output_norm", self.network.linear(f"{self.name}.attention.output", attended))
        if config.norm_first:
            after = x + attended
            read = norm("feed_forward_norm", x if config.parallel else after)
            return after + norm("feed_forward_output_norm", self.feed_forward(read))
        x = norm("attention_norm", x + attended)
        return norm("feed_forward_norm", x + norm("feed_forward_output_norm", self.feed_forward(x)))

    def feed_forward(self, x: Floats) -> Floats:
        """f(x W_1) W_2; or gated, (f(x W) * (x V)) W_2, with W and V stacked (Shazeer 2020)."""
        config = self.network.config
        wide = self.network.linear(f"{self.name}.feed_forward.up", x)  # [row, intermediate_size], twice if gated
        if config.gated:
            gate, wide = wide[:, : config.intermediate_size], wide[:, config.intermediate_size :]
            wide = FUNCTIONS[config.activation](gate) * wide
        else:
            wide = FUNCTIONS[config.activation](wide)
        return self.network.linear(f"{self.name}.feed_forward.down", wide)


# --- the model ------------------------------------------------------------------------------------------

MOST_TOKENS = 512  # in a request: with many more, torch is faster although it must be imported (tests/bench)


class Instant(OwnModel):
    """A model in NumPy for short texts. open_in_torch: returns the model in torch, which does everything else."""

    name = "instant"
    network: NumpyNetwork
    device = "cpu"
    dtype = np.dtype("float32")
    map_dtype = dtype
    batch_tokens = 2048

    def __init__(
        self,
        place: Place,
        config: ModelConfig,
        tokenizer: Tokenizer,
        checkpoint: Checkpoint,
        sha256: str,
        open_in_torch: "Callable[[], Engine]",
    ) -> None:
        super().__init__(place, config, tokenizer, checkpoint, sha256, NumpyNetwork(config))
        self.open = cache(open_in_torch)  # shared by the models without some heads

    def in_torch(self) -> "Engine":
        model = self.open()
        return model.silencing(self.silenced_heads) if self.silenced_heads else model

    def read(self, module: str) -> None:
        network, start = self.network, f"{module}."
        names = [name.removeprefix(start) for name in network.shapes() if name.startswith(start)]
        read = read_parameters(self.checkpoint, network.config, module, names, np.dtype("float32"))
        network.stacked.update({start + name: some for name, some in read.items() if len(some) > 1})
        network.parameters.update({start + name: some[0] for name, some in read.items() if len(some) == 1})

    def array(self, shape: Sequence[int], zeros: bool = False, maps: bool = False) -> Floats:
        return np.zeros(shape, self.dtype) if zeros else np.empty(shape, self.dtype)

    def inference(self) -> AbstractContextManager[Any]:
        return np.errstate(all="ignore")  # numbers that are not finite are refused afterwards

    def rows(
        self,
        batch: Sequence[Tokens],
        mask: str | None,
        positions: bool = True,
        together: Callable[[int], int] = every_text,
    ) -> OwnRows:
        name = self.usual_mask(mask)
        masks = partial(layer_masks, config=self.config, name=name)
        return arrange(batch, self.config, masks, lambda array: array, no_padding in MASKS[name], positions, together)

    # --- left to torch

    def attend_tokens(
        self, texts: Iterable[Tokens], request: Request = Request(), taps: Sequence[Tap] = ()
    ) -> Iterator[AttentionRecord]:
        """Yield a record of each text, from torch for more than MOST_TOKENS or other predictions than a next token."""
        rest, few = iter(texts), list[Tokens]()
        while sum(map(len, few)) <= MOST_TOKENS and (text := next(rest, None)) is not None:
            few.append(text)
        long = sum(map(len, few)) > MOST_TOKENS
        needs = request.predict and self.next_token is None and self.may_predict(few)
        if long or needs:
            yield from self.in_torch().attend_tokens(chain(few, rest), request, taps)
        else:
            predict = request.predict and self.next_token is not None
            yield from super().attend_tokens(few, replace(request, predict=predict), taps)

    @cached_property
    def task_heads(self) -> dict[str, TaskHead] | None:
        """Return the checkpoint's heads for tasks; None if its config.json has invalid entries for them."""
        try:
            return find_heads(self)
        except RequestError:
            return None

    @cached_property
    def next_token(self) -> TaskHead | None:
        """Return the head for the next token if it is the main one and the checkpoint has its tensor."""
        main = next(iter((self.task_heads or {}).values()), None)
        if main is None or main.kind != "next" or not (main.scores.tied or self.scores_name(main)):
            return None
        return main

    def scores_name(self, head: TaskHead) -> str | None:
        """Return the name of the tensor of a head's scores; None if the checkpoint has none."""
        name = f"{head.scores.name}.weight"
        return name if name in self.checkpoint.shapes else None

    @cached_property
    def score_weight(self) -> Floats:
        """Return W of the next token's scores, `[vocabulary, hidden_size]`."""
        assert self.next_token is not None
        name = self.scores_name(self.next_token)
        if name is None:
            return self.network.parameters[f"{TABLE}.weight"]
        return self.checkpoint.read(name, tensors_of(name), self.dtype)

    def predictor(self, texts: Sequence[Tokens]) -> Predictor | None:
        return None if self.next_token is None else lambda hidden: list(map(self.predict_next, texts, hidden))

    def predict_next(self, tokens: Tokens, hidden: Floats) -> PredictionSummary:
        """Return the most likely next tokens from the last hidden states `[token, hidden_size]`."""
        assert self.next_token is not None
        rows, softcap = tokens.real[-1:], self.next_token.scores.softcap
        values = hidden[rows] @ self.score_weight.T
        if softcap is not None:
            values = np.float32(softcap) * np.tanh(values / np.float32(softcap))
        if not np.isfinite(values).all():
            raise RequestError(
                f"the output next of {self.place.name} is too large for float32: use another --dtype, or check whether "
                "the weights are damaged"
            )
        made = Prediction("next", "next", self.vocabulary(), values, softmax(values).weights)
        return PredictionSummary("next", "next", True, answers_of(made, rows, tokens, self.tokenizer.notation))

    def may_predict(self, texts: Iterable[Tokens]) -> bool:
        """Return True if the checkpoint may have a prediction for any of these texts, other than an embedding."""
        if self.task_heads is None or ("words" in self.task_heads and any(map(mask_positions, texts))):
            return True
        main = next(iter(self.task_heads.values()), None)
        embeds = (self.place.path / MODULES_FILE).is_file()
        return main is not None and main.kind != "words" and not (main.alone and embeds)

    @property
    def refused_outputs(self) -> Mapping[str, str]:
        """Return why outputs are lacking; nothing where the only output is the next token, which is not in torch."""
        return self.available_outputs.refused if self.next_token is None and self.may_predict(()) else {}

    def find_outputs(self) -> "AvailableOutputs":
        return self.in_torch().available_outputs
