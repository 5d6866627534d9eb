"""Blocks and taps: what is computed where queries meet keys, and what may read or change it.

A `Block` is one layer's attention over some texts. `attncli.models.meeting.meet` computes each block once and offers it
to a flat list of taps, in order. Taps do not nest and do not know each other. Nothing here imports torch: a tap that
only indexes and multiplies works on NumPy arrays as well, and the few operations that torch and NumPy write differently
stand first.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from attncli.attention import Window
    from attncli.models.rows import LayerMask, Run


Array: TypeAlias = Any  # a torch.Tensor or a numpy.ndarray


def stack(arrays: Sequence[Array], axis: int) -> Array:
    """Join arrays of one shape along a new axis."""
    if isinstance(arrays[0], np.ndarray):
        return np.stack(arrays, axis)
    import torch

    return torch.stack(list(arrays), axis)


def lengths(vectors: Array) -> Array:
    """Return the Euclidean norm of vectors, `[..., size]` -> `[...]`."""
    return np.linalg.norm(vectors, axis=-1) if isinstance(vectors, np.ndarray) else vectors.norm(dim=-1)


def tanh(array: Array) -> Array:
    """Return the hyperbolic tangent of every element."""
    return np.tanh(array) if isinstance(array, np.ndarray) else array.tanh()


def of_dtype(array: Array, like: Array) -> Array:
    """Return an array in the dtype of another one."""
    return array.astype(like.dtype, copy=False) if isinstance(array, np.ndarray) else array.to(like.dtype)


def widened(array: Array) -> Array:
    """Return an array in float32 if its dtype has less than that."""
    if isinstance(array, np.ndarray):
        return array.astype(np.float32) if array.dtype.itemsize < 4 else array
    return array.float() if array.dtype.itemsize < 4 else array


LEAST_QUERIES = 128  # queries of a window computed together: fewer spend more time on what is done once per step


class Block(NamedTuple):
    """One layer's attention over texts of one length, or a part of it.

    layer: number of the layer. numbers: number of each head along the second axis. run: the texts.
    texts, queries, keys: the part of the run that the block covers.
    query `[text, head, query, head_dim]`, key and value `[text, head, key, head_dim]`; values have a width of 0 where
    nothing needs them. mask: what these queries may attend to; None hides nothing. scale: factor of the dot product.
    positional: returns what positions add to the scores, by name; None if they add nothing.
    given: input of the layer's projections, `[text, token, hidden_size]`. projection: returns the output
    projection of all heads of the layer, `[hidden_size, head, head_dim]`. shared: how many neighbouring heads have the
    same keys and values.
    softcap: bounds scores to ± this number, c tanh(s / c) (Gemma Team 2024, "Gemma 2", section 2); None for no bound.
    sinks: one score per head of the layer, `[head]`, that takes part in the softmax and leads nowhere (gpt-oss).
    """

    layer: int
    numbers: Sequence[int]
    run: "Run"
    texts: slice
    queries: slice
    keys: slice
    query: Array
    key: Array
    value: Array
    mask: "LayerMask | None"
    scale: float
    positional: "Callable[[Block], dict[str, Array]] | None"
    given: Array
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

    def allowed(self) -> Array | None:
        """Return what these queries may attend to: bool `[1 or text, 1 or head, 1 or query, key]`; None for all."""
        return None if self.mask is None else self.mask.of(self.queries, self.keys, self.query.device)

    def terms(self) -> dict[str, Array]:
        """Return what positions add to the scores, by name; each broadcasts to `[text, head, query, key]`."""
        return {} if self.positional is None else self.positional(self)

    def all_terms(self) -> dict[str, Array]:
        """Return `terms`, and as "softcap" what bounding adds to a scaled product s: c tanh(s / c) - s."""
        if self.softcap is None:
            return self.terms()
        products = self.scale * (self.query @ self.key.swapaxes(-2, -1))
        return {"softcap": self.softcap * tanh(products / self.softcap) - products, **self.terms()}

    def only(self, places: Sequence[int]) -> "Block":
        """Return the heads at these places of `numbers`."""
        if list(places) == list(range(len(self.numbers))):
            return self
        return self._replace(
            numbers=[self.numbers[place] for place in places],
            query=self.query[:, places],
            key=self.key[:, places],
            value=self.value[:, places],
            mask=None if self.mask is None else self.mask.some_heads(places),
        )

    def some_heads(self, places: slice) -> "Block":
        """Return the heads at these places of `numbers`, as views."""
        return self._replace(
            numbers=self.numbers[places],
            query=self.query[:, places],
            key=self.key[:, places],
            value=self.value[:, places],
            mask=None if self.mask is None else self.mask.some_heads(places),
        )

    def some_texts(self, texts: slice) -> "Block":
        """Return some of the texts, as views."""
        return self._replace(
            texts=within(self.texts, texts),
            query=self.query[texts],
            key=self.key[texts],
            value=self.value[texts],
            mask=None if self.mask is None else self.mask.some_texts(texts),
            given=self.given[texts],
        )

    def some_queries(self, queries: slice) -> "Block":
        """Return some of the queries, as views."""
        return self._replace(queries=within(self.queries, queries), query=self.query[:, :, queries])

    def some_keys(self, keys: slice) -> "Block":
        """Return some of the keys with their values, as views."""
        return self._replace(keys=within(self.keys, keys), key=self.key[:, :, keys], value=self.value[:, :, keys])

    @property
    def bare(self) -> "Block":
        """The block without values and without the projections' input: what the weights are made of."""
        return self._replace(value=self.key[..., :0], given=self.key[:, 0, :, :0])


