"""Walk through a network's layers, in the only loop over them.

    rows of token, segment and position numbers
      │ embeddings
      ▼
      x ──► yielded ──► layer.before ──► query, key, value of every head
      ▲                                     │ run by run (texts of one length)
      │                                     ▼
      └── layer.after ◄── heads joined ◄── meet(block, taps)

Queries meet keys in `attncli.models.block.meet`. Taps (`attncli.models.block.Tap`) read or change its results.

A `Walker` is a network with its tokenizer that can be walked: attncli's own, or one of transformers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from attncli.base.arrays import Array, Ints, empty, library, on_cpu
from attncli.base.errors import RequestError
from attncli.models.block import Block, Tap, meet
from attncli.models.checkpoint_files import Place
from attncli.models.rows import OwnRows, Rows, every_text
from attncli.models.taps import Gates
from attncli.record import ModelInfo
from attncli.record.parts import PredictionSummary, Rotation
from attncli.record.selection import Selection, select
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens

if TYPE_CHECKING:
    from attncli.models.output import AvailableOutputs

CACHED_ROWS = 2048  # with this many rows, the vectors within a layer fit a processor's cache


class Ending(NamedTuple):
    """The end of a walk: these heads of this layer. Nothing else of the layer and no later layer is computed.

    values: True if the values of these heads are needed too.
    """

    layer: int
    heads: Sequence[int]
    values: bool = False


# From the texts' last hidden states to the predictions for their records. Raises RequestError if they are not finite.
Predictor = Callable[[Sequence[Array]], list[PredictionSummary | None]]


class Beginning(NamedTuple):
    """The start of a walk: this layer with the input x `[row, hidden_size]`, as yielded by another walk."""

    layer: int
    x: Array


def walk(
    network: Any,
    rows: OwnRows,
    taps: Sequence[Tap] = (),
    ending: Ending | None = None,
    beginning: Beginning | None = None,
) -> Iterator[Array]:
    """Walk through the network. Yields x `[row, hidden_size]` before the first layer and after every layer.

    network: an `attncli.models.network.Network` in torch, or an `attncli.models.instant.NumpyNetwork` in NumPy.
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
        x = with_zero_rows(x, rows.idle)
        positions = None if positions is None else with_zero_rows(positions, rows.idle)
    yield x
    rotations: dict[Any, Callable[[Array], Array]] = {}  # rotations of positions, by score: layers share them
    for number in range(first, len(network.layers)):
        layer = network.layer(number)
        last = ending if ending is not None and ending.layer == number else None
        inputs = layer.before(x)
        wanted = (None, True) if last is None else (last.heads, last.values)
        query, key, value = layer.project(inputs[None], *wanted)  # [1, head, row, head_dim] each
        if positions is not None:
            if layer.score not in rotations:
                rotations[layer.score] = layer.score.rotation(positions, x.dtype)
            turn = rotations[layer.score]
            query, key = turn(query), turn(key)
            if "value" in layer.score.turned and value.shape[-1]:
                value = turn(value)
        numbers = range(query.shape[1]) if last is None else last.heads
        attended = empty((len(x), len(numbers) * value.shape[-1]), x)
        attended[len(x) - rows.idle :] = 0
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
                projection=layer.output_by_head,
                shared=network.config.heads // network.config.key_heads,
                softcap=layer.score.softcap,
            )
            output = meet(block, taps, network.weigh)  # [text, head, token, head_dim]
            of_run = attended[run.rows].reshape(len(run.texts), run.length, len(numbers), output.shape[-1])
            of_run[...] = output.swapaxes(1, 2)
        if last is not None:
            return
        after = by_rows(layer.after, x, attended)
        if number == 0 and network.neighbours is not None:
            for run in rows.runs:
                of_run = run.tokens(after)
                of_run[...] = network.neighbours(run.tokens(x), of_run, run.shown)
        x = after
        if number == len(network.layers) - 1 and network.final_norm is not None:
            x = network.final_norm(x)
        yield x


def with_zero_rows(rows: Array, idle: int) -> Array:
    """Return the rows followed by `idle` rows of zeros."""
    padded = empty((len(rows) + idle, *rows.shape[1:]), rows)
    padded[: len(rows)], padded[len(rows) :] = rows, 0
    return padded


def terms(score: Any, block: Block) -> dict[str, Array]:
    """Return the terms of a score for a block's positions, by name: each broadcasts to `[text, head, query, key]`."""
    from attncli.attention import Where

    return score.terms(block.query, block.key, Where(block.numbers, block.queries, block.keys))


