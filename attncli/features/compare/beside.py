"""A network in attncli and in transformers, on some texts: the numbers of both, for `ways`."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attncli.checks.machine import one_thread
from attncli.checks.passes import Lost, is_half, lost_rows
from attncli.checks.tolerance import scaled_tolerance, weight_size
from attncli.features.compare.agreement import (
    LARGEST,
    difference,
    precision_of,
    rows_that_count,
    vector_difference,
)
from attncli.models.block import LEAST_QUERIES
from attncli.models.config import ModelConfig
from attncli.models.engine import Engine
from attncli.models.families.family import Source
from attncli.models.model import Model
from attncli.models.taken import TextResult
from attncli.models.transformers_peer import Reference
from attncli.record import Input, Request
from attncli.record.formula import MASKS, near, self_mask
from attncli.record.selection import Selection
from attncli.text.tokens import Fed, Read, Tokens

TEXTS, TOKENS = 3, 64  # the number of texts that go every way, the first ones, and of their tokens beyond a window
SHARED = 2**25  # products of numbers in a layer's largest product of matrices, from which on threads share it
BACK = 8  # measured: at most 3.6 times, where values are 30 times as large as usual
OF_A_HEAD = (-2, -1)  # axes of the norms ‖α v W_O‖ `[layer, head, query, key]`, whose sizes differ between heads
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


class Sides(ABC):
    """A model and transformers' network, on the first tokens of the first texts; `plain` without [PAD].

    answering: the model whose results `run_model` returns. layers: the layers that are compared. texts_of_norms: those
    of the texts whose norms are.
    """

    def __init__(
        self,
        model: Engine,
        reference: Reference,
        texts: Sequence[Tokens],
        mask: str | None,
        layers: Sequence[int] | None,
        most: int = TOKENS,
    ) -> None:
        self.model = self.answering = model
        self.reference = reference
        self.mask = model.usual_mask(mask)
        self.layers = list(model.select_layers("all") if layers is None else layers)
        self.texts = [cut(one, most) for one in texts[:TEXTS]]
        self.plain = [cut(one, real_tokens(one)) for one in self.texts]
        self.texts_of_norms = self.texts
        self.known: dict[tuple[Any, ...], Any] = {}

    # --- transformers' side -------------------------------------------------------------------------------

    def theirs(self, tokens: Tokens, mask: str | None = None) -> Any:
        """Return the results of transformers for a text, by default under the requested mask. Runs it once per text."""
        read = tokens.read if isinstance(tokens, Fed) else tokens
        mask = self.mask if mask is None else mask
        key = (mask, *(tuple(one) for one in (tokens.ids, tokens.spoken.ids, read.ids, read.padding, read.segments)))
        if key not in self.known:
            self.known[key] = self.run_theirs(tokens, mask)
        return self.known[key]

    @abstractmethod
    def run_theirs(self, tokens: Tokens, mask: str) -> Any:
        """Run transformers on a text. Returns its `weights`, `[layer, head, query, key]`, and more."""

    def places(self, layers: Sequence[int]) -> list[int]:
        """Return the places of layers in the weights of transformers."""
        return list(layers)

    def weights(self, tokens: Tokens, mask: str | None = None) -> Tensor:
        """Return their weights of the layers that are compared, `[layer, head, query, key]`."""
        return self.theirs(tokens, mask).weights[self.places(self.layers)]

    @abstractmethod
    def their_silenced(self, heads: Sequence[tuple[int, int]], tokens: Tokens) -> Any:
        """Run transformers with these heads, (layer, head), silenced."""

    @abstractmethod
    def their_vectors(self, theirs: Any) -> list[Tensor]:
        """Return the vectors that are compared with `our_vectors`."""

    @abstractmethod
    def expected_norms(self, tokens: Tokens) -> Tensor:
        """Return ‖α v W_O‖ by transformers' own numbers, for the layers that are compared."""

    # --- our side -----------------------------------------------------------------------------------------

    def run_model(
        self, texts: Sequence[Tokens], layers: Sequence[int] | None = None, heads: Selection = "all", **more: Any
    ) -> list[tuple[Tokens, TextResult]]:
        """Return each text with what the model gives, by default in the layers that are compared.

        more: fields of the Request.
        """
        request = Request(self.layers if layers is None else layers, heads, **{"mask": self.mask, **more})
        return list(zip(texts, self.answering.take([plain_tokens(one) for one in texts], request), strict=True))

    @abstractmethod
    def our_vectors(self, model: Any, tokens: Tokens, mask: str) -> list[Tensor]:
        """Return vectors of the model, or of one made from it, that are compared."""

    # --- both ---------------------------------------------------------------------------------------------

    def rows(self, tokens: Tokens) -> list[int]:
        """Return the tokens whose rows of weights, and whose vectors, are compared."""
        return rows_that_count(tokens, self.model.dtype, self.reference)

    def mask_rows(self, tokens: Tokens) -> list[int]:
        """Return the rows in which `hidden` is known."""
        return self.rows(tokens)

    def weight_difference(self, taken: TextResult, tokens: Tokens, mask: str | None = None) -> float:
        """Return the difference between the model's weights of a text and those of transformers."""
        expected = self.theirs(tokens, mask).weights[self.places(taken.selected.layers)][:, taken.selected.heads]
        rows = self.rows(tokens)
        return difference(taken.weights[..., rows, :], expected[..., rows, :])

    @abstractmethod
    def allowed(self, kind: str, single: bool = False) -> float:
        """Return the largest difference that rounding explains between numbers of a kind; 0 if it is "exact".

        single: they are float32 whatever the model computes in.
        """

    @abstractmethod
    def hidden(self, tokens: Tokens, mask: str) -> Tensor:
        """Return the keys hidden by a mask in the compared layers, bool `[layer, query, key]`, found without attncli.

        Only the rows that `mask_rows` names count.
        """

    @abstractmethod
    def padded(self) -> list[tuple[Tokens, Tokens]]:
        """Return each text and its first half, without [PAD] and with it; twice without where there is no [PAD]."""

    @property
    @abstractmethod
    def mixed(self) -> list[Tokens]:
        """Return texts of mixed lengths, several of each."""

    @property
    def outer_heads(self) -> list[int]:
        """The last head and the first one, in this order."""
        return [*{self.model.heads - 1: None, 0: None}]

    @property
    @abstractmethod
    def ends(self) -> list[int]:
        """The layers at which walks end that end early."""

    @property
    def beyond_windows(self) -> list[tuple[list[Tokens], int]]:
        """Longer texts, and a layer at which a walk with them ends."""
        return []


