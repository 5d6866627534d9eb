"""Run a network in attncli and in transformers or torch, on the same texts, and compare their numbers."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from attncli.attention import MultiHeadAttention
from attncli.base.errors import RequestError
from attncli.checks.tolerance import scaled_tolerance, weight_size
from attncli.features.compare.agreement import (
    LARGEST,
    Agreement,
    Errors,
    LayerTally,
    difference,
    is_half,
    sizes,
    vector_difference,
    worst,
)
from attncli.models.devices import as_tensor
from attncli.models.engine import Engine
from attncli.models.model import Model
from attncli.models.taken import TextResult
from attncli.models.taps import InputsAndOutputs
from attncli.models.transformers_peer import Reference
from attncli.record import Input, Request
from attncli.record.formula import MASKS, near, self_mask
from attncli.record.selection import Selection
from attncli.text.tokens import DecoderInput, EncoderInput, Tokens

TEXTS, TOKENS = 3, 64  # the first texts, which take every code path, and the number of their tokens beyond a window


class NothingToCompare(RequestError):  # noqa: N818  (a state, no failure)
    """The other program has no such numbers."""


class Theirs(NamedTuple):
    """The results of the other program for a text.

    weights: `[layer, head, query, key]`; states: the vectors `[token, hidden_size]` before the first layer and after
    each; for torch, the outputs of its modules.
    """

    weights: Tensor
    states: list[Tensor]


class Peers(ABC):
    """A model and another program, on the same texts.

    reference: transformers' network; None for torch. answering: the model whose results are compared. layers: the
    layers that are compared. texts: the first tokens of the first texts, which take every code path. plain: these texts
    without [PAD].
    """

    def __init__(
        self,
        model: Engine,
        reference: Any,
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
        self.known: dict[tuple[Any, ...], Any] = {}

    # --- the other program --------------------------------------------------------------------------------

    @abstractmethod
    def run_theirs(self, tokens: Tokens, mask: str) -> Any:
        """Run the other program on a text. Returns its `weights`, `[layer, head, query, key]`, and more."""

    @abstractmethod
    def their_vectors(self, theirs: Any) -> list[Tensor]:
        """Return the vectors that are compared with `our_vectors`."""

    @property
    def in_float32(self) -> Any:
        """These peers with the other program in float32, whose weights are rounded as here."""
        beside = copy(self)
        beside.reference, beside.known = self.reference.in_float32, {}
        return beside

    def numbers(self, theirs: Any) -> tuple[Tensor, list[Tensor]]:
        """Return the weights and the vectors of the layers that are compared."""
        return theirs.weights[self.places(self.layers)], self.their_vectors(theirs)

    def run_finite(self, tokens: Tokens, mask: str) -> Any:
        """Run the other program. Raises NothingToCompare if it gives NaN in rows of real tokens."""
        made = self.run_theirs(tokens, mask)
        weights, vectors = self.numbers(made)
        bad = torch.stack(vectors).isnan().any(dim=-1).any(dim=0) | weights.isnan().any(dim=-1).flatten(0, 1).any(dim=0)
        if lost := int(bad[tokens.real].sum()):
            raise NothingToCompare(
                f"transformers itself gives NaN in {lost} rows of real tokens (mask {mask}, {self.model.dtype_name}): "
                "use another --dtype or --mask"
            )
        return made

    def theirs(self, tokens: Tokens, mask: str | None = None) -> Any:
        """Return the results of transformers for a text, by default under the requested mask. Runs it once per text."""
        read = tokens.encoder_input if isinstance(tokens, DecoderInput) else tokens
        mask = self.mask if mask is None else mask
        key = (
            mask,
            *(tuple(one) for one in (tokens.ids, tokens.output_tokens.ids, read.ids, read.padding, read.segments)),
        )
        if key not in self.known:
            self.known[key] = self.run_finite(tokens, mask)
        return self.known[key]

    def places(self, layers: Sequence[int]) -> list[int]:
        """Return the places of layers in the weights of the other program."""
        return list(layers)

    def logits(self, tokens: Tokens) -> Tensor:
        """Return the logits of the other program's output head for a text. Raises NothingToCompare if there is none."""
        raise NotImplementedError

    # --- our side -----------------------------------------------------------------------------------------

    def run_model(
        self, texts: Sequence[Tokens], layers: Sequence[int] | None = None, heads: Selection = "all", **more: Any
    ) -> list[tuple[Tokens, TextResult]]:
        """Run the model, by default in the compared layers, and return each text with its result.

        more: further fields of the Request.
        """
        request = Request(self.layers if layers is None else layers, heads, **{"mask": self.mask, **more})
        return list(zip(texts, self.answering.take([plain_tokens(one) for one in texts], request), strict=True))

    @abstractmethod
    def our_vectors(self, tokens: Tokens, mask: str) -> list[Any]:
        """Return the compared vectors of each layer. In some networks, those before the first layer come first."""

    # --- both ---------------------------------------------------------------------------------------------

    def rows(self, tokens: Tokens) -> list[int]:
        """Return the tokens whose rows of weights and whose vectors are compared: all, with one exception.

        Training never shaped the rows of [PAD] itself, so rounding there can grow from layer to layer. In minilm,
        transformers' own hidden states in float32 are up to 1.6e-4 from exact ones at a [PAD], past the tolerance, and
        about 5e-6 at other tokens. So these rows are compared only in float64, and only if transformers computes them.
        """
        known = self.model.dtype == torch.float64 and self.reference.has_padding_rows
        return list(range(len(tokens))) if known else tokens.real

    @property
    def precision(self) -> torch.dtype:
        """The model's dtype; float32 if transformers computes parts of it in float32."""
        single = self.reference is not None and not self.reference.exact
        return torch.float32 if self.model.dtype == torch.float64 and single else self.model.dtype

    def weight_difference(self, taken: TextResult, tokens: Tokens, mask: str | None = None) -> float:
        """Return the difference between the model's weights of a text and those of transformers."""
        expected = self.theirs(tokens, mask).weights[self.places(taken.selected.layers)][:, taken.selected.heads]
        rows = self.rows(tokens)
        return difference(taken.weights[..., rows, :], expected[..., rows, :])

    def vector_differences(self, ours: Sequence[Tensor], theirs: Sequence[Tensor], tokens: Tokens) -> Iterator[float]:
        """Yield the difference between the vectors of each pair."""
        rows = self.rows(tokens)
        for one, other in zip(ours, theirs, strict=True):
            yield vector_difference(one[rows], other[rows])

    def allowed(self, single: bool = False) -> float:
        """Return the largest difference that rounding explains, of a weight or as a share of a vector's size.

        In half precision it is a multiple of the difference between transformers' own numbers and those in float32.
        single: the numbers are float32 for any dtype of the model.
        """
        precision, found = self.precision, [0.0]
        for text in self.plain:
            with suppress(NothingToCompare):
                theirs = self.theirs(text)
                if is_half(precision):
                    exact_weights, exact = self.numbers(self.in_float32.run_theirs(text, self.mask))
                    weights, vectors = self.numbers(theirs)
                    found.append(difference(weights, exact_weights))
                    found.append(vector_difference(torch.stack(vectors), torch.stack(exact)))
                else:
                    found.append(weight_size(theirs.weights))
        if is_half(precision):
            return LARGEST * max(torch.finfo(precision).eps, *found)
        return scaled_tolerance(torch.float32 if single else precision, self.model.depth, max(1.0, *found))

    def mask_rows(self, tokens: Tokens) -> list[int]:
        """Return the rows in which `hidden` is known."""
        return self.rows(tokens)

    def hidden(self, tokens: Tokens, mask: str) -> Tensor:
        """Return the keys hidden by a mask in the compared layers, bool `[layer, query, key]`, found without attncli.

        Only the rows that `mask_rows` names count.
        """
        raise NotImplementedError

    def padded(self) -> list[tuple[Tokens, Tokens]]:
        """Return each text and its first half, each without and with [PAD]; twice without if the tokenizer has no
        [PAD]."""
        raise NotImplementedError

    @property
    def outer_heads(self) -> list[int]:
        """The last head and the first one, in this order."""
        return [*{self.model.heads - 1: None, 0: None}]


