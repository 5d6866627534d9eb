"""Walker: a network with its tokenizer, whose blocks taps are offered; what attncli's own and transformers' share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attncli.base.errors import RequestError
from attncli.models.block import Tap
from attncli.models.hub import Place
from attncli.models.kernels import map_dtype
from attncli.models.output import Found
from attncli.models.rows import Rows, every_text
from attncli.models.walk import Beginning, Ending
from attncli.record import ModelInfo
from attncli.record.parts import Turning
from attncli.record.selection import Selection, select
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens

# Tokens that go through the network together. On a CPU more of them make nothing faster: what lies between two layers
# should fit the cache. With half as many, short texts take 7% longer (Xeon, 33 MB of cache).
BATCH_TOKENS = {"cpu": 2048, "cuda": 16384, "mps": 8192}


class Walker(ABC):
    """A network that can be walked.

    part: the attention whose blocks taps are offered, in the words of `AttentionRecord.kind`. layers, heads, head_dim:
    of that attention. resumes: whether a walk can begin at any layer; else it begins at the first. has_sinks: whether
    any of its heads has a sink score.
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
        """How many layers lie between a text and the last vectors."""
        return self.layers

    @property
    @abstractmethod
    def info(self) -> ModelInfo:
        """The model, as records name it."""

    @property
    @abstractmethod
    def silenced(self) -> list[tuple[int, int]]:
        """The heads, (layer, head), whose outputs are 0."""

    @abstractmethod
    def usual_mask(self, mask: str | None) -> str:
        """Return the name of a mask; None is the one that the network was trained with.

        Raises RequestError for a mask that there is not.
        """

    @abstractmethod
    def rows(
        self,
        batch: Sequence[Tokens],
        mask: str | None,
        positions: bool = True,
        together: Callable[[int], int] = every_text,
    ) -> Rows:
        """Return texts as they go through the network together. Raises RequestError as `usual_mask` does.

        positions: whether the network is told the order of the tokens. together: texts in one run, at most, by length.
        """

    @abstractmethod
    def walk(
        self,
        rows: Rows,
        taps: Sequence[Tap] = (),
        ending: Ending | None = None,
        beginning: Beginning | None = None,
    ) -> Iterator[Tensor]:
        """Go through the network. Yields x `[row, hidden_size]`: first what goes into the first layer, last what comes
        out of the last one (`Rows.texts`, `Rows.last`). Arguments as for `attncli.models.walk.walk`.
        """

    @abstractmethod
    def need(self, layers: int) -> None:
        """Read the embeddings and the first `layers` layers, unless that has happened."""

    @abstractmethod
    def find_outputs(self) -> Found:
        """Find what the checkpoint can say of a text."""

    @abstractmethod
    def hidden_states(self, tokens: Tokens, mask: str | None = None, positions: bool = True) -> list[Tensor]:
        """Return the vectors `[token, hidden_size]` of a text after the embeddings and after every layer."""

    @abstractmethod
    def term_names(self, layer: int) -> Sequence[str]:
        """Return the names of what positions, or a softcap, add to the scores of a layer."""

    @abstractmethod
    def term_numbers(self, layer: int, tokens: Tokens) -> int:
        """Return how many numbers the terms of a head's scores are, each said once."""

    def turning(self, heads: Sequence[tuple[int, int]], tokens: int) -> Turning | None:
        """Return how the queries and keys of these heads, (layer, head), were turned; None if that is not known."""
        return None

    def select_layers(self, layers: Selection) -> list[int]:
        """Return the layers that are meant. Raises RequestError for one that is not there, or has no attention."""
        return select(layers, self.layers, "layer")

    @cached_property
    def found(self) -> Found:
        """The outputs of the checkpoint, found when they are first asked for."""
        return self.find_outputs()

    @property
    def dtype_name(self) -> str:
        return str(self.dtype).removeprefix("torch.")

    @property
    def map_dtype(self) -> torch.dtype:
        """What maps are made in."""
        return map_dtype(torch.empty(0, dtype=self.dtype, device=self.device))

    @property
    def batch_tokens(self) -> int:
        return BATCH_TOKENS.get(self.device.type, BATCH_TOKENS["cpu"])

    def last_hidden(self, texts: Sequence[Tokens], mask: str | None = None, taps: Sequence[Tap] = ()) -> list[Tensor]:
        """Return each text's vectors `[token, hidden_size]` after the last layer, from one walk through all texts.

        They have a gradient unless the caller has switched it off, if anything in the walk has one.
        """
        self.need(self.layers)
        rows = self.rows(texts, mask)
        *_, last = self.walk(rows, taps)
        return rows.last(last)

    def too_large(self, what: str, layer: int, head: int) -> RequestError:
        return RequestError(
            f"layer {layer}, head {head} of {self.place.name} has {what} too large for "
            f"{self.dtype_name}: another --dtype has more room, or the weights are damaged"
        )
