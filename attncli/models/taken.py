"""The results of a walk: the arrays of records, collected by the taps of a request."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from attncli.base.arrays import Array, Bools, Doubles, Floats, as_floats, as_numpy
from attncli.models.block import Tap
from attncli.models.rows import LayerMask, RowRun, Rows, of_layers
from attncli.models.taps import GroupedMaps, KeptMaps, Lengths, QueriesAndKeys, Terms, query_steps
from attncli.models.walk import Ending, Walker, too_large
from attncli.record import AttentionRecord, Request, Vectors
from attncli.record.grouping import Axes, axes_of, between_units
from attncli.record.parts import PredictionSummary
from attncli.record.selection import select_heads
from attncli.text.tokens import DecoderInput, Tokens


class Selected(NamedTuple):
    """The layers and heads whose weights are requested, from 0, and the heads among them whose vectors are.

    pairs: the heads whose weights are requested, if that is not each of `heads` in each of `layers`.
    """

    layers: list[int]
    heads: list[int]
    vectors: list[tuple[int, int]]
    pairs: list[tuple[int, int]] | None = None


def select_in(part: Walker, request: Request) -> Selected:
    """Return the selected layers and heads of a part. Raises RequestError for a missing layer or head."""
    choice = request.choose(part.select_layers, part.heads)
    vectors = select_heads(request.vectors, choice, part.layers, part.heads)
    return Selected(choice.layers, choice.heads, vectors, choice.pairs)


class TextResult(NamedTuple):
    """The results of a walk for one text.

    axes: the units of its maps. vectors and terms are always for all tokens. weights: `[layer, head, query, key]`, or
    norms if requested, in the model's `map_dtype`. vectors: queries and keys, `[head, token, head_dim]` each, in the
    model's dtype. scales and sinks: `[head]`, with -inf for a head without a sink. terms: added to the scores of these
    heads, by name, `[head, query, key]`. masks: of the requested layers, bool `[layer, query, key]`. prediction: the
    model's prediction, if requested.
    """

    axes: Axes
    selected: Selected
    weights: Array
    vectors: tuple[Array, Array]
    scales: Doubles
    sinks: Floats
    terms: dict[str, Array]
    masks: Bools
    prediction: PredictionSummary | None

    @property
    def tokens(self) -> Tokens:
        return self.axes.queries.tokens


def read_by(tokens: Tokens, part: str) -> Tokens | None:
    """Return the tokens of the keys if they are of another text: the input of an encoder-decoder's encoder."""
    return tokens.encoder_input if part == "cross" and isinstance(tokens, DecoderInput) else None


def take_batch(
    model: Walker, batch: Sequence[Tokens], asked: Selected, request: Request, taps: Sequence[Tap]
) -> list[TextResult]:
    """Compute the requested results for a batch of texts in one walk.

    The walk ends at the last requested layer. taps: offered blocks before the request's own taps.
    """
    predictor = model.predictor(batch) if request.predict else None
    axes = [axes_of(request.grouping, one.plain, read_by(one, model.part)) for one in batch]
    if not all(one.are_tokens for one in axes):  # merged tokens have no common q and k
        asked = asked._replace(vectors=[])
    rows = model.rows(batch, request.mask)
    own = RequestTaps(model, rows, axes, asked, request.measure == "norm")
    every = [*taps, *own.taps]
    needs_values = any(tap.needs_values for tap in every)
    ending = None if predictor else Ending(max(asked.layers), asked.heads, needs_values)
    model.need(model.layers if ending is None else ending.layer + 1)
    with model.inference():
        for x in model.walk(rows, every, ending):
            last = x
        predictions = predictor(rows.last(last)) if predictor else [None] * len(batch)
        return rows.in_order([own.text_results(run, predictions) for run in rows.runs])


