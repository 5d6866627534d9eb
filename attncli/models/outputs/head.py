"""A head: what reads a task's answer off hidden states, built of what its family says and read from a checkpoint."""

import torch
from torch import Tensor, nn

from attncli.base.errors import RequestError
from attncli.models.config import ModelConfig
from attncli.models.families.heads import Dense, Head, Norm
from attncli.models.linear import Linear
from attncli.models.weights import Checkpoint

TABLE = "embeddings.tokens"  # of the tokens' vectors, in our network


class HeadNetwork(nn.Module):
    """Vectors `[vector, hidden_size]` -> `[vector, label]`: the head's parts one after the other, and its scores."""

    def __init__(self, head: Head, config: ModelConfig, labels: int) -> None:
        super().__init__()
        size = config.hidden_size
        parts: list[nn.Module] = []
        for part in head.parts:
            if isinstance(part, Dense):
                wide = getattr(config, part.size)
                parts.append(Linear(size, wide, part.bias, activation=part.activation))
                size = wide
            else:
                parts.append(nn.LayerNorm(size, eps=config.layer_norm_eps, bias=part.bias))
        self.parts = nn.Sequential(*parts)
        self.scores = Linear(size, labels, bias=head.scores.biases != ())

    def forward(self, vectors: Tensor) -> Tensor:
        scores: Tensor = self.scores(self.parts(vectors))
        return scores


def empty_head(head: Head, config: ModelConfig, labels: int) -> HeadNetwork:
    """One that takes no memory until its parameters are loaded."""
    with torch.device("meta"):
        network = HeadNetwork(head, config, labels)
    return network.requires_grad_(False)


def places_of(head: Head, config: ModelConfig, tied: bool) -> dict[str, tuple[str, ...]]:
    """Where each parameter of the head's network may lie: tensors of a checkpoint, of which the first that is there is
    taken. tied: whether the checkpoint lets the table of tokens stand for scores of the vocabulary.
    """
    places: dict[str, tuple[str, ...]] = {}
    for number, part in enumerate(head.parts):
        names = (part.name, part.published) if isinstance(part, Norm) and part.published else (part.name,)
        places[f"parts.{number}.weight"] = tuple(f"{name}.weight" for name in names)
        if part.bias:
            places[f"parts.{number}.bias"] = tuple(f"{name}.bias" for name in names)
    name, biases = head.scores.name, head.scores.biases
    table = [f"{one}.weight" for one in config.source(TABLE).names] if head.scores.tied and tied else []
    places["scores.weight"] = (f"{name}.weight", *table)
    if biases != ():
        places["scores.bias"] = (f"{name}.bias",) if biases is None else biases
    return places


def sources_of(network: HeadNetwork, places: dict[str, tuple[str, ...]], checkpoint: Checkpoint) -> dict[str, str]:
    """Of each parameter the tensor that it is read from.

    Raises RequestError where one is missing, or has another shape than the network's.
    """
    sources = {}
    for parameter, names in places.items():
        there = [name for name in names if name in checkpoint.shapes]
        if not there:
            raise RequestError(f"{checkpoint.where} lacks {names[0]}")
        shape, wanted = checkpoint.shapes[there[0]], tuple(network.get_parameter(parameter).shape)
        if shape != wanted:
            what = f"{there[0]} has the shape {list(shape)}, and by config.json it is {list(wanted)}"
            raise RequestError(f"{checkpoint.where}: {what}")
        sources[parameter] = there[0]
    return sources