class Tap:
    """Reads or changes blocks. Each method leaves the block as it is by default.

    needs_values: needs the values, or what comes of them, in the layer where a walk ends.
    changes_weights: `weights` may return other weights.
    by_formula: needs derivatives, for which the formula is computed as it stands.
    most_weights: weights per text and part at most that should exist at a time; None for any number.
    """

    needs_values = True
    changes_weights = False
    by_formula = False
    most_weights: int | None = None

    def begin(self, block: Block) -> Block:
        """Read the block before it is computed; return it, or one with other queries, keys, values or mask."""
        return block

    def places(self, block: Block) -> Sequence[int]:
        """Return the places of the heads whose weights the tap needs."""
        return ()

    def parts(self, block: Block) -> Iterable[Block] | None:
        """Divide a block of the heads that any tap needs into the parts that are to be computed one after another.

        None leaves that to the others. At most one tap of a walk divides blocks.
        """
        return None

    def room(self, part: Block) -> Array | None:
        """Return storage for the weights of a part, `[text, head, query, key]`, to be written straight there."""
        return None

    def weights(self, part: Block, weights: Array) -> Array | None:
        """Read the weights of a part, `[text, head, query, key]`; return other ones, or None to keep them.

        Keys outside the part have weight 0. The tap does not write into `weights`.
        """
        return None

    def output(self, block: Block, output: Array) -> Array:
        """Read the outputs of a whole block, `[text, head, query, head_dim]`; return them or other ones."""
        return output


def within(whole: slice, some: slice) -> slice:
    """Return a part of a slice, counted as the whole is."""
    start, stop, _ = some.indices(whole.stop - whole.start)
    return slice(whole.start + start, whole.start + stop)


def bands(window: "Window", queries: slice, keys: slice) -> Iterator[tuple[slice, slice]]:
    """Divide queries into steps; yield each step with those of the keys that any of its queries sees.

    Both are counted from the first of what is given.
    """
    count, together = queries.stop - queries.start, max(LEAST_QUERIES, window.reach)
    for start in range(0, count, together):
        stop = min(start + together, count)
        yield slice(start, stop), window.seen(slice(queries.start + start, queries.start + stop), keys)


def chosen(block: Block, asked: Sequence[int]) -> tuple[list[int], list[int]]:
    """Find the heads that are asked for: their places in the block, and in `asked`."""
    here = [place for place, number in enumerate(block.numbers) if number in asked]
    return here, [asked.index(block.numbers[place]) for place in here]
