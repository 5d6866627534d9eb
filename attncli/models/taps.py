"""Taps that several features share. They keep parts of a walk's blocks, or change them.

    maps = KeptMaps(rows.runs, layers, heads, like.new_empty)
    for _ in walk(network, rows, [maps]):
        pass
    maps.kept[0]  # of the first run, [text, layer, head, query, key]

`GroupedMaps` keeps maps between words, stretches or selected tokens, without ever holding a map of all tokens. Results
have the dtype and device of `like`. Taps see the changes of the taps before them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from math import inf
from typing import TYPE_CHECKING, Any

from attncli.base.arrays import Array, cast, empty, library, widened
from attncli.models.block import Block, Tap, select_numbers
from attncli.record.grouping import Axes, between_units

if TYPE_CHECKING:
    from attncli.models.rows import RowRun


_Gate = float | Sequence[float] | Array
_Empty = Callable[[Sequence[int]], Array]  # allocates an array of a shape


class KeptMaps(Tap):
    """Keeps the weights of some heads of some layers, in the order requested.

    kept: for each run `[text, layer, head, query, key]`, allocated by `empty(shape)`. Weights are written there
    directly unless another tap divides the heads or changes the weights.
    """

    needs_values = False

    def __init__(self, runs: "Sequence[RowRun]", layers: Sequence[int], heads: Sequence[int], empty: _Empty) -> None:
        self.layers = list(layers)
        self.heads = list(heads)
        self.kept = [empty((len(run.texts), len(layers), len(heads), run.length, run.keys)) for run in runs]
        self.lent: Array | None = None

    def places(self, block: Block) -> Sequence[int]:
        return select_numbers(block, self.heads)[0] if block.layer in self.layers else ()

    def out(self, part: Block) -> Array | None:
        self.lent = None
        if part.layer in self.layers and list(part.numbers) == self.heads:
            self.lent = self.storage(part, slice(None))[:, :, part.queries, part.keys]
        return self.lent

    def weights(self, part: Block, weights: Array) -> None:
        ours, where = select_numbers(part, self.heads)
        if part.layer in self.layers and ours and weights is not self.lent:
            kept = self.storage(part, where)
            kept[:, where, part.queries, part.keys] = cast(weights[:, ours], kept)

    def storage(self, part: Block, where: Sequence[int] | slice) -> Array:
        """Return a layer's maps of the texts of a part, `[text, head, query, key]`.

        In the part's rows of the heads at `where`, keys outside the part are set to 0.
        """
        kept = self.kept[part.run.number][part.texts, self.layers.index(part.layer)]
        kept[:, where, part.queries, : part.keys.start] = 0
        kept[:, where, part.queries, part.keys.stop :] = 0
        return kept


class QueriesAndKeys(Tap):
    """Keeps the queries and keys of some heads, (layer, head), as the dot product uses them.

    kept: for each run queries and keys, `[text, head, token, head_dim]` each, in the order requested. scales: the
    factor of each head's dot product. sinks: the sink score of each head; -inf for a head without one.
    """

    needs_values = False

    def __init__(
        self, runs: "Sequence[RowRun]", heads: Sequence[tuple[int, int]], head_dim: int, empty: _Empty
    ) -> None:
        self.heads = list(heads)
        self.kept = [
            tuple(empty((len(run.texts), len(heads), count, head_dim)) for count in (run.length, run.keys))
            for run in runs
        ]
        self.scales = [0.0] * len(self.heads)
        self.sinks = [-inf] * len(self.heads)

    def begin(self, block: Block) -> Block:
        queries, keys = self.kept[block.run.number]
        for place, where in _places_of_pairs(block, self.heads):
            queries[block.texts, where, block.queries] = block.query[:, place]
            keys[block.texts, where, block.keys] = block.key[:, place]
            self.scales[where] = block.scale
            if block.sinks is not None:
                self.sinks[where] = float(block.sinks[block.numbers[place]])
        return block


class Terms(Tap):
    """Keeps the terms added to the scores of some heads, (layer, head), by positions or by a softcap.

    kept: for each run by the term's name `[text, head, query, key]`, in the order requested; 0 for a head without it.
    """

    needs_values = False

    def __init__(self, runs: "Sequence[RowRun]", heads: Sequence[tuple[int, int]], zeros: _Empty) -> None:
        self.runs = runs
        self.heads = list(heads)
        self.zeros = zeros
        self.kept: list[dict[str, Array]] = [{} for _ in runs]

    def begin(self, block: Block) -> Block:
        pairs = _places_of_pairs(block, self.heads)
        if not pairs or (block.positional is None and block.softcap is None):
            return block
        chosen_heads, kept = block.only([place for place, _ in pairs]), self.kept[block.run.number]
        for name, term in chosen_heads.all_terms().items():
            if name not in kept:
                kept[name] = self.zeros((len(block.run.texts), len(self.heads), block.run.length, block.run.keys))
            for place, (_, where) in enumerate(pairs):
                one = term[..., place if term.shape[-3] > 1 else 0, :, :]
                kept[name][block.texts, where, block.queries, block.keys] = one
        return block


class Lengths(Tap):
    """Keeps the norms of some heads' transformed values, ‖v W_O‖.

    kept: for each run `[text, layer, head, key]`, in the order requested.

    Source: Kobayashi et al. 2020, "Attention is Not Only a Weight", section 2.2.
    """

    def __init__(self, runs: "Sequence[RowRun]", layers: Sequence[int], heads: Sequence[int], empty: _Empty) -> None:
        self.layers = list(layers)
        self.heads = list(heads)
        self.kept = [empty((len(run.texts), len(layers), len(heads), run.keys)) for run in runs]

    def begin(self, block: Block) -> Block:
        ours, where = select_numbers(block, self.heads)
        if block.layer in self.layers and ours:
            kept = self.kept[block.run.number][block.texts, self.layers.index(block.layer)]
            kept[:, where] = cast(transformed_lengths(block.only(ours)), kept)
        return block


def transformed_lengths(block: Block) -> Array:
    """Return ‖v W_O‖ of the values of a block's heads, `[text, head, key]`.

    With f(x) = (x W_V + b_V) W_O, the norm of a token's contribution to a head's output is ‖α f(x)‖ = α ‖f(x)‖. The
    bias of the output projection belongs to no token and is omitted (Kobayashi et al. 2020, section 2.2).
    """
    projection = block.projection()
    transformed = (block.value[:, place] @ projection[:, head].T for place, head in enumerate(block.numbers))
    xp = library(projection)
    return xp.stack([xp.linalg.norm(one, axis=-1) for one in transformed], 1)


class ProjectionInputs(Tap):
    """Keeps the input of one layer's projections, and the values of one of its heads.

    kept: by the number of the text, x `[token, hidden_size]`, values `[token, head_dim]`, and the heads that share the
    same keys.
    """

    def __init__(self, layer: int, head: int) -> None:
        self.layer = layer
        self.head = head
        self.kept: dict[int, tuple[Array, Array, range]] = {}

    def begin(self, block: Block) -> Block:
        if block.layer == self.layer and self.head in block.numbers:
            values = block.value[:, block.numbers.index(self.head)]
            first = self.head - self.head % block.shared
            of_text = zip(block.inputs, values, repeat(range(first, first + block.shared)))
            self.kept.update(zip(block.text_numbers, of_text, strict=True))
        return block


class Outputs(Tap):
    """Keeps the outputs of all heads. kept: by layer and the number of the text `[head, token, head_dim]`."""

    def __init__(self) -> None:
        self.kept: dict[int, dict[int, Array]] = {}

    def output(self, block: Block, output: Array) -> Array:
        self.kept.setdefault(block.layer, {}).update(zip(block.text_numbers, output, strict=True))
        return output


class InputsAndOutputs(Outputs):
    """Also keeps the input of every layer's attention. inputs: by layer `[text, token, hidden_size]`."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: dict[int, Array] = {}

    def output(self, block: Block, output: Array) -> Array:
        self.inputs[block.layer] = block.inputs
        return super().output(block, output)

    def attended(self, layer: int, attention: Any) -> Array:
        """Return the output of a layer's attention for the first text, `[token, hidden_size]`."""
        return attention.output(attention.join_heads(self.kept[layer][0][None]))[0]


