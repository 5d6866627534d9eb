"""The one loop over a network's layers, and the one place in it where a head's queries meet its keys.

    rows of token, segment and position numbers
      │ embeddings
      ▼
      x ──► yielded ──► layer.before ──► query, key, value of every head
      ▲                                     │ run by run (texts of one length)
      │                                     ▼
      └── layer.after ◄── heads joined ◄── attend(Heads)      <- what happens here is handed in

What happens there is an `Attend`: a function of the heads that gives their outputs. The plain one is `attend_heads`;
those of `attncli.models.attending` keep or change something and leave the rest to the one inside them, so that they
compose. Nothing else walks a network.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.attention import MultiHeadAttention, PositionalScore, Where, Window
from attncli.attention.positional import Turning
from attncli.models.network import Network
from attncli.models.rows import LayerMask, Rows, Run

CACHED_ROWS = 2048  # whose vectors, between the parts of a layer, a processor's cache holds


class Heads(NamedTuple):
    """Some heads of a layer on a run of texts, where their queries meet their keys.

    layer; numbers: of the heads along the second axis; run, and which of its texts, of their queries and of their keys
    these are: all, save where something takes some after the other.
    query `[text, head, query, head_dim]`; key and value `[text, head, key, head_dim]`, values of width 0 where nobody
    needs them; mask: what all queries of these texts may attend to, None where nothing is hidden.
    given: what the layer's projections were given, `[text, token, hidden_size]`; attention: the layer's; score: what
    its queries and keys are scored by, beside having been turned already.
    """

    layer: int
    numbers: Sequence[int]
    run: Run
    texts: slice
    queries: slice
    keys: slice
    query: Tensor
    key: Tensor
    value: Tensor
    mask: LayerMask | None
    given: Tensor
    attention: MultiHeadAttention
    score: PositionalScore

    @property
    def scale(self) -> float:
        """What the dot product of a query and a key is multiplied with."""
        return self.score.scale(self.query.shape[-1])

    @property
    def has_terms(self) -> bool:
        """Whether positions add anything to that."""
        return self.run.ordered and self.score.has_terms

    @property
    def window(self) -> Window | None:
        """The layer's own; None where it sees everything."""
        return None if self.mask is None else self.mask.window

    def allowed(self) -> Tensor | None:
        """What these queries may attend to of these keys: bool `[1 or text, 1, 1 or query, key]`; None for all."""
        return None if self.mask is None else self.mask.of(self.queries, self.keys, self.query.device)

    def terms(self) -> dict[str, Tensor]:
        """What they add, by name; each broadcasts to `[text, head, query, key]`."""
        if not self.has_terms:
            return {}
        return self.score.terms(self.query, self.key, Where(self.numbers, self.queries, self.keys))

    def only(self, places: Sequence[int]) -> "Heads":
        """Those at these places of `numbers`."""
        return self._replace(
            numbers=[self.numbers[place] for place in places],
            query=self.query[:, places],
            key=self.key[:, places],
            value=self.value[:, places],
        )

    def some_heads(self, places: slice) -> "Heads":
        """Those at these places of `numbers`, nothing copied."""
        return self._replace(
            numbers=self.numbers[places],
            query=self.query[:, places],
            key=self.key[:, places],
            value=self.value[:, places],
        )

    def some_texts(self, texts: slice) -> "Heads":
        """The same for some of these texts."""
        return self._replace(
            texts=within(self.texts, texts),
            query=self.query[texts],
            key=self.key[texts],
            value=self.value[texts],
            mask=None if self.mask is None else self.mask.some_texts(texts),
            given=self.given[texts],
        )

    def some_queries(self, queries: slice) -> "Heads":
        """The same for some of these queries."""
        return self._replace(queries=within(self.queries, queries), query=self.query[:, :, queries])

    def some_keys(self, keys: slice) -> "Heads":
        """The same for some of these keys."""
        return self._replace(keys=within(self.keys, keys), key=self.key[:, :, keys], value=self.value[:, :, keys])

    @property
    def bare(self) -> "Heads":
        """What makes the weights, and no more: values, and what the projections were given, of width 0."""
        return self._replace(value=self.key[..., :0], given=self.key[:, 0, :, :0])


def within(whole: slice, some: slice) -> slice:
    """Some of what a slice takes, as what it is a slice of counts them."""
    count = whole.stop - whole.start
    start, stop, _ = some.indices(count)
    return slice(whole.start + start, whole.start + stop)


class Attend(Protocol):
    """What happens where queries meet keys."""

    def __call__(self, heads: Heads, weights: Tensor | None = None) -> Tensor:
        """The outputs of these heads, `[text, head, query, head_dim]`.

        weights: room for the heads' weights `[text, head, query, key]`, where whoever calls wants to look at them.
        """


class Ending(NamedTuple):
    """Where a walk ends: at these heads of this layer. Nothing else of the layer is computed, and nothing after it.

    values: whether their values are needed too.
    """

    layer: int
    heads: Sequence[int]
    values: bool = False


