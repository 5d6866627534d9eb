"""The one place where a head's queries meet its keys, in every network.

block ──► taps: begin ──► weights of the heads that taps need ──► taps: weights ──► times values ──┐
                └───────► other heads: torch's fused kernel ───────────────────────────────────────┤
                                                         outputs of all heads ◄── taps: output ◄───┘
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from attncli.models.block import Block, Tap, bands
from attncli.models.kernels import attend_into, attend_output, attend_terms, map_dtype

CACHED = 2**20  # weights that a processor's cache holds until they are multiplied with the values


def meet(block: Block, taps: Sequence[Tap]) -> Tensor:
    """Compute a block once and offer it to the taps in order.

    Weights exist for the heads that a tap needs; the other heads go through the fused kernel. Returns the outputs of
    all heads, `[text, head, query, head_dim]`.
    """
    for tap in taps:
        block = tap.begin(block)
    formula = any(tap.by_formula for tap in taps)
    needed = sorted({place for tap in taps for place in tap.places(block)})
    if not needed:
        output = attend_unseen(block, formula)
    elif len(needed) == len(block.numbers):
        output = attend_seen(block, taps, formula)
    else:
        others = [place for place in range(len(block.numbers)) if place not in needed]
        output = block.value.new_empty(*block.query.shape[:3], block.value.shape[-1])
        output[:, needed] = attend_seen(block.only(needed), taps, formula)
        output[:, others] = attend_unseen(block.only(others), formula)
    for tap in taps:
        output = tap.output(block, output)
    return output


def attend_seen(block: Block, taps: Sequence[Tap], formula: bool) -> Tensor:
    """Compute a block whose weights taps read or change, part by part: its outputs, `[text, head, query, head_dim]`."""
    changing, output = any(tap.changes_weights for tap in taps), None
    for part in parts(block, taps):
        room = next((room for tap in taps if (room := tap.room(part)) is not None), None)
        made, weights = weigh(part.bare if changing else part, room, formula)
        for tap in taps:
            if (changed := tap.weights(part, weights)) is not None:
                weights = changed
        if changing:
            made = (weights @ part.value.to(weights.dtype)).to(part.value.dtype)
        if made.shape[:3] == block.query.shape[:3]:  # the part is the whole block
            return made
        if output is None:
            output = made.new_empty(*block.query.shape[:3], made.shape[-1])
        first = block.numbers.index(part.numbers[0])  # parts have neighbouring heads
        output[:, first : first + len(part.numbers), within_block(part, block)] = made
    assert output is not None
    return output


def within_block(part: Block, block: Block) -> slice:
    """Return the queries of a part as the block counts them."""
    return slice(part.queries.start - block.queries.start, part.queries.stop - block.queries.start)


def parts(block: Block, taps: Sequence[Tap]) -> Iterable[Block]:
    """Divide a block as a tap says; else into as many queries as memory and its window ask for."""
    for tap in taps:
        if (own := tap.parts(block)) is not None:
            return own
    queries, limits = block.query.shape[2], [tap.most_weights for tap in taps if tap.most_weights is not None]
    of_query = block.query.shape[0] * block.query.shape[1] * block.key.shape[2]
    together = max(1, min(limits) // of_query) if limits else queries
    some = [block.some_queries(slice(start, start + together)) for start in range(0, queries, together)]
    return [one.some_queries(queries).some_keys(keys) for one in some for queries, keys in steps(one)]


def steps(block: Block) -> Iterable[tuple[slice, slice]]:
    """Divide a block by its window: some queries after the others, each with the keys that any of them sees."""
    if block.window is None:
        return [(slice(None), slice(None))]
    return bands(block.window, block.queries, block.keys)


def attend_unseen(block: Block, formula: bool = False) -> Tensor:
    """Compute a block whose weights nobody reads, by torch's fused kernel; with terms, by the form that stores them."""
    outputs = []
    for queries, keys in steps(block):
        some = block.some_queries(queries).some_keys(keys)
        if some.positional is None and some.softcap is None and some.sinks is None and not formula:
            outputs.append(attend_output(some.query, some.key, some.value, some.allowed(), some.scale))
        else:
            outputs.append(weigh(some, None, formula, keep=False)[0])
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)


def weigh(part: Block, room: Tensor | None = None, formula: bool = False, keep: bool = True) -> tuple[Tensor, Tensor]:
    """Compute outputs `[text, head, query, head_dim]` and weights `[text, head, query, key]` of a part.

    The weights are written into `room` if there is some. On a CPU as many texts go together as fit its cache; without
    `keep` only the weights of the last of them are returned. Where derivatives are needed the formula is computed as it
    stands, and nothing is overwritten.
    """
    mask = part.allowed()
    if formula or (torch.is_grad_enabled() and any(one.requires_grad for one in (part.query, part.key, part.value))):
        terms, sinks = part.terms().values(), sinks_of(part)
        made = attend_terms(part.query, part.key, part.value, mask, part.scale, terms, part.softcap, sinks)
        return made.output, (made.weights if room is None else room.copy_(made.weights))
    texts, maps = len(part.query), part.query.shape[1] * part.query.shape[2] * part.key.shape[2]
    together = max(1, CACHED // max(maps, 1)) if part.query.device.type == "cpu" else texts
    shape, dtype = (*part.query.shape[1:3], part.key.shape[2]), map_dtype(part.query)
    if room is None and keep:
        room = part.query.new_empty(texts, *shape, dtype=dtype)
    outputs, scratch, target = [], None, room
    for start in range(0, texts, together):
        some = part.some_texts(slice(start, start + together))
        place = None if room is None else room[start : start + together]
        target = place
        if target is None or not target.is_contiguous():
            if scratch is None or len(scratch) != len(some.query):
                scratch = part.query.new_empty(len(some.query), *shape, dtype=dtype if place is None else place.dtype)
            target = scratch
        outputs.append(
            attend_into(
                target,
                some.query,
                some.key,
                some.value,
                some.allowed(),
                some.scale,
                some.terms().values(),
                some.softcap,
                sinks_of(some),
            )
        )
        if place is not None and target is not place:
            place.copy_(target)
    assert target is not None
    return (outputs[0] if len(outputs) == 1 else torch.cat(outputs)), (target if room is None else room)


def sinks_of(block: Block) -> Tensor | None:
    """Return the sinks of a block's heads, `[head]`; None where there are none."""
    return None if block.sinks is None else block.sinks[list(block.numbers)]
