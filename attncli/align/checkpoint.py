"""Networks <-> files: the weights in float16.

The files are .safetensors, which can't run code, with a description in their metadata.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from attncli.align.networks import Network, Recurrent, Transformer
from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import write_whole
from attncli.base.printable import first_line
from attncli.base.schema import anything, fields, integer, one_of
from attncli.base.untrusted import Tensors, parse_json

WEIGHTS = Path(__file__).parent / "weights"  # those that come with the package
FORMAT = "attncli-align 2"  # changes when files of today could no longer be read
LARGEST = 128  # of any size of a network: 200 MB are the most memory that a file can ask for

Sizes = dict[str, int]
SIZES: dict[str, Sizes] = {
    **{key: {"d_embedding": 32, "d_hidden": 96} for key in ("additive", "dot", "general", "concat")},
    "transformer": {"d_model": 64, "heads": 4, "layers": 2},
}
ABOUT = fields(
    {
        "attention": one_of(choices.names(choices.Attention)),
        "seed": integer(-(2**63), 2**64 - 1),  # what torch's generators take
        "step": integer(),
        "steps": integer(),
        "sizes": anything,  # which they are depends on the attention
    }
)


@dataclass(frozen=True)
class About:
    """The description of a file: `step` of `steps` are done, on batches drawn with `seed`."""

    attention: str
    seed: int
    step: int
    steps: int
    sizes: Sizes


def weights_path(folder: Path, attention: str) -> Path:
    return folder / f"{attention}.safetensors"


def build(attention: str, sizes: Sizes, seed: int = 0) -> Network:
    """Make a network with random weights. Raises ValueError for sizes that don't fit."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Transformer(**sizes) if attention == "transformer" else Recurrent(attention, **sizes)


def save(path: Path, about: About, tensors: dict[str, Tensor]) -> None:
    """Write a file whole or not at all. Raises RequestError if it can't be written."""
    from safetensors.torch import save_file

    metadata = {"format": FORMAT, **{name: json.dumps(value) for name, value in asdict(about).items()}}
    write_whole(path, lambda temporary: save_file(tensors, temporary, metadata=metadata))


def load(path: Path) -> tuple[About, dict[str, Tensor]]:
    """Read the description of a file, and its tensors. Raises RequestError for a missing, damaged or other file."""
    if not path.exists():
        raise RequestError(f"{path} is missing: attncli train-align makes such files")
    try:
        file = Tensors(path, "pt")
        if file.metadata.get("format") != FORMAT:
            raise RequestError(f"{path} is not of this version's format ({FORMAT!r}): make it anew with train-align")
        found = {name: parse_json(value) for name, value in file.metadata.items() if name != "format"}
        ABOUT(found, "it")
        fields(dict.fromkeys(SIZES[found["attention"]], integer(1, LARGEST)))(found["sizes"], "sizes")
        return About(**found), {name: file.read(name) for name in file.shapes}
    except (ValueError, OSError) as error:
        raise _damaged(path, first_line(error)) from error


def restore(path: Path, about: About, tensors: dict[str, Tensor]) -> Network:
    """Return the network of a file, in float32. Raises RequestError if the tensors do not fit the network."""
    if not all(tensor.is_floating_point() and tensor.isfinite().all() for tensor in tensors.values()):
        raise _damaged(path, "some of its weights are no finite numbers")
    try:
        network = build(about.attention, about.sizes)
        network.load_state_dict(tensors)
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    except RuntimeError as error:
        raise _damaged(path, "it lacks tensors of its network, or they have other shapes") from error
    return network


def _damaged(path: Path, why: str) -> RequestError:
    return RequestError(f"{path} is damaged ({why}): make it anew with attncli train-align")