# --- attncli's own networks ---------------------------------------------------------------------------------


class PeerResult(NamedTuple):
    """The results of transformers for a text.

    weights `[layer, head, query, key]`; states: the vectors `[token, hidden_size]` before the first layer and after
    every one; parts: by "query", "key" and "value", those of all heads, `[layer, head, token, head_dim]`, as projected.
    normed: the same after the norms of queries and keys, if there are any.
    """

    weights: Tensor
    states: list[Tensor]
    parts: dict[str, Tensor]
    normed: dict[str, Tensor]


class Both(Sides):
    """A network of attncli and its peer, whose numbers are outputs of its own modules, and norms of these.

    inputs, whole: the texts, and the tokens that the model makes of them, `pad_to` so many. lost: the rows in which
    transformers gives NaN.
    """

    model: Model

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
        far = max(reach or 0 for reach in model.config.reach)
        super().__init__(model, reference, whole, mask, layers, TOKENS + far)
        self.inputs = inputs[:TEXTS]
        self.pad_to = pad_to
        self.whole = whole[:TEXTS]
        self.lost: list[Lost] = []

    @cached_property
    def ends(self) -> list[int]:
        """The first and the last layer of each kind."""
        config = self.model.config
        kinds = {layer: (config.reach[layer], config.positions[layer]) for layer in self.layers}
        last = {kind: layer for layer, kind in kinds.items()}
        first = {kind: layer for layer, kind in reversed(kinds.items())}
        return sorted({*first.values(), *last.values()})

    @property
    def mixed(self) -> list[Tokens]:
        """Texts of three lengths, and the same tokens in reverse."""
        made = []
        for one in self.plain:
            backwards = one.take(range(len(one) - 1, -1, -1))
            for length in (len(one) // 2 or 1, len(one), len(one) // 3 or 1):
                made += [one.take(range(length)), backwards.take(range(length))]
        return made

    @cached_property
    def beyond_windows(self) -> list[tuple[list[Tokens], int]]:
        """The first text repeated until every window hides tokens on both sides, and attention is made in two parts.

        Walks end at the first layer with a window, and at the next, which its outputs reach.
        """
        reach = self.model.config.reach
        far = max((one for one in reach if one is not None), default=None)
        if far is None:
            return []
        length = min(max(LEAST_QUERIES, far) + far + 2, self.model.tokenizer.max_tokens)
        long = self.plain[0].take([place % len(self.plain[0]) for place in range(length)])
        near = next((layer for layer in self.layers if reach[layer] is not None), None)
        return [([long], layer) for layer in self.layers if near is not None and layer in (near, near + 1)]

    def padded(self) -> list[tuple[Tokens, Tokens]]:
        tokenizer = self.model.tokenizer
        parts = [(part, one) for one in self.plain for part in (one, one.take(range(len(one) // 2 or 1)))]
        if tokenizer.pad_id is None:
            return [(part, part) for part, _ in parts]
        return [(part, tokenizer.pad(part, len(tokenizer.pad_some(one)))) for part, one in parts]

    @cached_property
    def sources(self) -> dict[str, list[Source]]:
        """The modules of transformers that have the projections, by layer."""
        layers, config = range(self.model.config.layers), self.model.config
        return {part: [config.source(f"layers.{layer}.attention.{part}") for layer in layers] for part in PROJECTIONS}

    def run_theirs(self, tokens: Tokens, mask: str) -> PeerResult:
        names = {name for sources in self.sources.values() for source in sources for name in source.names}
        with self.reference.watched(names) as made:
            weights, states = self.reference.run(tokens, mask)
        lost = lost_rows(tokens, mask, weights, states)
        if lost is None:
            projected = {part: self.projected(made, sources) for part, sources in self.sources.items()}
            parts = {part: self.heads_of(one) for part, one in projected.items()}
            normed = {part: self.heads_of(self.normed(part, one)) for part, one in projected.items()}
            return PeerResult(torch.stack(weights), states, parts, normed)
        self.lost.append(lost._replace(in_float32=self.reference.dtype == torch.float64))
        if self.reference.dtype != torch.float64:
            raise NothingToCompare(str(lost))
        return self.in_float32.theirs(tokens, mask)

    def their_silenced(self, heads: Sequence[tuple[int, int]], tokens: Tokens) -> PeerResult:
        made = self.run_silenced(self.reference, heads, tokens)
        if self.reference.dtype == torch.float64 and lost_rows(tokens, self.mask, *made):
            made = self.run_silenced(self.reference.in_float32, heads, tokens)
        return PeerResult(torch.stack(made[0]), made[1], {}, {})

    def run_silenced(
        self, reference: Reference, heads: Sequence[tuple[int, int]], tokens: Tokens
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Run transformers with these heads silenced. Returns what `Reference.run` does."""
        hooks = reference.silence(self.model.config, heads)
        try:
            return reference.run(tokens, self.mask)
        finally:
            for hook in hooks:
                hook.remove()

    def their_vectors(self, theirs: PeerResult) -> list[Tensor]:
        return [theirs.states[layer + 1] for layer in self.layers]

    def our_vectors(self, model: Any, tokens: Tokens, mask: str) -> list[Any]:
        states = model.hidden_states(tokens, mask)
        return [states[layer + 1] for layer in self.layers]

    def mask_rows(self, tokens: Tokens) -> list[int]:
        return list(range(len(tokens)))

    def hidden(self, tokens: Tokens, mask: str) -> Tensor:
        reach = [self.model.config.reach[layer] for layer in self.layers]
        return torch.from_numpy(~allowed_keys(tokens, mask, reach))

    def expected_norms(self, tokens: Tokens) -> Tensor:
        return self.their_norms(tokens)[self.layers]

    @cached_property
    def in_float32(self) -> "Both":
        """The model and transformers' network in float32, with the weights as they are rounded here."""
        return Both(self.model, self.reference.in_float32, self.inputs, self.whole, self.pad_to, self.mask, self.layers)

    def allowed(self, kind: str, single: bool = False) -> float:
        """Return the largest difference that rounding explains between numbers of a kind (see `their_error`).

        Differences of weights are absolute, and those of vectors shares of the vector's size (`vector_difference`): one
        tolerance is for both. kind: "own vectors" are weights of one layer, in float32, compared with those of its
        vectors. Sums of weights are made in float64: their spread is a difference of squares of distances, which reach
        TOKENS. Gradients go through the network and back, and have BACK times the rounding of vectors.
        """
        if kind == "exact":
            return 0.0
        precision = precision_of(self.model, self.reference, self.lost)
        half = is_half(precision) and kind != "own vectors"
        found = [0.0 if half else 1.0]
        for text in self.plain:
            with suppress(NothingToCompare):
                found.append(self.their_error(text, kind) if half else weight_size(self.theirs(text).weights))
        if half:
            return LARGEST * max(found)
        if kind == "own vectors":
            return scaled_tolerance(torch.float32, 1, max(found))
        added_up = scaled_tolerance(torch.float64, 1, TOKENS**2) if kind == "sums" else 0.0
        steps = self.model.config.layers * (BACK if kind == "gradients" else 1)
        return added_up + scaled_tolerance(torch.float32 if single else precision, steps, max(found))

    def their_logits(self, tokens: Tokens) -> Tensor:
        """Return the logits of the next token after each, `[token, token of the vocabulary]`.

        Raises NothingToCompare if transformers' network has no head.
        """
        if self.reference.whole is self.reference.network:
            raise NothingToCompare("it has no head for it")
        with torch.inference_mode():
            logits: Tensor = self.reference.made_of(tokens, self.mask, head=True).logits[0]
        return logits

    def their_error(self, tokens: Tokens, kind: str) -> float:
        """Return the largest error of transformers' own numbers of a kind in half precision, at least a step of 1.

        "sums" are made of weights, "vectors" are queries, keys and values.
        """
        theirs, exact = self.theirs(tokens), self.in_float32.theirs(tokens)
        if kind in ("weights", "sums"):
            error = difference(theirs.weights, exact.weights)
        elif kind == "norms":
            error = vector_difference(self.their_norms(tokens), self.in_float32.their_norms(tokens), OF_A_HEAD)
        elif kind == "logits":
            error = vector_difference(self.their_logits(tokens), self.in_float32.their_logits(tokens))
        elif kind in ("hidden", "gradients"):
            error = vector_difference(torch.stack(theirs.states), torch.stack(exact.states))
        else:
            parts = [(theirs.parts[part], exact.parts[part]) for part in PROJECTIONS]
            parts += [
                (self.their_meeting(tokens, part), self.in_float32.their_meeting(tokens, part)) for part in PROJECTIONS
            ]
            error = max(vector_difference(*both) for both in parts)
        return max(error, torch.finfo(self.model.dtype).eps)

    def projected(self, made: Mapping[str, Sequence[Tensor]], sources: Sequence[Source]) -> list[Tensor]:
        """Return the outputs of projections, `[token, head * head_dim]` per layer.

        Layers that share a module take turns.
        """
        turns = {name: iter(outputs) for name, outputs in made.items()}
        found = []
        for source in sources:
            one = source.cut(torch.cat([next(turns[name]) for name in source.names], dim=-1), dim=1)
            bias = None if source.bias is None else self.reference.network.get_parameter(source.bias).detach()
            found.append(one if bias is None else one + bias)
        return found

    def normed(self, part: str, projected: Sequence[Tensor]) -> list[Tensor]:
        """Return queries or keys after transformers' norm of each head, or of all heads joined, if there is one."""
        config = self.model.config
        if config.query_key_norm is None or part == "value":
            return list(projected)
        found = []
        for layer, one in enumerate(projected):
            [name] = config.source(f"layers.{layer}.attention.{part}_norm").names
            size = config.head_dim if config.query_key_norm == "head" else one.shape[-1]
            norm = self.reference.network.get_submodule(name)
            found.append(norm(one.unflatten(-1, (-1, size))).flatten(-2).detach())
        return found

    def heads_of(self, projected: Sequence[Tensor]) -> Tensor:
        """Split queries, keys or values of each layer into heads, `[layer, head, token, head_dim]`."""
        by_head = torch.stack(list(projected)).unflatten(-1, (-1, self.model.config.head_dim)).transpose(1, 2)
        return by_head.repeat_interleave(self.model.config.heads // by_head.shape[1], dim=1)

    def their_norms(self, tokens: Tokens) -> Tensor:
        """Return ‖α v W_O‖ of transformers' own weights, values and output projections: `[layer, head, query, key]`."""
        theirs, found = self.theirs(tokens), []
        for layer, values in enumerate(self.their_meeting(tokens, "value").double()):
            source = self.model.config.source(f"layers.{layer}.attention.output")
            stored = self.reference.network.get_submodule(source.names[0]).weight.detach().double()
            output = (stored.T if source.transposed else stored).unflatten(1, (len(values), -1))
            found.append(torch.einsum("htd,Dhd->htD", values, output).norm(dim=-1))
        return theirs.weights.double() * torch.stack(found)[:, :, None]

    def their_meeting(self, tokens: Tokens, part: str) -> Tensor:
        """Return transformers' queries, keys or values as they meet, `[layer, head, token, head_dim]`.

        In a network with norms of queries and keys they are normalised, and with rotary positions turned.
        """
        positions = torch.arange(len(tokens), device=self.reference.device)
        scored = [
            (self.model.network.layer(layer).score, one) for layer, one in enumerate(self.theirs(tokens).normed[part])
        ]
        return torch.stack([score.turn(one, positions) if part in score.turned else one for score, one in scored])


# --- tokens -------------------------------------------------------------------------------------------------


def plain_tokens(tokens: Tokens) -> Tokens:
    """Return the tokens of a request: for an encoder alone, without the tokens that the decoder is fed."""
    return tokens.plain if isinstance(tokens, Read) else tokens


def real_tokens(tokens: Tokens) -> int:
    """Return the number of tokens that are read, except [PAD]."""
    return len((tokens.read if isinstance(tokens, Fed) else tokens).real)


def cut(tokens: Tokens, length: int, fed: int = TOKENS) -> Tokens:
    """Return the first tokens of what is read, and of what a decoder is fed."""
    if isinstance(tokens, Fed):
        return Fed(**first_tokens(tokens, fed).plain.lists, read=first_tokens(tokens.read, length), goal=tokens.goal)
    some = first_tokens(tokens, length)
    if not isinstance(tokens, Read):
        return some
    return Read(**some.plain.lists, fed=first_tokens(tokens.fed, fed), goal=tokens.goal)


def first_tokens(tokens: Tokens, length: int) -> Tokens:
    """Return the first tokens after any [PAD] before the text, at most so many."""
    return tokens.take(range(tokens.first, min(len(tokens), tokens.first + length)))


def beginning(text: str) -> str:
    """Return the first words of a text, of about TOKENS tokens or fewer."""
    return " ".join(text.split()[: TOKENS // 2])[: 4 * TOKENS]


def allowed_keys(tokens: Tokens, mask: str, reach: Sequence[int | None]) -> npt.NDArray[np.bool_]:
    """Return what a mask of this name allows in layers that see so far, bool `[layer, query, key]`, without torch."""
    real, everything = ~np.array([tokens.padding]), np.ones((len(tokens), len(tokens)), dtype=bool)
    windows = [() if far is None else (near(far),) for far in reach]
    return np.stack([everything & self_mask(real, *MASKS[mask], *window)[0, 0] for window in windows])
