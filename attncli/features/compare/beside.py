"""The model and transformers' network on some texts: the numbers of both, for `ways`.

The other side's numbers are transformers' own: its weights and vectors, the outputs of its projections, and norms of
these.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attncli.checks.passes import Lost, is_half, lost_rows
from attncli.checks.timing import one_thread
from attncli.checks.tolerance import scaled_tolerance, vector_size, weight_size
from attncli.features.compare.agreement import LARGEST, difference, precision_of, rows_that_count
from attncli.models.block import LEAST_QUERIES
from attncli.models.config import ModelConfig
from attncli.models.families.family import Source
from attncli.models.model import Model
from attncli.models.taken import Taken
from attncli.models.transformers_peer import Reference
from attncli.record import Input, Request
from attncli.record.selection import Selection
from attncli.text.tokens import Tokens

TEXTS, TOKENS = 3, 64  # so many texts, the first ones, and so many tokens of each, beyond a window, go every way
SHARED = 2**25  # products of numbers in a layer's largest product of matrices, from which on threads share it
PROJECTIONS = ("query", "key", "value")


@contextmanager
def fitting_threads(config: ModelConfig, texts: Sequence[Tokens]) -> Iterator[None]:
    """Compute on one thread where the longest text is so short that several would wait for each other."""
    longest = max(map(len, texts), default=0)
    short = longest * config.hidden_size * config.intermediate_size < SHARED
    with one_thread() if short else nullcontext():
        yield


class NothingToCompare(Exception):  # noqa: N818  (it says what is the case)
    """There is nothing on the other side."""


class Theirs(NamedTuple):
    """What transformers makes of a text.

    weights `[layer, head, query, key]`; states: the vectors `[token, hidden_size]` before the first layer and after
    every one; parts: by "query", "key" and "value", those of all heads, `[layer, head, token, head_dim]`, as projected.
    """

    weights: Tensor
    states: list[Tensor]
    parts: dict[str, Tensor]


class Both:
    """The model and its peer, and some texts: their first tokens, `plain` without [PAD].

    inputs, whole: the texts, and the tokens that the model makes of them, `pad_to` so many; layers: those that are
    compared. lost: the rows in which transformers gives NaN.
    """

    def __init__(
        self,
        model: Model,
        reference: Reference,
        inputs: Sequence[Input],
        whole: Sequence[Tokens],
        pad_to: int | None = None,
        mask: str | None = None,
        layers: Sequence[int] | None = None,
    ) -> None:
        self.model = model
        self.reference = reference
        self.inputs = inputs[:TEXTS]
        self.pad_to = pad_to
        self.mask = model.usual_mask(mask)
        self.layers = list(range(model.config.layers) if layers is None else layers)
        self.whole = whole[:TEXTS]
        most = TOKENS + max(reach or 0 for reach in model.config.reach)
        self.texts = [one.take(range(min(len(one), most))) for one in self.whole]
        self.plain = [one.take(range(len(one) - sum(one.padding))) for one in self.texts]
        self.met: dict[tuple[Any, ...], Theirs] = {}
        self.lost: list[Lost] = []

    @cached_property
    def ends(self) -> list[int]:
        """The layers at which walks end that end early: of each kind of layer the first and the last."""
        config = self.model.config
        kinds = {layer: (config.reach[layer], config.positions[layer]) for layer in self.layers}
        last = {kind: layer for layer, kind in kinds.items()}
        first = {kind: layer for layer, kind in reversed(kinds.items())}
        return sorted({*first.values(), *last.values()})

    @property
    def outer_heads(self) -> list[int]:
        """The last head and the first one, in this order."""
        return [*{self.model.config.heads - 1: None, 0: None}]

    @cached_property
    def beyond_windows(self) -> list[Tokens]:
        """A text so long that every window hides tokens on both sides of it, and is made in two parts: the first text
        repeated. None where no layer has a window.
        """
        far = max((reach for reach in self.model.config.reach if reach is not None), default=None)
        if far is None:
            return []
        length = min(max(LEAST_QUERIES, far) + far + 2, self.model.tokenizer.max_tokens)
        return [self.plain[0].take([place % len(self.plain[0]) for place in range(length)])]

    @cached_property
    def sources(self) -> dict[str, list[Source]]:
        """Where transformers has the projections, by layer."""
        layers, config = range(self.model.config.layers), self.model.config
        return {part: [config.source(f"layers.{layer}.attention.{part}") for layer in layers] for part in PROJECTIONS}

    def theirs(self, tokens: Tokens, mask: str | None = None) -> Theirs:
        """By default under the mask that was asked for. A text is run once."""
        mask = self.mask if mask is None else mask
        key = (tuple(tokens.ids), tuple(tokens.segments), tuple(tokens.padding), mask)
        if key not in self.met:
            names = {name for sources in self.sources.values() for source in sources for name in source.names}
            with self.reference.watched(names) as made:
                weights, states = self.reference.run(tokens, mask)
            lost = lost_rows(tokens, mask, weights, states)
            if lost is None:
                parts = {part: self.heads_of(made, sources) for part, sources in self.sources.items()}
                self.met[key] = Theirs(torch.stack(weights), states, parts)
            else:
                self.lost.append(lost._replace(in_float32=self.reference.dtype == torch.float64))
                if self.reference.dtype != torch.float64:
                    raise NothingToCompare(str(lost))
                self.met[key] = self.in_float32.theirs(tokens, mask)
        return self.met[key]

    @cached_property
    def in_float32(self) -> "Both":
        """The same beside transformers' network in float32, with the weights as they are rounded here."""
        return Both(self.model, self.reference.in_float32, self.inputs, self.whole, self.pad_to, self.mask, self.layers)

    def allowed(self, kind: str, single: bool) -> float:
        """Return the largest difference that rounding explains of numbers of a kind (see `numbers`).

        kind: "own vectors" are weights of one layer, in float32, beside those of its vectors. single: they are of
        float32 whatever the model computes in. Sums of weights are made in float64: their spread is a difference of
        squares of distances, which reach TOKENS.
        """
        if kind == "exact":
            return 0.0
        precision = precision_of(self.model, self.reference, self.lost)
        if kind == "own vectors":
            return scaled_tolerance(torch.float32, 1, max(self.size(text, "weights") for text in self.plain))
        found = [1.0]
        for text in self.plain:
            with suppress(NothingToCompare):
                found.append(self.their_error(text, kind) if is_half(precision) else self.size(text, kind))
        if is_half(precision):
            return LARGEST * max(found[1:], default=0.0)
        added_up = scaled_tolerance(torch.float64, 1, TOKENS**2) if kind == "sums" else 0.0
        return added_up + scaled_tolerance(torch.float32 if single else precision, self.model.config.layers, max(found))

    def size(self, tokens: Tokens, kind: str) -> float:
        """Return how large transformers' numbers of a kind are, as `scaled_tolerance` takes it."""
        return (weight_size if kind in ("weights", "sums") else vector_size)(self.numbers(tokens, kind))

    def numbers(self, tokens: Tokens, kind: str) -> Tensor:
        """Return transformers' "weights", which "sums" are made of, "hidden" states, "norms" or "vectors".

        Vectors are queries, keys and values.
        """
        theirs = self.theirs(tokens)
        if kind in ("weights", "sums"):
            return theirs.weights
        if kind == "hidden":
            return torch.stack(theirs.states)
        if kind == "norms":
            return self.their_norms(tokens)
        return torch.stack([*theirs.parts.values(), *(self.their_meeting(tokens, part) for part in PROJECTIONS)])

    def their_error(self, tokens: Tokens, kind: str) -> float:
        """Return the largest error of transformers' own numbers, at least a step of the largest one."""
        theirs, exact = self.numbers(tokens, kind), self.in_float32.numbers(tokens, kind)
        return max(difference(theirs, exact), torch.finfo(self.model.dtype).eps * float(exact.abs().max()))

    def heads_of(self, made: Mapping[str, Sequence[Tensor]], sources: Sequence[Source]) -> Tensor:
        """What projections made, one a layer, by head. Layers that share a module take turns."""
        turns = {name: iter(outputs) for name, outputs in made.items()}
        whole = [torch.cat([next(turns[name]) for name in source.names], dim=-1) for source in sources]
        own = [source.cut(one, dim=1) + self.bias_of(source) for one, source in zip(whole, sources, strict=True)]
        by_head = torch.stack(own).unflatten(-1, (-1, self.model.config.head_dim)).transpose(1, 2)
        return by_head.repeat_interleave(self.model.config.heads // by_head.shape[1], dim=1)

    def bias_of(self, source: Source) -> Tensor | float:
        """What transformers adds to what a projection made."""
        return 0.0 if source.bias is None else self.reference.network.get_parameter(source.bias).detach()

    def their_norms(self, tokens: Tokens) -> Tensor:
        """‖α v W_O‖ of transformers' own weights, values and output projections: `[layer, head, query, key]`."""
        theirs, found = self.theirs(tokens), []
        for layer, values in enumerate(self.their_meeting(tokens, "value").double()):
            source = self.model.config.source(f"layers.{layer}.attention.output")
            stored = self.reference.network.get_submodule(source.names[0]).weight.detach().double()
            output = (stored.T if source.transposed else stored).unflatten(1, (len(values), -1))
            found.append(torch.einsum("htd,Dhd->htD", values, output).norm(dim=-1))
        return theirs.weights.double() * torch.stack(found)[:, :, None]

    def their_meeting(self, tokens: Tokens, part: str) -> Tensor:
        """transformers' queries, keys or values as they meet, `[layer, head, token, head_dim]`: turned, in a network
        that turns them.
        """
        positions = torch.arange(len(tokens), device=self.reference.device)
        scored = [
            (self.model.network.layer(layer).score, one) for layer, one in enumerate(self.theirs(tokens).parts[part])
        ]
        return torch.stack([score.turn(one, positions) if part in score.turned else one for score, one in scored])

    def taken(
        self, texts: Sequence[Tokens], layers: Sequence[int] | None = None, heads: Selection = "all", **more: Any
    ) -> Iterator[Taken]:
        """What the model gives, by default of the layers that are compared; `more` are fields of the Request."""
        return self.model.take(texts, Request(self.layers if layers is None else layers, heads, self.mask, **more))

    def rows(self, tokens: Tokens) -> list[int]:
        """The tokens whose rows of weights, and whose vectors, are compared."""
        return rows_that_count(tokens, self.model.dtype, self.reference)

    def apart(self, taken: Taken, mask: str | None = None) -> float:
        """How far the weights of a text that the model gives are from transformers'."""
        expected = self.theirs(taken.tokens, mask).weights[taken.asked.layers][:, taken.asked.heads]
        rows = self.rows(taken.tokens)
        return difference(taken.weights[..., rows, :], expected[..., rows, :])


def beginning(text: str) -> str:
    """The first words of a text, of about TOKENS tokens or fewer."""
    return " ".join(text.split()[: TOKENS // 2])[: 4 * TOKENS]


def allowed_by_hand(tokens: Tokens, mask: str, reach: Sequence[int | None]) -> npt.NDArray[np.bool_]:
    """What a mask of this name allows in layers that see so far, bool `[layer, query, key]`, written out once more."""
    place = np.arange(len(tokens))
    behind = place - place[:, None]  # how far behind the query a key stands
    shown = (behind <= 0) | (mask != "causal")
    shown &= ~np.array(tokens.padding) | (mask == "none")
    return np.stack([shown & (np.abs(behind) <= (len(tokens) if far is None else far)) for far in reach])
