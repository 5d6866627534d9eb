"""The ways in which numbers are made, each compared with transformers: what is proven is what is shown.

`agreement` goes through the network layer by layer. Users see more: maps of one layer or one head, where the walk ends
early; pairs, [PAD] and masks; silenced heads; vectors, norms, a head taken apart, gradients, and sums over a corpus.
Each way goes through the very call that the commands make, and is compared with transformers' numbers on the same text.
`WAYS` lists them for attncli's own networks, and `WAYS_OF_EAGER` for networks that transformers runs.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from attncli.attention import MASKS
from attncli.base.arrays import as_numpy
from attncli.base.errors import RequestError, no_notices
from attncli.checks.passes import AttentionInputs, is_half
from attncli.corpus.reducer import Pace, Reducer
from attncli.corpus.sums import Counting, Sums, plain_part
from attncli.effects.change import Edge, Head, Hide, Put, Unchanged
from attncli.effects.gradients import gate_gradients, slopes
from attncli.effects.question import Left, Question
from attncli.features.compare.agreement import Comparison, difference, vector_difference, worst
from attncli.features.compare.beside import (
    OF_A_HEAD,
    Both,
    NothingToCompare,
    Sides,
    allowed_keys,
    beginning,
    plain_tokens,
)
from attncli.features.compare.eager import BesideEager
from attncli.models.block import Tap
from attncli.models.config import read_config
from attncli.models.devices import as_tensor
from attncli.models.head import one_head
from attncli.models.hub import CONFIG_FILE, VOCABULARY_FILES, weight_files
from attncli.models.instant import Instant, why_not
from attncli.models.model import Model
from attncli.models.taken import TextResult, as_record, read_by, take_batch
from attncli.models.transformers_peer import Reference, peer_tokenizer, read_gguf_settings
from attncli.models.walk import CACHED_ROWS
from attncli.models.weighing import CACHED
from attncli.models.weights import Checkpoint, StateDict, open_checkpoint
from attncli.record import Request
from attncli.record.grouping import axes_of
from attncli.record.selection import Grouping
from attncli.text.tokens import Fed, Tokens, Unreadable
from attncli.text.windows import Window, windows

# --- in every network -----------------------------------------------------------------------------------


def together(both: Sides) -> float:
    """Run texts of mixed lengths in one walk; they come in their order."""
    found = both.run_model(both.mixed)
    strayed = sum(one.tokens.ids != text.ids for text, one in found)
    return worst([float(strayed), *(both.weight_difference(one, text) for text, one in found)])


def one_layer(both: Sides) -> float:
    """Ask for one layer alone: the walk ends there."""
    walks = [*((both.texts, layer) for layer in both.ends), *both.beyond_windows]
    return worst(
        both.weight_difference(one, text) for texts, layer in walks for text, one in both.run_model(texts, [layer])
    )


def some_heads(both: Sides) -> float:
    """Ask for two heads of one layer, others in each, the later one first."""
    heads = both.model.heads
    pairs = [(layer, layer % (heads - 1) if heads > 1 else 0) for layer in both.ends]
    return worst(
        both.weight_difference(one, text)
        for layer, head in pairs
        for text, one in both.run_model(both.texts, [layer], [head + 1, head] if heads > 1 else [0])
    )


def some_heads_of_all(both: Sides) -> float:
    """Ask for two heads of all layers, the later ones first. The others go through the fused kernel."""
    return worst(
        both.weight_difference(one, text)
        for text, one in both.run_model(both.texts, both.layers[::-1], both.outer_heads)
    )


def under_mask(both: Sides, mask: str) -> float:
    """Compare weights and vectors of texts with [PAD] under a mask, and what the record's mask hides.

    What is hidden has no weight at all.
    """
    try:
        both.model.usual_mask(mask)
    except RequestError as error:
        raise NothingToCompare(str(error)) from error
    differences = []
    for text, one in both.run_model([long for _, long in both.padded()], mask=mask):
        theirs, rows = both.their_vectors(both.theirs(text, mask)), both.mask_rows(text)
        differences.append(both.weight_difference(one, text, mask))
        differences.append(vectors_apart(both, both.our_vectors(both.model, text, mask), theirs, text))
        hidden = both.hidden(text, mask)[:, rows]
        masks = as_record(both.model, one, Request(both.layers, mask=mask)).masks[:, rows]
        differences.append(float((torch.from_numpy(masks) == hidden).sum()))
        differences.append(float((one.weights[..., rows, :].cpu() * hidden[:, None]).abs().sum()))
    return worst(differences)


def vectors_apart(both: Sides, ours: Sequence[Tensor], theirs: Sequence[Tensor], text: Tokens) -> float:
    """Return the largest difference between vectors of both sides."""
    rows = both.rows(text.spoken)
    return worst(vector_difference(one[rows], other[rows]) for one, other in zip(ours, theirs, strict=True))


def without(both: Sides) -> float:
    """Silence one head of each layer, another in each, and compare weights and vectors."""
    text, rows = both.texts[0], both.rows(both.texts[0])
    every = [(layer, layer % both.model.heads) for layer in both.model.select_layers("all")]
    heads = [one for one in every if one not in both.model.silenced_heads]
    theirs, model = both.their_silenced(heads, text), both.model.without(heads)
    [one] = model.take([plain_tokens(text)], Request(both.layers, mask=both.mask))
    expected = theirs.weights[both.places(both.layers)]
    return max(
        difference(one.weights[..., rows, :], expected[..., rows, :]),
        vectors_apart(both, both.our_vectors(model, text, both.mask), both.their_vectors(theirs), text),
    )


def norms(both: Sides) -> float:
    """Compare `--measure norm`, ‖α v W_O‖, of all heads in one walk, and of two heads alone."""
    texts, differences = both.texts_of_norms, []
    expected = [both.expected_norms(text) for text in texts]
    for heads in ("all", both.outer_heads):
        for (text, one), wanted in zip(both.run_model(texts, heads=heads, measure="norm"), expected, strict=True):
            rows = both.rows(text)
            expected_rows = wanted[:, one.selected.heads][..., rows, :]
            differences.append(vector_difference(one.weights[..., rows, :], expected_rows, OF_A_HEAD))
    return worst(differences)


def explained(both: Sides) -> float:
    """Compare softmax(scale · q·k + terms) of what a record keeps, with its sinks, with the weights."""
    differences = []
    for text, one in both.run_model(both.texts, vectors="all"):
        rows = both.rows(text)
        differences.append(difference(weights_by_vectors(one)[..., rows, :], both.weights(text)[..., rows, :]))
    return worst(differences)


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


def records(both: Sides) -> float:
    """Compare what is printed, drawn and saved with what was computed, in float32."""
    which = both.model.part if len(both.model.parts) > 1 else None
    texts, request = [plain_tokens(one) for one in both.texts], Request(both.layers, mask=both.mask, which=which)
    pairs = zip(both.model.attend_tokens(texts, request), both.model.take(texts, request), strict=True)
    return worst(difference(torch.from_numpy(record.weights), one.weights.float()) for record, one in pairs)


# --- in attncli's networks: vectors and one head ----------------------------------------------------------


def vectors(both: Both) -> float:
    """Compare queries and keys as they meet, and the weights that they explain."""
    differences = [explained(both)]
    for text, one in both.run_model(both.texts, vectors="all"):
        rows = both.rows(text)
        # [layer, head, token, head_dim]
        parts = (part.unflatten(0, (len(both.layers), -1)).double() for part in one.vectors)
        for part, ours in zip(("query", "key"), parts, strict=True):
            expected = both.their_meeting(text, part)[both.layers]
            differences.append(vector_difference(ours[:, :, rows], expected[:, :, rows]))
    return worst(differences)


def half_precision(both: Both) -> float:
    """Compare the maps of the first layer in bfloat16 with softmax(q·k / √d) of its own vectors."""
    like = both.model
    if like.device.type != "cpu":
        raise NothingToCompare(f"on {like.device.type} maps have the precision of the model")
    model = Model(like.place, like.config, like.tokenizer, like.checkpoint, like.sha256, like.device, torch.bfloat16)
    taken = model.take(both.texts, Request([0], mask=both.mask, vectors="all"))
    return worst(difference(one.weights, weights_by_vectors(one)) for one in taken)


class _InNumpy(Instant):
    """The network in NumPy, whose results go to torch on a device, where they are compared."""

    to = torch.device("cpu")

    def take(
        self, texts: Iterable[Tokens], request: Request = Request(), taps: Sequence[Tap] = ()
    ) -> Iterator[TextResult]:
        for one in super().take(texts, request, taps):
            weights, query, key = (as_tensor(part, self.to) for part in (one.weights, *one.vectors))
            terms = {name: as_tensor(term, self.to) for name, term in one.terms.items()}
            yield one._replace(weights=weights, vectors=(query, key), terms=terms)

    def hidden_states(self, tokens: Tokens, mask: str | None = None, positions: bool = True) -> list[Tensor]:
        return [as_tensor(one, self.to) for one in super().hidden_states(tokens, mask, positions)]


def in_numpy(both: Both) -> Both:
    """Return both sides with the network in NumPy in place of the model: with its files mapped, if it has any."""
    model, why = both.model, why_not(both.model.config)
    if why is not None:
        raise NothingToCompare(f"there is no network in NumPy: {why}")
    if is_half(model.dtype):
        raise NothingToCompare("the network in NumPy computes in float32")
    place, config, checkpoint = model.place, model.config, model.checkpoint
    if model.sha256 and all(path.suffix == ".safetensors" for path in weight_files(place.path)):
        checkpoint = open_checkpoint(place.path, config.family.prefixes, "mapped")
    else:
        tensors = {name: as_numpy(file.read(known)) for name, (file, known) in checkpoint.files.items()}
        checkpoint = Checkpoint([StateDict(tensors)], checkpoint.where)
    network = _InNumpy(place, config, model.tokenizer, checkpoint, model.sha256, lambda: model)
    network.to = model.device
    beside = copy(both)
    beside.answering = network.silencing(model.silenced_heads)
    return beside


def instant(both: Both) -> float:
    """Compare the network in NumPy, which answers short texts: weights, hidden states, q and k."""
    beside = in_numpy(both)
    differences = [together(beside), some_heads(beside), pair(beside), vectors(beside)]
    for mask, (_, text) in product(MASKS, both.padded()):
        [(_, one)] = beside.run_model([text], mask=mask)
        ours = both.our_vectors(beside.answering, plain_tokens(text), mask)
        differences.append(beside.weight_difference(one, text, mask))
        differences.append(vectors_apart(both, ours, both.their_vectors(both.theirs(text, mask)), text))
    return worst(differences)


def taken_apart(both: Both) -> float:
    """Compare one head with what goes into it, its projections and its vectors: x W + b."""
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
                differences.append(vector_difference(torch.from_numpy(made[rows]), wanted[layer, number][rows]))
    return worst(differences)


def logits_of_next(both: Both) -> float:
    """Compare the logits of the next token after each, and those of the likeliest ones, as `run` shows them."""
    output, differences = both.model.outputs().get("next"), []
    if output is None:
        raise NothingToCompare("it has no head for it")
    for text, one in both.run_model(both.texts, predict=True):
        wanted, rows = both.their_logits(text), text.real
        if both.answering is both.model:
            with torch.inference_mode():
                [made] = output(both.model.last_hidden([text], both.mask), [text])
            differences.append(vector_difference(made[rows], wanted[rows]))
        found = torch.tensor([answer.logit for answer in one.prediction.answers] if one.prediction else [])
        differences.append(vector_difference(found, wanted[rows[-1]].float().cpu().topk(len(found)).values))
    return worst(differences)


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

    def of_left(self, left: Sequence[Left], *others: Tensor) -> Tensor:
        return torch.stack([(one.vectors * self.direction.to(one.vectors.dtype)).sum() for one in left])


def gradients(both: Both) -> float:
    """Compare gradients of a number of the last vectors, as shares of the largest, on a text with [PAD], causal mask.

    They are by gates of heads and by the first layer's input; and the relevance that gradients by all weights make.
    """
    if len(both.layers) < both.model.config.layers:
        raise NothingToCompare("gradients go through all layers, and some are not compared")
    if is_half(both.model.dtype):
        raise NothingToCompare(f"gradients in {both.model.dtype_name} are mostly rounding")
    text = Unchanged.of(both.model, both.model.tokenizer.pad_some(both.plain[0]), "causal")
    question = Along(text, both.rows(text.tokens))
    inputs, weighted = their_gradients(both.reference, text.tokens, text.mask, lambda last: question([last])[0])
    expected = torch.eye(len(text.tokens), dtype=torch.float64, device=weighted.device)
    for layer in weighted:
        expected = expected + layer.clamp(min=0).mean(dim=0) @ expected
    ours = slopes(question)
    return worst(
        difference(made, wanted) / (float(wanted.abs().max()) or 1.0)
        for made, wanted in (
            (gate_gradients(question), weighted.sum(dim=(-2, -1))),
            (torch.from_numpy(ours.inputs), inputs),
            (torch.from_numpy(ours.relevance), expected),
        )
    )


# --- sums of stats, and the same in numpy ------------------------------------------------------------


FEW = 5000  # weights at once: of a text of 64 tokens a few queries


def cut(both: Both) -> list[list[Window]]:
    """Cut the texts as `stats` does. Raises NothingToCompare when every one is longer than the model reads at once."""
    some: list[list[Window]] = []
    for text in (text for one in both.inputs for text in variants(one.text)):
        with suppress(Unreadable):  # half of a text may have nothing in it that the tokenizer keeps
            made = list(windows(len(some), text, both.model.tokenizer))
            if len(made) == 1:  # the first query does not count, as some don't in the windows of a long text
                some.append([replace(made[0], counted=(1, len(made[0])))])
    if not some:
        raise NothingToCompare("every text is longer than the model reads at once")
    return some


def their_sums(both: Both, texts: list[list[Window]], counting: Counting) -> Sums:
    """Return the sums over these texts, in numpy from transformers' weights."""
    expected = Sums.nothing(both.model.config.layers, both.model.config.heads, counting.distances)
    for [window] in texts:
        weights = both.theirs(window.tokens).weights.double()
        if counting.measure == "norm":
            norms = both.their_norms(window.tokens)
            weights = norms / norms.sum(dim=-1, keepdim=True)
        allowed = allowed_keys(window.tokens, both.mask, both.model.config.reach)
        expected = expected + plain_part(window, weights.cpu().numpy(), allowed, counting.distances).of_text()
    return expected


