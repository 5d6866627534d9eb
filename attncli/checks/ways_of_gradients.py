"""The gradients that `ablate` and `trust` go by, beside transformers (see `attncli.checks.ways`)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.checks.agreement import difference, worst
from attncli.checks.beside import Both, NothingToCompare
from attncli.checks.passes import is_half
from attncli.effects.change import Unchanged
from attncli.effects.gradients import gate_gradients, slopes
from attncli.effects.question import Left, Question
from attncli.models.transformers_peer import Reference
from attncli.text.tokens import Tokens


class Gradients(NamedTuple):
    """The vectors `[token, hidden_size]` before the first layer, every layer's weights `[layer, head, query, key]`, and
    the gradients of a number with respect to both.
    """

    first: Tensor
    of_first: Tensor
    weights: Tensor
    of_weights: Tensor


def their_gradients(reference: Reference, tokens: Tokens, mask: str, number: Callable[[Tensor], Tensor]) -> Gradients:
    """Differentiate a number of transformers' last vectors `[1, token, hidden_size]` of one text."""
    with torch.enable_grad():
        made = reference.made_of(tokens, mask)
        first, *_, last = made.hidden_states
        of_first, *of_weights = torch.autograd.grad(number(last), [first, *made.attentions])
    return Gradients(first[0].detach(), of_first[0], torch.cat(made.attentions).detach(), torch.cat(of_weights))


class Along(Question):
    """The last vectors of a text along a direction that was drawn, summed over the tokens that count."""

    kind, about = "distance", "the last vectors along a direction"

    def __init__(self, text: Unchanged, rows: Sequence[int]) -> None:
        super().__init__([text])
        drawn = torch.randn(text.last[0].shape, generator=torch.Generator().manual_seed(0))
        self.rows = rows
        self.direction = torch.zeros_like(drawn).index_copy(0, torch.tensor(rows), drawn[rows]).to(text.last.device)

    @property
    def reads(self) -> Sequence[int]:
        return self.rows

    def __call__(self, last: Sequence[Tensor]) -> Tensor:
        return (last[0] * self.direction.to(last[0].dtype)).sum(dim=(1, 2))

    def of_left(self, left: Sequence[Left]) -> Tensor:
        raise NotImplementedError


def gradients(both: Both) -> float:
    """Of a number of the last vectors, as shares of the largest: by gates of heads, by what goes into the first layer,
    and the relevance that the gradients by all weights make. Of a text with [PAD] under the causal mask.
    """
    if len(both.layers) < both.model.config.layers:
        raise NothingToCompare("gradients go through all layers, and some are not compared")
    if is_half(both.model.dtype):
        raise NothingToCompare(f"gradients in {both.model.dtype_name} are mostly rounding")
    text = Unchanged.of(both.model, both.model.tokenizer.pad_some(both.plain[0]), "causal")
    asked = Along(text, both.rows(text.tokens))
    theirs = their_gradients(both.reference, text.tokens, text.mask, lambda last: asked([last])[0])
    weighted = theirs.weights.double() * theirs.of_weights.double()
    expected = torch.eye(len(text.tokens), dtype=torch.float64, device=weighted.device)
    for layer in weighted:
        expected = expected + layer.clamp(min=0).mean(dim=0) @ expected
    ours = slopes(asked)
    return worst(
        difference(made, wanted) / (float(wanted.abs().max()) or 1.0)
        for made, wanted in (
            (gate_gradients(asked), weighted.sum(dim=(-2, -1))),
            (torch.from_numpy(ours.inputs), (theirs.of_first.double() * theirs.first.double()).sum(dim=-1)),
            (torch.from_numpy(ours.relevance), expected),
        )
    )
