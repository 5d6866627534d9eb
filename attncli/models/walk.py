"""Walk through a network's layers, in the only loop over them.

    rows of token, segment and position numbers
      │ embeddings
      ▼
      x ──► yielded ──► layer.before ──► query, key, value of every head
      ▲                                     │ run by run (texts of one length)
      │                                     ▼
      └── layer.after ◄── heads joined ◄── meet(block, taps)

Queries meet keys in `attncli.models.meeting.meet`. Taps (`attncli.models.block.Tap`) read or change its results.

A `Walker` is a network with its tokenizer that can be walked: attncli's own, or one of transformers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.attention import MultiHeadAttention, PositionalScore, Where
from attncli.attention.positions import Turning as Turned
from attncli.base.errors import RequestError
from attncli.models.block import Array, Block, Tap
from attncli.models.hub import Place
from attncli.models.meeting import map_dtype, meet
from attncli.models.network import Network
from attncli.models.output import AvailableOutputs
from attncli.models.rows import OwnRows, Rows, every_text
from attncli.models.taps import Gates
from attncli.record import ModelInfo
from attncli.record.parts import Turning
from attncli.record.selection import Selection, select
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens

CACHED_ROWS = 2048  # rows whose vectors within a layer fit a processor's cache


class Ending(NamedTuple):
    """The end of a walk: these heads of this layer. Nothing else of the layer and no later layer is computed.

    values: their values are needed too.
    """

    layer: int
    heads: Sequence[int]
    values: bool = False


class Beginning(NamedTuple):
    """The start of a walk: this layer with the input x `[row, hidden_size]`, as yielded by another walk."""

    layer: int
    x: Tensor


def walk(
    network: Network,
    rows: OwnRows,
    taps: Sequence[Tap] = (),
    ending: Ending | None = None,
    beginning: Beginning | None = None,
) -> Iterator[Tensor]:
    """Walk through the network. Yields x `[row, hidden_size]` before the first layer and after every layer.

    taps: read or change each layer's blocks, in order. The network's silenced heads are silenced last.
    With an `ending`, nothing is yielded after that layer. With a `beginning`, its x is yielded first. The caller
    decides on gradients (`torch.inference_mode`).
    """
    if network.silenced_heads:
        taps = [*taps, Gates(dict.fromkeys(network.silenced_heads, 0.0))]
    first = 0 if beginning is None else beginning.layer
    x = network.embeddings(rows.ids, rows.segments, rows.positions) if beginning is None else beginning.x
    positions = rows.positions
    if rows.idle:
        x = F.pad(x, (0, 0, 0, rows.idle))
        positions = None if positions is None else F.pad(positions, (0, rows.idle))
    yield x
    turnings: dict[PositionalScore, Turned] = {}  # by score, which layers share
    for number in range(first, len(network.layers)):
        layer = network.layer(number)
        last = ending if ending is not None and ending.layer == number else None
        inputs = layer.before(x)
        query, key, value = project(layer.attention, inputs[None], last)  # [1, head, row, head_dim] each
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
                inputs=run.tokens(inputs),
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
    """Return the terms that a score adds for a block's positions, by name. Each broadcasts to `[text, head, query,
    key]`.
    """
    return score.terms(block.query, block.key, Where(block.numbers, block.queries, block.keys))


def by_rows(function: Callable[..., Tensor], *rows: Tensor) -> Tensor:
    """Apply a function that treats each row of `[row, size]` independently.

    On a CPU, apply it to as many rows as fit the cache, so that intermediate results of all rows never exist together.
    """
    some = CACHED_ROWS if rows[0].device.type == "cpu" else len(rows[0])
    made = [function(*part) for part in zip(*(one.split(some) for one in rows), strict=True)]
    return made[0] if len(made) == 1 else torch.cat(made)


def project(attention: MultiHeadAttention, x: Tensor, ending: Ending | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return query, key and value, `[batch, head, token, head_dim]`, of all heads or of those where the walk ends.

    Unneeded values have a width of 0, so that their weighted sum costs nothing.
    """
    if ending is None:
        return attention.project(x)
    parts = [attention.query, attention.key, *([attention.value] if ending.values else [])]
    projected = [_some_heads(attention, part, x, ending.heads) for part in parts]
    query, key = projected[:2]
    return query, key, projected[2] if ending.values else key[..., :0]


def _some_heads(attention: MultiHeadAttention, part: nn.Linear, x: Tensor, heads: Sequence[int]) -> Tensor:
    """Project x for some heads, `[batch, head, token, head_dim]`. Shared projections are computed once.

    For queries, head i has the rows i * head_dim to (i + 1) * head_dim. For keys and values, its key head i does.
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


# Tokens in a batch. On a CPU more are not faster, since the vectors between two layers should fit the cache. With half
# as many, short texts take 7% longer (Xeon, 33 MB of cache).
BATCH_TOKENS = {"cpu": 2048, "cuda": 16384, "mps": 8192}


class Walker(ABC):
    """A network with its tokenizer that taps can observe.

    part: the attention whose blocks are offered to taps, as in `AttentionRecord.kind`. layers, heads, head_dim: of that
    attention. resumes: a walk can begin at any layer, not only the first. has_sinks: some heads have a sink score.
    """

    place: Place
    sha256: str
    tokenizer: Tokenizer
    device: torch.device
    dtype: torch.dtype
    network: Any
    part: str = "encoder"
    resumes = True
    has_sinks = False

    @property
    @abstractmethod
    def layers(self) -> int: ...

    @property
    @abstractmethod
    def heads(self) -> int: ...

    @property
    @abstractmethod
    def head_dim(self) -> int: ...

    @property
    def depth(self) -> int:
        """Return the number of layers between a text and the last vectors."""
        return self.layers

    @property
    @abstractmethod
    def info(self) -> ModelInfo:
        """Return the model's description in records."""

    @property
    @abstractmethod
    def silenced_heads(self) -> list[tuple[int, int]]:
        """Return the heads, (layer, head), whose outputs are 0."""

    @abstractmethod
    def usual_mask(self, mask: str | None) -> str:
        """Return the name of a mask, by default that of the network's training.

        Raises RequestError for an unknown mask.
        """

    @abstractmethod
    def rows(
        self,
        batch: Sequence[Tokens],
        mask: str | None,
        positions: bool = True,
        together: Callable[[int], int] = every_text,
    ) -> Rows:
        """Return a batch of texts. Raises RequestError as `usual_mask` does.

        positions: the network receives the order of the tokens. together: the maximum number of texts in a run, by
        length.
        """

    @abstractmethod
    def walk(
        self,
        rows: Rows,
        taps: Sequence[Tap] = (),
        ending: Ending | None = None,
        beginning: Beginning | None = None,
    ) -> Iterator[Tensor]:
        """Walk through the network. Yields x `[row, hidden_size]`: first the input of the first layer, last the output
        of the last layer (`Rows.texts`, `Rows.last`). Arguments as for `attncli.models.walk.walk`.
        """

    @abstractmethod
    def need(self, layers: int) -> None:
        """Read the embeddings and the first `layers` layers if necessary."""

    @abstractmethod
    def find_outputs(self) -> AvailableOutputs:
        """Find the checkpoint's outputs."""

    @abstractmethod
    def hidden_states(self, tokens: Tokens, mask: str | None = None, positions: bool = True) -> list[Tensor]:
        """Return the vectors `[token, hidden_size]` of a text after the embeddings and after every layer."""

    @abstractmethod
    def term_names(self, layer: int) -> Sequence[str]:
        """Return the names of the terms that positions or a softcap add to a layer's scores."""

    @abstractmethod
    def term_numbers(self, layer: int, tokens: Tokens) -> int:
        """Return the number of distinct elements in the terms of a head's scores."""

    def turning(self, heads: Sequence[tuple[int, int]], tokens: int) -> Turning | None:
        """Return the rotation of the queries and keys of these heads, (layer, head); None if unknown."""
        return None

    def select_layers(self, layers: Selection) -> list[int]:
        """Return the selected layers. Raises RequestError for a layer that is missing or has no attention."""
        return select(layers, self.layers, "layer")

    @cached_property
    def available_outputs(self) -> AvailableOutputs:
        """Return the checkpoint's outputs, found at the first access."""
        return self.find_outputs()

    @property
    def dtype_name(self) -> str:
        return str(self.dtype).removeprefix("torch.")

    @property
    def map_dtype(self) -> torch.dtype:
        """Return the dtype of maps."""
        return map_dtype(torch.empty(0, dtype=self.dtype, device=self.device))

    @property
    def batch_tokens(self) -> int:
        return BATCH_TOKENS.get(self.device.type, BATCH_TOKENS["cpu"])

    def last_hidden(self, texts: Sequence[Tokens], mask: str | None = None, taps: Sequence[Tap] = ()) -> list[Tensor]:
        """Return each text's vectors `[token, hidden_size]` after the last layer, from one walk through all texts.

        They have a gradient if anything in the walk does, unless the caller has disabled gradients.
        """
        self.need(self.layers)
        rows = self.rows(texts, mask)
        *_, last = self.walk(rows, taps)
        return rows.last(last)

    def too_large(self, what: str, layer: int, head: int) -> RequestError:
        return RequestError(
            f"layer {layer}, head {head} of {self.place.name} has {what} too large for "
            f"{self.dtype_name}: use another --dtype, or check whether the weights are damaged"
        )
