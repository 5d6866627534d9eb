"""The one place where a head's queries meet its keys, in every network.

block ──► taps: begin ──► parts ──► weigh ──► taps: weights ──► outputs of all heads ──► taps: output
                                      │
                                      ├── attend          the formula as it stands, where derivatives are needed
                                      ├── attend_into     weights written where they stay, for heads that taps need
                                      └── attend_output   torch's fused kernel, for the other heads

`attend_into` and `attend_output` give the same numbers as `attncli.attention.attend`; `formula_of` says how `attend`
computes them. Tests hold the three equal, and so does `attncli compare`.
"""

from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.attention import attend
from attncli.attention.attend import check_shapes
from attncli.attention.normalise import Normaliser, masked_softmax
from attncli.attention.scores import ScoreFunction
from attncli.models.block import Block, Tap, bands


def attend_output(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, scale: float | None = None
) -> Tensor:
    """The output of `attend` with the scaled dot product, and no weights: torch's fused kernel.

    Same shapes and rules as `attend`. scale: of the dot product, by default 1 / sqrt(d_k). Returns `[..., query, d_v]`.
    """
    check_shapes(key, value, mask)
    if mask is None:
        return F.scaled_dot_product_attention(query, key, value, scale=scale)
    mask = mask[(None,) * (2 - mask.dim())]  # some of torch's kernels take no fewer dimensions
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)
    return output.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)  # some of torch's kernels leave NaN there


def attend_into(
    weights: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    terms: Iterable[Tensor] = (),
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """`attend` with the scaled dot product, its weights written into `weights`; returns the output.

    Same shapes and rules as `attend`, with one leading dimension (the heads). For inference only: nothing
    is recorded for gradients. A map is written once, where it will stay, and multiplied with the values
    while it is still in the processor's cache. It is computed in the dtype of `weights`: where that is wider
    than the queries', nothing between them and the output is rounded to theirs.

    scale: of the dot product, by default 1 / sqrt(d_k). softcap: bounds the scaled scores, c tanh(s / c). terms: what
    is added then, broadcasts to `weights`. sinks: a further score per head, `[head]`, whose weight is left out, so that
    rows sum to less than 1.
    """
    check_shapes(key, value, mask)
    queries, keys, values = (part.to(weights.dtype) for part in (query, key, value))
    scaled = queries / query.shape[-1] ** 0.5 if scale is None else queries * scale
    torch.matmul(scaled, keys.transpose(-2, -1), out=weights)
    if softcap is not None:
        weights.div_(softcap).tanh_().mul_(softcap)
    for term in terms:
        weights += term
    if mask is not None:
        weights.masked_fill_(~mask, -torch.inf)
    if sinks is None:
        torch.softmax(weights, dim=-1, out=weights)
    else:
        sink = sinks.to(weights.dtype)[:, None, None]
        most = torch.maximum(weights.amax(dim=-1, keepdim=True), sink)
        weights.sub_(most).exp_()
        weights.div_(weights.sum(dim=-1, keepdim=True) + (sink - most).exp())
    if mask is not None:
        weights.masked_fill_(~mask, 0.0)
    return (weights @ values).to(query.dtype)


def formula_of(
    scale: float, terms: Iterable[Tensor] = (), softcap: float | None = None, sinks: Tensor | None = None
) -> tuple[ScoreFunction, Normaliser]:
    """Return the score and the normaliser with which `attend` computes what `attend_into` does.

    Nothing is overwritten, so that gradients are recorded.
    """

    def score(q: Tensor, k: Tensor) -> Tensor:
        scores = scale * (q @ k.mT)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        return sum(terms, scores)

    def normalise(scores: Tensor, allowed: Tensor | None) -> Tensor:
        assert sinks is not None
        sink = sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -torch.inf)
        return torch.cat([scores, sink], dim=-1).softmax(dim=-1)[..., :-1]

    return score, masked_softmax if sinks is None else normalise


def map_dtype(like: Tensor) -> torch.dtype:
    """What maps of these vectors are made in: their dtype; on a CPU not less than the float32 that records have.

    Less is rounded then, nothing is copied, and without instructions for half precision it is several times as fast.
    """
    halves = like.device.type == "cpu" and like.dtype.itemsize < torch.float32.itemsize
    return torch.float32 if halves else like.dtype


CACHED = 2**20  # weights that a processor's cache holds until they are multiplied with the values


def meet(block: Block, taps: Sequence[Tap]) -> Tensor:
    """Compute a block once and offer it to the taps in order.

    Weights exist for the heads that a tap needs; the other heads go through the fused kernel. Returns the outputs of
    all heads, `[text, head, query, head_dim]`.
    """
    for tap in taps:
        block = tap.begin(block)
    formula, changing = any(tap.by_formula for tap in taps), any(tap.changes_weights for tap in taps)
    output = None
    for part, seen in parts(block, taps):
        room = next((room for tap in taps if (room := tap.room(part)) is not None), None) if seen else None
        made, weights = weigh(part.bare if seen and changing else part, room, formula, seen)
        if weights is not None:
            for tap in taps:
                if (changed := tap.weights(part, weights)) is not None:
                    weights = changed
            if changing:
                made = (weights @ part.value.to(weights.dtype)).to(part.value.dtype)
        if made.shape[:3] == block.query.shape[:3]:  # the part is the whole block
            output = made
            break
        if output is None:
            output = made.new_empty(*block.query.shape[:3], made.shape[-1])
        output[where(part, block)] = made
    assert output is not None
    for tap in taps:
        output = tap.output(block, output)
    return output


