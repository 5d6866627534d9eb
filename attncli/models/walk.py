"""The one loop over a network's layers, and the one place in it where a head's queries meet its keys.

    rows of token, segment and position numbers
      │ embeddings
      ▼
      x ──► yielded ──► layer.before ──► query, key, value of every head
      ▲                                     │ run by run (texts of one length)
      │                                     ▼
      └── layer.after ◄── heads joined ◄── meet(block, taps)

`attncli.models.meeting.meet` is that place; taps (`attncli.models.block.Tap`) read or change what it computes. Nothing
else walks a network.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.attention import MultiHeadAttention, PositionalScore, Where
from attncli.attention.positional import Turning
from attncli.models.arrays import Array
from attncli.models.block import Block, Tap
from attncli.models.meeting import meet
from attncli.models.network import Network
from attncli.models.rows import OwnRows
from attncli.models.taps import Gates

CACHED_ROWS = 2048  # whose vectors, between the parts of a layer, a processor's cache holds


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
    network: Network,
    rows: OwnRows,
    taps: Sequence[Tap] = (),
    ending: Ending | None = None,
    beginning: Beginning | None = None,
) -> Iterator[Tensor]:
    """Go through the network. Yields x `[row, hidden_size]` before the first layer and after every one.

    taps: read or change each layer's blocks, in their order; heads that the network silences are silenced last.
    With an `ending`, nothing is yielded after that layer; with a `beginning`, its x first. The caller says whether
    gradients are wanted (`torch.inference_mode`).
    """
    if network.silenced:
        taps = [*taps, Gates(dict.fromkeys(network.silenced, 0.0))]
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
        attended = x.new_zeros(len(x), len(numbers) * value.shape[-1])
        for run in rows.runs:
            every = slice(0, run.length)
            block = Block(
                layer=number,
                numbers=numbers,
                run=run,
                texts=slice(0, len(run.texts)),
                queries=every,
                keys=every,
                query=run.heads(query),
                key=run.heads(key),
                value=run.heads(value),
                mask=run.masks[number],
                scale=layer.score.scale(query.shape[-1]),
                positional=partial(terms, layer.score) if run.ordered and layer.score.has_terms else None,
                given=run.tokens(given),
                projection=layer.attention.output_by_head,
            )
            output = meet(block, taps)  # [text, head, token, head_dim]
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


def terms(score: PositionalScore, block: Block) -> dict[str, Array]:
    """Return what a score adds for the positions of a block, by name; each broadcasts to `[text, head, query, key]`."""
    return score.terms(block.query, block.key, Where(block.numbers, block.queries, block.keys))


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
