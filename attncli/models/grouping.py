"""Maps between words, stretches or some of the tokens (`attncli.record.grouping`), made of blocks of queries.

A map of all tokens does not exist at any time. Importing this does not import torch.
"""

from collections.abc import Callable, Iterator, Sequence

from attncli.models.arrays import Array, stack, widened
from attncli.models.block import Block, Tap, chosen
from attncli.models.taps import transformed_lengths
from attncli.record.grouping import Axes, between_units

BLOCK = 2**22  # weights that exist at a time, before they are merged into fewer


class GroupedMaps(Tap):
    """Keeps the maps of some heads of some layers between the units of each text's axes.

    kept: for each text, by its number in the batch, `[layer, head, unit, unit]`, from `zeros(shape)`. norms: weights
    times the lengths of the transformed values instead of weights.
    """

    most_weights = BLOCK

    def __init__(
        self,
        axes: Sequence[Axes],
        layers: Sequence[int],
        heads: Sequence[int],
        zeros: Callable[[Sequence[int]], Array],
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
        return chosen(block, self.heads)[0] if block.layer in self.layers else ()

    def begin(self, block: Block) -> Block:
        if self.norms and (ours := self.places(block)):
            lengths = transformed_lengths(block.only(ours))
            self.lengths = {block.numbers[place]: lengths[:, number] for number, place in enumerate(ours)}
        return block

    def weights(self, part: Block, weights: Array) -> None:
        ours, where = chosen(part, self.heads)
        if part.layer not in self.layers or not ours:
            return
        weights = weights[:, ours]
        if self.norms:
            heads = [self.lengths[part.numbers[place]][part.texts, part.keys] for place in ours]
            weights = weights * stack(heads, axis=1)[..., None, :]
        layer = self.layers.index(part.layer)
        for text, of_text in zip(part.text_numbers, widened(weights), strict=True):
            units, key_units, sums = between_units(self.axes[text], part.queries, part.keys, of_text)
            self.kept[text][layer, where, units, key_units] += sums


def some_of(queries: int, weights: int) -> Iterator[slice]:
    """So many queries of so many weights each, as many together as have BLOCK of them, at least one."""
    together = max(1, BLOCK // weights)
    for start in range(0, queries, together):
        yield slice(start, min(start + together, queries))
