"""What can be done to some heads of one text where queries meet keys, and what does it: `Changed`, an `Attend`.

A change says which heads it is of, and makes other outputs of theirs: ones that are put there (`Put`), those of other
weights (`Reweigh`), or those where queries see less (`Hide`). Many changes go through the network side by side, each on
its own copy of a text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from attncli.models.attending import attend_heads
from attncli.models.rows import LayerMask
from attncli.models.walk import Attend, Heads

Head = tuple[int, int]  # (layer, head)
Edge = tuple[int, int]  # (query, key), places in the text
Rule = Callable[[Heads, Tensor], Tensor]


class Change(Protocol):
    """What is done to some heads, (layer, head), of one text."""

    @property
    def heads(self) -> Sequence[Head]: ...

    def __call__(self, heads: Heads, inside: Attend) -> Tensor:
        """The outputs that these heads of a layer get, all its own, on one text: `[1, head, query, head_dim]`.

        inside: what gives them as they are.
        """


@dataclass(frozen=True)
class Put:
    """Puts outputs in place of heads': by head a number, a vector `[head_dim]`, or one a query
    `[query, head_dim]`, of which there may be more than there are queries.
    """

    outputs: Mapping[Head, Tensor | float]

    @property
    def heads(self) -> list[Head]:
        return list(self.outputs)

    def __call__(self, heads: Heads, inside: Attend) -> Tensor:
        made = heads.value.new_empty(*heads.query.shape[:3], heads.value.shape[-1])
        for place, number in enumerate(heads.numbers):
            output = torch.as_tensor(self.outputs[heads.layer, number])
            made[:, place] = output[heads.queries] if output.dim() == 2 else output
        return made


@dataclass(frozen=True)
class Reweigh:
    """Makes other weights of heads' weights: rule(heads, weights) -> weights, `[1, head, query, key]` both."""

    heads: Sequence[Head]
    rule: Rule

    def __call__(self, heads: Heads, inside: Attend) -> Tensor:
        weights = heads.query.new_empty(*heads.query.shape[:3], heads.key.shape[2])
        inside(heads.bare, weights)
        return self.rule(heads, weights) @ heads.value


@dataclass(frozen=True)
class Hide:
    """Hides keys from queries of heads, as a mask does: edges are (query, key). Their scores are -inf, and a row's
    other weights sum to 1 again; where nothing is left the output is 0.
    """

    heads: Sequence[Head]
    edges: Sequence[Edge]

    def __call__(self, heads: Heads, inside: Attend) -> Tensor:
        if not self.edges:
            return inside(heads)
        mask, shown = heads.mask or LayerMask(None, None), ~among(self.edges, heads.run.length, heads.query.device)
        shown = shown if mask.shown is None else shown & mask.shown
        return inside(heads._replace(mask=LayerMask(shown, mask.window)))


def apply(change: Change, heads: Heads, output: Tensor, inside: Attend) -> None:
    """Write what a change makes of some of these heads, on one text, into their outputs."""
    ours = [place for place, number in enumerate(heads.numbers) if (heads.layer, number) in change.heads]
    if len(ours) == len(heads.numbers):  # copying them would take longer than a short text's attention
        output.copy_(change(heads, inside))
    elif ours:
        output[:, ours] = change(heads.only(ours), inside).to(output.dtype)


class Changed:
    """Does to each text of a batch what its change says, by the text's number; nothing to one whose change is None."""

    def __init__(self, changes: Sequence[Change | None], inside: Attend = attend_heads) -> None:
        self.changes = changes
        self.layers = [{layer for layer, _ in change.heads} if change is not None else set() for change in changes]
        self.inside = inside

    def __call__(self, heads: Heads, weights: Tensor | None = None) -> Tensor:
        output = self.inside(heads, weights)
        for place, text in enumerate(heads.run.texts[heads.texts]):
            change = self.changes[text]
            if change is not None and heads.layer in self.layers[text]:
                one = slice(place, place + 1)
                apply(change, heads.some_texts(one), output[one], self.inside)
        return output


def put(heads: Sequence[Head], source: Tensor) -> Put:
    """What a source has of these heads, `[layer, head, head_dim]` or `[layer, token, head, head_dim]`."""
    return Put({(layer, head): source[layer, ..., head, :] for layer, head in heads})


def silence(heads: Sequence[Head]) -> Put:
    """Outputs of 0 (Michel et al. 2019, section 2.3)."""
    return Put(dict.fromkeys(heads, 0.0))


def uniform(heads: Heads, weights: Tensor) -> Tensor:
    """The same weight for everything that a query may attend to."""
    allowed = torch.ones_like(weights, dtype=torch.bool)
    if (mask := heads.allowed()) is not None:
        allowed &= mask
    return allowed.to(weights) / allowed.sum(dim=-1, keepdim=True).clamp(min=1)


def among(edges: Sequence[Edge], length: int, device: torch.device) -> Tensor:
    """Whether an edge of a text is one of these, bool `[1, 1, query, key]`."""
    made = torch.zeros(1, 1, length, length, dtype=torch.bool, device=device)
    queries, keys = zip(*edges, strict=True)
    made[:, :, queries, keys] = True
    return made


@dataclass(frozen=True)
class Without:
    """A rule: no weight along these edges, and the others stay as they are."""

    edges: Sequence[Edge]

    def __call__(self, heads: Heads, weights: Tensor) -> Tensor:
        if not self.edges:
            return weights
        gone = among(self.edges, heads.run.length, weights.device)
        return weights.masked_fill(gone[:, :, heads.queries, heads.keys], 0.0)
