"""Changes to the heads of a text, and copies of the text under them.

A change names its heads, and changes their outputs: it replaces them (`Put`), replaces the weights (`Reweigh`), or
hides keys from queries (`Hide`). The tap `Changed` makes the changes. Many copies of a text go through the network in
one batch, each under its own change. They begin at the first changed layer, since earlier layers do not change.
`HeadOutputs` has the outputs of heads on other texts, for `Put`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

from attncli.base.errors import no_notices
from attncli.corpus.usual import lines
from attncli.models.block import Block, Tap, meet
from attncli.models.engine import Engine
from attncli.models.rows import LayerMask, batches
from attncli.models.taken import RequestTaps, as_record, read_by, select_in
from attncli.models.taps import Outputs
from attncli.models.walk import Beginning
from attncli.models.weighing import weigh
from attncli.record import AttentionRecord, Request
from attncli.record.grouping import axes_of
from attncli.record.selection import Input
from attncli.text.tokens import Tokens

Head = tuple[int, int]  # (layer, head)
_Edge = tuple[int, int]  # (query, key), positions in the text
_Rule = Callable[[Block, Tensor], Tensor]


@dataclass(frozen=True)
class Put:
    """Replaces the outputs of heads by a number, a vector `[head_dim]`, or a vector per query `[query, head_dim]`.

    There may be more vectors than queries.
    """

    outputs: Mapping[Head, Tensor | float]

    @property
    def heads(self) -> Sequence[Head]:
        return list(self.outputs)


@dataclass(frozen=True)
class Reweigh:
    """Replaces the weights of heads: rule(block, weights) -> weights, both `[1, head, query, key]`."""

    heads: Sequence[Head]
    rule: _Rule


@dataclass(frozen=True)
class Hide:
    """Hides keys from queries in some heads, as a mask does. edges: (query, key).

    Their scores are -inf, and the remaining weights of the row are rescaled to sum to 1. A row without keys gives 0.
    """

    heads: Sequence[Head]
    edges: Sequence[_Edge]


Change = Put | Reweigh | Hide
C = TypeVar("C", Put, Reweigh, Hide)


class Changed(Tap):
    """Makes a change to each text of a batch, by the text's number; None leaves a text unchanged."""

    def __init__(self, changes: Sequence[Change | None]) -> None:
        self.changes_weights = any(isinstance(change, Reweigh) for change in changes)
        self.of_layers: dict[int, dict[int, tuple[Change, set[int]]]] = {}  # by layer and text, its change and heads
        for text, change in enumerate(changes):
            if change is None:
                continue
            for layer, head in change.heads:
                self.of_layers.setdefault(layer, {}).setdefault(text, (change, set()))[1].add(head)

    def _changes_in(self, block: Block, kind: type[C]) -> list[tuple[int, C, list[int]]]:
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
        hiding = [one for one in self._changes_in(block, Hide) if one[1].edges]
        if not hiding:
            return block
        shown = torch.ones(*block.query.shape[:2], _queries_of(block), block.run.keys, dtype=torch.bool)
        shown = shown.to(block.query.device)
        for place, change, heads in hiding:
            shown[place, heads] = ~_edge_mask(change.edges, block)[0]
        return block._replace(mask=(block.mask or LayerMask(None, None)).hiding(shown))

    def places(self, block: Block) -> Sequence[int]:
        return sorted({place for _, _, heads in self._changes_in(block, Reweigh) for place in heads})

    def weights(self, part: Block, weights: Tensor) -> Tensor | None:
        changes = self._changes_in(part, Reweigh)
        if not changes:
            return None
        weights = weights.clone()
        for place, change, heads in changes:
            one = part.some_texts(slice(place, place + 1)).only(heads)
            weights[place, heads] = change.rule(one, weights[place : place + 1, heads])[0].to(weights.dtype)
        return weights

    def output(self, block: Block, output: Tensor) -> Tensor:
        for place, change, heads in self._changes_in(block, Put):
            for at in heads:
                put_there = torch.as_tensor(change.outputs[block.layer, block.numbers[at]])
                output[place, at] = put_there[block.queries] if put_there.dim() == 2 else put_there
        return output


def put(heads: Sequence[Head], source: Tensor) -> Put:
    """Replace outputs by those of a source, `[layer, head, head_dim]` or `[layer, token, head, head_dim]`."""
    return Put({(layer, head): source[layer, ..., head, :] for layer, head in heads})


def silence(heads: Sequence[Head]) -> Put:
    """Replace outputs by 0 (Michel et al. 2019, section 2.3)."""
    return Put(dict.fromkeys(heads, 0.0))


