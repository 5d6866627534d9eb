"""Outputs of heads on other texts, which replace their outputs on this one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attncli.base.errors import no_notices
from attncli.corpus.usual import lines
from attncli.models.engine import Engine
from attncli.models.rows import batches
from attncli.models.taps import Outputs
from attncli.record.selection import Input
from attncli.text.tokens import Tokens

MOST_TOKENS = 2**14  # more tokens would change a mean by less than texts differ


@dataclass(frozen=True)
class Reference:
    """The outputs of all heads at the real tokens of some texts, `[layer, token, head, head_dim]`."""

    outputs: Tensor

    @cached_property
    def means(self) -> Tensor:
        """The mean over tokens, `[layer, head, head_dim]`."""
        return self.outputs.mean(dim=1)

    def draw(self, count: int, seed: int) -> Tensor:
        """Draw the outputs of some tokens uniformly, `[layer, count, head, head_dim]`."""
        generator = torch.Generator().manual_seed(seed)
        return self.outputs[:, torch.randint(self.outputs.shape[1], (count,), generator=generator)]


def reference(model: Engine, texts: Iterable[Tokens], mask: str | None = None) -> Reference:
    """Run these texts, up to MOST_TOKENS, and keep the outputs of all heads. Raises ValueError without a text."""
    taken: list[Tokens] = []
    for text in texts:
        taken.append(model.with_answer(text))
        if sum(map(len, taken)) >= MOST_TOKENS:
            break
    model.need(model.layers)
    parts = [of_batch(model, [taken[number] for number in some], mask) for some in batches(taken, model.batch_tokens)]
    return Reference(torch.cat(parts, dim=1)[:, :MOST_TOKENS])


def usual_reference(model: Engine, mask: str | None = None) -> Reference:
    """Run the short texts that come with the program."""
    with no_notices():  # that one of these texts was cut is not worth a Notice
        return reference(model, model.tokenize(map(Input, lines()), None), mask)


def of_batch(model: Engine, batch: Sequence[Tokens], mask: str | None) -> Tensor:
    """Run a batch: `[layer, token, head, head_dim]` without [PAD]; 0 in layers without attention."""
    keep = Outputs()
    with torch.inference_mode():
        for _ in model.walk(model.rows(batch, mask), [keep]):
            pass
        real = [[not padding for padding in text.padding] for text in batch]
        made = [keep.kept.get(layer) for layer in range(model.layers)]
        layers = [
            None if kept is None else torch.cat([kept[one].transpose(0, 1)[real[one]] for one in range(len(batch))])
            for kept in made
        ]
        there = next(layer for layer in layers if layer is not None)
        return torch.stack([torch.zeros_like(there) if layer is None else layer for layer in layers])