def weigh(
    part: Block, room: Tensor | None = None, formula: bool = False, seen: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Compute outputs `[text, head, query, head_dim]` and weights `[text, head, query, key]` of a part.

    room: where the weights are written; by default they get new memory. formula: compute the formula as it stands, and
    overwrite nothing, even where no input has a gradient. seen: return the weights; else return None for them.
    """
    query, key, value, mask = part.query, part.key, part.value, part.allowed()
    plain = part.positional is None and part.softcap is None and part.sinks is None
    if plain and not seen and not formula:
        return attend_output(query, key, value, mask, part.scale), None
    if formula or (torch.is_grad_enabled() and any(one.requires_grad for one in (query, key, value))):
        score, normalise = formula_of(part.scale, part.terms().values(), part.softcap, sinks_of(part))
        made = attend(query, key, value, mask, score, normalise)
        return made.output, (made.weights if room is None else room.copy_(made.weights)) if seen else None
    if room is None and seen:
        room = query.new_empty(*query.shape[:3], key.shape[2], dtype=map_dtype(query))
    outputs = [
        attend_into(
            weights,
            some.query,
            some.key,
            some.value,
            some.allowed(),
            some.scale,
            some.terms().values(),
            some.softcap,
            sinks_of(some),
        )
        for some, weights in cached(part, room)
    ]
    return (outputs[0] if len(outputs) == 1 else torch.cat(outputs)), room


# --- loops over parts ---------------------------------------------------------------------------------------


def parts(block: Block, taps: Sequence[Tap]) -> Iterator[tuple[Block, bool]]:
    """Divide a block; yield each part, and whether taps need its weights.

    Heads that taps need are divided as a tap says, else into as many queries as memory and the window ask for.
    """
    needed = sorted({place for tap in taps for place in tap.places(block)})
    if needed:
        seen = block.only(needed)
        own = next((own for tap in taps if (own := tap.parts(seen)) is not None), None)
        for part in by_memory(seen, taps) if own is None else own:
            yield part, True
    if len(needed) < len(block.numbers):
        for part in by_window(block.only([place for place in range(len(block.numbers)) if place not in needed])):
            yield part, False


def by_memory(block: Block, taps: Sequence[Tap]) -> Iterator[Block]:
    """Divide a block into as many queries as have the weights that the taps allow, and each of these by the window."""
    queries, limits = block.query.shape[2], [tap.most_weights for tap in taps if tap.most_weights is not None]
    of_query = block.query.shape[0] * block.query.shape[1] * block.key.shape[2]
    together = max(1, min(limits) // of_query) if limits else queries
    for start in range(0, queries, together):
        yield from by_window(block.some_queries(slice(start, start + together)))


def by_window(block: Block) -> Iterator[Block]:
    """Divide a block by its window: some queries after the others, each with the keys that any of them sees."""
    for queries, keys in steps(block):
        yield block.some_queries(queries).some_keys(keys)


def steps(block: Block) -> Iterable[tuple[slice, slice]]:
    """Return the queries and keys of each step through a window; everything in one step where there is none."""
    if block.window is None:
        return [(slice(None), slice(None))]
    return bands(block.window, block.queries, block.keys)


def cached(part: Block, room: Tensor | None) -> Iterator[tuple[Block, Tensor]]:
    """Divide a part into as many texts as fit a CPU's cache; yield each with memory for its weights.

    The memory is in `room` where that lies in one piece; else it is used again, and copied to `room` if there is some.
    """
    texts, maps = len(part.query), part.query.shape[1] * part.query.shape[2] * part.key.shape[2]
    together = max(1, CACHED // max(maps, 1)) if part.query.device.type == "cpu" else texts
    dtype = map_dtype(part.query) if room is None else room.dtype
    scratch: Tensor | None = None
    for start in range(0, texts, together):
        some = part.some_texts(slice(start, start + together))
        place = None if room is None else room[start : start + together]
        if place is not None and place.is_contiguous():
            yield some, place
            continue
        if scratch is None or len(scratch) != len(some.query):
            scratch = part.query.new_empty(*some.query.shape[:3], part.key.shape[2], dtype=dtype)
        yield some, scratch
        if place is not None:
            place.copy_(scratch)


def where(part: Block, block: Block) -> tuple[slice, slice | list[int], slice]:
    """Return where the outputs of a part stand among those of the block: all texts, its heads, its queries."""
    places = [block.numbers.index(number) for number in part.numbers]
    neighbours = places == list(range(places[0], places[0] + len(places)))
    heads = slice(places[0], places[-1] + 1) if neighbours else places
    return slice(None), heads, slice(part.queries.start - block.queries.start, part.queries.stop - block.queries.start)


def sinks_of(block: Block) -> Tensor | None:
    """Return the sinks of a block's heads, `[head]`; None where there are none."""
    return None if block.sinks is None else block.sinks[list(block.numbers)]
