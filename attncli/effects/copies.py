"""One text through a network as it is, and copies of it under changes, many side by side.

A copy goes through the network from the first layer that is changed: what comes before is as it was.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attncli.effects.changes import Change, Changed
from attncli.models.block import Tap
from attncli.models.rows import LayerMask
from attncli.models.tapped import TappedModel
from attncli.models.walk import Beginning
from attncli.text.tokens import Tokens


@dataclass(frozen=True)
class Unchanged:
    """A text as the network has it: what goes into each layer and out of the last, `[token, hidden_size]`.

    Of a network in which no walk begins later, only what goes into the first layer and out of the last. masks: for each
    layer what may be attended to.
    """

    model: TappedModel
    tokens: Tokens
    mask: str
    states: list[Tensor]
    masks: Sequence[LayerMask | None] = ()

    @classmethod
    def of(cls, model: TappedModel, tokens: Tokens, mask: str | None = None, taps: Sequence[Tap] = ()) -> "Unchanged":
        """Raises RequestError for an unknown mask."""
        with torch.inference_mode():
            model.need(model.layers)
            mask, rows = model.usual_mask(mask), model.rows([tokens], mask)
            *states, last = model.walk(rows, taps)
            made = [state[: rows.runs[0].length] for state in states]
            return cls(model, tokens, mask, [*made, *rows.last(last)], rows.runs[0].masks)

    @property
    def last(self) -> Tensor:
        """What comes out of the last layer, `[1, token, hidden_size]`."""
        return self.states[-1][None]

    def copies(self, layer: int, changes: Sequence[Change]) -> Tensor:
        """Copies from this layer on, each under its own change, `[change, token, hidden_size]`."""
        rows = self.model.rows([self.tokens] * len(changes), self.mask)
        x = self.states[layer].repeat(len(changes), 1)
        with torch.inference_mode():
            *_, last = self.model.walk(rows, [Changed(changes)], beginning=Beginning(layer, x))
            return torch.stack(rows.last(last))


def under(
    texts: Sequence[Unchanged], changes: Sequence[Change], others: Sequence[Change] | None = None
) -> Iterator[tuple[list[int], list[Tensor]]]:
    """What comes out of the last layer under each change: the numbers of some changes, and for each text its copies
    `[change, token, hidden_size]`; until all changes were made.

    others: the changes of all texts but the first, to the same heads; by default the same changes. Those that begin at
    the same layer go together, as many as the model takes tokens at once.
    """
    begins: dict[int, list[int]] = defaultdict(list)
    for number, change in enumerate(changes):
        first = min(layer for layer, _ in change.heads)
        begins[first if texts[0].model.resumes else 0].append(number)
    by_text = [changes, *[changes if others is None else others] * (len(texts) - 1)]
    together = max(1, min(text.model.batch_tokens // len(text.tokens) for text in texts))
    for layer, numbers in sorted(begins.items()):
        for start in range(0, len(numbers), together):
            some = numbers[start : start + together]
            made = [[one[number] for number in some] for one in by_text]
            yield some, [text.copies(layer, its) for text, its in zip(texts, made, strict=True)]
