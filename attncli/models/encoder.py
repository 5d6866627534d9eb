"""Encoder: the network of a checkpoint with its tokenizer, and the vectors that it gives."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.models.block import Tap
from attncli.models.config import ModelConfig
from attncli.models.hub import Place
from attncli.models.kernels import map_dtype
from attncli.models.linear import lay_out
from attncli.models.network import empty_network
from attncli.models.rows import Rows, as_rows
from attncli.models.walk import Beginning, Ending, walk
from attncli.models.weights import Checkpoint, check_shapes, load_parameters
from attncli.record import ModelInfo
from attncli.record.named_heads import heads_list
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens

# Tokens that go through the network together. On a CPU more of them make nothing faster: what lies between two layers
# should fit the cache. With half as many, short texts take 7% longer (Xeon, 33 MB of cache).
BATCH_TOKENS = {"cpu": 2048, "cuda": 16384, "mps": 8192}
OFTEN = 8  # walks: laying weights out takes about what so many lose without it (Xeon: 40 ms, and 5 ms each)


class Encoder:
    """An encoder of the BERT family. Layers are read from the checkpoint when a request first needs them.

    known: what is found out about the checkpoint once and kept, by name.
    """

    def __init__(
        self,
        place: Place,
        config: ModelConfig,
        tokenizer: Tokenizer,
        checkpoint: Checkpoint,
        sha256: str,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.place = place
        self.config = config
        self.tokenizer = tokenizer
        self.checkpoint = checkpoint
        self.sha256 = sha256
        self.device = device
        self.dtype = dtype
        self.network = empty_network(config)
        self.needed: Counter[str] = Counter()  # how often, by module; it is read when it first is
        self.known: dict[str, Any] = {}
        self.surplus = check_shapes(checkpoint, self.network)  # tensors that are not used

    @property
    def silenced(self) -> list[tuple[int, int]]:
        """The heads, (layer, head), whose outputs are 0."""
        return self.network.silenced

    @property
    def info(self) -> ModelInfo:
        """The model, as records name it."""
        return ModelInfo(
            name=self.place.name,
            path=str(self.place.path),
            sha256=self.sha256,
            layers=self.config.layers,
            heads=self.config.heads,
            hidden_size=self.config.hidden_size,
            changes=f"without {heads_list(self.silenced)}" if self.silenced else "",
        )

    @property
    def dtype_name(self) -> str:
        return str(self.dtype).removeprefix("torch.")

    @property
    def map_dtype(self) -> torch.dtype:
        """What maps are made in."""
        return map_dtype(torch.empty(0, dtype=self.dtype, device=self.device))

    def walk(
        self,
        rows: Rows,
        taps: Sequence[Tap] = (),
        ending: Ending | None = None,
        beginning: Beginning | None = None,
    ) -> Iterator[Tensor]:
        """Go through the network (`attncli.models.walk.walk`), of which the layers have been read (`need`)."""
        return walk(self.network, rows, taps, ending, beginning)

    def hidden_states(self, tokens: Tokens, mask: str = "padding", positions: bool = True) -> list[Tensor]:
        """Return the vectors `[token, hidden_size]` of a text after the embeddings and after every layer."""
        with torch.inference_mode():
            return [state for [state] in self.states([tokens], mask, positions=positions)]

    def last_hidden(self, texts: Sequence[Tokens], mask: str = "padding", taps: Sequence[Tap] = ()) -> list[Tensor]:
        """Return each text's vectors `[token, hidden_size]` after the last layer, from one walk through all texts.

        They have a gradient unless the caller has switched it off, if anything in the walk has one.
        """
        for states in self.states(texts, mask, taps):
            last = states
        return last

    def states(
        self, texts: Sequence[Tokens], mask: str, taps: Sequence[Tap] = (), positions: bool = True
    ) -> Iterator[list[Tensor]]:
        """Yield each text's vectors after the embeddings and after every layer."""
        self.need(self.config.layers)
        rows = self.rows(texts, mask, positions)
        for x in self.walk(rows, taps):
            yield rows.texts(x)

    def rows(self, batch: Sequence[Tokens], mask: str, positions: bool = True) -> Rows:
        """Raises RequestError for an unknown mask."""
        choices.check("mask", mask, choices.Mask)
        return as_rows(batch, self.config, mask, self.device, positions)

    @property
    def batch_tokens(self) -> int:
        return BATCH_TOKENS.get(self.device.type, BATCH_TOKENS["cpu"])

    def too_large(self, what: str, layer: int, head: int) -> RequestError:
        return RequestError(
            f"layer {layer}, head {head} of {self.place.name} has {what} too large for "
            f"{self.dtype_name}: another --dtype has more room, or the weights are damaged"
        )

    def need(self, layers: int) -> None:
        """Read the embeddings and the first `layers` layers, unless that has happened; with all, what follows them.

        What is needed OFTEN is laid out then (`attncli.models.linear`).
        """
        for module in self.network.parts_of(layers):
            if not self.needed[module]:
                with torch.inference_mode(False):  # what is read in inference mode could have no gradient later
                    load_parameters(self.checkpoint, self.network, module, self.dtype, self.device)
            self.needed[module] += 1
            if self.needed[module] == OFTEN:
                lay_out(self.network.get_submodule(module))
