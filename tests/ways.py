"""Code paths that `attncli compare` does not take itself, each compared with transformers.

Each goes through the very call that the commands make, and yields how far that is from transformers' numbers on the
same text, as the ways of `compare` do (`attncli.features.compare.ways`). `OWN` lists them for attncli's own networks
and `EAGER` for networks that transformers runs, after those of `compare`.

    python tests/ways.py [options of compare]      do what `attncli compare` does, in every way
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hooks import outputs_put
from torch import Tensor, nn
from windows import sums_of

from attncli import load_model
from attncli.attention import MASKS
from attncli.checks.tolerance import scaled_tolerance
from attncli.cli.app import main
from attncli.corpus.reducer import Pace, Reducer
from attncli.corpus.sums import Counting, Sums, plain_part
from attncli.effects.change import Head, Hide, Put, Unchanged
from attncli.effects.gradients import gate_gradients, slopes
from attncli.effects.question import Question, RemainingTokens
from attncli.features.compare import ways
from attncli.features.compare.agreement import difference, vector_difference
from attncli.features.compare.beside import (
    TOKENS,
    NothingToCompare,
    OwnPeers,
    Peers,
    allowed_keys,
    cut,
    plain_tokens,
    real_tokens,
)
from attncli.features.compare.eager import Eager, EagerPeers, EagerResult
from attncli.features.compare.ways import CompareWay
from attncli.models.block import LEAST_QUERIES
from attncli.models.checkpoint_files import CONFIG_FILE
from attncli.models.config import read_config
from attncli.models.devices import as_tensor
from attncli.models.head import one_head
from attncli.models.model import Model
from attncli.models.taken import TextResult, read_by, select_in, take_batch
from attncli.models.taps import InputsAndOutputs, Outputs
from attncli.models.transformers_peer import Reference, load_reference, quiet
from attncli.models.walk import CACHED_ROWS
from attncli.models.weighing import CACHED
from attncli.record import Input, Request
from attncli.record.grouping import axes_of
from attncli.record.selection import Grouping, Selection
from attncli.text.tokens import DecoderInput, Tokens, Unreadable
from attncli.text.windows import TextWindow, windows

INPUTS = [Input("the cat sat on the big cat", "it is too big"), Input("it, too"), Input("un believable cat sat")]


def own_peers(path: Path | str, dtype: str = "float64", inputs: Sequence[Input] = INPUTS, **more: Any) -> OwnPeers:
    """Return attncli's own network and its peer. more: `pad_to`, `mask`, `layers`."""
    model = load_model(str(path), device="cpu", dtype=dtype)
    reference = load_reference(model.place.path, model.device, model.dtype)
    return OwnPeers(model, reference, inputs, list(model.tokenizer.encode_each(inputs, more.get("pad_to"))), **more)


def eager_peers(path: Path | str, which: str | None = None, mask: str | None = None, **more: Any) -> EagerPeers:
    """Return a network that transformers runs, with our place in it and without. more: `dtype`, `without`."""
    model = load_model(str(path), device="cpu", engine="transformers", **more).of_part(which)
    texts = model.tokenizer.encode_each([one._replace(pair=None) for one in INPUTS], None)
    return EagerPeers(Eager(model), [model.ready(one, answer=True) for one in texts], mask)


# --- in every network -----------------------------------------------------------------------------------


