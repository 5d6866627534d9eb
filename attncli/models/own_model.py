"""OwnModel: a checkpoint whose network is attncli's own, in torch (`Model`) or NumPy (`Instant`)."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from attncli.base import choices
from attncli.base.arrays import Array, Ints
from attncli.models.block import Tap
from attncli.models.checkpoint_files import Place
from attncli.models.config import TABLE, ModelConfig, values_of
from attncli.models.engine import Engine
from attncli.models.families.family import RotaryPositions, TaskHead
from attncli.models.parts import error_of_one_part
from attncli.models.rows import OwnRows, Rows
from attncli.models.walk import Beginning, Ending, walk
from attncli.models.weights import Checkpoint, check_shapes
from attncli.record import ModelInfo, Request
from attncli.record.parts import Rotation
from attncli.record.selection import heads_list
from attncli.text.tokenizer import Names, Tokenizer
from attncli.text.tokens import Tokens


class OwnModel(Engine):
    """An encoder or a decoder in attncli's own network. It reads layers when a request first needs them.

    surplus: the checkpoint's tensors that the network does not use.
    """

    def __init__(
        self,
        place: Place,
        config: ModelConfig,
        tokenizer: Tokenizer,
        checkpoint: Checkpoint,
        sha256: str,
        network: Any,
    ) -> None:
        self.place = place
        self.config = config
        self.part = config.part
        self.tokenizer = tokenizer
        self.checkpoint = checkpoint
        self.sha256 = sha256
        self.network = network
        self.surplus = check_shapes(checkpoint, network)
        self.needed: Counter[str] = Counter()  # number of uses by module; the first use reads it

    @property
    def silenced_heads(self) -> list[tuple[int, int]]:
        """Return the heads, (layer, head), whose outputs are 0."""
        return self.network.silenced_heads

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(
            name=self.place.name,
            path=str(self.place.path),
            sha256=self.sha256,
            layers=self.config.layers,
            heads=self.config.heads,
            hidden_size=self.config.hidden_size,
            changes=f"without {heads_list(self.silenced_heads)}" if self.silenced_heads else "",
            key_heads=self.config.key_heads if self.config.key_heads < self.config.heads else None,
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

    def rotation(self, heads: Sequence[tuple[int, int]], places: Ints) -> Rotation | None:
        """Return the rotation of these heads at these positions. All heads of a network rotate the same pairs."""
        positions = [self.config.positions[layer] for layer, _ in heads]
        turned = [one for one in positions if isinstance(one, RotaryPositions)]
        if not turned:
            return None
        of_pairs = pairs(turned[0])
        none = np.zeros(len(of_pairs))
        found = np.array([rates(one, np.float64) if isinstance(one, RotaryPositions) else none for one in positions])
        return Rotation(found, of_pairs, places, places)

    def usual_mask(self, mask: str | None) -> str:
        """Return the mask's name, by default the training mask: it hides [PAD], and in a decoder the future."""
        if mask is None:
            return "causal" if self.config.causal else "padding"
        choices.check("mask", mask, choices.MaskName)
        return mask

    def walk(
        self, rows: Rows, taps: Sequence[Tap] = (), ending: Ending | None = None, beginning: Beginning | None = None
    ) -> Iterator[Array]:
        """Walk through the network (`attncli.models.walk.walk`), whose layers have already been read (`need`).

        Yields x before the first layer and after every layer.
        """
        assert isinstance(rows, OwnRows)
        return walk(self.network, rows, taps, ending, beginning)

    @abstractmethod
    def read(self, module: str) -> None:
        """Read one part of the network from the checkpoint: "embeddings", "layers.3"."""

    def need(self, layers: int) -> None:
        """Read the embeddings and the first `layers` layers if necessary. With all layers, also read the modules after
        them.
        """
        for module in self.network.parts_of(layers):
            if not self.needed[module]:
                self.read(module)
            self.needed[module] += 1

    def term_names(self, layer: int) -> Sequence[str]:
        score = self.network.layer(layer).score
        return [*(["softcap"] if score.softcap is not None else []), *score.names]

    def term_numbers(self, layer: int, tokens: Tokens) -> int:
        score, every = self.network.layer(layer).score, len(tokens) ** 2
        bounds = 0 if score.softcap is None else every
        return bounds + len(score.names) * (2 * len(tokens) - 1 if score.by_offset else every)

    def vocabulary(self) -> Sequence[str]:
        """Return the tokens by id; "" for an id without a token."""
        return Names(self.tokenizer.backend, self.config.vocab_size)

    def silencing(self, heads: Sequence[tuple[int, int]]) -> "OwnModel":
        made = copy(self)
        vars(made).pop("available_outputs", None)
        made.network = copy(self.network)
        made.network.silenced_heads = list(heads)
        return made

    def hidden_states(self, tokens: Tokens, mask: str | None = None, positions: bool = True) -> list[Array]:
        self.need(self.layers)
        rows = self.rows([tokens], mask, positions)
        with self.inference():
            return [rows.texts(x)[0] for x in self.walk(rows)]

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.part,)

    def of_part(self, which: str | None) -> "OwnModel":
        if which not in (None, self.part):
            raise error_of_one_part(self, "--which")
        return self

    def check(self, request: Request) -> None:
        for option, value in (("--which", request.which), ("--target", request.target)):
            if value is not None:
                raise error_of_one_part(self, option)
        super().check(request)


# --- rotary positions ------------------------------------------------------------------------------------


def rates(rotary: RotaryPositions, dtype: Any) -> npt.NDArray[Any]:
    """Return the angle between neighbouring positions for each pair, `[rotated / 2]`: base^(-2i / rotated)."""
    pair = np.arange(0, rotary.rotated, 2, dtype=dtype)
    return 1 / dtype(rotary.base) ** (pair / dtype(rotary.rotated)) / np.array(rotary.stretch, dtype)


def pairs(rotary: RotaryPositions) -> Ints:
    """Return the two elements of every pair, int `[rotated / 2, 2]`."""
    elements = np.arange(rotary.rotated)
    return elements.reshape(-1, 2) if rotary.interleaved else elements.reshape(2, -1).T


# --- the heads of a checkpoint ----------------------------------------------------------------------------


def find_heads(model: OwnModel) -> dict[str, TaskHead]:
    """Return the heads for tasks that a checkpoint has, by the names of their outputs: those that its config.json names
    first, then those that its tensors reveal.

    Raises RequestError if config.json states them wrongly.
    """
    data = model.config.stated
    family, values = values_of(data)
    classes = data.get("architectures")
    stated = [one for one in classes if isinstance(one, str)] if isinstance(classes, list) else []
    tables = {f"{name}.weight" for name in model.config.source(TABLE).names}  # which the network has without a head
    named, shown = {}, {}
    for name, head in family.heads(values).items():
        own = {f"{head.scores.name}.weight", f"{head.scores.name}.bias", *(head.scores.biases or ())} - tables
        is_named = any(one.endswith(head.architecture) for one in stated)
        if is_named and not head.alone:
            named[name] = head
        elif head.alone and (is_named or own & model.checkpoint.shapes.keys()):
            shown[name] = head
    return {**named, **shown}