def by_rows(function: Callable[..., Array], *rows: Array) -> Array:
    """Apply a function that treats each row of `[row, size]` independently.

    On a CPU, apply it to as many rows as fit the cache, so that intermediate results of all rows never exist together.
    """
    some = CACHED_ROWS if on_cpu(rows[0]) else len(rows[0])
    made = [function(*(one[start : start + some] for one in rows)) for start in range(0, len(rows[0]), some)]
    return made[0] if len(made) == 1 else library(made[0]).concatenate(made)


class Walker(ABC):
    """A network with its tokenizer that taps can observe.

    part: the attention whose blocks are offered to taps, as in `AttentionRecord.kind`. layers, heads, head_dim: of that
    attention. resumes: a walk can begin at any layer, not only the first. has_sinks: some heads have a sink score.
    """

    place: Place
    sha256: str
    tokenizer: Tokenizer
    device: Any  # a torch.device, or "cpu"
    dtype: Any  # a torch.dtype, or NumPy's
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

        positions: the network receives the order of the tokens. together: returns, for a length, the most texts in a
        run.
        """

    @abstractmethod
    def walk(
        self, rows: Rows, taps: Sequence[Tap] = (), ending: Ending | None = None, beginning: Beginning | None = None
    ) -> Iterator[Array]:
        """Walk through the network, whose layers have been read (`need`). Yields x `[row, hidden_size]`: first the
        input of the first layer, last the output of the last layer (`Rows.texts`, `Rows.last`). Arguments as for
        `attncli.models.walk.walk`.
        """

    @abstractmethod
    def need(self, layers: int) -> None:
        """Read the embeddings and the first `layers` layers if necessary; with all layers, also what follows them."""

    @abstractmethod
    def find_outputs(self) -> "AvailableOutputs":
        """Find the checkpoint's outputs."""

    @abstractmethod
    def predictor(self, texts: Sequence[Tokens]) -> Predictor | None:
        """Return what predicts these texts; None if the checkpoint's main output has an answer for none of them."""

    @abstractmethod
    def hidden_states(self, tokens: Tokens, mask: str | None = None, positions: bool = True) -> list[Array]:
        """Return the vectors `[token, hidden_size]` of a text after the embeddings and after every layer."""

    @abstractmethod
    def term_names(self, layer: int) -> Sequence[str]:
        """Return the names of the terms that positions or a softcap add to a layer's scores."""

    @abstractmethod
    def term_numbers(self, layer: int, tokens: Tokens) -> int:
        """Return the number of distinct elements in the terms of a head's scores."""

    def rotation(self, heads: Sequence[tuple[int, int]], places: Ints) -> Rotation | None:
        """Return the rotation of the queries and keys of these heads, (layer, head), at these positions, if known."""
        return None

    def select_layers(self, layers: Selection) -> list[int]:
        """Return the selected layers. Raises RequestError for a layer that is missing or has no attention."""
        return select(layers, self.layers, "layer")

    @cached_property
    def available_outputs(self) -> "AvailableOutputs":
        """Return the checkpoint's outputs, found at the first access."""
        return self.find_outputs()

    @property
    def dtype_name(self) -> str:
        return str(self.dtype).removeprefix("torch.")

    @property
    @abstractmethod
    def map_dtype(self) -> Any:
        """Return the dtype of maps."""

    @property
    @abstractmethod
    def batch_tokens(self) -> int:
        """Return the number of tokens in a batch."""

    @abstractmethod
    def array(self, shape: Sequence[int], zeros: bool = False, maps: bool = False) -> Array:
        """Return an array with undefined values, or zeros, in the dtype of the network or of maps."""

    @abstractmethod
    def inference(self) -> AbstractContextManager[Any]:
        """Return a context in which no gradients are recorded."""

    def last_hidden(self, texts: Sequence[Tokens], mask: str | None = None, taps: Sequence[Tap] = ()) -> list[Array]:
        """Return each text's vectors `[token, hidden_size]` after the last layer, from one walk through all texts.

        They have a gradient if anything in the walk does, unless the caller has disabled gradients.
        """
        self.need(self.layers)
        rows = self.rows(texts, mask)
        *_, last = self.walk(rows, taps)
        return rows.last(last)


def too_large(model: Walker, what: str, layer: int, head: int) -> RequestError:
    """Return the error for numbers of a head that are not finite."""
    return RequestError(
        f"layer {layer}, head {head} of {model.place.name} has {what} too large for "
        f"{model.dtype_name}: use another --dtype, or check whether the weights are damaged"
    )
