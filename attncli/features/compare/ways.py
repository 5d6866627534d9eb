"""The ways in which numbers are made, each compared with transformers: what is proven is what is shown.

`agreement` goes through the network layer by layer. Users see more than that: maps of one layer or one head, where the
walk ends early; pairs, [PAD] and masks; silenced heads; vectors, norms, a head taken apart, gradients, and sums over a
corpus. Each of these goes through the very call that the commands make, and is compared with transformers' numbers on
the same text. `WAYS` has them as data.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from attncli.attention import MASKS
from attncli.base.errors import Notice, RequestError
from attncli.checks.passes import AttentionInputs, is_half, lost_rows
from attncli.corpus.reducer import Pace, Reducer
from attncli.corpus.sums import Counting, Sums, plain_part
from attncli.effects.change import Unchanged
from attncli.effects.gradients import gate_gradients, slopes
from attncli.effects.question import Left, Question
from attncli.features.compare.agreement import Way, difference, worst
from attncli.features.compare.beside import Both, NothingToCompare, allowed_by_hand, beginning
from attncli.models.config import ModelConfig
from attncli.models.head import one_head
from attncli.models.hub import VOCABULARY_FILES
from attncli.models.meeting import CACHED
from attncli.models.model import Model
from attncli.models.taken import Taken, as_record, take_batch
from attncli.models.transformers_peer import Reference, peer_tokenizer
from attncli.models.walk import CACHED_ROWS
from attncli.record import Request
from attncli.text.tokens import Tokens, Unreadable
from attncli.text.windows import Window, windows

# --- vectors, norms and one head ---------------------------------------------------------------------


def vectors(both: Both) -> float:
    """Queries and keys as they meet, which are transformers'; and softmax(q·k / √d) of them, with what positions add,
    which are the weights.
    """
    differences = []
    for one in both.taken(both.texts, vectors="all"):
        rows, theirs = both.rows(one.tokens), both.theirs(one.tokens)
        # [layer, head, token, head_dim]
        query, key = (part.unflatten(0, (len(both.layers), -1)).double() for part in one.vectors)
        for part, ours in (("query", query), ("key", key)):
            expected = both.their_meeting(one.tokens, part)[both.layers]
            differences.append(difference(ours[:, :, rows], expected[:, :, rows]))
        weights = weights_by_vectors(one)
        differences.append(difference(weights[..., rows, :], theirs.weights[both.layers][..., rows, :]))
    return worst(differences)


def weights_by_vectors(taken: Taken) -> Tensor:
    """The weights `[layer, head, query, key]` by what a record tells of all heads: vectors, scale, terms and mask."""
    layers = taken.asked.layers
    query, key, scale = (
        one.unflatten(0, (len(layers), -1)).double() for one in (*taken.vectors, torch.from_numpy(taken.scales))
    )
    scores = query @ key.mT * scale.to(query.device)[..., None, None]
    for term in taken.terms.values():
        scores = scores + term.unflatten(0, (len(layers), -1))
    return scores.masked_fill(~taken.masks[:, None], -torch.inf).softmax(dim=-1).nan_to_num(0.0)


def half_precision(both: Both) -> float:
    """The maps of the first layer in bfloat16: softmax(q·k / √d) of its own vectors, as exact as in float32."""
    like = both.model
    if like.device.type != "cpu":
        raise NothingToCompare(f"on {like.device.type} maps have the precision of the model")
    model = Model(like.place, like.config, like.tokenizer, like.checkpoint, like.sha256, like.device, torch.bfloat16)
    taken = model.take(both.texts, Request([0], mask=both.mask, vectors="all"))
    return worst(difference(one.weights, weights_by_vectors(one)) for one in taken)


def norms(both: Both) -> float:
    """`--measure norm`: all heads in one walk, and two heads alone."""
    differences = []
    for heads in ("all", both.outer_heads):
        for one in both.taken(both.texts, heads=heads, measure="norm"):
            rows = both.rows(one.tokens)
            expected = both.their_norms(one.tokens)[both.layers][:, one.asked.heads]
            differences.append(difference(one.weights[..., rows, :], expected[..., rows, :]))
    return worst(differences)


def taken_apart(both: Both) -> float:
    """One head with what goes into it, its projections and its vectors: x W + b, which are transformers'."""
    text, differences = both.texts[0], []
    theirs = both.theirs(text)
    rows = both.rows(text)
    for layer in both.ends:
        number = layer % both.model.config.heads
        head = one_head(both.model, text, layer, number, both.mask)
        expected = theirs.weights[layer, number]
        differences.append(difference(torch.from_numpy(head.record.weights[0, 0, rows]), expected[rows]))
        for part, kept in (("query", head.query), ("key", head.key), ("value", head.value)):
            weight, bias = head.projections[part]
            for made, wanted in (
                (kept, both.their_meeting(text, part)),
                (head.x @ weight.T + bias, theirs.parts[part]),
            ):
                differences.append(difference(torch.from_numpy(made[rows]), wanted[layer, number][rows]))
    return worst(differences)


