"""What can be done to some heads of one text where queries meet keys, and the tap that does it: `Changed`.

A change says which heads it is of, and makes other outputs of theirs: ones that are put there (`Put`), those of other
weights (`Reweigh`), or those where queries see less (`Hide`). Many changes go through the network side by side, each on
its own copy of a text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from attncli.models.block import Block, Tap
from attncli.models.rows import LayerMask

Head = tuple[int, int]  # (layer, head)
Edge = tuple[int, int]  # (query, key), places in the text
Rule = Callable[[Block, Tensor], Tensor]


@dataclass(frozen=True)
class Put:
    """Puts outputs in place of heads': by head a number, a vector `[head_dim]`, or one per query `[query, head_dim]`.

    There may be more of these than there are queries.
    """

    outputs: Mapping[Head, Tensor | float]

    @property
    def heads(self) -> Sequence[Head]:
        return list(self.outputs)


@dataclass(frozen=True)
class Reweigh:
    """Makes other weights of heads' weights: rule(block, weights) -> weights, `[1, head, query, key]` both."""

    heads: Sequence[Head]
    rule: Rule


@dataclass(frozen=True)
class Hide:
    """Hides keys from queries of heads, as a mask does: edges are (query, key). Their scores are -inf, and a row's
    other weights sum to 1 again; where nothing is left the output is 0.
    """

    heads: Sequence[Head]
    edges: Sequence[Edge]


Change = Put | Reweigh | Hide
C = TypeVar("C", Put, Reweigh, Hide)


class Changed(Tap):
    """Does to each text of a batch what its change says, by the text's number; nothing to one whose change is None."""

    def __init__(self, changes: Sequence[Change | None]) -> None:
        self.changes_weights = any(isinstance(change, Reweigh) for change in changes)
        self.of_layers: dict[int, dict[int, tuple[Change, set[int]]]] = {}  # by layer and text, its change and heads
        for text, change in enumerate(changes):
            if change is None:
                continue
            for layer, head in change.heads:
                self.of_layers.setdefault(layer, {}).setdefault(text, (change, set()))[1].add(head)

    def found(self, block: Block, kind: type[C]) -> list[tuple[int, C, list[int]]]:
        """Find the changes of a kind in a block: the place of the text, the change, and the places of its heads."""
        of_layer, found = self.of_layers.get(block.layer, {}), []
        for place, text in enumerate(block.text_numbers) if of_layer else ():
            change, numbers = of_layer.get(text, (None, set[int]()))
            if isinstance(change, kind):
                heads = [at for at, number in enumerate(block.numbers) if number in numbers]
                if heads:
                    found.append((place, change, heads))
        return found

    def begin(self, block: Block) -> Block:
        hiding = [one for one in self.found(block, Hide) if one[1].edges]
        if not hiding:
            return block
        shown = torch.ones(*block.query.shape[:2], block.run.length, block.run.keys, dtype=torch.bool)
        shown = shown.to(block.query.device)
        for place, change, heads in hiding:
            shown[place, heads] = ~among(change.edges, block)[0]
        mask = block.mask or LayerMask(None, None)
        return block._replace(mask=LayerMask(shown if mask.shown is None else shown & mask.shown, mask.window))

    def places(self, block: Block) -> Sequence[int]:
        return sorted({place for _, _, heads in self.found(block, Reweigh) for place in heads})

    def weights(self, part: Block, weights: Tensor) -> Tensor | None:
        changes = self.found(part, Reweigh)
        if not changes:
            return None
        weights = weights.clone()
        for place, change, heads in changes:
            one = part.some_texts(slice(place, place + 1)).only(heads)
            weights[place, heads] = change.rule(one, weights[place : place + 1, heads])[0].to(weights.dtype)
        return weights

    def output(self, block: Block, output: Tensor) -> Tensor:
        for place, change, heads in self.found(block, Put):
            for at in heads:
                put_there = torch.as_tensor(change.outputs[block.layer, block.numbers[at]])
                output[place, at] = put_there[block.queries] if put_there.dim() == 2 else put_there
        return output


def put(heads: Sequence[Head], source: Tensor) -> Put:
    """What a source has of these heads, `[layer, head, head_dim]` or `[layer, token, head, head_dim]`."""
    return Put({(layer, head): source[layer, ..., head, :] for layer, head in heads})


def silence(heads: Sequence[Head]) -> Put:
    """Outputs of 0 (Michel et al. 2019, section 2.3)."""
    return Put(dict.fromkeys(heads, 0.0))


def uniform(block: Block, weights: Tensor) -> Tensor:
    """The same weight for everything that a query may attend to."""
    allowed = torch.ones_like(weights, dtype=torch.bool)
    if (mask := block.allowed()) is not None:
        allowed &= mask
    return allowed.to(weights) / allowed.sum(dim=-1, keepdim=True).clamp(min=1)


def among(edges: Sequence[Edge], block: Block) -> Tensor:
    """Whether an edge of a text is one of these, bool `[1, 1, query, key]`."""
    made = torch.zeros(1, 1, block.run.length, block.run.keys, dtype=torch.bool, device=block.query.device)
    queries, keys = zip(*edges, strict=True)
    made[:, :, queries, keys] = True
    return made


@dataclass(frozen=True)
class Without:
    """A rule: no weight along these edges, and the others stay as they are."""

    edges: Sequence[Edge]

    def __call__(self, block: Block, weights: Tensor) -> Tensor:
        if not self.edges:
            return weights
        gone = among(self.edges, block)
        return weights.masked_fill(gone[:, :, block.queries, block.keys], 0.0)
