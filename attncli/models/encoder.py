"""Encoder: the network of a checkpoint with its tokenizer, and the vectors that it gives."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from attncli.attention import RotaryScore
from attncli.base import choices
from attncli.models.block import Tap
from attncli.models.config import ModelConfig
from attncli.models.hub import Place
from attncli.models.linear import lay_out
from attncli.models.network import Network, empty_network
from attncli.models.rows import OwnRows, Rows, as_rows, every_text
from attncli.models.walk import Beginning, Ending, walk
from attncli.models.walker import Walker
from attncli.models.weights import Checkpoint, check_shapes, load_parameters
from attncli.record import ModelInfo
from attncli.record.named_heads import heads_list
from attncli.record.parts import Turning
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens

USUAL = "padding"
OFTEN = 8  # walks: laying weights out takes about what so many lose without it (Xeon: 40 ms, and 5 ms each)


class Encoder(Walker):
    """An encoder of the BERT family. Layers are read from the checkpoint when a request first needs them."""

    network: Network

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
    def layers(self) -> int:
        return self.config.layers

    @property
    def heads(self) -> int:
        return self.config.heads

    @property
    def head_dim(self) -> int:
        return self.config.head_dim

    def term_names(self, layer: int) -> Sequence[str]:
        return self.network.layer(layer).score.names

    def term_numbers(self, layer: int, tokens: Tokens) -> int:
        score = self.network.layer(layer).score
        return len(score.names) * (2 * len(tokens) - 1 if score.by_offset else len(tokens) ** 2)

    def turning(self, heads: Sequence[tuple[int, int]], tokens: int) -> Turning | None:
        """In a network all are turned in the same pairs."""
        scores = [self.network.layer(layer).score for layer, _ in heads]
        turned = [score.rotary for score in scores if isinstance(score, RotaryScore)]
        if not turned:
            return None
        pairs, places = turned[0].pairs().numpy(), np.arange(tokens)
        rates = np.zeros((len(heads), len(pairs)))
        for number, score in enumerate(scores):
            if isinstance(score, RotaryScore):
                rates[number] = score.rotary.rates(torch.float64)
        return Turning(rates, pairs, places, places)

    def usual_mask(self, mask: str | None) -> str:
        """An encoder was trained with what hides [PAD]."""
        if mask is None:
            return USUAL
        choices.check("mask", mask, choices.Mask)
        return mask

    def walk(
        self,
        rows: Rows,
        taps: Sequence[Tap] = (),
        ending: Ending | None = None,
        beginning: Beginning | None = None,
    ) -> Iterator[Tensor]:
        """Go through the network (`attncli.models.walk.walk`), of which the layers have been read (`need`).

        Yields x before the first layer and after every one.
        """
        assert isinstance(rows, OwnRows)
        return walk(self.network, rows, taps, ending, beginning)

    def hidden_states(self, tokens: Tokens, mask: str | None = None, positions: bool = True) -> list[Tensor]:
        self.need(self.layers)
        rows = self.rows([tokens], mask, positions)
        with torch.inference_mode():
            return [rows.texts(x)[0] for x in self.walk(rows)]

    def rows(
        self,
        batch: Sequence[Tokens],
        mask: str | None,
        positions: bool = True,
        together: Callable[[int], int] = every_text,
    ) -> OwnRows:
        return as_rows(batch, self.config, self.usual_mask(mask), self.device, positions, together)

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
