"""Blocks and taps: the one place where queries meet keys, in every network, and the hooks that read or change it.

block ──► taps: begin ──► parts ──► weigh ──► taps: weights ──► outputs of all heads ──► taps: output

A `Block` is one layer's attention over some texts. `meet` computes each block once and offers it to a flat list of
taps, in order. Taps do not nest and do not know each other. `weigh` is the softmax of the scores times the values, in
torch (`attncli.models.weighing`) or NumPy (`attncli.models.instant`). This module does not import torch, so that
features can define taps without it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from attncli.base.arrays import Array, cast, empty, library, widened

if TYPE_CHECKING:
    from attncli.attention import Window
    from attncli.models.rows import LayerMask, RowRun


LEAST_QUERIES = 128  # queries of a window per step: with fewer, the fixed cost of a step dominates


class Block(NamedTuple):
    """One layer's attention over texts of one length, or a part of it.

    layer: number of the layer. numbers: number of each head along the second axis; a head's index there is its place.
    run: the texts. texts, queries, keys: the part of the run that the block covers.
    query `[text, head, query, head_dim]`, key and value `[text, head, key, head_dim]`; values have a width of 0 if
    nothing needs them. mask: the keys that these queries may attend to; None hides nothing. scale: factor of the dot
    product.
    positional: returns the scores that positions add, by name; None if they add nothing.
    inputs: the inputs of the layer's projections, `[text, token, hidden_size]`. projection: returns the output
    projection of all heads of the layer, `[hidden_size, head, head_dim]`. shared: the number of neighbouring heads that
    share keys and values. softcap: bounds scores to ± this number, c tanh(s / c) (Gemma Team 2024, "Gemma 2", section
    2); None for no bound. sinks: an extra score per head of the layer, `[head]`, in the softmax that belongs to no key
    (gpt-oss).
    """

    layer: int
    numbers: Sequence[int]
    run: "RowRun"
    texts: slice
    queries: slice
    keys: slice
    query: Array
    key: Array
    value: Array
    mask: "LayerMask | None"
    scale: float
    positional: "Callable[[Block], dict[str, Array]] | None"
    inputs: Array
    projection: "Callable[[], Array]"
    shared: int = 1
    softcap: float | None = None
    sinks: Array | None = None

    @property
    def window(self) -> "Window | None":
        """The layer's window; None if every query sees all keys."""
        return None if self.mask is None else self.mask.window

    @property
    def text_numbers(self) -> Sequence[int]:
        """Number of each text in its batch."""
        return self.run.texts[self.texts]

    @property
    def is_causal(self) -> bool:
        """Return True if the mask hides the future and nothing else, and queries and keys are the same tokens."""
        mask = self.mask
        alone = mask is not None and mask.causal and mask.shown is None and mask.window is None
        return alone and self.queries == self.keys

    def allowed(self) -> Array | None:
        """Return the allowed cells, bool `[1 or text, 1 or head, 1 or query, key]`; None if all are allowed."""
        return None if self.mask is None else self.mask.of(self.queries, self.keys, getattr(self.query, "device", None))

    def terms(self) -> dict[str, Array]:
        """Return the scores that positions add, by name. Each broadcasts to `[text, head, query, key]`."""
        return {} if self.positional is None else self.positional(self)

    def all_terms(self) -> dict[str, Array]:
        """Return `terms`, and as "softcap" the change of a scaled product s by the bound: c tanh(s / c) - s."""
        if self.softcap is None:
            return self.terms()
        products = self.scale * (widened(self.query) @ widened(self.key).swapaxes(-2, -1))
        bounded = self.softcap * library(products).tanh(products / self.softcap)
        return {"softcap": bounded - products, **self.terms()}

    def only(self, places: Sequence[int] | slice) -> "Block":
        """Return the block with only the heads at these places of `numbers`; for a slice, as views."""
        if not isinstance(places, slice) and list(places) == list(range(len(self.numbers))):
            return self
        return self._replace(
            numbers=self.numbers[places] if isinstance(places, slice) else [self.numbers[place] for place in places],
            query=self.query[:, places],
            key=self.key[:, places],
            value=self.value[:, places],
            mask=None if self.mask is None else self.mask.some_heads(places),
        )

    def some_texts(self, texts: slice) -> "Block":
        """Return the block with only these texts, as views."""
        return self._replace(
            texts=within(self.texts, texts),
            query=self.query[texts],
            key=self.key[texts],
            value=self.value[texts],
            mask=None if self.mask is None else self.mask.some_texts(texts),
            inputs=self.inputs[texts],
        )

    def some_queries(self, queries: slice) -> "Block":
        """Return the block with only these queries, as views."""
        return self._replace(queries=within(self.queries, queries), query=self.query[:, :, queries])

    def some_keys(self, keys: slice) -> "Block":
        """Return the block with only these keys and their values, as views."""
        return self._replace(keys=within(self.keys, keys), key=self.key[:, :, keys], value=self.value[:, :, keys])

    @property
    def bare(self) -> "Block":
        """Return the block without values and projection input, with only what the weights are computed from."""
        return self._replace(value=self.key[..., :0], inputs=self.key[:, 0, :, :0])


