"""Networks <-> files: what was trained, and, while training, what it takes to go on.

A file of weights holds them in float16; a file of a training that is under way holds them in float32, with what the
optimizer remembers. Both are .safetensors, which hold numbers and nothing that runs, and say in their metadata what
they are.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from attncli.align.recurrent import Recurrent
from attncli.align.transformer import Transformer
from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import write_whole

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


@dataclass(frozen=True)
class About:
    """What a file says of itself: `step` of `steps` were done, on batches drawn with `seed`."""

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
    """A network with random weights, from torch's generator. Raises ValueError or TypeError when sizes don't fit."""
    return Transformer(**sizes) if attention == "transformer" else Recurrent(attention, **sizes)


def save(path: Path, about: About, tensors: dict[str, Tensor]) -> None:
    """Write a file whole or not at all. Raises RequestError when it can't be written."""
    from safetensors.torch import save_file

    metadata = {"format": FORMAT, **{name: json.dumps(value) for name, value in asdict(about).items()}}
    write_whole(path, lambda temporary: save_file(tensors, temporary, metadata=metadata))


def load(path: Path) -> tuple[About, dict[str, Tensor]]:
    """What a file says of itself, and its tensors. Raises RequestError when it is missing, damaged or another thing."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise RequestError(f"{path} is missing: attncli train-align makes such files")
    try:
        with safe_open(str(path), framework="pt") as file:
            about = read_about(path, file.metadata() or {})
            return about, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise RequestError(
            f"{path} is damaged ({str(error).splitlines()[0]}): make it anew with attncli train-align"
        ) from error


def read_about(path: Path, metadata: dict[str, str]) -> About:
    """The metadata of a file. Raises RequestError when it is not of this FORMAT, or its sizes are beyond reason."""
    if metadata.get("format") != FORMAT:
        raise RequestError(
            f"{path} is no file that this version's attncli train-align made (format {FORMAT!r}): make it anew"
        )
    try:
        about = About(**{name: json.loads(value) for name, value in metadata.items() if name != "format"})
        numbers = [about.seed, about.step, about.steps, *about.sizes.values()]
        sound = about.attention in choices.names(choices.Attention) and all(type(number) is int for number in numbers)
        sound = sound and all(0 < size <= LARGEST for size in about.sizes.values())
    except (TypeError, ValueError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise RequestError(f"{path} is damaged: its metadata make no sense")
    return about


def restore(path: Path, about: About, tensors: dict[str, Tensor]) -> Recurrent | Transformer:
    """The network of a file, in float32. Raises RequestError when the tensors are not those of such a network."""
    try:
        with torch.device("meta"):  # no memory until it is known that the tensors fit
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
