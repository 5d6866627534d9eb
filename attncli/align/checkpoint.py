"""Load the trained networks of the package, whose weights are float16."""

from dataclasses import dataclass
from pathlib import Path

import torch

from attncli.align.networks import AlignNetwork, Recurrent, Transformer
from attncli.base.untrusted import Tensors, parse_json

WEIGHTS = Path(__file__).parent / "weights"
SIZES: dict[str, dict[str, int]] = {
    **{name: {"d_embedding": 32, "d_hidden": 96} for name in ("additive", "dot", "general", "concat")},
    "transformer": {"d_model": 64, "heads": 4, "layers": 2},
}


@dataclass(frozen=True)
class AlignCheckpoint:
    """A network trained on `steps` batches drawn with `seed`, and its file."""

    path: Path
    attention: str
    seed: int
    steps: int
    network: AlignNetwork

    @property
    def sizes(self) -> dict[str, int]:
        return SIZES[self.attention]


def build(attention: str, seed: int = 0) -> AlignNetwork:
    """Make a network with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = SIZES[attention]
        return Transformer(**sizes) if attention == "transformer" else Recurrent(attention, **sizes)


def load(attention: str) -> AlignCheckpoint:
    """Read the network with this kind of attention, in float32."""
    path = WEIGHTS / f"{attention}.safetensors"
    file, network = Tensors(path, "pt"), build(attention)
    network.load_state_dict({name: file.read(name) for name in file.shapes})
    seed, steps = (parse_json(file.metadata[name]) for name in ("seed", "steps"))
    return AlignCheckpoint(path, attention, seed, steps, network)
