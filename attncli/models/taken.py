"""The results of a walk: the tensors of records, collected by the taps of a request.

`Storage` reuses memory that is no longer referenced. Keeping maps costs less for arithmetic than for memory: the system
provides memory in pages of 4 kB and clears each first. So large pieces are allocated as NumPy does, which gets large
pages if the system supports them. The memory of a dropped record goes to the next record.
"""

import math
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, from_numpy

from attncli.base.arrays import Doubles, Floats
from attncli.models.block import Tap
from attncli.models.outputs import find_answering, predict_texts
from attncli.models.rows import LayerMask, Rows, Run, of_layers
from attncli.models.taps import GroupedMaps, Lengths, Maps, QueriesAndKeys, Terms, query_steps
from attncli.models.walk import Ending, Walker
from attncli.record import AttentionRecord, Request, Vectors
from attncli.record.grouping import Axes, axes_of, between_units
from attncli.record.parts import PredictionSummary
from attncli.text.tokens import Fed, Tokens

LARGE = 2**22  # bytes: smaller pieces come from torch's allocator, which reuses them
WAITING = 2**29  # maximum bytes of free pieces that wait for reuse
_SPARE = 2  # a reused piece is at most this many times larger than needed
_LINE = 64  # bytes of a cache line, to which pieces are aligned


class Piece:
    """A block of memory."""

    def __init__(self, size: int) -> None:
        room = np.empty(size + _LINE, dtype=np.uint8)
        self.bytes = room[-room.ctypes.data % _LINE :][:size]

    def __len__(self) -> int:
        return len(self.bytes)


class _Lease:
    """A borrowed piece. NumPy arrays made from it keep it alive, and so does every view of them."""

    def __init__(self, piece: Piece) -> None:
        self.__array_interface__ = piece.bytes.__array_interface__


