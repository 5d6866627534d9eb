"""Networks <-> files: the weights, and while training the state to resume from.

A file of weights holds them in float16. A file of a training holds them in float32, with the state of the optimizer.
Both are .safetensors, which hold numbers and nothing that runs, and describe themselves in their metadata.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attncli.align.networks import Recurrent, Transformer
from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import write_whole
from attncli.base.printable import first_line
from attncli.base.schema import anything, fields, one_of, whole
from attncli.base.untrusted import Tensors, parse_json

WEIGHTS = Path(__file__).parent / "weights"  # those that come with the package
FORMAT = "attncli-align 2"  # changes when files of today could no longer be read
LARGEST = 512  # of any size of a network: a file can't ask for more memory than that takes

Sizes = dict[str, int]
SIZES: dict[str, Sizes] = {
    "additive": {"d_embedding": 32, "d_hidden": 96},
    "dot": {"d_embedding": 32, "d_hidden": 96},
    "general": {"d_embedding": 32, "d_hidden": 96},
    "concat": {"d_embedding": 32, "d_hidden": 96},
    "transformer": {"d_model": 64, "heads": 4, "layers": 2},
}


ABOUT = fields(
    {
        "attention": one_of(choices.names(choices.Attention)),
        "seed": whole(-(2**63), 2**64 - 1),  # what torch's generators take
        "step": whole(),
        "steps": whole(),
        "sizes": anything,  # which they are depends on the attention
    }
)


@dataclass(frozen=True)
class About:
    """The description of a file: `step` of `steps` were done, on batches drawn with `seed`."""

    attention: str
    seed: int
    step: int
    steps: int
    sizes: Sizes


def weights_path(folder: Path, attention: str) -> Path:
    return folder / f"{attention}.safetensors"


def training_path(folder: Path, attention: str) -> Path:
    return folder / f"{attention}.training.safetensors"


def build(attention: str, sizes: Sizes) -> Recurrent | Transformer:
    """Make a network with random weights. Raises ValueError or TypeError when sizes don't fit."""
    return Transformer(**sizes) if attention == "transformer" else Recurrent(attention, **sizes)


def save(path: Path, about: About, tensors: dict[str, Tensor]) -> None:
    """Write a file whole or not at all. Raises RequestError when it can't be written."""
    from safetensors.torch import save_file

    metadata = {"format": FORMAT, **{name: json.dumps(value) for name, value in asdict(about).items()}}
    write_whole(path, lambda temporary: save_file(tensors, temporary, metadata=metadata))


def load(path: Path) -> tuple[About, dict[str, Tensor]]:
    """Read the description of a file, and its tensors. Raises RequestError for a missing, damaged or other file."""
    if not path.exists():
        raise RequestError(f"{path} is missing: attncli train-align makes such files")
    try:
        file = Tensors(path, "pt")
        about = read_about(path, file.metadata)
        return about, {name: file.read(name) for name in file.shapes}
    except (ValueError, OSError) as error:
        raise RequestError(f"{path} is damaged ({first_line(error)}): make it anew with attncli train-align") from error


def read_about(path: Path, metadata: Mapping[str, str]) -> About:
    """Read the metadata of a file. Raises RequestError for another FORMAT, and ValueError for other damage."""
    if metadata.get("format") != FORMAT:
        raise RequestError(
            f"{path} is no file that this version's attncli train-align made (format {FORMAT!r}): make it anew"
        )
    said = {name: parse_json(value) for name, value in metadata.items() if name != "format"}
    ABOUT(said, "it")
    fields(dict.fromkeys(SIZES[said["attention"]], whole(1, LARGEST)))(said["sizes"], "sizes")
    about = About(**said)
    if about.step > about.steps:
        raise ValueError(f"it has done {about.step} of {about.steps} steps")
    return about


class Undrawn(TorchFunctionMode):
    """Makes parameters without drawing their first values.

    Without memory torch asks its compiler for a normal distribution: importing that takes a second and leaves a folder.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == torch.nn.init.__name__:
            return kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def restore(path: Path, about: About, tensors: dict[str, Tensor]) -> Recurrent | Transformer:
    """Return the network of a file, in float32. Raises RequestError when the tensors do not fit the network."""
    try:
        with torch.device("meta"), Undrawn():  # no memory until it is known that the tensors fit
            network = build(about.attention, about.sizes)
    except (TypeError, ValueError) as error:
        raise RequestError(f"{path} is damaged: {error}") from error
    expected = {name: tensor.shape for name, tensor in network.state_dict().items()}
    if {name: tensor.shape for name, tensor in tensors.items()} != expected:
        raise RequestError(f"{path} is damaged: it lacks tensors of its network, or they have other shapes")
    if not all(tensor.is_floating_point() and tensor.isfinite().all() for tensor in tensors.values()):
        raise RequestError(f"{path} is damaged: some of its weights are no finite numbers")
    network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, assign=True)
    return network
