"""Every way in which numbers are made here, beside transformers: what is proven is what is shown.

`attncli.checks.agreement` goes through the network layer by layer. Users see more than that: maps of one layer or one
head, where the walk ends early; pairs, [PAD] and masks; vectors, norms, a head taken apart, and sums over a corpus.
Each of these goes through the very call that the commands make, and is held against what transformers makes of the
same text.
"""

import math
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncli.attention import MASKS
from attncli.base.errors import Notice, RequestError
from attncli.checks.agreement import Way, difference, worst
from attncli.checks.beside import Both, NothingToCompare, allowed_by_hand, beginning
from attncli.checks.laws import first_tokens, pad_some
from attncli.checks.passes import KeepAttention
from attncli.checks.ways_of_sums import distances, sums
from attncli.models.checkpoint_files import VOCABULARY_FILES
from attncli.models.head import one_head
from attncli.models.taken import Taken, as_record
from attncli.models.transformers_peer import peer_tokenizer
from attncli.record import Request
from attncli.text.tokens import Tokens

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
            mixed += [first_tokens(one, length), first_tokens(backwards, length)]
    taken = list(both.taken(mixed))
    strayed = sum(one.tokens != text for one, text in zip(taken, mixed, strict=True))
    return worst([float(strayed), *map(both.apart, taken)])


def one_layer(both: Both) -> float:
    """Each layer alone: the walk ends there."""
    return worst(both.apart(one) for layer in both.layers for one in both.taken(both.texts, [layer]))


def one_head_alone(both: Both) -> float:
    """One head of each layer alone, another in each."""
    heads = both.model.config.heads
    return worst(both.apart(one) for layer in both.layers for one in both.taken(both.texts, [layer], [layer % heads]))


def one_head_of_all(both: Both) -> float:
    """One head of all layers: the others go through the fused kernel, in every layer but the last."""
    return worst(
        both.apart(one) for head in {0, both.model.config.heads - 1} for one in both.taken(both.texts, heads=[head])
    )


def pair(both: Both) -> float:
    """A text and its second segment; one without gets the text before, or itself."""
    first = both.inputs[0]
    encoded = both.model.tokenizer.encode(beginning(first.text), beginning(first.pair or both.inputs[-1].text))
    return worst(both.apart(one) for one in both.taken([encoded]))


def halves(both: Both) -> list[tuple[Tokens, Tokens]]:
    """Each text, and the first half of it: without [PAD], and with it, where there is room, both to the same length."""
    return [
        (part, both.model.tokenizer.pad(part, len(pad_some(both.model, one, None))))
        for one in both.plain
        for part in (one, first_tokens(one, len(one) // 2 or 1))
    ]


def padded(both: Both) -> list[Tokens]:
    """Texts with [PAD]."""
    return [one for _, one in halves(both)]


def padding(both: Both) -> float:
    """A text with [PAD] gives real tokens the weights of the text without."""
    differences = []
    for (plain, _), one in zip(halves(both), both.model.take(padded(both), Request(both.layers)), strict=True):
        expected = both.theirs(plain, "padding").weights[both.layers][..., both.rows(plain), :]
        differences.append(difference(one.weights[..., both.rows(plain), : len(plain)], expected))
    return worst(differences)


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
    for text, mask in product(padded(both), MASKS):
        kept = KeepAttention()
        [one] = both.model.take([text], Request(both.layers, mask=mask), kept)
        expected, rows = both.theirs(text, mask).weights, both.rows(text)
        for layer, allowed in zip(both.layers, one.masks, strict=True):
            with torch.inference_mode():
                weights = kept.attention(layer)(kept.given[layer], mask=allowed).weights[0]
            differences.append(difference(weights[:, rows], expected[layer][:, rows]))
    return worst(differences)


# --- vectors and norms ----------------------------------------------------------------------------------


def vectors(both: Both) -> float:
    """Queries and keys as they meet, which are transformers'; and softmax(q·k / √d) of them, with what positions add,
    which are the weights.
    """
    differences = []
    for one in both.taken(both.texts, vectors="all"):
        rows, theirs = both.rows(one.tokens), both.theirs(one.tokens)
        query, key = one.vectors.unflatten(1, (len(both.layers), -1)).double()  # [layer, head, token, head_dim]
        for part, ours in (("query", query), ("key", key)):
            expected = both.their_meeting(one.tokens, part)[both.layers]
            differences.append(difference(ours[:, :, rows], expected[:, :, rows]))
        scores = torch.stack([score_of(both, one, layer, query, key) for layer in range(len(both.layers))])
        weights = scores.masked_fill(~one.masks[:, None], -torch.inf).softmax(dim=-1)
        differences.append(difference(weights[..., rows, :], theirs.weights[both.layers][..., rows, :]))
    return worst(differences)


def score_of(both: Both, taken: Taken, place: int, query: Tensor, key: Tensor) -> Tensor:
    """The scores `[head, query, key]` of the layer at a place, as a record tells them: vectors, scale and terms."""
    heads = query.shape[1]
    scale = both.model.network.layer(both.layers[place]).score.scale(query.shape[-1])
    terms = [term[place * heads : (place + 1) * heads] for term in taken.terms.values()]
    return sum(terms, start=query[place] @ key[place].mT * scale)


def norms(both: Both) -> float:
    """`--measure norm`: all heads in one walk, and the last head alone."""
    differences = []
    for heads in ("all", [both.model.config.heads - 1]):
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
    for layer in both.layers:
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


# --- all of them ----------------------------------------------------------------------------------------


class Check(NamedTuple):
    """How a way is gone: what it is about, and which tolerance it has.

    kind: of the numbers (`Both.allowed`), or "exact"; single: it is of float32 whatever the model computes in.
    """

    of: str
    find: Callable[[Both], float]
    kind: str = "weights"
    single: bool = False


WAYS: dict[str, Check] = {
    "tokens": Check("beside transformers' own tokenizer", tokens, "exact"),
    "together": Check("texts of mixed lengths, all layers", together),
    "one layer": Check("-l N, each alone", one_layer),
    "one head": Check("-l N -H M, one of each layer alone", one_head_alone),
    "one head of all": Check("-H M in all layers", one_head_of_all),
    "pair": Check("--pair", pair),
    "[PAD]": Check("--pad-to: as without [PAD]", padding),
    **{f"mask {name}": Check(f"--mask {name}, with [PAD]", partial(under_mask, mask=name), "hidden") for name in MASKS},
    "formula": Check("MultiHeadAttention.forward", formula),
    "records": Check("what is printed is what was computed", records, "exact"),
    "vectors": Check("--vectors: q and k, and softmax(q·k / √d)", vectors, "vectors"),
    "norms": Check("--measure norm", norms, "norms"),
    "one head apart": Check("explain, mechanisms", taken_apart, "vectors", single=True),
    "sums": Check("stats", sums, "sums"),
    "sums of norms": Check("stats --measure norm", partial(sums, measure="norm"), "sums"),
    "distances": Check("stats --distances", distances, "sums", single=True),
}


def by_every_way(both: Both, done: Callable[[], None] = lambda: None) -> list[Way]:
    """All of WAYS, in their order; `done` is called after each."""
    found = []
    for name, check in WAYS.items():
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
