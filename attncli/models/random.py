"""Build a model of a known architecture with random weights, to try code when the published weights are not available.

Its attention means nothing. But two correct implementations return the same numbers.
"""

import math
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attncli.models.aliases import find_alias
from attncli.models.checkpoint_files import CONFIG_FILE, Place
from attncli.models.config import ModelConfig, read_config
from attncli.models.devices import pick_device, pick_dtype
from attncli.models.engine import check_own
from attncli.models.hub import NotOnThisMachine, locate
from attncli.models.model import Model
from attncli.models.network import empty_network
from attncli.models.transformers_peer import Reference, peer, quiet, refusals, tensor_shapes
from attncli.models.weights import Checkpoint, StateDict, plain_name
from attncli.text.tokenizer import CUTTERS, Tokenizer, byte_tokenizer, read_backend

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

_TABLES = ("embeddings.tokens", "embeddings.positions.table", "embeddings.segments", "embeddings.tasks")
_SCORED = (".score.table", ".score.vectors")  # tables that enter the scores directly, not through a sum
_BERT_VOCABULARY = 30522, 0  # size and [PAD] of bert-base-uncased's, shared by minilm, DistilBERT and ELECTRA


def random_model(name: str, device: str = "auto", dtype: str = "float32", seed: int = 0) -> tuple[Model, Reference]:
    """Return the architecture of this name with random weights, in attncli and in transformers.

    Nothing is downloaded or written.

    The name is an alias, or a model whose config.json is on this machine. transformers names the tensors,
    `peaked_tensors` draws them, and our encoder loads them as from a checkpoint. The tokenizer is the architecture's
    own if it is on this machine. Otherwise it is minilm's if the vocabulary is the same, else one token per byte.

    Raises RequestError for an unknown name or an architecture that attncli has no network for.
    """
    chosen, number = pick_device(device), pick_dtype(dtype)
    place, data = architecture(name)
    config = ModelConfig.from_dict(data)
    with quiet(), refusals(f"transformers can't build the architecture of {name}"):
        tensors = peaked_tensors(tensor_shapes(data), config, seed)
        network = peer(data, tensors, "eager")
    model = Model(
        place,
        config,
        random_tokenizer(place, config),
        Checkpoint([StateDict(tensors)], f"the random weights of {name}", config.family.prefixes),
        sha256="",
        device=chosen,
        dtype=number,
    )
    return model, Reference(network, chosen, number)


def architecture(name: str) -> tuple[Place, dict[str, Any]]:
    """Return a model's place and config.json; for an alias that is not on this machine, its known configuration."""
    try:
        place = locate(name, download=False)
    except NotOnThisMachine:
        known = find_alias(name)
        if known is None:
            raise
        alias, entry = known
        return Place(alias, Path(), "random"), entry.config
    path = place.path / CONFIG_FILE
    check_own(place)
    return place, read_config(path)


def random_tokenizer(place: Place, config: ModelConfig) -> Tokenizer:
    """Return a tokenizer. Raises RequestError if the architecture's own tokenizer can't be read."""

    def spare(_: Path) -> "Backend":
        if (config.vocab_size, config.pad_id) == _BERT_VOCABULARY:
            with suppress(NotOnThisMachine):
                backend = read_backend(locate("minilm", download=False).path)
                if backend is not None:
                    return backend
        return byte_tokenizer(config.pad_id)

    sizes = (config.max_tokens, config.vocab_size, config.pad_id)
    if place.origin == "random":  # without files
        return Tokenizer(spare(place.path), *sizes, pads_left=config.causal)
    kind = config.family.tokenizer
    kind = None if kind in CUTTERS else kind
    return Tokenizer.from_directory(place.path, *sizes, last_resort=spare, kind=kind, pads_left=config.causal)


def peaked_tensors(shapes: Mapping[str, torch.Size], config: ModelConfig, seed: int = 0) -> dict[str, Tensor]:
    """Draw weights from normal distributions that reveal mistakes.

    Training starts with a standard deviation of 0.02 and biases of 0. Then every score is near 0 and every map nearly
    uniform, so a mistake in a score or a forgotten bias leaves no trace. Here only the embedding tables are like that.
    A projection W `[out, in]` has a standard deviation of √(`_gain` / in). Biases have 0.1, and LayerNorm's gains are 1
    with the same deviation. Score biases and offset vectors have 1.
    """
    generator = torch.Generator().manual_seed(seed)
    known = spreads(config)

    def draw(name: str, shape: torch.Size) -> Tensor:
        normal = torch.empty(shape).normal_(generator=generator)
        module, _, kind = plain_name(name, config.family.prefixes).rpartition(".")
        if len(shape) == 1:
            return (0.0 if kind.endswith("bias") else 1.0) + 0.1 * normal
        rows = normal.flatten(1)
        spread = known.get(module, torch.tensor([[rows.shape[1] ** -0.5]]))
        for dim in (0, 1):
            spread = spread.repeat_interleave(rows.shape[dim] // spread.shape[dim], dim=dim)
        return rows.mul_(spread).view(shape)

    return {name: draw(name, shape) for name, shape in shapes.items()}


def spreads(config: ModelConfig) -> dict[str, Tensor]:
    """Return the standard deviations of the network's matrices, by module name in a checkpoint: `[1, 1]`.

    For a matrix that combines several of ours, return one for each of them, `[heads * parts, 1]`, or `[1, parts]` if it
    is stored `[in, out]`.
    """
    matrices = {
        name.removesuffix(".weight"): parameter.shape
        for name, parameter in empty_network(config).named_parameters(remove_duplicate=False)
        if parameter.dim() == 2
    }
    sources = {module: config.source(module) for module in matrices}
    sharing = Counter(sources.values())
    of_tables = 0.02 if config.embedding_norm else 0.5  # a norm would scale the sum to 1
    found: dict[str, Tensor] = {}
    for module, source in sources.items():
        variance = _gain(module, config.layers * sharing[source]) / matrices[module][1]
        for there in source.names:
            known = found.setdefault(there, torch.ones(source.heads * source.parts, 1))
            for part in source.taken:
                known[part :: source.parts] = (
                    of_tables if module in _TABLES else 1.0 if module.endswith(_SCORED) else math.sqrt(variance)
                )
    transposed = {name for source in sources.values() if source.transposed for name in source.names}
    return {name: spread.T if name in transposed else spread for name, spread in found.items()}


def _gain(name: str, layers: int) -> float:
    """Return the variance of a projection's output for an input of variance 1.

    Queries and keys: 2, so that scores have a standard deviation of about 2, much as in trained networks. More would
    not be sharper: rounding grows with the scores, and at 4 it approaches float32's tolerance. Projections into the
    residual stream: 1 / (2 layers), as in GPT-2 (Radford et al. 2019, section 2.3). With more, the averaging in each
    layer would make tokens too similar, and in the last layers all keys equal. Layers that share a matrix all add in
    its directions, so there `layers` is squared.
    """
    if name.endswith((".attention.query", ".attention.key", ".own.query", ".own.key")):
        return 2.0
    if name.endswith((".attention.output", ".feed_forward.down")):
        return 1 / (2 * layers)
    return 1.0
