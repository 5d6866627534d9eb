"""Model: attncli's own network of a checkpoint, with its tokenizer."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attncli.attention import MASKS, Window, self_mask
from attncli.attention.masks import no_future, no_padding
from attncli.base.arrays import Bools
from attncli.base.errors import RequestError
from attncli.models.checkpoint_files import CONFIG_FILE, MODULES_FILE, Place
from attncli.models.config import TABLE, ModelConfig
from attncli.models.devices import InTorch, as_tensor
from attncli.models.engine import Engine
from attncli.models.families.family import EACH, FIRST, LAST, LATE, TaskHead, tensors_of
from attncli.models.families.family import MEAN as MEAN_OF_ALL
from attncli.models.network import Network, empty_network, lay_out
from attncli.models.output import CLS, MEAN, AvailableOutputs, Output
from attncli.models.output import LAST as LAST_TOKEN
from attncli.models.outputs import (
    HeadNetwork,
    function_of,
    labels_of,
    places_of,
    sentence_embedding,
    sources_of,
)
from attncli.models.own_model import OwnModel, find_heads
from attncli.models.rows import LayerMask, OwnRows, RowRun, arrange, every_text
from attncli.models.weights import Checkpoint, read_parameters
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens

OFTEN = 8  # walks: packing weights takes as long as this many walks lose without it (Xeon: 40 ms, and 5 ms each)


class Model(OwnModel, InTorch):
    """An encoder or a decoder in torch."""

    name = "attncli"
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
        super().__init__(place, config, tokenizer, checkpoint, sha256, empty_network(config))
        self.device = device
        self.dtype = dtype

    def rows(
        self,
        batch: Sequence[Tokens],
        mask: str | None,
        positions: bool = True,
        together: Callable[[int], int] = every_text,
    ) -> OwnRows:
        return as_rows(batch, self.config, self.usual_mask(mask), self.device, positions, together)

    def rows_after(self, ids: Sequence[int], start: int) -> OwnRows:
        """Return rows of new tokens of a text, which follow `start` others whose keys and values are kept.

        They are under the usual mask. `attncli.models.generation` uses them.
        """
        stop, put = start + len(ids), partial(as_tensor, device=self.device)
        every = torch.ones(1, stop, dtype=torch.bool, device=self.device)
        hidden = layer_masks(every, self.config, self.usual_mask(None)) if len(ids) > 1 else None
        masks = hidden or [None if near is None else LayerMask(None, near) for near in windows_of(self.config, stop)]
        numbers = np.array(ids, np.int64)
        run = RowRun(0, [0], slice(0, len(ids)), len(ids), masks, None, True, stop)
        return OwnRows([run], put(numbers), put(np.zeros_like(numbers)), put(np.arange(start, stop)), 0)

    def read(self, module: str) -> None:
        with torch.inference_mode(False):  # tensors read in inference mode can't have a gradient later
            load_parameters(self.checkpoint, self.network, module, self.dtype, self.device)

    def need(self, layers: int) -> None:
        """Read the first `layers` layers if necessary, and pack those used OFTEN (`attncli.models.network`)."""
        super().need(layers)
        for module in self.network.parts_of(layers):
            if self.needed[module] == OFTEN:
                lay_out(self.network.get_submodule(module))

    @cached_property
    def in_float64(self) -> "Model":
        """Return the model with its weights read again in float64, in which rounding is a billion times smaller."""
        exact = Model(self.place, self.config, self.tokenizer, self.checkpoint, self.sha256, self.device, torch.float64)
        exact.network.silenced_heads = self.silenced_heads
        return exact

    def find_outputs(self) -> AvailableOutputs:
        """Find the heads that config.json names, a sentence embedding, then heads that only tensors reveal."""
        found = AvailableOutputs({}, {})
        if not (self.place.path / CONFIG_FILE).is_file():  # a random architecture without files
            return found
        data = self.config.stated
        try:
            heads = find_heads(self)
        except RequestError as error:
            found.refused["heads"] = str(error)
            heads = {}
        makers: list[tuple[str, Callable[[], Output]]]
        makers = [(name, partial(_head_output, self, head, data)) for name, head in heads.items()]
        if (self.place.path / MODULES_FILE).is_file():
            named = sum(not head.alone for head in heads.values())
            makers.insert(named, ("embedding", partial(sentence_embedding, self)))
        for name, make in makers:
            try:
                found.outputs[name] = make()
            except RequestError as error:
                found.refused[name] = str(error)
        return found


def own_network(model: Engine) -> Model | None:
    """Return the model if attncli runs its network in torch; None if transformers or NumPy runs it."""
    return model if isinstance(model, Model) else None


def as_rows(
    texts: Sequence[Tokens],
    config: ModelConfig,
    mask: str,
    device: torch.device,
    positions: bool = True,
    together: Callable[[int], int] = every_text,
) -> OwnRows:
    """Return the batch of these texts under a mask of MASKS (`attncli.models.rows.arrange`)."""

    put = partial(as_tensor, device=device)

    def masks(real: Bools) -> list[LayerMask | None]:
        return layer_masks(put(real), config, mask)

    return arrange(texts, config, masks, put, no_padding in MASKS[mask], positions, together)


def layer_masks(real: Tensor, config: ModelConfig, name: str) -> list[LayerMask | None]:
    """Return for each layer the mask of this name combined with the layer's window; None if everything is allowed.

    real: False at [PAD], bool `[text, token]`. Layers with the same window share a mask, and so do texts without [PAD].
    """
    length = real.shape[1]
    real = real[:1] if bool(real.all()) else real
    mask = self_mask(real, *(rule for rule in MASKS[name] if rule is not no_future))
    shown = None if bool(mask.all()) else mask
    windows = windows_of(config, length)
    causal = no_future in MASKS[name] and length > 1
    made = {window: LayerMask(shown, window, causal) for window in set(windows)}
    return [None if window is None and shown is None and not causal else made[window] for window in windows]


def windows_of(config: ModelConfig, length: int) -> list[Window | None]:
    """Return the window of each layer; None if it hides nothing in a text of this length."""
    return [None if reach is None or reach >= length - 1 else Window(reach) for reach in config.reach]


def load_parameters(
    checkpoint: Checkpoint, network: Network, module: str, dtype: torch.dtype, device: torch.device
) -> None:
    """Read one part of the network ("embeddings", "layers.3"). Raises RequestError as `read_parameters`."""
    part = network.get_submodule(module)
    names = [name for name, _ in part.named_parameters()]
    read = read_parameters(checkpoint, network.config, module, names, dtype)
    stacked = {name: some[0] if len(some) == 1 else torch.cat(some) for name, some in read.items()}
    part.load_state_dict({name: value.to(device) for name, value in stacked.items()}, assign=True)


# --- the outputs of a checkpoint


_READS = {FIRST: (CLS,), LAST: (LAST_TOKEN,), MEAN_OF_ALL: (MEAN,), LATE: (MEAN,), EACH: ()}


def _head_output(model: Model, head: TaskHead, data: Mapping[str, Any]) -> Output:
    """Return a head's output. Raises RequestError if tensors are missing or misshapen, or labels are missing."""
    config = model.config
    named = None if head.kind in ("words", "next") else list(head.labels or labels_of(data))
    count = config.vocab_size if named is None else len(named)
    with torch.device("meta"):
        network = HeadNetwork(head, config, count)
    places = places_of(head, config, tied=data.get("tie_word_embeddings", True) is True)
    sources = sources_of(network, places, model.checkpoint)
    return Output(
        head.kind,
        _READS[head.reads],
        function_of(data, head, count),
        model.vocabulary if named is None else lambda: named,
        partial(_load_head, model, network, sources),
        late=head.reads == LATE,
    )


def _load_head(model: Model, network: HeadNetwork, sources: Mapping[str, str]) -> nn.Module:
    """Load the parameters of a head. The token table is shared with the network."""
    tables = {f"{name}.weight" for name in model.config.source(TABLE).names}
    read = {}
    for parameter, name in sources.items():
        if name in tables:
            model.need(0)
            read[parameter] = model.network.embeddings.tokens.weight
        else:
            read[parameter] = model.checkpoint.read(name, tensors_of(name), model.dtype).to(model.device)
    network.load_state_dict(read, assign=True)
    return network.requires_grad_(False)