def variants(text: str) -> list[str]:
    """Return the first words of a text, these words in reverse, and half of them."""
    words = beginning(text).split()
    return [" ".join(words), " ".join(reversed(words)), " ".join(words[: len(words) // 2 or 1])]


def sums(both: Both, measure: str = "weight") -> float:
    """Compare every figure, its spread between texts, and the largest possible entropy; relative to 1 if it is larger.

    All queries are added up together and, as for a long text, block by block.
    """
    texts, counting, layers = cut(both), Counting(both.mask, measure=measure), both.layers
    few = Pace.on(both.model.device.type, block_weights=FEW)
    expected = their_sums(both, texts, counting)
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
    """Compare the mean Jensen-Shannon divergence between each two heads of these layers."""
    texts, counting, heads = cut(both), Counting(both.mask, distances=True), both.model.config.heads
    found, expected = Reducer(both.model, counting).reduce(texts), their_sums(both, texts, counting)
    chosen = [layer * heads + head for layer in both.layers for head in range(heads)]
    assert found.divergence is not None and expected.divergence is not None
    apart = (found.divergence - expected.divergence)[np.ix_(chosen, chosen)]
    return float(np.abs(apart).max()) / expected.queries


# --- tokens ---------------------------------------------------------------------------------------------


def tokens(both: Both) -> float:
    """Count the numbers of tokens, segments and [PAD] that differ from those of transformers' own tokenizer."""
    place = both.model.place
    if place.origin == "random" or not any((place.path / name).is_file() for name in VOCABULARY_FILES):
        raise NothingToCompare("it has no files of a tokenizer")
    try:
        theirs = peer_tokenizer(place.path)
    except RequestError as error:
        raise NothingToCompare(str(error)) from error
    side = "left" if both.model.tokenizer.pads_left else "right"
    padding: dict[str, Any] = {} if both.pad_to is None else {"padding": "max_length", "padding_side": side}
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


# --- a .gguf file ---------------------------------------------------------------------------------------

SILENT = ("_model_name_or_path", "unk_token_id", "feed_forward_length")  # settings no network of transformers reads


def conversion(both: Both) -> float:
    """Count the settings of a converted .gguf file that differ from transformers' reading of the file.

    Numbers in the file are float32, so they are equal to within its rounding.
    """
    place = both.model.place
    if place.gguf is None:
        raise NothingToCompare("there is none")
    try:
        theirs = read_gguf_settings(place.gguf)
    except RequestError as error:
        raise NothingToCompare(str(error)) from error
    ours = read_config(place.path / CONFIG_FILE)
    differing = 0
    for name, value in theirs.items():
        found = ours.get(name, math.nan)
        close = isinstance(value, float) and isinstance(found, float) and math.isclose(value, found, rel_tol=1e-6)
        differing += name not in SILENT and not close and value != found
    return float(differing)


# --- weights --------------------------------------------------------------------------------------------


def pair(both: Both) -> float:
    """Compare a text with its second segment; one without gets the text before, or itself."""
    first = both.inputs[0]
    encoded = both.model.tokenizer.encode(beginning(first.text), beginning(first.pair or both.inputs[-1].text))
    return worst(both.weight_difference(one, encoded) for _, one in both.run_model([encoded]))


def padding(both: Both) -> float:
    """Compare texts with [PAD], in one layer, with the texts without, whose real tokens have the same weights.

    There are so many texts that neither their rows nor their weights fit the cache of a processor.
    """
    model, texts = both.model, crowd(both)
    layer = next((layer for layer in both.layers if layer > 0), both.layers[0])
    request = Request([layer])
    taken = take_batch(model, [long for _, long in texts], model.resolve_selection(request), request, [])
    differences = []
    for (plain, padded), one in zip(texts, taken, strict=True):
        expected = both.theirs(plain, model.usual_mask(None)).weights[[layer]]
        real = slice(padded.first, padded.first + len(plain))
        differences.append(difference(one.weights[..., real, real], expected))
    return worst(differences)


def crowd(both: Both) -> list[tuple[Tokens, Tokens]]:
    """Repeat a text until the weights of a layer fill the cache, then its first half until both caches are too small.

    Each is given without [PAD], and with it, all of one length. Without [PAD] in the vocabulary, the half is the text
    in reverse.
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


def formula(both: Both) -> float:
    """Compare `MultiHeadAttention.forward`, as the tutorials write it, on each layer's input, under every mask."""
    differences = []
    for (plain, padded), mask in product(both.padded()[:1], MASKS):
        text = plain if padded.first and mask == "none" else padded  # `forward` counts positions from [PAD] on
        kept = AttentionInputs(both.model)
        [one] = both.model.take([text], Request(both.layers, mask=mask), [kept])
        expected, rows = both.theirs(text, mask).weights, both.rows(text)
        for layer, allowed in zip(both.layers, as_tensor(one.masks, both.model.device), strict=True):
            with torch.inference_mode():
                weights = kept.attention(layer)(kept.inputs[layer], mask=allowed).weights[0]
            differences.append(difference(weights[:, rows], expected[layer][:, rows]))
    return worst(differences)


# --- in networks of transformers --------------------------------------------------------------------------


def padding_alone(both: BesideEager) -> float:
    """Compare texts with [PAD] with the texts without, whose real tokens have the same weights."""
    if both.model.tokenizer.pad_id is None:
        raise NothingToCompare("its tokenizer has no padding token")
    differences, pairs = [], both.padded()
    for (plain, _), (padded, one) in zip(pairs, both.run_model([long for _, long in pairs], mask=None), strict=True):
        expected = both.weights(plain, both.model.usual_mask(None))
        keys_of = read_by(padded, both.model.part) or padded
        queries, keys = (~torch.tensor(of.padding, device=one.weights.device) for of in (padded, keys_of))
        differences.append(difference(one.weights[:, :, queries][..., keys], expected))
        differences.append(float(one.weights[:, :, queries][..., ~keys].abs().sum()))
    return worst(differences)


def grouped(both: BesideEager, grouping: Grouping) -> float:
    """Compare words, or some tokens alone: weights to pieces are added up, and those from pieces averaged."""
    differences = []
    for text, one in both.run_model(both.plain, grouping=grouping):
        axes = axes_of(
            grouping, text.plain, text.read if both.model.part == "cross" and isinstance(text, Fed) else None
        )
        to_words = torch.stack([both.weights(text)[..., group].sum(dim=-1) for group in axes.keys.groups], dim=-1)
        expected = torch.stack([to_words[..., group, :].mean(dim=-2) for group in axes.queries.groups], dim=-2)
        differences.append(difference(one.weights, expected))
    return worst(differences)


def cuts(both: BesideEager) -> float:
    """Hide edges of one head, in the first layer and in the last one, side by side, as `cut` does."""
    text, heads = both.plain[0], both.model.heads
    unchanged = Unchanged.of(both.model, text, both.mask)
    # weight goes along these edges: from the last query to all keys that it sees but one
    seen = (both.weights(text)[0].amax(dim=0)[-1] > 0).nonzero()[:, 0].tolist()
    edges = [(len(text) - 1, key) for key in seen[:-1]]
    cut_heads = [(both.layers[0], heads - 1), (both.layers[-1], heads // 2)]
    made = unchanged.copies(0, [Hide([head], edges) for head in cut_heads])
    with torch.inference_mode():
        expected = [theirs_cut(both, text, head, edges) for head in cut_heads]
    return worst(map(vector_difference, [unchanged.last[0], *made], [both.theirs(text).last, *expected]))


def ablations(both: BesideEager) -> float:
    """Put another output in place of a head's, in the first layer and in the last, as `ablate` and `patch` do."""
    both.check_projections()
    text, heads = both.plain[0], both.model.heads
    put_heads = [(both.layers[0], heads - 1), (both.layers[-1], heads // 2)]
    size = both.theirs(text).joined[0].shape[-1] // heads
    vector = torch.linspace(-1, 1, size, dtype=both.model.dtype, device=both.model.device)
    made = Unchanged.of(both.model, text, both.mask).copies(0, [Put({head: vector}) for head in put_heads])
    with torch.inference_mode():
        expected = [theirs_put(both, text, head, vector) for head in put_heads]
    return worst(map(vector_difference, made, expected))


def theirs_cut(both: BesideEager, text: Tokens, head: Head, edges: list[Edge]) -> Tensor:
    """Return the last vectors of the eager attention where a mask of its own for each head hides edges of one."""
    if not edges:
        return both.theirs(text).last
    layer, number = head
    shown = both.reference.visible_keys(text, both.mask)[both.places([layer])[0]].repeat(1, both.model.heads, 1, 1)
    queries, keys = zip(*edges, strict=True)
    shown[0, number, queries, keys] = False
    return both.reference.theirs(text, both.mask, shown={layer: shown}).last


def theirs_put(both: BesideEager, text: Tokens, head: Head, vector: Tensor) -> Tensor:
    """Return the last vectors where a vector stands in a head's columns of the joined heads."""

    def put(layer: int, joined: Tensor) -> Tensor:
        if layer == head[0]:
            joined = joined.clone()
            joined[..., both.reference.columns(joined, head[1])] = vector
        return joined

    return both.reference.theirs(text, both.mask, put).last


def gradients_by_heads(both: BesideEager) -> float:
    """Compare the gradients of a number of the last vectors by gates of heads, as shares of the largest."""
    both.check_projections()
    text = Unchanged.of(both.model, both.texts[0], both.mask)
    question = Along(text, both.texts[0].spoken.real)
    layers, heads = both.reference.layers, both.model.heads
    with torch.enable_grad():
        gates = torch.ones(both.model.layers, heads, dtype=both.model.dtype, device=both.model.device).requires_grad_()

        def put(layer: int, joined: Tensor) -> Tensor:
            return joined * gates[layer].repeat_interleave(joined.shape[-1] // heads)

        last = both.reference.theirs(both.texts[0], both.mask, put).last
        [wanted] = torch.autograd.grad(question([last[None]])[0], gates)
    made = gate_gradients(question)[layers]
    return difference(made, wanted[layers]) / (float(wanted.abs().max()) or 1.0)


# --- what comes out -------------------------------------------------------------------------------------


def logits(both: BesideEager) -> float:
    """Compare the head's logits of every token, or of the text; and of the last token alone."""
    found = [one for name, one in both.model.outputs().items() if name != "embedding"]
    if not found:
        raise NothingToCompare("it has no head that attncli reads")
    [output], differences = found, []
    for text in both.texts:
        wanted, rows = both.logits(text), text.spoken.real
        last = both.our_vectors(both.model, text, both.mask)[0]
        with torch.inference_mode():
            [made] = output([last], [text])
            if output.of_text:
                differences.append(vector_difference(made, wanted))
                continue
            [of_last] = output([last], [text], [rows[-1:]])
        differences += [vector_difference(made[rows], wanted[rows]), vector_difference(of_last, wanted[rows[-1:]])]
    return worst(differences)


def hidden_states(both: BesideEager) -> float:
    """Compare the vectors after the embeddings and after every layer of what reads the text (`probe`, `explain`)."""
    if both.model.part not in ("encoder", both.model.parts[0]):
        raise NothingToCompare("those of an encoder-decoder are its encoder's: --which encoder")
    differences = []
    for text in both.texts:
        rows, ours = both.rows(text), both.model.hidden_states(text.plain, both.mask)
        theirs = both.states(text)
        differences += [vector_difference(one[rows], two[rows]) for one, two in zip(ours, theirs, strict=True)]
    return worst(differences)


# --- all of them ----------------------------------------------------------------------------------------


S = TypeVar("S", bound=Sides)


class Check(NamedTuple, Generic[S]):
    """A way, as one row of a table: the options that it is about, the largest difference, and its tolerance.

    kind, single: as `Sides.allowed` takes them.
    """

    of: str
    find: Callable[[S], float]
    kind: str = "weights"
    single: bool = False


WAYS: dict[str, Check[Both]] = {
    "tokens": Check("beside transformers' own tokenizer", tokens, "exact"),
    "conversion": Check("settings of a .gguf file", conversion, "exact"),
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
    "instant": Check("short texts, in NumPy", instant, "hidden", single=True),
    "instant norms": Check("--measure norm, in NumPy", lambda both: norms(in_numpy(both)), "norms", single=True),
    "one head apart": Check("explain, mechanisms", taken_apart, "vectors", single=True),
    "logits": Check("the next token", logits_of_next, "logits"),
    "instant logits": Check("the same, in NumPy", lambda both: logits_of_next(in_numpy(both)), "logits", single=True),
    "gradients": Check("ablate, trust: by gates, inputs and weights", gradients, "gradients"),
    "sums": Check("stats", sums, "sums"),
    "sums of norms": Check("stats --measure norm", partial(sums, measure="norm"), "sums"),
    "distances": Check("stats --distances", distances, "sums", single=True),
}


WAYS_OF_EAGER: dict[str, Check[BesideEager]] = {
    "together": Check("texts of mixed lengths, all layers", together),
    "one layer": Check("-l N", one_layer),
    "some heads": Check("-l N -H 3,1", some_heads),
    "some heads of all": Check("-H 3,1, the last layer first", some_heads_of_all),
    "[PAD]": Check("--pad-to: as without [PAD]", padding_alone),
    **{f"mask {name}": Check(f"--mask {name}, with [PAD]", partial(under_mask, mask=name), "last") for name in MASKS},
    "words": Check("--words", partial(grouped, grouping=Grouping(words=True))),
    "some tokens": Check(
        "--tokens", lambda both: grouped(both, Grouping(tokens=sorted({0, min(map(len, both.plain)) - 1})))
    ),
    "without": Check("--without", without, "last"),
    "vectors": Check("--vectors, --terms: softmax(scale q·k + terms)", explained),
    "norms": Check("--measure norm", norms, "norms"),
    "cuts": Check("cut", cuts, "last"),
    "ablations": Check("ablate, patch", ablations, "last"),
    "gradients": Check("ablate, trust: by gates of heads", gradients_by_heads, "shares"),
    "logits": Check("what its head says, --at", logits, "logits"),
    "hidden states": Check("probe", hidden_states, "hidden"),
    "records": Check("what is printed is what was computed", records, "exact"),
}


def by_every_way(both: Sides, done: Callable[[], None] = lambda: None) -> list[Comparison]:
    """Go all of WAYS or of WAYS_OF_EAGER, in their order; `done` is called after each.

    In half precision a network that transformers runs is not compared.
    """
    ways: Mapping[str, Check[Any]] = WAYS_OF_EAGER if isinstance(both, BesideEager) else WAYS
    if isinstance(both, BesideEager) and is_half(both.model.dtype):
        note = f"in {both.model.dtype_name} differences are mostly rounding: --dtype float32 compares them"
        return [Comparison(name, check.of, None, 0.0, note) for name, check in ways.items()]
    found = []
    for name, check in ways.items():
        with no_notices():  # the one who asked has read them
            difference, note = None, ""
            try:
                difference = check.find(both)
            except NothingToCompare as error:
                note = str(error)
            except RequestError as error:
                difference, note = math.nan, str(error)
        found.append(Comparison(name, check.of, difference, both.allowed(check.kind, check.single), note))
        done()
    return found