class Gates(Tap):
    """Multiplies the outputs of some heads, (layer, head), by a number: 0 silences a head.

    gates: by head one number for all texts, or one per text by the text's number; gradients reach those of tensors.

    Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.3, equation 2.
    """

    def __init__(self, gates: Mapping[tuple[int, int], _Gate]) -> None:
        self.gates = gates

    def output(self, block: Block, output: Array) -> Array:
        if not any((block.layer, number) in self.gates for number in block.numbers):
            return output
        factors = [self.factors((block.layer, number), block.text_numbers, output) for number in block.numbers]
        return output * library(output).stack(factors, 1)[..., None, None]

    def factors(self, head: tuple[int, int], texts: Sequence[int], like: Array) -> Array:
        """Return the factor of a head in each text, `[text]`."""
        gate = self.gates.get(head, 1.0)
        if isinstance(gate, int | float):
            return library(like).full_like(empty((len(texts),), like), gate)
        gate = library(like).as_tensor(gate, dtype=like.dtype, device=like.device)
        return gate.expand(len(texts)) if gate.dim() == 0 else gate[list(texts)]


class LayerProgress(Tap):
    """Calls `tell` with the number of each layer before it is computed. `tell` may raise to end the walk."""

    needs_values = False

    def __init__(self, tell: Callable[[int], None]) -> None:
        self.tell = tell

    def begin(self, block: Block) -> Block:
        self.tell(block.layer)
        return block


