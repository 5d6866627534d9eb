"""A model of a known architecture with random weights: to try code on, when the published weights are out of reach.

Its attention means nothing. What two programs make of it is the same if they are the same program.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attncli.models.aliases import find_alias
from attncli.models.config import ModelConfig, read_config
from attncli.models.engine import needing_own, pick_device, pick_dtype
from attncli.models.hub import CONFIG_FILE, NotOnThisMachine, Place, locate
from attncli.models.model import Model
from attncli.models.network import empty_network
from attncli.models.transformers_peer import Reference, peer, quiet, refusals, tensor_shapes
from attncli.models.weights import Checkpoint, StateDict, plain_name
from attncli.text.tokenizer import Tokenizer, byte_tokenizer, read_backend

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

TABLES = ("embeddings.tokens", "embeddings.positions.table", "embeddings.segments", "embeddings.tasks")
SCORED = (".score.table", ".score.vectors")  # tables that reach the scores without a sum that would make them large
BERT_VOCABULARY = 30522, 0  # the size, and [PAD], of bert-base-uncased's, which minilm, DistilBERT and ELECTRA share


def random_model(name: str, device: str = "auto", dtype: str = "float32", seed: int = 0) -> tuple[Model, Reference]:
    """The architecture of this name (an alias, or what has a config.json on this machine) with random weights,
    here and in transformers. Nothing is fetched and nothing is written.

    transformers names the tensors, `peaked_tensors` draws them, and they reach our encoder as those of a
    checkpoint do. The tokenizer is the architecture's own where it is on this machine, else minilm's where the
    vocabulary is the same, else one token a byte.

    Raises RequestError for a name that means nothing or an architecture that is not of the BERT family.
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
        Checkpoint([StateDict(tensors)], f"the random weights of {name}"),
        sha256="",
        device=chosen,
        dtype=number,
    )
    return model, Reference(network, chosen, number)


def write_random_checkpoint(name: str, directory: Path, changes: Mapping[str, Any] | None = None) -> Path:
    """A directory with the files of `random_model`'s checkpoint (seed 0); `changes` are of its config.json.

    Raises RequestError as `random_model` does.
    """
    from safetensors.torch import save_file

    place, data = architecture(name)
    data = {**data, **(changes or {})}
    config = ModelConfig.from_dict(data)
    tensors = peaked_tensors(tensor_shapes(data), config)
    directory.mkdir(parents=True)
    (directory / CONFIG_FILE).write_text(json.dumps(data), encoding="utf-8")
    save_file(tensors, str(directory / "model.safetensors"))
    random_tokenizer(place, config).backend.save(str(directory / "tokenizer.json"))
    return directory


def architecture(name: str) -> tuple[Place, dict[str, Any]]:
    """What the config.json of a model says; for an alias that is not on this machine, what is known of it."""
    try:
        place = locate(name, download=False)
    except NotOnThisMachine:
        known = find_alias(name)
        if known is None:
            raise
        alias, entry = known
        return Place(alias, Path(), "random"), entry.config
    path = place.path / CONFIG_FILE
    with needing_own(name):
        ModelConfig.from_file(path)  # says what is wrong with it, by its name
    return place, read_config(path)


def random_tokenizer(place: Place, config: ModelConfig) -> Tokenizer:
    """Raises RequestError when the architecture has a tokenizer of its own that can't be read."""

    def spare(_: Path) -> "Backend":
        if (config.vocab_size, config.pad_id) == BERT_VOCABULARY:
            with suppress(NotOnThisMachine):
                backend = read_backend(locate("minilm", download=False).path)
                if backend is not None:
                    return backend
        return byte_tokenizer(config.pad_id)

    sizes = (config.max_tokens, config.vocab_size, config.pad_id)
    if place.origin == "random":  # there are no files
        return Tokenizer(spare(place.path), *sizes)
    return Tokenizer.from_directory(place.path, *sizes, last_resort=spare)


def peaked_tensors(shapes: Mapping[str, torch.Size], config: ModelConfig, seed: int = 0) -> dict[str, Tensor]:
    """Weights on which a mistake shows, drawn from normal distributions.

    Networks begin their training with a standard deviation of 0.02 and biases of 0: every score is near 0, every
    map nearly uniform, and a mistake in a score or a forgotten bias leaves no trace. Here only the tables of
    embeddings are like that. A projection W `[out, in]` has a standard deviation of √(`gain` / in); biases have
    one of 0.1, and LayerNorm's gains are that far from 1. Biases of scores and vectors of offsets have one of 1.
    """
    generator = torch.Generator().manual_seed(seed)
    known = spreads(config)

    def draw(name: str, shape: torch.Size) -> Tensor:
        normal = torch.empty(shape).normal_(generator=generator)
        module, _, kind = plain_name(name).rpartition(".")
        if len(shape) == 1:
            return (0.0 if kind.endswith("bias") else 1.0) + 0.1 * normal
        rows = normal.flatten(1)
        spread = known.get(module, torch.tensor([[rows.shape[1] ** -0.5]]))
        return rows.mul_(spread.repeat_interleave(shape[0] // len(spread), dim=0)).view(shape)

    return {name: draw(name, shape) for name, shape in shapes.items()}


def spreads(config: ModelConfig) -> dict[str, Tensor]:
    """Of the encoder's matrices, by the name of their module in a checkpoint, the standard deviation: `[1, 1]`; of one
    that holds several of ours under each other, of each of them, `[heads * parts, 1]`.
    """
    matrices = {
        name.removesuffix(".weight"): parameter.shape
        for name, parameter in empty_network(config).named_parameters(remove_duplicate=False)
        if parameter.dim() == 2
    }
    sources = {module: config.source(module) for module in matrices}
    sharing = Counter(sources.values())
    of_tables = 0.02 if config.embedding_norm else 0.5  # of whose sum a norm would make 1
    found: dict[str, Tensor] = {}
    for module, source in sources.items():
        variance = gain(module, config.layers * sharing[source]) / matrices[module][1]
        for there in source.names:
            known = found.setdefault(there, torch.ones(source.heads * source.parts, 1))
            for part in source.taken:
                known[part :: source.parts] = (
                    of_tables if module in TABLES else 1.0 if module.endswith(SCORED) else math.sqrt(variance)
                )
    return found


def gain(name: str, layers: int) -> float:
    """The variance that a projection gives to its output, for an input of variance 1.

    Queries and keys: 2, so that scores have a standard deviation of about 2, much as in trained networks. More
    would be no sharper: rounding grows with the scores, and at 4 it comes near to float32's tolerance. What is
    added to the residual stream: 1 / (2 layers), as in GPT-2 (Radford et al. 2019, section 2.3); with more, each
    layer's averaging makes the tokens more alike, and in the last ones all keys would be the same. Layers that share
    a matrix all add in its directions: there `layers` is their square.
    """
    if name.endswith((".attention.query", ".attention.key", ".own.query", ".own.key")):
        return 2.0
    if name.endswith((".attention.output", ".feed_forward.down")):
        return 1 / (2 * layers)
    return 1.0
