"""The one place where a head's queries meet its keys, in every network.

block ──► taps: begin ──► parts ──► weigh ──► taps: weights ──► outputs of all heads ──► taps: output
                                      │
                                      ├── attend          the formula as it stands, where derivatives are needed
                                      ├── attend_into     weights written where they stay, for heads that taps need
                                      └── attend_output   torch's fused kernel, for the other heads
"""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from attncli.attention import attend
from attncli.models.block import Block, Tap, bands
from attncli.models.kernels import attend_into, attend_output, formula_of, map_dtype

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