def uniform(block: Block, weights: Tensor) -> Tensor:
    """Give all visible keys of a query equal weights; a rule of `Reweigh`."""
    allowed = torch.ones_like(weights, dtype=torch.bool)
    if (mask := block.allowed()) is not None:
        allowed &= mask
    return allowed.to(weights) / allowed.sum(dim=-1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class ZeroEdges:
    """A rule of `Reweigh`: sets the weights of these edges to 0, and leaves the others unchanged."""

    edges: Sequence[_Edge]

    def __call__(self, block: Block, weights: Tensor) -> Tensor:
        if not self.edges:
            return weights
        gone = _edge_mask(self.edges, block)
        return weights.masked_fill(gone[:, :, block.queries, block.keys], 0.0)


def _edge_mask(edges: Sequence[_Edge], block: Block) -> Tensor:
    """Mark these edges of a text, bool `[1, 1, query, key]`, except edges of tokens that are not written yet."""
    made = torch.zeros(1, 1, _queries_of(block), block.run.keys, dtype=torch.bool, device=block.query.device)
    there = [(query, key) for query, key in edges if query < made.shape[2] and key < made.shape[3]]
    if there:
        queries, keys = zip(*there, strict=True)
        made[:, :, queries, keys] = True
    return made


def _queries_of(block: Block) -> int:
    """Return the number of queries of a text up to the block's last one, including cached ones."""
    return max(block.run.length, block.queries.stop)


# --- copies of a text -----------------------------------------------------------------------------------


class SeparateWeights(Tap):
    """Computes the weights of a block for other taps, separately from the outputs of the walk.

    So the outputs are bitwise those of a walk that keeps no weights.
    """

    def __init__(self, taps: Sequence[Tap]) -> None:
        self.taps = taps

    def begin(self, block: Block) -> Block:
        meet(block.bare, self.taps, weigh)
        return block


@dataclass(frozen=True)
class Unchanged:
    """A text in the network without a change.

    states: the input of each layer, and the output of the last, `[token, hidden_size]` each; only the first and the
    last if the network's walk can't begin at a later layer. masks: the visible keys in each layer. record: its maps, if
    they were requested.
    """

    model: Engine
    tokens: Tokens
    mask: str
    states: list[Tensor]
    masks: Sequence[LayerMask | None] = ()
    record: AttentionRecord | None = None

    @classmethod
    def of(
        cls,
        model: Engine,
        tokens: Tokens,
        mask: str | None = None,
        taps: Sequence[Tap] = (),
        request: Request | None = None,
    ) -> "Unchanged":
        """Run a text through the network without a change.

        request: the weights to keep from the same walk (`SeparateWeights`).

        Raises RequestError for an unknown mask, layer or head.
        """
        with torch.inference_mode():
            model.need(model.layers)
            mask, rows = model.usual_mask(mask), model.rows([tokens], mask)
            record = None
            if request is None:
                *states, last = model.walk(rows, taps)
            else:
                axes = [axes_of(request.grouping, tokens.plain, read_by(tokens, model.part))]
                maps = RequestTaps(model, rows, axes, select_in(model, request), norms=False)
                *states, last = model.walk(rows, [*taps, SeparateWeights(maps.taps)])
                record = as_record(model, maps.text_results(rows.runs[0], [None])[0], request)
            made = [state[: rows.runs[0].length] for state in states]
            return cls(model, tokens, mask, [*made, *rows.last(last)], rows.runs[0].masks, record)

    @property
    def last(self) -> Tensor:
        """The output of the last layer, `[1, token, hidden_size]`."""
        return self.states[-1][None]

    def copies(self, layer: int, changes: Sequence[Change]) -> Tensor:
        """Run copies from this layer on, each under its own change, `[change, token, hidden_size]`."""
        rows = self.model.rows([self.tokens] * len(changes), self.mask)
        x = self.states[layer].repeat(len(changes), 1)
        with torch.inference_mode():
            *_, last = self.model.walk(rows, [Changed(changes)], beginning=Beginning(layer, x))
            return torch.stack(rows.last(last))


def run_changes(
    texts: Sequence[Unchanged], changes: Sequence[Change], others: Sequence[Change] | None = None
) -> Iterator[tuple[list[int], list[Tensor]]]:
    """Yield the output of the last layer under each change, batch by batch.

    Each item has the indices of some changes, and for each text its copies `[change, token, hidden_size]`. Changes that
    begin at the same layer share a batch. others: the changes of all texts except the first, to the same heads; by
    default the same changes.
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


# --- outputs on other texts ----------------------------------------------------------------------------

MOST_TOKENS = 2**14  # more tokens would change a mean by less than the difference between texts


@dataclass(frozen=True)
class HeadOutputs:
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


def head_outputs(model: Engine, texts: Iterable[Tokens], mask: str | None = None) -> HeadOutputs:
    """Run these texts, up to MOST_TOKENS, and keep the outputs of all heads. Raises ValueError without a text."""
    taken: list[Tokens] = []
    for text in texts:
        taken.append(model.ready(text, answer=True))
        if sum(map(len, taken)) >= MOST_TOKENS:
            break
    model.need(model.layers)
    parts = [of_batch(model, [taken[number] for number in some], mask) for some in batches(taken, model.batch_tokens)]
    return HeadOutputs(torch.cat(parts, dim=1)[:, :MOST_TOKENS])


def usual_outputs(model: Engine, mask: str | None = None) -> HeadOutputs:
    """Run the short texts that come with the program."""
    with no_notices():  # a cut sample text is not worth a Notice
        return head_outputs(model, model.tokenizer.encode_each(map(Input, lines()), None), mask)


def of_batch(model: Engine, batch: Sequence[Tokens], mask: str | None) -> Tensor:
    """Return the outputs of all heads on a batch, `[layer, token, head, head_dim]` without [PAD]; 0 in layers without
    attention.
    """
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