def _places_of_pairs(block: Block, heads: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Find the heads of a block that are among these (layer, head): their places in the block, and in `heads`."""
    return [
        (place, heads.index((block.layer, number)))
        for place, number in enumerate(block.numbers)
        if (block.layer, number) in heads
    ]


BLOCK = 2**22  # weights in memory at a time before they are merged


class GroupedMaps(Tap):
    """Keeps the maps of some heads of some layers between the units of each text's axes.

    kept: for each text, by its number in the batch, `[layer, head, unit, unit]`, allocated by `zeros(shape)`. norms:
    keep weights times the norms of the transformed values instead of weights.
    """

    most_weights = BLOCK

    def __init__(
        self,
        axes: Sequence[Axes],
        layers: Sequence[int],
        heads: Sequence[int],
        zeros: _Empty,
        norms: bool = False,
    ) -> None:
        self.axes = axes
        self.layers = list(layers)
        self.heads = list(heads)
        self.norms = norms
        self.needs_values = norms
        self.kept = [widened(zeros((len(layers), len(heads), len(one.queries), len(one.keys)))) for one in axes]
        self.lengths: dict[int, Array] = {}  # by head, [text, token], of the block that is being computed

    def places(self, block: Block) -> Sequence[int]:
        return select_numbers(block, self.heads)[0] if block.layer in self.layers else ()

    def wanted_queries(self, block: Block) -> Sequence[int] | None:
        chosen = [self.axes[text].queries for text in block.text_numbers]
        if any(len(one.places) == one.text_length for one in chosen):
            return None
        start, stop = block.queries.start, block.queries.stop
        return sorted({place - start for one in chosen for place in one.places.tolist() if start <= place < stop})

    def begin(self, block: Block) -> Block:
        if self.norms and (ours := self.places(block)):
            lengths = transformed_lengths(block.only(ours))
            self.lengths = {block.numbers[place]: lengths[:, number] for number, place in enumerate(ours)}
        return block

    def weights(self, part: Block, weights: Array) -> None:
        ours, where = select_numbers(part, self.heads)
        if part.layer not in self.layers or not ours:
            return
        weights = weights[:, ours]
        if self.norms:
            heads = [self.lengths[part.numbers[place]][part.texts, part.keys] for place in ours]
            weights = weights * library(weights).stack(heads, 1)[..., None, :]
        layer = self.layers.index(part.layer)
        for text, of_text in zip(part.text_numbers, widened(weights), strict=True):
            units, key_units, sums = between_units(self.axes[text], part.queries, part.keys, of_text)
            self.kept[text][layer, where, units, key_units] += sums


def query_steps(queries: int, weights: int, most: int | None = None) -> Iterator[slice]:
    """Divide queries with `weights` weights each into slices of at most `most` (BLOCK) weights, at least one query."""
    together = max(1, (BLOCK if most is None else most) // max(weights, 1))
    for start in range(0, queries, together):
        yield slice(start, min(start + together, queries))