class Tap:
    """Reads or changes blocks. By default, every method leaves the block unchanged.

    needs_values: needs the values, or results computed from them, in the last layer of a walk.
    changes_weights: `weights` may return other weights.
    differentiable: needs gradients, so the formula is computed without in-place operations.
    most_weights: the maximum number of weights in memory at a time; None for no limit.
    """

    needs_values = True
    changes_weights = False
    differentiable = False
    most_weights: int | None = None

    def begin(self, block: Block) -> Block:
        """Read the block before it is computed; return it, or one with other queries, keys, values or mask."""
        return block

    def places(self, block: Block) -> Sequence[int]:
        """Return the places of the heads whose weights the tap needs."""
        return ()

    def wanted_queries(self, block: Block) -> Sequence[int] | None:
        """Return the queries whose weights the tap needs, counted from the block's first; None for all of them."""
        return None

    def parts(self, block: Block) -> Iterable[Block] | None:
        """Divide a block of the heads that any tap needs into parts that are computed one after another.

        None leaves the division to other taps. At most one tap of a walk divides blocks.
        """
        return None

    def out(self, part: Block) -> Array | None:
        """Return memory where the weights of a part, `[text, head, query, key]`, are written directly."""
        return None

    def weights(self, part: Block, weights: Array) -> Array | None:
        """Read the weights of a part, `[text, head, query, key]`. Return other weights, or None to keep these.

        Keys outside the part have weight 0. The tap must not write into `weights`.
        """
        return None

    def output(self, block: Block, output: Array) -> Array:
        """Read the outputs of a complete block, `[text, head, query, head_dim]`. Return them or others."""
        return output


def within(whole: slice, some: slice) -> slice:
    """Return a part of a slice in the coordinates of the whole."""
    start, stop, _ = some.indices(whole.stop - whole.start)
    return slice(whole.start + start, whole.start + stop)


def bands(window: "Window", queries: slice, keys: slice) -> Iterator[tuple[slice, slice]]:
    """Divide queries into steps. Yield each step with the keys that any of its queries sees.

    Both are counted from the first query and key passed in.
    """
    count, together = queries.stop - queries.start, max(LEAST_QUERIES, window.reach)
    for start in range(0, count, together):
        stop = min(start + together, count)
        yield slice(start, stop), window.visible_keys(slice(queries.start + start, queries.start + stop), keys)


def select_numbers(block: Block, wanted: Sequence[int]) -> tuple[list[int], list[int]]:
    """Find the wanted heads: their places in the block, and in `wanted`."""
    here = [place for place, number in enumerate(block.numbers) if number in wanted]
    return here, [wanted.index(block.numbers[place]) for place in here]


# --- the place where queries meet keys --------------------------------------------------------------------

# Takes a part, memory for its weights, whether gradients are needed, and whether the weights are needed. Returns
# outputs `[text, head, query, head_dim]` and weights `[text, head, query, key]`.
Weigh = Callable[[Block, Array | None, bool, bool], tuple[Array, Array | None]]


def meet(block: Block, taps: Sequence[Tap], weigh: Weigh) -> Array:
    """Compute a block once and offer it to the taps in order.

    Weights are computed for heads that a tap needs; other heads use the fused kernel. Returns the outputs of all heads,
    `[text, head, query, head_dim]`.
    """
    for tap in taps:
        block = tap.begin(block)
    differentiable, changing = any(tap.differentiable for tap in taps), any(tap.changes_weights for tap in taps)
    output = None
    for part, need_weights in parts(block, taps):
        out = next((out for tap in taps if (out := tap.out(part)) is not None), None) if need_weights else None
        given = part.bare if need_weights and changing else part
        made, weights = weigh(given, out, differentiable, need_weights)
        if weights is not None:
            for tap in taps:
                if (changed := tap.weights(part, weights)) is not None:
                    weights = changed
            if changing:
                made = cast(weights @ cast(part.value, weights), part.value)
        if output is None and made.shape[:3] == block.query.shape[:3]:  # the part is the whole block
            output = made
            continue
        if output is None:
            output = empty((*block.query.shape[:3], made.shape[-1]), made)
        output[where(part, block)] = made
    assert output is not None
    for tap in taps:
        output = tap.output(block, output)
    return output


def parts(block: Block, taps: Sequence[Tap]) -> Iterator[tuple[Block, bool]]:
    """Divide a block. Yield each part, and whether taps need its weights.

    Heads whose weights a tap needs are divided as a tap requires, otherwise by memory and by the window. If taps need
    the weights of some queries only, the outputs of all queries come first, unless nothing needs them.
    """
    wanted = [(set(tap.places(block)), tap) for tap in taps]
    needed = sorted(set().union(*(places for places, _ in wanted)))
    if needed:
        seen = block.only(needed)
        own = next((own for tap in taps if (own := tap.parts(seen)) is not None), None)
        queries = [tap.wanted_queries(block) for places, tap in wanted if places]
        some = [set(one) for one in queries if one is not None]
        if own is not None or len(some) < len(queries):
            for part in _by_memory(seen, taps) if own is None else own:
                yield part, True
        else:
            for part in _by_window(seen) if block.value.shape[-1] else ():
                yield part, False
            rows = set().union(*some)
            starts, last = (sorted(row for row in rows if row + step not in rows) for step in (-1, 1))
            for start, stop in zip(starts, last, strict=True):  # runs of consecutive queries
                for part in _by_memory(seen.some_queries(slice(start, stop + 1)), taps):
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
    if block.window is None:
        yield block
        return
    for queries, keys in bands(block.window, block.queries, block.keys):
        yield block.some_queries(queries).some_keys(keys)


def where(part: Block, block: Block) -> tuple[slice, slice | list[int], slice]:
    """Return the index of a part's outputs in those of the block: all texts, the part's heads, its queries."""
    places = [block.numbers.index(number) for number in part.numbers]
    neighbours = places == list(range(places[0], places[0] + len(places)))
    heads = slice(places[0], places[-1] + 1) if neighbours else places
    return slice(None), heads, slice(part.queries.start - block.queries.start, part.queries.stop - block.queries.start)