class Beginning(NamedTuple):
    """Where a walk begins: with what goes into this layer, x `[row, hidden_size]`, as another walk yielded it."""

    layer: int
    x: Tensor


def walk(
    network: Network, rows: Rows, attend: Attend, ending: Ending | None = None, beginning: Beginning | None = None
) -> Iterator[Tensor]:
    """Go through the network. Yields x `[row, hidden_size]` before the first layer and after every one.

    With an `ending`, not after that layer; with a `beginning`, what goes into that one first. The caller says whether
    gradients are wanted (`torch.inference_mode`).
    """
    first = 0 if beginning is None else beginning.layer
    x = network.embeddings(rows.ids, rows.segments, rows.positions) if beginning is None else beginning.x
    positions = rows.positions
    if rows.idle:
        x = F.pad(x, (0, 0, 0, rows.idle))
        positions = None if positions is None else F.pad(positions, (0, rows.idle))
    yield x
    turnings: dict[PositionalScore, Turning] = {}  # of the scores, which layers share
    for number in range(first, len(network.layers)):
        layer = network.layer(number)
        last = ending if ending is not None and ending.layer == number else None
        given = layer.before(x)
        query, key, value = project(layer.attention, given[None], last)  # [1, head, row, head_dim] each
        if positions is not None:
            if layer.score not in turnings:
                turnings[layer.score] = layer.score.turning(positions, x.dtype)
            turn = turnings[layer.score]
            query, key = turn(query), turn(key)
            if "value" in layer.score.turned and value.shape[-1]:
                value = turn(value)
        numbers = range(layer.attention.heads) if last is None else last.heads
        silent = [place for place, head in enumerate(numbers) if (number, head) in network.silenced]
        attended = x.new_zeros(len(x), len(numbers) * value.shape[-1])
        for run in rows.runs:
            heads = Heads(
                layer=number,
                numbers=numbers,
                run=run,
                texts=slice(0, len(run.texts)),
                queries=slice(0, run.length),
                keys=slice(0, run.length),
                query=run.heads(query),
                key=run.heads(key),
                value=run.heads(value),
                mask=run.masks[number],
                given=run.tokens(given),
                attention=layer.attention,
                score=layer.score,
            )
            output = attend(heads)  # [text, head, token, head_dim]
            if silent:
                output = output.index_fill(1, torch.tensor(silent, device=output.device), 0.0)
            run.tokens(attended).unflatten(-1, (len(numbers), -1)).copy_(output.transpose(1, 2))
        if last is not None:
            return
        after = by_rows(layer.after, x, attended)
        if number == 0 and network.neighbours is not None:
            for run in rows.runs:
                of_run = run.tokens(after)
                of_run.copy_(network.neighbours(run.tokens(x), of_run, run.shown))
        x = after
        if number == len(network.layers) - 1 and network.final_norm is not None:
            x = network.final_norm(x)
        yield x


def by_rows(function: Callable[..., Tensor], *rows: Tensor) -> Tensor:
    """A function of `[row, size]` each that takes every row by itself; on a CPU of so many at once as its cache holds,
    so that what lies in between is not there of all.
    """
    some = CACHED_ROWS if rows[0].device.type == "cpu" else len(rows[0])
    made = [function(*part) for part in zip(*(one.split(some) for one in rows), strict=True)]
    return made[0] if len(made) == 1 else torch.cat(made)


def project(attention: MultiHeadAttention, x: Tensor, ending: Ending | None) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value, `[batch, head, token, head_dim]`, of all heads, or of those that the walk ends at.

    Values that nobody needs have a width of 0: their weighted sum costs nothing.
    """
    if ending is None:
        return attention.project(x)
    parts = [attention.query, attention.key, *([attention.value] if ending.values else [])]
    projected = [some_heads(attention, part, x, ending.heads) for part in parts]
    query, key = projected[:2]
    return query, key, projected[2] if ending.values else key[..., :0]


def some_heads(attention: MultiHeadAttention, part: nn.Linear, x: Tensor, heads: Sequence[int]) -> Tensor:
    """A projection of x for some heads, `[batch, head, token, head_dim]`. Of queries, head i has the rows i * head_dim
    to (i + 1) * head_dim; of keys and values, its key head i has. What heads share is computed once.
    """
    own = list(heads) if part is attention.query else [attention.key_head(head) for head in heads]
    needed = list(dict.fromkeys(own))
    weight = part.weight.unflatten(0, (-1, attention.head_dim))
    if needed == list(range(len(weight))):
        made = part(x)
    else:
        bias = None if part.bias is None else part.bias.unflatten(0, (-1, attention.head_dim))[needed].flatten()
        made = F.linear(x, weight[needed].flatten(0, 1), bias)
    by_head = attention.split_heads(made)
    return by_head if needed == own else by_head[:, [needed.index(one) for one in own]]