# --- gradients of ablate and trust -------------------------------------------------------------------


class Gradients(NamedTuple):
    """The vectors `[token, hidden_size]` before the first layer, every layer's weights `[layer, head, query, key]`, and
    the gradients of a number with respect to both.
    """

    first: Tensor
    of_first: Tensor
    weights: Tensor
    of_weights: Tensor


def their_gradients(reference: Reference, tokens: Tokens, mask: str, number: Callable[[Tensor], Tensor]) -> Gradients:
    """Differentiate a number of transformers' last vectors `[1, token, hidden_size]` of one text."""
    with torch.enable_grad():
        made = reference.made_of(tokens, mask)
        first, *_, last = made.hidden_states
        of_first, *of_weights = torch.autograd.grad(number(last), [first, *made.attentions])
    return Gradients(first[0].detach(), of_first[0], torch.cat(made.attentions).detach(), torch.cat(of_weights))


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

    def of_left(self, left: Sequence[Left], *others: Tensor) -> Tensor:
        return torch.stack([(one.vectors * self.direction.to(one.vectors.dtype)).sum() for one in left])


def gradients(both: Both) -> float:
    """Of a number of the last vectors, as shares of the largest: by gates of heads, by what goes into the first layer,
    and the relevance that the gradients by all weights make. Of a text with [PAD] under the causal mask.
    """
    if len(both.layers) < both.model.config.layers:
        raise NothingToCompare("gradients go through all layers, and some are not compared")
    if is_half(both.model.dtype):
        raise NothingToCompare(f"gradients in {both.model.dtype_name} are mostly rounding")
    text = Unchanged.of(both.model, both.model.tokenizer.pad_some(both.plain[0]), "causal")
    asked = Along(text, both.rows(text.tokens))
    theirs = their_gradients(both.reference, text.tokens, text.mask, lambda last: asked([last])[0])
    weighted = theirs.weights.double() * theirs.of_weights.double()
    expected = torch.eye(len(text.tokens), dtype=torch.float64, device=weighted.device)
    for layer in weighted:
        expected = expected + layer.clamp(min=0).mean(dim=0) @ expected
    ours = slopes(asked)
    return worst(
        difference(made, wanted) / (float(wanted.abs().max()) or 1.0)
        for made, wanted in (
            (gate_gradients(asked), weighted.sum(dim=(-2, -1))),
            (torch.from_numpy(ours.inputs), (theirs.of_first.double() * theirs.first.double()).sum(dim=-1)),
            (torch.from_numpy(ours.relevance), expected),
        )
    )


# --- sums of stats, and the same in numpy ------------------------------------------------------------


FEW = 5000  # weights at once: of a text of 64 tokens a few queries


def cut(both: Both) -> list[list[Window]]:
    """The texts as `stats` has them. Raises NothingToCompare when every one is longer than the model reads at once."""
    some: list[list[Window]] = []
    for text in (text for one in both.inputs for text in variants(one.text)):
        with suppress(Unreadable):  # half of a text may have nothing in it that the tokenizer keeps
            made = list(windows(len(some), text, both.model.tokenizer))
            if len(made) == 1:  # the first query does not count, as some don't in the windows of a long text
                some.append([replace(made[0], counted=(1, len(made[0])))])
    if not some:
        raise NothingToCompare("every text is longer than the model reads at once")
    return some


def theirs(both: Both, texts: list[list[Window]], counting: Counting) -> Sums:
    """The sums over these texts, in numpy from transformers' weights."""
    expected = Sums.nothing(both.model.config.layers, both.model.config.heads, counting.distances)
    for [window] in texts:
        weights = both.theirs(window.tokens).weights.double()
        if counting.measure == "norm":
            norms = both.their_norms(window.tokens)
            weights = norms / norms.sum(dim=-1, keepdim=True)
        allowed = allowed_by_hand(window.tokens, both.mask, both.model.config.reach)
        expected = expected + plain_part(window, weights.cpu().numpy(), allowed, counting.distances).of_text()
    return expected