class RequestTaps:
    """The taps that a request needs: maps of tokens or of units, norms, vectors and terms."""

    def __init__(self, model: Walker, rows: Rows, axes: Sequence[Axes], asked: Selected, norms: bool) -> None:
        self.model, self.axes, self.asked = model, axes, asked
        empty_map, zeros = partial(model.array, maps=True), partial(model.array, zeros=True)
        self.maps: KeptMaps | None = None
        self.grouped: GroupedMaps | None = None
        self.lengths: Lengths | None = None
        if all(one.are_complete for one in axes):
            self.maps = KeptMaps(rows.runs, asked.layers, asked.heads, empty_map)
            self.lengths = Lengths(rows.runs, asked.layers, asked.heads, empty_map) if norms else None
        else:
            self.grouped = GroupedMaps(axes, asked.layers, asked.heads, partial(zeros, maps=True), norms)
        self.vectors = QueriesAndKeys(rows.runs, asked.vectors, model.head_dim, model.array)
        self.terms = Terms(rows.runs, asked.vectors, partial(zeros, maps=True))

    @property
    def taps(self) -> list[Tap]:
        """Return the taps in the order in which they are offered a block."""
        every = (self.maps, self.grouped, self.lengths, self.vectors, self.terms)
        return [tap for tap in every if tap is not None]

    def text_results(self, run: RowRun, predictions: Sequence[PredictionSummary | None]) -> list[TextResult]:
        """Return the results for each text of a run. predictions: by the text's number."""
        of_run, device = [run.masks[layer] for layer in self.asked.layers], self.model.device
        weights: Array
        masks: list[Bools] = []
        if self.maps is not None:
            weights, masks = self.maps.kept[run.number], list(of_layers(of_run, run, device))
            if self.lengths is not None:
                weights *= self.lengths.kept[run.number][..., None, :]
        else:
            assert self.grouped is not None
            weights = [self.grouped.kept[text] for text in run.texts]
            for place, text in enumerate(run.texts):
                made = {id(mask): _unit_mask(mask, self.axes[text], place, device) for mask in of_run}
                shown = [made[id(mask)] for mask in of_run]
                view = np.broadcast_to(shown[0], (len(shown), *shown[0].shape))  # if all layers share it
                masks.append(view if len(made) == 1 else np.stack(shown))
        query, key = self.vectors.kept[run.number]
        scales, sinks = np.array(self.vectors.scales), np.array(self.vectors.sinks, np.float32)
        found = []
        for place, text in enumerate(run.texts):
            terms = {name: term[place] for name, term in self.terms.kept[run.number].items()}
            found.append(
                TextResult(
                    axes=self.axes[text],
                    selected=self.asked,
                    weights=weights[place],
                    vectors=(query[place], key[place]),
                    scales=scales,
                    sinks=sinks,
                    terms=terms,
                    masks=masks[place],
                    prediction=predictions[text],
                )
            )
        return found


def _unit_mask(mask: LayerMask | None, axes: Axes, place: int, device: Any) -> Bools:
    """Return a mask between a text's units: True if any token of one unit may attend to any of the other.

    place: the text's place in the mask.
    """
    if mask is None:
        return np.ones((len(axes.queries), len(axes.keys)), bool)
    mask, every = mask.some_texts(slice(place, place + 1)), slice(0, axes.keys.text_length)
    counts = np.zeros((len(axes.queries), len(axes.keys)))
    for queries in query_steps(axes.queries.text_length, axes.keys.text_length):
        if not len(axes.queries.places[slice(*np.searchsorted(axes.queries.places, [queries.start, queries.stop]))]):
            continue
        keys = every if mask.window is None else mask.window.visible_keys(queries, every)
        allowed = mask.of(queries, keys, device)
        assert allowed is not None  # a mask that hides nothing is None
        rows = as_numpy(allowed)[0, 0]
        rows = np.broadcast_to(rows, (queries.stop - queries.start, rows.shape[-1])).astype(np.float32)
        units, key_units, sums = between_units(axes, queries, keys, rows)
        counts[units, key_units] += sums
    return counts > 0


def as_record(model: Walker, taken: TextResult, request: Request) -> AttentionRecord:
    """Convert results to a record. Raises RequestError if they contain NaN or infinity."""
    weights = as_floats(taken.weights)
    heads = taken.selected.vectors
    query, key = map(as_floats, taken.vectors)
    terms = {name: as_floats(term) for name, term in taken.terms.items()}
    norms = request.measure == "norm"
    # A row of weights that contains NaN has NaN at its first key.
    bad = np.argwhere(~np.isfinite(weights.max(axis=-1) if norms else weights[..., 0]))
    if len(bad):
        layer, head = taken.selected.layers[bad[0][0]], taken.selected.heads[bad[0][1]]
        raise too_large(model, "norms" if norms else "scores", layer, head)
    for array in (query, key, *terms.values()):  # at tokens that the mask hides, weights would not show it
        finite = np.isfinite(array).all(axis=(1, 2))
        if not finite.all():
            raise too_large(model, "queries or keys", *heads[finite.argmin()])
    queries, keys, part = taken.axes
    rows = None if model.part == "cross" or queries is keys else keys.units[queries.places].tolist()
    rotation = model.rotation(heads, queries.positions)
    sinks = taken.sinks if np.isfinite(taken.sinks).any() else np.empty(0, np.float32)
    vectors = Vectors(list(heads), query, key, taken.scales, terms, rotation, sinks) if heads and not norms else None
    prediction = taken.prediction
    if prediction is not None and not taken.axes.are_complete:
        prediction = prediction.between(queries.groups)
    return AttentionRecord(
        weights=weights,
        layers=list(taken.selected.layers),
        heads=list(taken.selected.heads),
        pairs=taken.selected.pairs,
        tokens=queries.tokens,
        masks=taken.masks,
        mask_name=model.usual_mask(request.mask),
        model=model.info,
        kind=model.part,
        key_tokens=keys.tokens if model.part == "cross" or rows is not None else None,
        rows=rows,
        vectors=None if vectors is None else vectors.between(queries.index, keys.index),
        measure=request.measure,
        prediction=prediction,
        dtype=str(model.map_dtype).removeprefix("torch."),
        part=part,
        sinks=model.has_sinks,
    )
