"""Compute attention in one place for every network: where a head's queries meet its keys.

block ──► taps: begin ──► parts ──► weigh ──► taps: weights ──► outputs of all heads ──► taps: output

`weigh` is the softmax of the scores times the values, in torch (`attncli.models.weighing`) or NumPy
(`attncli.models.instant`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from attncli.base.arrays import Array, cast, empty
from attncli.models.block import Block, Tap, bands

# Outputs `[text, head, query, head_dim]` and weights `[text, head, query, key]` of a part, given the memory for its
# weights, whether gradients are needed, and whether the weights are.
Weigh = Callable[[Block, Array | None, bool, bool], tuple[Array, Array | None]]


def meet(block: Block, taps: Sequence[Tap], weigh: Weigh) -> Array:
    """Compute a block once and offer it to the taps in order.

    Weights are computed for heads that a tap needs; other heads use the fused kernel. Returns the outputs of all heads,
    `[text, head, query, head_dim]`.
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
                made = cast(weights @ cast(part.value, weights), part.value)
        if made.shape[:3] == block.query.shape[:3]:  # the part is the whole block
            output = made
            break
        if output is None:
            output = empty((*block.query.shape[:3], made.shape[-1]), made)
        output[where(part, block)] = made
    assert output is not None
    for tap in taps:
        output = tap.output(block, output)
    return output


# --- loops over parts ---------------------------------------------------------------------------------------


def parts(block: Block, taps: Sequence[Tap]) -> Iterator[tuple[Block, bool]]:
    """Divide a block. Yield each part, and whether taps need its weights.

    Heads that taps need are divided as a tap requires, else by memory and by the window.
    """
    needed = sorted({place for tap in taps for place in tap.places(block)})
    if needed:
        seen = block.only(needed)
        own = next((own for tap in taps if (own := tap.parts(seen)) is not None), None)
        for part in _by_memory(seen, taps) if own is None else own:
            yield part, True
    if len(needed) < len(block.numbers):
        for part in _by_window(block.only([place for place in range(len(block.numbers)) if place not in needed])):
            yield part, False


def _by_memory(block: Block, taps: Sequence[Tap]) -> Iterator[Block]:
    """Divide a block's queries so that each part's weights fit the taps' limits, then each part by the window."""
    queries, limits = block.query.shape[2], [tap.most_weights for tap in taps if tap.most_weights is not None]
    of_query = block.query.shape[0] * block.query.shape[1] * block.key.shape[2]
    together = max(1, min(limits) // of_query) if limits else queries
    for start in range(0, queries, together):
        yield from _by_window(block.some_queries(slice(start, start + together)))


def _by_window(block: Block) -> Iterator[Block]:
    """Divide a block by its window into groups of queries, each with the keys that any of them sees."""
    for queries, keys in steps(block):
        yield block.some_queries(queries).some_keys(keys)


def steps(block: Block) -> Iterable[tuple[slice, slice]]:
    """Return the queries and keys of each step through a window; a single step if there is no window."""
    if block.window is None:
        return [(slice(None), slice(None))]
    return bands(block.window, block.queries, block.keys)


def where(part: Block, block: Block) -> tuple[slice, slice | list[int], slice]:
    """Return the place of a part's outputs among the block's: all texts, its heads, its queries."""
    places = [block.numbers.index(number) for number in part.numbers]
    neighbours = places == list(range(places[0], places[0] + len(places)))
    heads = slice(places[0], places[-1] + 1) if neighbours else places
    return slice(None), heads, slice(part.queries.start - block.queries.start, part.queries.stop - block.queries.start)