class Storage:
    """Reusable CPU memory, safe for several threads.

    waiting: the free pieces, in the order of their return.
    """

    def __init__(self) -> None:
        self.waiting: list[Piece] = []

    def empty(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """Return an uninitialised tensor of this shape with the dtype and device of `like`.

        Raises MemoryError if there is no memory left.
        """
        size = math.prod(shape) * like.element_size()
        if like.device.type != "cpu" or size < LARGE:
            return like.new_empty(*shape)
        piece = self.take(size)
        lease = _Lease(piece)
        weakref.finalize(lease, self.put_back, piece).atexit = False
        return from_numpy(np.asarray(lease)[:size]).view(like.dtype).view(*shape)

    def take(self, size: int) -> Piece:
        """Return a piece of at least this size: the most recently returned one that is not much too large, or a new
        one.
        """
        for piece in reversed(self.waiting.copy()):
            if size <= len(piece) <= _SPARE * size:
                with suppress(ValueError):  # another thread took it
                    self.waiting.remove(piece)
                    return piece
        return Piece(size)

    def put_back(self, piece: Piece) -> None:
        """Return a piece for reuse. If too much is free, drop the pieces that have waited longest."""
        self.waiting.append(piece)
        while sum(map(len, self.waiting)) > WAITING:
            with suppress(IndexError):  # another thread took it
                self.waiting.pop(0)

    def forget(self) -> None:
        """Release all free pieces to the system."""
        self.waiting.clear()


STORAGE = Storage()


class Selected(NamedTuple):
    """The layers and heads whose weights are requested, from 0, and the heads among them whose vectors are."""

    layers: list[int]
    heads: list[int]
    vectors: list[tuple[int, int]]


class TextResult(NamedTuple):
    """The results of a walk for one text.

    axes: the units of its maps. vectors and terms are always for all tokens. weights: `[layer, head, query, key]`, or
    norms if requested, in the model's `map_dtype`. vectors: queries and keys, `[head, token, head_dim]` each, in the
    model's dtype. scales and sinks: `[head]`, with -inf for a head without a sink. terms: added to the scores of these
    heads, by name, `[head, query, key]`. masks: of the requested layers, bool `[layer, query, key]`. said: the model's
    prediction, if requested.
    """

    axes: Axes
    selected: Selected
    weights: Tensor
    vectors: tuple[Tensor, Tensor]
    scales: Doubles
    sinks: Floats
    terms: dict[str, Tensor]
    masks: Tensor
    prediction: PredictionSummary | None

    @property
    def tokens(self) -> Tokens:
        return self.axes.queries.tokens


def read_by(tokens: Tokens, part: str) -> Tokens | None:
    """Return the tokens of the keys if they are of another text: the input of an encoder-decoder's encoder."""
    return tokens.read if part == "cross" and isinstance(tokens, Fed) else None


def take_batch(
    model: Walker, batch: Sequence[Tokens], asked: Selected, request: Request, taps: Sequence[Tap]
) -> list[TextResult]:
    """Compute the requested results for a batch of texts in one walk.

    The walk ends at the last requested layer. taps: offered blocks before the request's own taps.
    """
    speaks = request.predict and any(find_answering(model, tokens) for tokens in batch)
    axes = [axes_of(request.grouping, one.plain, read_by(one, model.part)) for one in batch]
    if not all(one.apart for one in axes):  # merged tokens have no common q and k
        asked = asked._replace(vectors=[])
    rows = model.rows(batch, request.mask)
    own = _RequestTaps(model, rows, axes, asked, request.measure == "norm")
    every = [*taps, *own.taps]
    needs_values = any(tap.needs_values for tap in every)
    ending = None if speaks else Ending(max(asked.layers), asked.heads, needs_values)
    model.need(model.layers if ending is None else ending.layer + 1)
    with torch.inference_mode():
        for x in model.walk(rows, every, ending):
            last = x
        predictions = predict_texts(model, batch, rows.last(last)) if speaks else [None] * len(batch)
        return rows.in_order([own.text_results(run, predictions) for run in rows.runs])


class _RequestTaps:
    """The taps that a request needs: maps of tokens or of units, norms, vectors and terms."""

    def __init__(self, model: Walker, rows: Rows, axes: Sequence[Axes], asked: Selected, norms: bool) -> None:
        self.axes, self.asked, self.device = axes, asked, model.device
        self.like = torch.empty(0, dtype=model.dtype, device=model.device)
        map_like = self.like.to(model.map_dtype)
        self.maps: Maps | None = None
        self.grouped: GroupedMaps | None = None
        self.lengths: Lengths | None = None
        self.vectors: QueriesAndKeys | None = None
        self.terms: Terms | None = None
        if all(one.are_complete for one in axes):
            self.maps = Maps(rows.runs, asked.layers, asked.heads, lambda shape: STORAGE.empty(shape, map_like))
            self.lengths = Lengths(rows.runs, asked.layers, asked.heads, map_like.new_empty) if norms else None
        else:
            self.grouped = GroupedMaps(axes, asked.layers, asked.heads, map_like.new_zeros, norms)
        if asked.vectors:
            self.vectors = QueriesAndKeys(rows.runs, asked.vectors, model.head_dim, self.like.new_empty)
            self.terms = Terms(rows.runs, asked.vectors, self.like.new_zeros)

    @property
    def taps(self) -> list[Tap]:
        """Return the taps in the order in which they are offered a block."""
        every = (self.maps, self.grouped, self.lengths, self.vectors, self.terms)
        return [tap for tap in every if tap is not None]

    def text_results(self, run: Run, predictions: Sequence[PredictionSummary | None]) -> list[TextResult]:
        """Return the results for each text of a run. predictions: by the text's number."""
        return [
            TextResult(self.axes[text], self.asked, weights, *self.vectors_of(run, place), masks, predictions[text])
            for place, (text, (weights, masks)) in enumerate(zip(run.texts, self.maps_of(run), strict=True))
        ]

    def vectors_of(self, run: Run, place: int) -> tuple[tuple[Tensor, Tensor], Doubles, Floats, dict[str, Tensor]]:
        """Return the stored results of the text at a place: queries and keys, scales, sinks, and terms by name."""
        if self.vectors is None or self.terms is None:
            return (self.like.new_empty(0, run.length, 0),) * 2, np.empty(0), np.empty(0, np.float32), {}
        query, key = self.vectors.kept[run.number]
        terms = {name: term[place] for name, term in self.terms.kept[run.number].items()}
        sinks = np.array(self.vectors.sinks, np.float32)
        return (query[place], key[place]), np.array(self.vectors.scales), sinks, terms

    def maps_of(self, run: Run) -> Iterable[tuple[Tensor, Tensor]]:
        """Return each text's weights and masks, `[layer, query, ...]`."""
        masks = [run.masks[layer] for layer in self.asked.layers]
        if self.maps is not None:
            weights = self.maps.kept[run.number]
            if self.lengths is not None:
                weights *= self.lengths.kept[run.number][..., None, :]
            return zip(weights, of_layers(masks, run, self.device), strict=True)
        assert self.grouped is not None
        kept, axes = self.grouped.kept, self.axes
        return [
            (kept[text], _grouped_masks(masks, axes[text], place, self.device)) for place, text in enumerate(run.texts)
        ]


def _grouped_masks(masks: Sequence[LayerMask | None], axes: Axes, place: int, device: torch.device) -> Tensor:
    """Return the masks of layers between a text's units, bool `[layer, unit, unit]`; a view of one if layers share it.

    A cell is True if any token of one unit may attend to any of the other. place: the text's place in the masks.
    """
    made = {id(mask): _unit_mask(mask, axes, place, device) for mask in masks}
    if len(made) == 1:
        return made[id(masks[0])].expand(len(masks), -1, -1)
    return torch.stack([made[id(mask)] for mask in masks])


def _unit_mask(mask: LayerMask | None, axes: Axes, place: int, device: torch.device) -> Tensor:
    if mask is None:
        return torch.ones(len(axes.queries), len(axes.keys), dtype=torch.bool, device=device)
    counts = torch.zeros(len(axes.queries), len(axes.keys), device=device)
    for queries, keys, rows in _mask_blocks(mask.some_texts(slice(place, place + 1)), axes, device):
        units, key_units, sums = between_units(axes, queries, keys, rows)
        counts[units, key_units] += sums
    return counts > 0


def _mask_blocks(mask: LayerMask, axes: Axes, device: torch.device) -> Iterable[tuple[slice, slice, Tensor]]:
    """Yield the queries of a text in steps, with the keys that they may see, and 1 for allowed cells, else 0."""
    every = slice(0, axes.keys.text)
    for queries in query_steps(axes.queries.text, axes.keys.text):
        keys = every if mask.window is None else mask.window.visible_keys(queries, every)
        allowed = mask.of(queries, keys, device)
        assert allowed is not None  # a mask that hides nothing is None
        yield queries, keys, allowed[0, 0].expand(queries.stop - queries.start, -1).float()


def as_record(model: Walker, taken: TextResult, request: Request) -> AttentionRecord:
    """Convert results to a record. Raises RequestError if they contain NaN or infinity."""
    weights = taken.weights.to(device="cpu", dtype=torch.float32).numpy()
    heads = taken.selected.vectors
    query, key = (one.to(device="cpu", dtype=torch.float32).numpy() for one in taken.vectors)
    terms = {name: term.to(device="cpu", dtype=torch.float32).numpy() for name, term in taken.terms.items()}
    norms = request.measure == "norm"
    _check_finite(model, "norms" if norms else "scores", weights, taken.selected)
    if heads:
        _check_vectors_finite(model, [query, key, *terms.values()], heads)
    queries, keys, part = taken.axes
    turning = model.turning(heads, queries.text)
    sinks = taken.sinks if np.isfinite(taken.sinks).any() else np.empty(0, np.float32)
    vectors = Vectors(list(heads), query, key, taken.scales, terms, turning, sinks) if heads and not norms else None
    prediction = taken.prediction
    if prediction is not None and not taken.axes.are_complete:
        prediction = prediction.between(queries.groups)
    return AttentionRecord(
        weights=weights,
        layers=list(taken.selected.layers),
        heads=list(taken.selected.heads),
        tokens=queries.tokens,
        masks=taken.masks.cpu().numpy(),
        mask_name=model.usual_mask(request.mask),
        model=model.info,
        kind=model.part,
        key_tokens=keys.tokens if model.part == "cross" else None,
        vectors=None if vectors is None else vectors.between(queries.index, keys.index),
        measure=request.measure,
        prediction=prediction,
        dtype=str(model.map_dtype).removeprefix("torch."),
        part=part,
        sinks=model.has_sinks,
    )


def _check_finite(model: Walker, what: str, weights: Floats, asked: Selected) -> None:
    """Raises RequestError if weights are not finite. A row that contains NaN has NaN at its first key."""
    bad = np.argwhere(~np.isfinite(weights[..., 0] if what == "scores" else weights.max(axis=-1)))
    if len(bad):
        layer, head, _ = bad[0]
        raise model.too_large(what, asked.layers[layer], asked.heads[head])


def _check_vectors_finite(model: Walker, arrays: Sequence[Floats], heads: Sequence[tuple[int, int]]) -> None:
    """Raises RequestError if queries, keys or terms, `[head, ...]` each, are not finite.

    At tokens that the mask hides, weights would not show it.
    """
    for array in arrays:
        bad = np.flatnonzero(~np.isfinite(array).all(axis=(1, 2)))
        if len(bad):
            raise model.too_large("queries or keys", *heads[bad[0]])
