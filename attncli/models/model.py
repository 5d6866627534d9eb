"""Model: attncli's own network of a checkpoint, with its tokenizer."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attncli.attention import RotaryScore
from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.models.block import Tap
from attncli.models.config import ModelConfig, read_config, values_of
from attncli.models.engine import Engine, check_model, refuse_theirs
from attncli.models.families.family import EACH, FIRST, LATE, Head, whole
from attncli.models.families.family import MEAN as MEAN_OF_ALL
from attncli.models.hub import CONFIG_FILE, MODULES_FILE, Place
from attncli.models.network import Network, empty_network, lay_out
from attncli.models.output import CLS, MEAN, AvailableOutputs, Output
from attncli.models.outputs import (
    TABLE,
    HeadNetwork,
    empty_head,
    function_of,
    labels_of,
    places_of,
    sentence_embedding,
    sources_of,
)
from attncli.models.rows import OwnRows, Rows, as_rows, every_text
from attncli.models.walk import Beginning, Ending, walk
from attncli.models.weights import Checkpoint, check_shapes, load_parameters
from attncli.record import ModelInfo, Request
from attncli.record.parts import Turning
from attncli.record.selection import heads_list
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens

_USUAL = "padding"
OFTEN = 8  # walks: packing weights takes as long as this many walks lose without it (Xeon: 40 ms, and 5 ms each)


class Model(Engine):
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
        self.needed: Counter[str] = Counter()  # number of uses by module; the first use reads it
        self.surplus = check_shapes(checkpoint, self.network)  # unused tensors

    @property
    def silenced_heads(self) -> list[tuple[int, int]]:
        """Return the heads, (layer, head), whose outputs are 0."""
        return self.network.silenced_heads

    def info_of(self, which: str | None) -> ModelInfo:
        return ModelInfo(
            name=self.place.name,
            path=str(self.place.path),
            sha256=self.sha256,
            layers=self.config.layers,
            heads=self.config.heads,
            hidden_size=self.config.hidden_size,
            changes=f"without {heads_list(self.silenced_heads)}" if self.silenced_heads else "",
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
        """Return the rotation of these heads. All heads of a network rotate the same pairs."""
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
        """Return the mask's name, by default the encoder's training mask, which hides [PAD]."""
        if mask is None:
            return _USUAL
        choices.check("mask", mask, choices.Mask)
        return mask

    def walk(
        self,
        rows: Rows,
        taps: Sequence[Tap] = (),
        ending: Ending | None = None,
        beginning: Beginning | None = None,
    ) -> Iterator[Tensor]:
        """Walk through the network (`attncli.models.walk.walk`), whose layers have already been read (`need`).

        Yields x before the first layer and after every layer.
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
        """Read the embeddings and the first `layers` layers if necessary. With all layers, also read the modules after
        them.

        Modules that are used OFTEN are packed then (`attncli.models.network`).
        """
        for module in self.network.parts_of(layers):
            if not self.needed[module]:
                with torch.inference_mode(False):  # tensors read in inference mode can't have a gradient later
                    load_parameters(self.checkpoint, self.network, module, self.dtype, self.device)
            self.needed[module] += 1
            if self.needed[module] == OFTEN:
                lay_out(self.network.get_submodule(module))

    # --- requests

    name = "attncli"

    @property
    def parts(self) -> tuple[str, ...]:
        return ("encoder",)

    def of_part(self, which: str | None) -> "Model":
        if which not in (None, "encoder"):
            raise RequestError(f"--which is for encoder-decoders, but {self.place.name} is an encoder: omit it")
        return self

    def silencing(self, heads: Sequence[tuple[int, int]]) -> "Model":
        made = copy(self)
        vars(made).pop("available_outputs", None)
        made.network = copy(self.network)
        made.network.silenced_heads = list(heads)
        return made

    def find_outputs(self) -> AvailableOutputs:
        return find_outputs(self)

    def check(self, request: Request) -> None:
        for option, value in (("--which", request.which), ("--target", request.target)):
            if value is not None:
                raise RequestError(f"{option} is for encoder-decoders, but {self.place.name} is an encoder: omit it")
        super().check(request)


def require_own(model: object) -> Model:
    """Return a model for code that inspects the parameters of attncli's own network.

    Raises RequestError if transformers runs it, and TypeError for anything but a model.
    """
    if isinstance(model, Model):
        return model
    check_model(model)
    assert isinstance(model, Engine)
    raise refuse_theirs(model.place)


# --- the outputs of a checkpoint


_READS = {FIRST: (CLS,), MEAN_OF_ALL: (MEAN,), LATE: (MEAN,), EACH: ()}


def find_outputs(model: Model) -> AvailableOutputs:
    """Find the heads that config.json names, a sentence embedding, then heads that only tensors reveal."""
    found = AvailableOutputs({}, {})
    if not (model.place.path / CONFIG_FILE).is_file():  # a random architecture without files
        return found
    data = read_config(model.place.path / CONFIG_FILE)
    try:
        family, values = values_of(data)
        heads = family.heads(values)
    except RequestError as error:
        found.refused["heads"] = str(error)
        heads = {}
    for name, head in heads.items():
        if not head.alone and _is_named(head, data):
            _add_output(found, name, partial(_head_output, model, head, data))
    if (model.place.path / MODULES_FILE).is_file():
        _add_output(found, "embedding", partial(sentence_embedding, model))
    for name, head in heads.items():
        if head.alone and (_is_named(head, data) or _has_own_scores(head, model)):
            _add_output(found, name, partial(_head_output, model, head, data))
    return found


def _add_output(found: AvailableOutputs, name: str, make: Callable[[], Output]) -> None:
    """Add an output, or the reason why it is missing."""
    try:
        found.outputs[name] = make()
    except RequestError as error:
        found.refused[name] = str(error)


def _is_named(head: Head, data: Mapping[str, Any]) -> bool:
    """Return True if config.json says that the checkpoint is for this task."""
    classes = data.get("architectures")
    named = [one for one in classes if isinstance(one, str)] if isinstance(classes, list) else []
    return any(name.endswith(head.architecture) for name in named)


def _has_own_scores(head: Head, model: Model) -> bool:
    """Return True if the checkpoint has a tensor that only such a head has."""
    own = (f"{head.scores.name}.weight", f"{head.scores.name}.bias", *(head.scores.biases or ()))
    tables = {f"{name}.weight" for name in model.config.source(TABLE).names}
    return any(name in model.checkpoint.shapes and name not in tables for name in own)


def _head_output(model: Model, head: Head, data: Mapping[str, Any]) -> Output:
    """Return a head's output. Raises RequestError if tensors are missing or misshapen, or config.json lacks their
    labels.
    """
    config = model.config
    named = None if head.kind == "words" else list(head.labels or labels_of(data))
    count = config.vocab_size if named is None else len(named)
    network = empty_head(head, config, count)
    places = places_of(head, config, tied=data.get("tie_word_embeddings", True) is True)
    sources = sources_of(network, places, model.checkpoint)
    return Output(
        head.kind,
        _READS[head.reads],
        function_of(data, head, count),
        partial(vocabulary, model) if named is None else lambda: named,
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
            read[parameter] = model.checkpoint.read(name, whole(name), model.dtype).to(model.device)
    network.load_state_dict(read, assign=True)
    return network.requires_grad_(False)


def vocabulary(model: Model) -> list[str]:
    """Return the tokens by id; "" for an id without a token."""
    names = {number: token for token, number in model.tokenizer.backend.get_vocab().items()}
    return [names.get(number, "") for number in range(model.config.vocab_size)]
