"""Networks <-> files: the weights in float16, as .safetensors, which can't run code, and a description of them."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch

from attncli.align.networks import Network, Recurrent, Transformer
from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import write_whole
from attncli.base.printable import first_line
from attncli.base.schema import fields, integer, one_of
from attncli.base.untrusted import Tensors, parse_json

WEIGHTS = Path(__file__).parent / "weights"  # those that come with the package
FORMAT = "attncli-align 2"  # changes when files of today could no longer be read
SIZES: dict[str, dict[str, int]] = {
    **{name: {"d_embedding": 32, "d_hidden": 96} for name in ("additive", "dot", "general", "concat")},
    "transformer": {"d_model": 64, "heads": 4, "layers": 2},
}
DESCRIPTION = {
    "attention": one_of(choices.names(choices.Attention)),
    "seed": integer(-(2**63), 2**64 - 1),  # what torch's generators take
    "steps": integer(),
}


@dataclass(frozen=True)
class Checkpoint:
    """A network trained on `steps` batches drawn with `seed`, and its file."""

    path: Path
    attention: str
    seed: int
    steps: int
    network: Network

    @property
    def sizes(self) -> dict[str, int]:
        return SIZES[self.attention]


def build(attention: str, seed: int = 0) -> Network:
    """Make a network with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = SIZES[attention]
        return Transformer(**sizes) if attention == "transformer" else Recurrent(attention, **sizes)


def save(checkpoint: Checkpoint) -> None:
    """Write a file completely or not at all. Raises RequestError if it can't be written."""
    from safetensors.torch import save_file

    metadata = {"format": FORMAT, **{name: json.dumps(getattr(checkpoint, name)) for name in DESCRIPTION}}
    tensors = {name: tensor.half() for name, tensor in checkpoint.network.state_dict().items()}
    write_whole(checkpoint.path, lambda temporary: save_file(tensors, temporary, metadata=metadata))


def load(folder: Path, attention: str) -> Checkpoint:
    """Read the network of a kind from a folder, in float32.

    Raises RequestError if its file is missing, damaged, of another format or of another kind.
    """
    path = folder / f"{attention}.safetensors"
    try:
        file = Tensors(path, "pt")
        if file.metadata.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        found = {name: parse_json(value) for name, value in file.metadata.items() if name in DESCRIPTION}
        fields({**DESCRIPTION, "attention": one_of([attention])})(found, "it")
        network = build(attention)
        if {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()} != file.shapes:
            raise ValueError("it lacks tensors of its network, or they have other shapes")
        tensors = {name: file.read(name) for name in file.shapes}
        if not all(tensor.is_floating_point() and tensor.isfinite().all() for tensor in tensors.values()):
            raise ValueError("some of its weights are not finite numbers")
        network.load_state_dict(tensors)
        return Checkpoint(path, network=network, **found)
    except (ValueError, OSError) as error:
        raise RequestError(f"can't read {path} ({first_line(error)}): attncli train-align makes such files") from error