def variants(text: str) -> list[str]:
    """The first words of a text, the same in reverse, which are as long, and half of them."""
    words = beginning(text).split()
    return [" ".join(words), " ".join(reversed(words)), " ".join(words[: len(words) // 2 or 1])]


def sums(both: Both, measure: str = "weight") -> float:
    """Every figure, its spread between texts, and the most that entropy can be; relative to 1 where it is larger.

    As they are added up for all queries at once, and, as for a long text, block by block.
    """
    texts, counting, layers = cut(both), Counting(both.mask, measure=measure), both.layers
    few = Pace.on(both.model.device.type, block_weights=FEW)
    expected = theirs(both, texts, counting)
    found = [Reducer(both.model, counting, pace).reduce(texts) for pace in (None, few)]
    return worst(
        float((np.abs(ours - wanted) / np.maximum(1, np.abs(wanted))).max())
        for one in found
        for ours, wanted in (
            (one.figures[layers], expected.figures[layers]),
            (one.spread[layers], expected.spread[layers]),
            ((one.limit / one.queries)[layers], (expected.limit / expected.queries)[layers]),
        )
    )


def distances(both: Both) -> float:
    """The mean Jensen-Shannon divergence between each two heads of these layers."""
    texts, counting, heads = cut(both), Counting(both.mask, distances=True), both.model.config.heads
    found, expected = Reducer(both.model, counting).reduce(texts), theirs(both, texts, counting)
    chosen = [layer * heads + head for layer in both.layers for head in range(heads)]
    assert found.divergence is not None and expected.divergence is not None
    apart = (found.divergence - expected.divergence)[np.ix_(chosen, chosen)]
    return float(np.abs(apart).max()) / expected.queries


# --- tokens ------------------------------------------------------------------------------------------


# --- tokens ---------------------------------------------------------------------------------------------


def tokens(both: Both) -> float:
    """How many numbers of tokens, segments and [PAD] are others than transformers' own tokenizer gives."""
    place = both.model.place
    if place.origin == "random" or not any((place.path / name).is_file() for name in VOCABULARY_FILES):
        raise NothingToCompare("it has no files of a tokenizer")
    try:
        theirs = peer_tokenizer(place.path)
    except RequestError as error:
        raise NothingToCompare(str(error)) from error
    padding: dict[str, Any] = {"padding": "max_length"} if both.pad_to is not None else {}
    length = both.pad_to or both.model.config.max_tokens
    wrong = 0
    for one, ours in zip(both.inputs, both.whole, strict=True):
        found = theirs(one.text, one.pair, truncation=True, max_length=length, **padding)
        parts = {"input_ids": ours.ids, "attention_mask": [int(not pad) for pad in ours.padding]}
        if "token_type_ids" in found and both.reference.knows_segments:
            parts["token_type_ids"] = ours.segments
        for name, mine in parts.items():
            wrong += abs(len(found[name]) - len(mine)) + sum(a != b for a, b in zip(found[name], mine, strict=False))
    return float(wrong)


# --- weights --------------------------------------------------------------------------------------------


def together(both: Both) -> float:
    """Texts of mixed lengths in one walk, two of each length, all layers and heads; they come in their order."""
    mixed = []
    for one in both.plain:
        backwards = one.take(range(len(one) - 1, -1, -1))
        for length in (len(one) // 2 or 1, len(one), len(one) // 3 or 1):
            mixed += [one.take(range(length)), backwards.take(range(length))]
    taken = list(both.taken(mixed))
    strayed = sum(one.tokens != text for one, text in zip(taken, mixed, strict=True))
    return worst([float(strayed), *map(both.apart, taken)])


def one_layer(both: Both) -> float:
    """One layer alone: the walk ends there. With a text that is longer than the windows it ends at the first layer that
    has one, and at the next, which the outputs of the first reach.
    """
    near = [layer for layer in both.layers if both.model.config.reach[layer] is not None][:1]
    behind = [layer + 1 for layer in near if layer + 1 in both.layers]
    walks = [(both.texts, layer) for layer in both.ends]
    walks += [(both.beyond_windows, layer) for layer in (*near, *behind)]
    return worst(both.apart(one) for texts, layer in walks for one in both.taken(texts, [layer]))


def some_heads(both: Both) -> float:
    """Two heads of one layer alone, others in each, the later one first."""
    heads = both.model.config.heads
    pairs = [(layer, layer % (heads - 1) if heads > 1 else 0) for layer in both.ends]
    return worst(
        both.apart(one)
        for layer, head in pairs
        for one in both.taken(both.texts, [layer], [head + 1, head] if heads > 1 else [0])
    )


def some_heads_of_all(both: Both) -> float:
    """Two heads of all layers, the later one first. The others go through the fused kernel."""
    return worst(both.apart(one) for one in both.taken(both.texts, heads=both.outer_heads))


def pair(both: Both) -> float:
    """A text and its second segment; one without gets the text before, or itself."""
    first = both.inputs[0]
    encoded = both.model.tokenizer.encode(beginning(first.text), beginning(first.pair or both.inputs[-1].text))
    return worst(both.apart(one) for one in both.taken([encoded]))


def halves(both: Both) -> list[tuple[Tokens, Tokens]]:
    """Each text, and the first half of it: without [PAD], and with it, where there is room, both to the same length."""
    tokenizer = both.model.tokenizer
    parts = [(part, one) for one in both.plain for part in (one, one.take(range(len(one) // 2 or 1)))]
    if tokenizer.pad_id is None:
        return [(part, part) for part, _ in parts]
    return [(part, tokenizer.pad(part, len(both.model.tokenizer.pad_some(one)))) for part, one in parts]


def padded(both: Both) -> list[Tokens]:
    """Texts with [PAD]."""
    return [one for _, one in halves(both)]


def padding(both: Both) -> float:
    """Texts with [PAD] give real tokens the weights of the texts without: in one layer, of so many texts together that
    neither their rows nor their weights fit the cache of a processor.
    """
    model, texts = both.model, crowd(both)
    layer = next((layer for layer in both.layers if layer > 0), both.layers[0])
    request = Request([layer])
    taken = take_batch(model, [long for _, long in texts], model.asked(request), request, [])
    differences = []
    for (plain, _), one in zip(texts, taken, strict=True):
        expected = both.theirs(plain, "padding").weights[[layer]]
        rows = both.rows(plain)
        differences.append(difference(one.weights[..., rows, : len(plain)], expected[..., rows, :]))
    return worst(differences)


def crowd(both: Both) -> list[tuple[Tokens, Tokens]]:
    """A text as often as the weights of a layer fit the cache, then its first half until both caches are too small:
    without [PAD], and with it, all of one length. Without [PAD] in the vocabulary, the text in reverse for its half.
    """
    [text, *_], tokenizer, heads = both.plain, both.model.tokenizer, both.model.config.heads
    if tokenizer.pad_id is None:
        whole, other = (text, text), (text.take(range(len(text) - 1, -1, -1)),) * 2
    else:
        half = text.take(range(len(text) // 2 or 1))
        length = max(len(text), min(math.isqrt(CACHED // (2 * heads)) + 1, tokenizer.max_tokens))
        whole, other = ((part, tokenizer.pad(part, length)) for part in (text, half))
    length = len(whole[1])
    together = max(1, CACHED // (heads * length**2))
    return [whole] * together + [other] * (max(together + 1, CACHED_ROWS // length + 2) - together)


def under_mask(both: Both, mask: str) -> float:
    """Texts with [PAD] under a mask: weights, vectors after every layer, and what is hidden has no weight at all."""
    differences, request = [], Request(both.layers, mask=mask)
    for one in both.model.take(padded(both), request):
        expected = both.theirs(one.tokens, mask).states
        states = both.model.hidden_states(one.tokens, mask)
        rows = both.rows(one.tokens)
        differences.append(both.apart(one, mask))
        differences += [difference(states[layer + 1][rows], expected[layer + 1][rows]) for layer in both.layers]
        hidden = ~allowed_by_hand(one.tokens, mask, [both.model.config.reach[layer] for layer in both.layers])
        differences.append(float((one.weights.cpu() * torch.from_numpy(hidden[:, None])).abs().sum()))
        differences.append(float((as_record(both.model, one, request).masks & hidden).sum()))
    return worst(differences)


def records(both: Both) -> float:
    """What is printed, drawn and saved is what was computed, in float32."""
    request = Request(both.layers, mask=both.mask)
    pairs = zip(both.model.attend_tokens(both.texts, request), both.model.take(both.texts, request), strict=True)
    return worst(difference(torch.from_numpy(record.weights), taken.weights.float()) for record, taken in pairs)


def formula(both: Both) -> float:
    """`MultiHeadAttention.forward`, which the tutorials write, on what goes into each layer; under every mask."""
    differences = []
    for text, mask in product(padded(both)[:1], MASKS):
        kept = AttentionInputs(both.model)
        [one] = both.model.take([text], Request(both.layers, mask=mask), [kept])
        expected, rows = both.theirs(text, mask).weights, both.rows(text)
        for layer, allowed in zip(both.layers, one.masks, strict=True):
            with torch.inference_mode():
                weights = kept.attention(layer)(kept.given[layer], mask=allowed).weights[0]
            differences.append(difference(weights[:, rows], expected[layer][:, rows]))
    return worst(differences)


def without(both: Both) -> float:
    """One head of each layer silenced, another in each: weights, and vectors after every layer."""
    text, config = both.texts[0], both.model.config
    heads, rows = [(layer, layer % config.heads) for layer in range(config.layers)], both.rows(text)
    their_weights, their_states = silenced(both.reference, config, heads, text, both.mask)
    if both.reference.dtype == torch.float64 and lost_rows(text, both.mask, their_weights, their_states):
        their_weights, their_states = silenced(both.reference.in_float32, config, heads, text, both.mask)
    model = both.model.without(heads)
    [taken] = model.take([text], Request(both.layers, mask=both.mask))
    states = model.hidden_states(text, both.mask)
    return worst(
        max(
            difference(taken.weights[place][:, rows], their_weights[layer][:, rows]),
            difference(states[layer + 1][rows], their_states[layer + 1][rows]),
        )
        for place, layer in enumerate(both.layers)
    )


def silenced(
    reference: Reference, config: ModelConfig, heads: Sequence[tuple[int, int]], text: Tokens, mask: str
) -> tuple[list[Tensor], list[Tensor]]:
    """Run transformers with these heads, (layer, head), silenced. Returns what `Reference.run` does."""
    hooks = reference.silence(config, heads)
    try:
        return reference.run(text, mask)
    finally:
        for hook in hooks:
            hook.remove()


# --- all of them ----------------------------------------------------------------------------------------


class Side(Protocol):
    """A model and its peer."""

    def allowed(self, kind: str, single: bool) -> float: ...


S = TypeVar("S", bound=Side)


class Check(NamedTuple, Generic[S]):
    """How a way is gone: what it is about, and which tolerance it has.

    kind: of the numbers (`Both.allowed`), or "exact"; single: it is of float32 whatever the model computes in.
    """

    of: str
    find: Callable[[S], float]
    kind: str = "weights"
    single: bool = False


WAYS: dict[str, Check[Both]] = {
    "tokens": Check("beside transformers' own tokenizer", tokens, "exact"),
    "together": Check("texts of mixed lengths, all layers", together),
    "one layer": Check("-l N", one_layer),
    "some heads": Check("-l N -H 3,1", some_heads),
    "some heads of all": Check("-H 3,1", some_heads_of_all),
    "pair": Check("--pair", pair),
    "[PAD]": Check("--pad-to: as without [PAD], of many texts", padding),
    **{f"mask {name}": Check(f"--mask {name}, with [PAD]", partial(under_mask, mask=name), "hidden") for name in MASKS},
    "formula": Check("MultiHeadAttention.forward", formula),
    "without": Check("--without", without, "hidden"),
    "records": Check("what is printed is what was computed", records, "exact"),
    "vectors": Check("--vectors: q and k, and softmax(q·k / √d)", vectors, "vectors"),
    "half precision": Check("--dtype bfloat16: maps of its q and k", half_precision, "own vectors", single=True),
    "norms": Check("--measure norm", norms, "norms"),
    "one head apart": Check("explain, mechanisms", taken_apart, "vectors", single=True),
    "gradients": Check("ablate, trust: by gates, inputs and weights", gradients, "hidden"),
    "sums": Check("stats", sums, "sums"),
    "sums of norms": Check("stats --measure norm", partial(sums, measure="norm"), "sums"),
    "distances": Check("stats --distances", distances, "sums", single=True),
}


def by_every_way(both: Both, done: Callable[[], None] = lambda: None) -> list[Way]:
    """All of WAYS, in their order; `done` is called after each."""
    return each_way(WAYS, both, done)


def each_way(ways: Mapping[str, Check[S]], both: S, done: Callable[[], None]) -> list[Way]:
    """Go each of some ways, in their order; `done` is called after each."""
    found = []
    for name, check in ways.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Notice)  # the one who asked has read them
            difference, note = None, ""
            try:
                difference = check.find(both)
            except NothingToCompare as error:
                note = str(error)
            except RequestError as error:
                difference, note = math.nan, str(error)
        way = Way(name, check.of, difference, both.allowed(check.kind, check.single), note)
        found.append(way)
        done()
    return found