def together(peers: Peers) -> Iterator[float]:
    """Run texts of mixed lengths in one walk; they come in their order."""
    if isinstance(peers, EagerPeers):  # two lengths of what is read, and of what a decoder is fed
        parts = [(one, length) for one in peers.plain for length in (real_tokens(one) // 2 or 1, real_tokens(one))]
        mixed = [
            cut(one, some, fed)
            for one, some in parts
            for fed in (len(one.output_tokens), len(one.output_tokens) // 2 or 1)
        ]
    else:  # three lengths, forwards and backwards
        texts = [(one, one.take(range(len(one) - 1, -1, -1))) for one in peers.plain]
        lengths = [(pair, length) for pair in texts for length in (2, 1, 3)]
        mixed = [one.take(range(len(one) // length or 1)) for pair, length in lengths for one in pair]
    for text, one in peers.run_model(mixed):
        yield float(one.tokens.ids != text.ids)
        yield peers.weight_difference(one, text)


def ends(peers: Peers) -> list[int]:
    """Return layers in which walks end: the first and the last of each kind; in a network of transformers, some."""
    if isinstance(peers, EagerPeers):
        return sorted({*peers.layers[:2], peers.layers[-1]})
    config = peers.model.config
    kinds = {layer: (config.reach[layer], config.positions[layer]) for layer in peers.layers}
    last = {kind: layer for layer, kind in kinds.items()}
    first = {kind: layer for layer, kind in reversed(kinds.items())}
    return sorted({*first.values(), *last.values()})


def beyond_windows(peers: OwnPeers) -> list[tuple[list[Tokens], int]]:
    """Return the first text, repeated until every window hides tokens on both sides, and attention has two parts.

    Walks end at the first layer with a window, and at the next, which its outputs reach.
    """
    reach = peers.model.config.reach
    far = max((one for one in reach if one is not None), default=None)
    if far is None:
        return []
    [text, *_] = peers.plain
    length = min(max(LEAST_QUERIES, far) + far + 2, peers.model.tokenizer.max_tokens)
    long = text.take([place % len(text) for place in range(length)])
    near = next((layer for layer in peers.layers if reach[layer] is not None), None)
    return [([long], layer) for layer in peers.layers if near is not None and layer in (near, near + 1)]


def some_layers_and_heads(peers: Peers) -> Iterator[float]:
    """Ask for one layer, where the walk ends, with all heads and with two; and for two heads of all layers.

    The later ones come first. The other heads go through the fused kernel.
    """
    heads = peers.model.heads
    walks: list[tuple[list[Tokens], list[int], Selection]] = [(peers.texts, peers.layers[::-1], peers.outer_heads)]
    for layer in ends(peers):
        head = layer % (heads - 1) if heads > 1 else 0
        walks += [(peers.texts, [layer], "all"), (peers.texts, [layer], [head + 1, head] if heads > 1 else [0])]
    if isinstance(peers, OwnPeers):
        walks += [(texts, [layer], "all") for texts, layer in beyond_windows(peers)]
    for texts, layers, some in walks:
        for text, one in peers.run_model(texts, layers, some):
            yield peers.weight_difference(one, text)


def without(peers: Peers) -> Iterator[float]:
    """Silence one head of each layer, another in each, and compare weights and the last vectors."""
    [text, *_], beside = peers.texts, copy(peers)
    heads = [(layer, layer % peers.model.heads) for layer in peers.model.select_layers("all")]
    beside.answering = peers.model.without(heads)
    if isinstance(peers, EagerPeers):
        theirs: Any = put(peers, text, gates_without(peers, heads))
        last = theirs.last
    else:
        with outputs_put(peers.reference.network, peers.model, dict.fromkeys(heads, 0.0)):
            theirs = peers.run_theirs(text, peers.mask)
        last = theirs.states[-1]
    rows = peers.rows(text)
    [(_, one)] = beside.run_model([text])
    yield difference(one.weights[..., rows, :], theirs.weights[peers.places(peers.layers)][..., rows, :])
    with torch.inference_mode():
        yield from peers.vector_differences(
            beside.answering.last_hidden([text], peers.mask), [last], text.output_tokens
        )


def explained(peers: Peers) -> Iterator[float]:
    """Compare softmax(scale · q·k + terms) of what a record keeps, with its sinks, with the weights."""
    for text, one in peers.run_model(peers.texts, vectors="all"):
        rows = peers.rows(text)
        yield difference(weights_by_vectors(one)[..., rows, :], peers.numbers(peers.theirs(text))[0][..., rows, :])


def weights_by_vectors(taken: TextResult) -> Tensor:
    """Return the weights `[layer, head, query, key]` by all heads' vectors, scales, terms, sinks and masks."""
    layers = taken.selected.layers
    query, key, scale, sinks = (
        one.unflatten(0, (len(layers), -1)).double()
        for one in (*taken.vectors, torch.from_numpy(taken.scales), torch.from_numpy(taken.sinks))
    )
    scores = query @ key.mT * scale.to(query.device)[..., None, None]
    for term in taken.terms.values():
        scores = scores + term.unflatten(0, (len(layers), -1))
    hidden = ~as_tensor(taken.masks, scores.device)[:, None]
    sink = sinks.to(scores.device)[..., None, None].expand(*scores.shape[:-1], 1)
    scores = torch.cat([scores.masked_fill(hidden, -torch.inf), sink], dim=-1)
    return scores.softmax(dim=-1)[..., :-1].nan_to_num(0.0)


def records(peers: Peers) -> Iterator[float]:
    """Compare what is printed, drawn and saved with what was computed, in float32."""
    which = peers.model.part if len(peers.model.parts) > 1 else None
    texts, request = list(map(plain_tokens, peers.texts)), Request(peers.layers, mask=peers.mask, which=which)
    for record, one in zip(peers.model.attend_tokens(texts, request), peers.model.take(texts, request), strict=True):
        yield difference(torch.from_numpy(record.weights), one.weights.float())


# --- in attncli's networks: vectors and one head ----------------------------------------------------------


def meeting(peers: OwnPeers, text: Tokens, part: str) -> Tensor:
    """Return transformers' queries, keys or values as they meet, `[layer, head, token, head_dim]`: after their norm."""
    config, projected = peers.model.config, peers.projected(part, text)
    if config.query_key_norm is not None and part != "value":
        for layer, one in enumerate(projected):
            [name] = config.source(f"layers.{layer}.attention.{part}_norm").names
            size = config.head_dim if config.query_key_norm == "head" else one.shape[-1]
            norm = peers.reference.network.get_submodule(name)
            projected[layer] = norm(one.unflatten(-1, (-1, size))).flatten(-2).detach()
    return peers.turned(part, projected)


def vectors(peers: OwnPeers) -> Iterator[float]:
    """Compare queries and keys as they meet, and the weights that they explain."""
    yield from explained(peers)
    for text, one in peers.run_model(peers.texts, vectors="all"):
        rows = peers.rows(text)
        for part, kept in zip(("query", "key"), one.vectors, strict=True):
            ours = kept.unflatten(0, (len(peers.layers), -1)).double()  # [layer, head, token, head_dim]
            yield vector_difference(ours[:, :, rows], meeting(peers, text, part)[peers.layers][:, :, rows])


def half_precision(peers: OwnPeers) -> Iterator[float]:
    """Compare the maps of the first layer in bfloat16 with softmax(q·k / √d) of its own vectors."""
    like = peers.model
    model = Model(like.place, like.config, like.tokenizer, like.checkpoint, like.sha256, like.device, torch.bfloat16)
    for one in model.take(peers.texts, Request([0], mask=peers.mask, vectors="all")):
        yield difference(one.weights, weights_by_vectors(one))


def in_numpy(peers: OwnPeers) -> Iterator[float]:
    """Compare the network in NumPy in all of these ways."""
    beside = ways.in_numpy(peers)
    for way in (together, some_layers_and_heads, pair, vectors):
        yield from way(beside)


def taken_apart(peers: OwnPeers) -> Iterator[float]:
    """Compare one head with what goes into it, its projections and its vectors: x W + b."""
    [text, *_] = peers.texts
    rows, projected = peers.rows(text), {part: peers.projected(part, text) for part in ("query", "key", "value")}
    for layer in ends(peers):
        number = layer % peers.model.config.heads
        head = one_head(peers.model, text, layer, number, peers.mask)
        expected = peers.theirs(text).weights[layer, number]
        yield difference(torch.from_numpy(head.record.weights[0, 0, rows]), expected[rows])
        for part, kept in (("query", head.query), ("key", head.key), ("value", head.value)):
            weight, bias = head.projections[part]
            made = head.x @ weight.T + bias
            yield vector_difference(torch.from_numpy(kept[rows]), meeting(peers, text, part)[layer, number][rows])
            yield vector_difference(torch.from_numpy(made[rows]), peers.heads_of(projected[part])[layer, number][rows])


# --- gradients of ablate and trust -------------------------------------------------------------------


def their_gradients(
    reference: Reference, tokens: Tokens, mask: str, number: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Differentiate a number of transformers' last vectors `[1, token, hidden_size]` of one text, in float64.

    Return gradient x input of the first layer, `[token]`, and gradient x weights, `[layer, head, query, key]`.
    """
    with torch.enable_grad():
        made = reference.made_of(tokens, mask)
        first, *_, last = made.hidden_states
        of_first, *of_weights = torch.autograd.grad(number(last), [first, *made.attentions])
    weighted = torch.cat(of_weights).double() * torch.cat(made.attentions).detach().double()
    return (of_first[0].double() * first[0].detach().double()).sum(dim=-1), weighted


class Along(Question):
    """The last vectors of a text along a direction that was drawn, summed over the tokens that count."""

    kind, about = "distance", "the last vectors along a direction"

    def __init__(self, text: Unchanged, rows: Sequence[int]) -> None:
        super().__init__([text])
        drawn = torch.randn(text.last[0].shape, generator=torch.Generator().manual_seed(0))
        self.rows = rows
        self.direction = torch.zeros_like(drawn).index_copy(0, torch.tensor(rows), drawn[rows]).to(text.last.device)

    @property
    def reads(self) -> Sequence[int]:
        return self.rows

    def after_deletion(self, left: Sequence[RemainingTokens], *others: Tensor) -> Tensor:
        return torch.stack([(one.vectors * self.direction.to(one.vectors.dtype)).sum() for one in left])


def share_apart(ours: Tensor, theirs: Tensor) -> float:
    """Return the largest difference as a share of the largest number."""
    return difference(ours, theirs) / (float(theirs.abs().max()) or 1.0)


def gradients(peers: OwnPeers) -> Iterator[float]:
    """Compare gradients of a number of the last vectors on a text with [PAD], causal mask.

    They are by gates of heads and by the first layer's input; and the relevance that gradients by all weights make.
    """
    tokens, reference = peers.plain[0], peers.reference
    if reference.has_padding_rows or reference.dtype != torch.float64:  # otherwise NaN in rows of [PAD]
        tokens = peers.model.tokenizer.pad_some(tokens)
    text = Unchanged.of(peers.model, tokens, "causal")
    question = Along(text, peers.rows(text.tokens))
    inputs, weighted = their_gradients(reference, text.tokens, text.mask, lambda last: question([last])[0])
    expected = torch.eye(len(text.tokens), dtype=torch.float64, device=weighted.device)
    for layer in weighted:
        expected = expected + layer.clamp(min=0).mean(dim=0) @ expected
    ours = slopes(question)
    for found, wanted in (
        (gate_gradients(question), weighted.sum(dim=(-2, -1))),
        (torch.from_numpy(ours.inputs), inputs),
        (torch.from_numpy(ours.relevance), expected),
    ):
        # At most 3.6 times as much as usual was seen, where values are 30 times as large: the network and back.
        yield share_apart(found, wanted) / 8


# --- sums of stats, and the same in numpy ------------------------------------------------------------

# They are made in float64: a spread is a difference of squares of distances, which reach TOKENS.
IN_FLOAT64 = scaled_tolerance(torch.float64, 1, TOKENS**2)


def cut_windows(peers: OwnPeers) -> list[TextWindow]:
    """Cut the texts, their words in reverse and half of them as `stats` does. The first query does not count."""
    texts = [beginning(one.text).split() for one in peers.inputs]
    found: list[TextWindow] = []
    for words in (some for every in texts for some in (every, every[::-1], every[: len(every) // 2 or 1])):
        with suppress(Unreadable):  # half of a text may have nothing in it that the tokenizer keeps
            [window] = windows(len(found), " ".join(words), peers.model.tokenizer)
            found.append(replace(window, counted=(1, len(window))))
    return found


def beginning(text: str) -> str:
    """Return the first words of a text, of about TOKENS tokens or fewer."""
    return " ".join(text.split()[: TOKENS // 2])[: 4 * TOKENS]


def their_sums(peers: OwnPeers, texts: list[TextWindow], counting: Counting) -> Sums:
    """Return the sums over these texts, in numpy from transformers' weights."""
    config = peers.model.config
    expected = Sums.nothing(config.layers, config.heads)
    for window in texts:
        weights = peers.theirs(window.tokens).weights.double()
        if counting.measure == "norm":
            norms = peers.norms(window.tokens)
            weights = norms / norms.sum(dim=-1, keepdim=True)
        allowed = allowed_keys(window.tokens, peers.mask, config.reach)
        expected = expected + plain_part(window, weights.cpu().numpy(), allowed).of_text()
    return expected


def sums(peers: OwnPeers) -> Iterator[float]:
    """Compare every figure, its spread between texts, and the largest possible entropy; relative to 1 if it is larger.

    All queries are added up together and, as for a long text, some at once. Yield half of what differs: it may be
    twice as large as usual.
    """
    texts = cut_windows(peers)
    for counting in (Counting(peers.mask), Counting(peers.mask, measure="norm")):
        expected = their_sums(peers, texts, counting)
        for pace in (None, Pace.on(peers.model.device.type, block_weights=5000)):
            found = sums_of(Reducer(peers.model, counting, pace), texts)
            for ours, wanted in (
                (found.figures, expected.figures),
                (found.spread, expected.spread),
                (found.limit / found.queries, expected.limit / expected.queries),
            ):
                apart = float((np.abs(ours - wanted) / np.maximum(1, np.abs(wanted))).max())
                yield max(0.0, apart - IN_FLOAT64) / 2


# --- a .gguf file, pairs, [PAD] and the formula --------------------------------------------------------------

SILENT = ("_model_name_or_path", "unk_token_id", "feed_forward_length")  # settings no network of transformers reads


def conversion(peers: OwnPeers) -> Iterator[float]:
    """Count the settings of a converted .gguf file that differ from transformers' reading of the file.

    Numbers in the file are float32, so they are equal to within its rounding.
    """
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    place = peers.model.place
    if place.gguf is None:
        raise NothingToCompare("there is none")
    with quiet():
        theirs = load_gguf_checkpoint(str(place.gguf), return_tensors=False)["config"]
    ours = read_config(place.path / CONFIG_FILE)
    for name, value in theirs.items():
        found = ours.get(name, math.nan)
        close = isinstance(value, float) and isinstance(found, float) and math.isclose(value, found, rel_tol=1e-6)
        yield float(name not in SILENT and not close and value != found)


def pair(peers: OwnPeers) -> Iterator[float]:
    """Compare a text with its second segment; one without gets the text before, or itself."""
    first = peers.inputs[0]
    encoded = peers.model.tokenizer.encode(beginning(first.text), beginning(first.pair or peers.inputs[-1].text))
    for _, one in peers.run_model([encoded]):
        yield peers.weight_difference(one, encoded)


def padding(peers: OwnPeers) -> Iterator[float]:
    """Compare texts with [PAD], in one layer, with the texts without, whose real tokens have the same weights.

    There are so many texts that neither their rows nor their weights fit the cache of a processor.
    """
    model, texts = peers.model, crowd(peers)
    request = Request([next((layer for layer in peers.layers if layer > 0), peers.layers[0])])
    taken = take_batch(model, [long for _, long in texts], select_in(model, request), request, [])
    for (plain, padded), one in zip(texts, taken, strict=True):
        expected = peers.theirs(plain, model.usual_mask(None)).weights[request.layers]
        real = slice(padded.first, padded.first + len(plain))
        yield difference(one.weights[..., real, real], expected)


def crowd(peers: OwnPeers) -> list[tuple[Tokens, Tokens]]:
    """Repeat a text until the weights of a layer fill the cache, then its first half until both caches are too small.

    Each is given without [PAD], and with it, all of one length. Without [PAD] in the vocabulary, the half is the text
    in reverse.
    """
    [text, *_], tokenizer, heads = peers.plain, peers.model.tokenizer, peers.model.config.heads
    if tokenizer.pad_id is None:
        whole, other = (text, text), (text.take(range(len(text) - 1, -1, -1)),) * 2
    else:
        half = text.take(range(len(text) // 2 or 1))
        length = max(len(text), min(math.isqrt(CACHED // (2 * heads)) + 1, tokenizer.max_tokens))
        whole, other = ((part, tokenizer.pad(part, length)) for part in (text, half))
    length = len(whole[1])
    filling = max(1, CACHED // (heads * length**2))
    return [whole] * filling + [other] * (max(filling + 1, CACHED_ROWS // length + 2) - filling)


def formula(peers: OwnPeers) -> Iterator[float]:
    """Compare `MultiHeadAttention.forward`, as the tutorials write it, on each layer's input, under every mask."""
    for (plain, padded), mask in product(peers.padded()[:1], MASKS):
        text = plain if padded.first and mask == "none" else padded  # `forward` counts positions from [PAD] on
        kept = InputsAndOutputs()
        [one] = peers.model.take([text], Request(peers.layers, mask=mask), [kept])
        expected, rows = peers.theirs(text, mask).weights, peers.rows(text)
        for layer, allowed in zip(peers.layers, as_tensor(one.masks, peers.model.device), strict=True):
            with torch.inference_mode():
                attention = peers.model.network.layer(layer).attention
                weights = attention(kept.inputs[layer], mask=allowed).weights[0]
            yield difference(weights[:, rows], expected[layer][:, rows])


# --- in networks of transformers: what the heads give to the output projection ------------------------------


def joining(peers: EagerPeers) -> dict[int, str]:
    """Return by layer the name of the module whose input is the joined heads, found by a pass through our place.

    Raises NothingToCompare where a layer has none such.
    """
    found, heads, model = dict[int, str](), Outputs(), peers.model

    def look(name: str, module: nn.Module, inputs: Any) -> None:
        if not heads.kept or getattr(module.weight, "ndim", 0) != 2:
            return
        layer = next(reversed(heads.kept))
        joined = heads.kept[layer][0].transpose(0, 1).flatten(1)
        if inputs[0].numel() == joined.numel() and torch.equal(inputs[0].view_as(joined), joined):
            found.setdefault(layer, name)

    modules = [(name, one) for name, one in model.network.named_modules() if hasattr(one, "weight")]
    handles = [one.register_forward_pre_hook(partial(look, name)) for name, one in modules]
    with torch.inference_mode():
        model.silencing([]).last_hidden(peers.plain[:1], taps=[heads])
    for handle in handles:
        handle.remove()
    if len(found) < len(peers.reference.layers):
        raise NothingToCompare("something else than an output projection is done to its heads first")
    return found


@contextmanager
def heads_changed(peers: EagerPeers, change: Callable[[int, Tensor], Tensor | None]) -> Iterator[None]:
    """Put what `change` makes of the joined heads of a layer in their place, unless it is None."""
    calls, layers = count(), peers.reference.layers

    def changed(module: nn.Module, inputs: tuple[Any, ...]) -> Any:
        made = change(
            layers[next(calls) % len(layers)], inputs[0]
        )  # what the network hides is read off in a pass before
        return None if made is None else (made, *inputs[1:])

    with peers.reference.hooked(joining(peers).values(), lambda module: module.register_forward_pre_hook(changed)):
        yield


def norms_of_eager(peers: EagerPeers) -> Iterator[float]:
    """Compare `--measure norm`, ‖α v W_O‖, of all heads in one walk, and of two heads alone."""
    [text, *_] = peers.plain
    lengths = torch.stack([lengths_of(peers, text, layer) for layer in peers.layers])
    expected = peers.numbers(peers.theirs(text))[0].double() * lengths[:, :, None]
    for heads in ("all", peers.outer_heads):
        [(_, one)] = peers.run_model([text], heads=heads, measure="norm")
        rows = peers.rows(text)
        wanted = expected[:, one.selected.heads][..., rows, :]
        yield vector_difference(one.weights[..., rows, :], wanted, ways.OF_A_HEAD)


def lengths_of(peers: EagerPeers, text: Tokens, layer: int) -> Tensor:
    """Return ‖v W_O‖ of the values in a layer, `[head, key]`: what their own projection makes of each alone.

    A query that sees one key only has that key's value in its joined heads, times its weight.
    """
    [place], (_, heads, queries, keys) = peers.places([layer]), peers.theirs(text).weights.shape
    projection = peers.reference.network.get_submodule(joining(peers)[layer])
    found, joined = list[Tensor](), dict[int, Tensor]()
    for start in range(0, keys, queries):
        shown = torch.eye(keys, dtype=torch.bool, device=peers.reference.device).roll(-start, dims=0)[:queries]
        shown = shown if queries <= keys else torch.cat([shown, shown[:1].expand(queries - keys, -1)])
        with torch.inference_mode():
            with heads_changed(peers, lambda layer, heads: joined.update({layer: heads})):
                theirs = peers.reference.theirs(text, peers.mask, shown={layer: shown[None, None]})
            some = min(queries, keys - start)
            weights = theirs.weights[place, :, range(some), range(start, start + some)]
            values = joined[layer].view(queries, heads, -1)[:some].transpose(0, 1) / weights[..., None]
            alone = torch.zeros(heads, some, heads, values.shape[-1], dtype=values.dtype, device=values.device)
            alone[range(heads), :, range(heads)] = values
            made = projection(alone.flatten(2)) - projection(torch.zeros_like(alone.flatten(2)))
        found.append(made.double().norm(dim=-1))
    return torch.cat(found, dim=1)


def put(peers: EagerPeers, text: Tokens, gates: Tensor, instead: Tensor | float = 0.0) -> EagerResult:
    """Run the eager attention with heads multiplied by gates `[layer, head]`; where one is 0, another output stands."""

    def change(layer: int, joined: Tensor) -> Tensor:
        gate = gates[layer][:, None]
        return (joined.unflatten(-1, (len(gate), -1)) * gate + (1 - gate) * instead).flatten(-2)

    with heads_changed(peers, change):
        return peers.reference.theirs(text, peers.mask)


# --- in networks of transformers --------------------------------------------------------------------------


def padding_alone(peers: EagerPeers) -> Iterator[float]:
    """Compare texts with [PAD] with the texts without, whose real tokens have the same weights."""
    if peers.model.tokenizer.pad_id is None:
        raise NothingToCompare("its tokenizer has no padding token")
    pairs = peers.padded()
    for (plain, _), (padded, one) in zip(pairs, peers.run_model([long for _, long in pairs], mask=None), strict=True):
        expected, _ = peers.numbers(peers.theirs(plain, peers.model.usual_mask(None)))
        keys_of = read_by(padded, peers.model.part) or padded
        queries, keys = (~torch.tensor(of.padding, device=one.weights.device) for of in (padded, keys_of))
        yield difference(one.weights[:, :, queries][..., keys], expected)
        yield float(one.weights[:, :, queries][..., ~keys].abs().sum())


def grouped(peers: EagerPeers) -> Iterator[float]:
    """Compare words, and two tokens alone: weights to pieces are added up, and those from pieces averaged."""
    groupings = (Grouping(unit="word"), Grouping(tokens=sorted({0, min(map(len, peers.plain)) - 1})))
    for grouping, text in product(groupings, peers.plain):
        [(_, one)] = peers.run_model([text], grouping=grouping)
        axes = axes_of(
            grouping,
            text.plain,
            text.encoder_input if peers.model.part == "cross" and isinstance(text, DecoderInput) else None,
        )
        weights, _ = peers.numbers(peers.theirs(text))
        to_words = torch.stack([weights[..., group].sum(dim=-1) for group in axes.keys.groups], dim=-1)
        expected = torch.stack([to_words[..., group, :].mean(dim=-2) for group in axes.queries.groups], dim=-2)
        yield difference(one.weights, expected)


def gates_without(peers: EagerPeers, heads: Sequence[Head] = ()) -> Tensor:
    """Return gates of all heads, 0 for some, (layer, head)."""
    gates = torch.ones(peers.model.layers, peers.model.heads, dtype=peers.model.dtype)
    for head in heads:
        gates[head] = 0
    return gates


def outer(peers: EagerPeers) -> list[Head]:
    """Return a head of the first layer and one of the last."""
    return [(peers.layers[0], peers.model.heads - 1), (peers.layers[-1], peers.model.heads // 2)]


def cuts(peers: EagerPeers) -> Iterator[float]:
    """Hide edges of one head, in the first layer and in the last one, side by side, as `cut` does."""
    text, heads = peers.plain[0], peers.model.heads
    unchanged = Unchanged.of(peers.model, text, peers.mask)
    yield vector_difference(unchanged.last[0], peers.theirs(text).last)
    # weight goes along these edges: from the last query to all keys that it sees but one
    seen = (peers.numbers(peers.theirs(text))[0][0].amax(dim=0)[-1] > 0).nonzero()[:, 0].tolist()
    edges = [(len(text) - 1, key) for key in seen[:-1]]
    made = unchanged.copies(0, [Hide([head], edges) for head in outer(peers)])
    for ours, (layer, head) in zip(made, outer(peers), strict=True):
        with torch.inference_mode():
            visible = peers.reference.visible_keys(text, peers.mask)[peers.places([layer])[0]].repeat(1, heads, 1, 1)
            for query, key in edges:
                visible[0, head, query, key] = False
            theirs = peers.reference.theirs(text, peers.mask, shown={layer: visible} if edges else None)
        yield vector_difference(ours, theirs.last)


def ablations(peers: EagerPeers) -> Iterator[float]:
    """Put another output in place of a head's, in the first layer and in the last, as `ablate` and `patch` do."""
    text, [name, *_] = peers.plain[0], joining(peers).values()
    size = peers.reference.network.get_submodule(name).weight.shape[-1] // peers.model.heads
    vector = torch.linspace(-1, 1, size, dtype=peers.model.dtype, device=peers.model.device)
    made = Unchanged.of(peers.model, text, peers.mask).copies(0, [Put({head: vector}) for head in outer(peers)])
    for ours, head in zip(made, outer(peers), strict=True):
        yield vector_difference(ours, put(peers, text, gates_without(peers, [head]), vector).last)


def gradients_by_heads(peers: EagerPeers) -> Iterator[float]:
    """Compare the gradients of a number of the last vectors by gates of heads."""
    text = Unchanged.of(peers.model, peers.texts[0], peers.mask)
    question = Along(text, peers.texts[0].output_tokens.real)
    layers = peers.reference.layers
    with torch.enable_grad():
        gates = gates_without(peers).requires_grad_()
        last = put(peers, peers.texts[0], gates).last
        [wanted] = torch.autograd.grad(question([last[None]])[0], gates)
    yield share_apart(gate_gradients(question)[layers], wanted[layers])


# --- all of them ----------------------------------------------------------------------------------------

OWN: dict[str, CompareWay[OwnPeers]] = {
    **ways.WAYS,
    "conversion": CompareWay("settings of a .gguf file", conversion, exact=True),
    "together": CompareWay("texts of mixed lengths, all layers", together),
    "some layers and heads": CompareWay("-l N, -H 3,1", some_layers_and_heads),
    "pair": CompareWay("--pair", pair),
    "[PAD]": CompareWay("--pad-to: as without [PAD], of many texts", padding),
    "formula": CompareWay("MultiHeadAttention.forward", formula),
    "without": CompareWay("--without", without),
    "records": CompareWay("what is printed is what was computed", records, exact=True),
    "vectors": CompareWay("--vectors: q and k, and softmax(q·k / √d)", vectors),
    "half precision": CompareWay("--dtype bfloat16: maps of its q and k", half_precision, single=True),
    "in NumPy": CompareWay("short texts: pairs, heads, vectors", in_numpy, single=True),
    "one head apart": CompareWay("explain, mechanisms", taken_apart, single=True),
    "gradients": CompareWay("ablate, trust: by gates, inputs and weights", gradients),
    "sums": CompareWay("stats", sums),
}
EAGER: dict[str, CompareWay[EagerPeers]] = {
    **ways.WAYS_OF_EAGER,
    "together": CompareWay("texts of mixed lengths, all layers", together),
    "some layers and heads": CompareWay("-l N, -H 3,1", some_layers_and_heads),
    "[PAD]": CompareWay("--pad-to: as without [PAD]", padding_alone),
    "norms": CompareWay("--measure norm", norms_of_eager),
    "groups": CompareWay("--words, --tokens", grouped),
    "without": CompareWay("--without", without),
    "vectors": CompareWay("--vectors, --terms: softmax(scale q·k + terms)", explained),
    "cuts": CompareWay("cut", cuts),
    "ablations": CompareWay("ablate, patch", ablations),
    "gradients": CompareWay("ablate, trust: by gates of heads", gradients_by_heads),
    "records": CompareWay("what is printed is what was computed", records, exact=True),
}

if __name__ == "__main__":
    ways.WAYS, ways.WAYS_OF_EAGER = OWN, EAGER
    main(["compare", *sys.argv[1:]])