# --- attncli's own networks ---------------------------------------------------------------------------------


class OwnPeers(Peers):
    """A network of attncli and its counterpart in transformers, whose numbers come from its own modules.

    inputs, whole: the texts and their tokens, padded to `pad_to`.
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

    def padded(self) -> list[tuple[Tokens, Tokens]]:
        tokenizer = self.model.tokenizer
        parts = [(part, one) for one in self.plain for part in (one, one.take(range(len(one) // 2 or 1)))]
        if tokenizer.pad_id is None:
            return [(part, part) for part, _ in parts]
        return [(part, tokenizer.pad(part, len(tokenizer.pad_some(one)))) for part, one in parts]

    def run_theirs(self, tokens: Tokens, mask: str) -> Theirs:
        weights, states = self.reference.run(tokens, mask)
        return Theirs(torch.stack(weights), states)

    def their_vectors(self, theirs: Theirs) -> list[Tensor]:
        return [theirs.states[0], *(theirs.states[layer + 1] for layer in self.layers)]

    def our_vectors(self, tokens: Tokens, mask: str) -> list[Any]:
        states = self.answering.hidden_states(plain_tokens(tokens), mask)
        return [states[0], *(states[layer + 1] for layer in self.layers)]

    def mask_rows(self, tokens: Tokens) -> list[int]:
        return list(range(len(tokens)))

    def hidden(self, tokens: Tokens, mask: str) -> Tensor:
        reach = [self.model.config.reach[layer] for layer in self.layers]
        return torch.from_numpy(~allowed_keys(tokens, mask, reach))

    def norms(self, tokens: Tokens) -> Tensor:
        """Return ‖α v W_O‖ from transformers' own numbers, in the compared layers."""
        lengths = []
        for layer, values in enumerate(self.turned("value", self.projected("value", tokens)).double()):
            source = self.model.config.source(f"layers.{layer}.attention.output")
            stored = self.reference.network.get_submodule(source.names[0]).weight.detach().double()
            output = (stored.T if source.transposed else stored).unflatten(1, (len(values), -1))
            lengths.append(torch.einsum("htd,Dhd->htD", values, output).norm(dim=-1))
        return (self.theirs(tokens).weights.double() * torch.stack(lengths)[:, :, None])[self.layers]

    def projected(self, part: str, tokens: Tokens) -> list[Tensor]:
        """Return transformers' queries, keys or values of each layer as projected, `[token, head * head_dim]`.

        Layers that share a module get its outputs in the order of its calls.
        """
        layers = range(self.model.config.layers)
        sources = [self.model.config.source(f"layers.{layer}.attention.{part}") for layer in layers]
        with self.reference.watched({name for source in sources for name in source.names}) as made:
            self.reference.run(tokens, self.mask)
        turns = {name: iter(outputs) for name, outputs in made.items()}
        found = []
        for source in sources:
            one = source.cut(torch.cat([next(turns[name]) for name in source.names], dim=-1), dim=1)
            bias = None if source.bias is None else self.reference.network.get_parameter(source.bias).detach()
            found.append(one if bias is None else one + bias)
        return found

    def heads_of(self, projected: Sequence[Tensor]) -> Tensor:
        """Split queries, keys or values of each layer into heads, `[layer, head, token, head_dim]`."""
        by_head = torch.stack(list(projected)).unflatten(-1, (-1, self.model.config.head_dim)).transpose(1, 2)
        return by_head.repeat_interleave(self.model.config.heads // by_head.shape[1], dim=1)

    def turned(self, part: str, projected: Sequence[Tensor]) -> Tensor:
        """Return queries, keys or values per head, `[layer, head, token, head_dim]`, with rotary positions."""
        heads = self.heads_of(projected)
        positions = torch.arange(heads.shape[2], device=heads.device)
        scores = [self.model.network.layer(layer).score for layer in range(len(heads))]
        turned = (
            score.turn(one, positions) if part in score.turned else one
            for score, one in zip(scores, heads, strict=True)
        )
        return torch.stack(list(turned))

    def logits(self, tokens: Tokens) -> Tensor:
        if self.reference.whole is self.reference.network:
            raise NothingToCompare("the model has no output head")
        with torch.inference_mode():
            logits: Tensor = self.reference.made_of(tokens, self.mask, head=True).logits[0]
        return logits


class TorchPeers(Peers):
    """Compares each layer's attention with torch's module. Both get that layer's input from our pass.

    Raises RequestError if the scores depend on positions, which torch's module does not support.
    """

    model: Model

    def __init__(self, model: Model, mask: str | None = None, layers: Sequence[int] | None = None) -> None:
        super().__init__(model, None, (), mask, layers)
        if any(model.config.positions[layer] is not None for layer in self.layers):
            kind = model.config.model_type
            raise RequestError(
                f"torch's module does not support the scores of {kind}, which depend on positions: omit --against torch"
            )
        model.need(model.config.layers)
        self.modules = [torch_attention(self.attention(layer)) for layer in self.layers]

    def attention(self, layer: int) -> MultiHeadAttention:
        return self.model.network.layer(layer).attention

    @property
    def in_float32(self) -> Any:
        beside = copy(self)
        beside.modules = [deepcopy(one).float() for one in self.modules]
        return beside

    def run_ours(self, tokens: Tokens, mask: str) -> tuple[InputsAndOutputs, Tensor]:
        """Return the inputs and outputs of our layers' attention, and its masks."""
        kept = InputsAndOutputs()
        [taken] = self.model.take([tokens], Request(self.layers, mask=mask), [kept])
        return kept, as_tensor(taken.masks, self.model.device)

    def our_vectors(self, tokens: Tokens, mask: str) -> list[Tensor]:
        kept, _ = self.run_ours(tokens, mask)
        with torch.inference_mode():
            return [kept.attended(layer, self.attention(layer)) for layer in self.layers]

    def run_theirs(self, tokens: Tokens, mask: str) -> Theirs:
        kept, masks = self.run_ours(tokens, mask)
        made = []
        for layer, module, allowed in zip(self.layers, self.modules, masks, strict=True):
            x = kept.inputs[layer].to(module.out_proj.weight.dtype)
            with torch.inference_mode():  # torch takes an inverted mask
                output, weights = module(x, x, x, attn_mask=~allowed, average_attn_weights=False)
            made.append((weights[0], output[0]))
        return Theirs(torch.stack([weights for weights, _ in made]), [output for _, output in made])

    def rows(self, tokens: Tokens) -> list[int]:
        """Return all tokens, except [PAD] before a text, which sees nothing: torch gives NaN there."""
        return tokens.real if self.model.config.causal else list(range(len(tokens)))

    def places(self, layers: Sequence[int]) -> list[int]:
        return list(range(len(layers)))

    def their_vectors(self, theirs: Theirs) -> list[Tensor]:
        return theirs.states


# --- both programs, layer by layer -------------------------------------------------------------------------


def compare(peers: Peers, texts: Iterable[Tokens]) -> Agreement:
    """Run each text through both programs, and collect the differences. Raises ValueError if there is no text."""
    model, layers, reference = peers.model, peers.layers, peers.reference
    embeddings, half = list[float](), is_half(model.dtype)
    embedded, tallies = Errors(model.dtype), [LayerTally(model.dtype) for _ in layers]
    texts_seen = tokens_seen = queries = 0
    for tokens in texts:
        rows = peers.rows(tokens)
        [(_, taken)] = peers.run_model([tokens])
        ours = taken.weights, peers.our_vectors(tokens, peers.mask)
        sides = [ours, peers.numbers(peers.run_finite(tokens, peers.mask))]
        if half:
            sides.append(peers.numbers(peers.in_float32.run_theirs(tokens, peers.mask)))
        weights = [one[:, :, rows] for one, _ in sides]
        vectors = [[one[rows] for one in every] for _, every in sides]
        if len(vectors[0]) > len(layers):
            first = [every.pop(0) for every in vectors]
            embeddings.append(vector_difference(*first[:2]))
            if half:
                embedded.add(*(one / sizes(first[1]) for one in first))
        for place, tally in enumerate(tallies):
            tally.add(*((one[place], every[place]) for one, every in zip(weights, vectors, strict=True)))
        texts_seen += 1
        tokens_seen += len(tokens)
        queries += len(rows)
    if not texts_seen:
        raise ValueError("there is no text to compare on")
    precision = peers.precision
    before = 0 if model.part == "encoder" else model.depth - model.layers  # an encoder's layers
    return Agreement(
        against="torch" if reference is None else "transformers",
        dtype=model.dtype_name,
        mask=peers.mask,
        texts=texts_seen,
        tokens=tokens_seen,
        queries=queries,
        embeddings=worst(embeddings) if embeddings else None,
        embeddings_allowed=LARGEST * embedded.largest if is_half(precision) else scaled_tolerance(precision, 1, 1.0),
        layers=[
            tally.agreement(layer, model.heads, 1 if reference is None else before + layer + 1, precision)
            for layer, tally in zip(layers, tallies, strict=True)
        ],
    )


def torch_attention(attention: MultiHeadAttention) -> nn.MultiheadAttention:
    """Make torch's module with copies of these weights; it keeps the three projections in one matrix."""
    parts = (attention.query, attention.key, attention.value)
    like = attention.query.weight
    biased = attention.output.bias is not None
    theirs = nn.MultiheadAttention(
        like.shape[1], attention.heads, bias=biased, batch_first=True, device=like.device, dtype=like.dtype
    )
    tensors = {
        "in_proj_weight": torch.cat([part.weight for part in parts]),
        "out_proj.weight": attention.output.weight,
    }
    if biased:
        biases: list[Tensor] = [like.new_zeros(len(part.weight)) if part.bias is None else part.bias for part in parts]
        tensors["in_proj_bias"] = torch.cat(biases)
        tensors["out_proj.bias"] = attention.output.bias
    theirs.load_state_dict(tensors)
    return theirs.eval()


# --- tokens -------------------------------------------------------------------------------------------------


def plain_tokens(tokens: Tokens) -> Tokens:
    """Return the tokens of a request: for an encoder alone, without the tokens that the decoder is fed."""
    return tokens.plain if isinstance(tokens, EncoderInput) else tokens


def real_tokens(tokens: Tokens) -> int:
    """Return the number of tokens that are read, except [PAD]."""
    return len((tokens.encoder_input if isinstance(tokens, DecoderInput) else tokens).real)


def cut(tokens: Tokens, length: int, fed: int = TOKENS) -> Tokens:
    """Return the first tokens of the text that is read, and of a decoder's input."""
    if isinstance(tokens, DecoderInput):
        return DecoderInput(
            **first_tokens(tokens, fed).plain.lists,
            encoder_input=first_tokens(tokens.encoder_input, length),
            labels=tokens.labels,
        )
    some = first_tokens(tokens, length)
    if not isinstance(tokens, EncoderInput):
        return some
    return EncoderInput(**some.plain.lists, decoder_input=first_tokens(tokens.decoder_input, fed), labels=tokens.labels)


def first_tokens(tokens: Tokens, length: int) -> Tokens:
    """Return the first tokens of a text, at most `length`, without any [PAD] before it."""
    return tokens.take(range(tokens.first, min(len(tokens), tokens.first + length)))


def allowed_keys(tokens: Tokens, mask: str, reach: Sequence[int | None]) -> npt.NDArray[np.bool_]:
    """Return the keys that a named mask allows in layers with these windows, bool `[layer, query, key]`, without
    torch."""
    real, everything = ~np.array([tokens.padding]), np.ones((len(tokens), len(tokens)), dtype=bool)
    windows = [() if far is None else (near(far),) for far in reach]
    return np.stack([everything & self_mask(real, *MASKS[mask], *window)[0, 0] for window in windows])
