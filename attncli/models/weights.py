"""Load a checkpoint's tensors into the network's parameters, at the places that its family defines.

Reads model.safetensors, shards with an index, and pytorch_model.bin (with `weights_only`, which runs no code from the
file). Only the needed tensors are read.
"""

import math
import pickle
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from attncli.base.arrays import Array, as_numpy, library, widened
from attncli.base.errors import RequestError
from attncli.base.printable import first_line
from attncli.base.untrusted import Tensors, check_regular
from attncli.models.checkpoint_files import weight_files
from attncli.models.config import ModelConfig
from attncli.models.families.family import Source, tensors_of

# --- names ----------------------------------------------------------------------------------------------

_OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}  # LayerNorm in checkpoints of 2018
BUFFERS = (  # endings: 0, 1, 2, ...; 0, 0, 0, ...; RoFormer's sines and cosines; causal masks; angles of rotations
    "embeddings.position_ids",
    "embeddings.token_type_ids",
    "encoder.embed_positions.weight",
    ".attn.bias",
    ".attn.masked_bias",
    ".attention.bias",
    ".attention.masked_bias",
    "rotary_emb.inv_freq",
)


def plain_name(name: str, prefixes: Iterable[str]) -> str:
    """Return a checkpoint's name for a tensor without the larger model's prefix and with current endings."""
    for prefix in prefixes:
        name = name.removeprefix(prefix)
    for old, new in _OLD_ENDINGS.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def _source_of(parameter: str, config: ModelConfig) -> Source:
    """Return where a parameter of ours lies in a checkpoint: "layers.3.attention.query.weight"."""
    module, _, kind = parameter.rpartition(".")
    source = config.source(module)
    if kind == "bias" and source.bias is not None:
        return tensors_of(source.bias)
    return source._replace(names=tuple(f"{name}.{kind}" for name in source.names))


# --- files ----------------------------------------------------------------------------------------------


class TensorFile(Protocol):
    """Tensors by name, with shapes known before any values are read."""

    def shapes(self) -> Mapping[str, tuple[int, ...]]: ...

    def read(self, name: str) -> Array: ...


class SafetensorsFile:
    """One .safetensors file, mapped into memory. framework: the library of its tensors, as in `Tensors`."""

    def __init__(self, path: Path, framework: str = "pt") -> None:
        self.path = path
        try:
            self.file = Tensors(path, framework)
        except (ValueError, OSError) as error:
            raise RequestError(f"{path} is damaged: {first_line(error)}") from error

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return self.file.shapes

    def read(self, name: str) -> Array:
        try:
            return self.file.read(name)
        except (ValueError, OSError) as error:
            raise RequestError(f"{self.path} is damaged at {first_line(error)}") from error


class StateDict:
    """Tensors in memory: a model's `state_dict()`, or the content of a .bin file."""

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self.tensors = tensors

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}

    def read(self, name: str) -> Array:
        return self.tensors[name]


def read_pickle(path: Path) -> StateDict:
    """Read a pytorch_model.bin. Raises RequestError if it is damaged or tries to run code."""
    import torch

    try:
        check_regular(path)
        try:
            tensors: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except (RuntimeError, ValueError):  # files older than torch 1.6 can't be mapped into memory
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise RequestError(
            f"{path} was not read: it holds more than tensors and could run code, or it is damaged; "
            "get the model as .safetensors"
        ) from error
    except Exception as error:
        raise RequestError(f"{path} is damaged: {first_line(error)}") from error
    if not isinstance(tensors, dict) or not tensors:
        raise RequestError(f"{path} holds no tensors by name")
    return StateDict({str(name): value for name, value in tensors.items() if isinstance(value, torch.Tensor)})


_FLOATS = ("float64", "float32", "float16", "bfloat16")


def _all_finite(tensor: Array) -> bool:
    """Return True if every number is finite. A finite sum proves it, and is cheaper than checking each number.

    Uses numpy on one thread. On a busy machine, torch's threads would wait for each other at every tensor.
    """
    xp = library(tensor)
    with np.errstate(all="ignore"):
        total = float(np.sum(as_numpy(tensor)) if tensor.dtype.itemsize >= 4 else xp.sum(tensor, dtype=xp.float32))
        return math.isfinite(total) or bool(xp.isfinite(tensor).all())


class Checkpoint:
    """The tensors of one model from any number of files, under the names of `plain_name`."""

    def __init__(self, files: Iterable[TensorFile], where: str, prefixes: Collection[str] = ()) -> None:
        self.where = where
        self.files: dict[str, tuple[TensorFile, str]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        for file in files:
            for name, shape in file.shapes().items():
                plain = plain_name(name, prefixes)
                self.files[plain] = (file, name)
                self.shapes[plain] = shape

    def read(self, name: str, source: Source, dtype: Any) -> Array:
        """Return the part of a tensor that a source selects, in this dtype; a view of the file if nothing changes.

        Raises RequestError if the tensor is not of floating point, or not every number is finite.
        """
        file, own_name = self.files[name]
        stored = file.read(own_name)
        if str(stored.dtype).removeprefix("torch.") not in _FLOATS:
            raise RequestError(f"{self.where}: {own_name} is {stored.dtype}, not a float of 16 to 64 bits")
        matrix = stored.T if source.transposed and stored.ndim == 2 else stored
        part = source.cut(matrix)
        with np.errstate(over="ignore"):  # numbers that are too large are refused below
            tensor = np.ascontiguousarray(part, dtype) if isinstance(part, np.ndarray) else part.to(dtype).contiguous()
        if source.plus:  # in float32 at least: near 1, half precision would round away the stored value
            tensor = (tensor if tensor.dtype.itemsize >= 4 else widened(part)) + source.plus
        if not _all_finite(tensor):
            xp, flaw = library(part), f"too large for {str(dtype).removeprefix('torch.')}"
            flaw = "NaN" if xp.isnan(part).any() else "infinite" if xp.isinf(part).any() else flaw
            raise RequestError(f"{self.where}: {own_name} has a number that is {flaw}")
        return tensor


def open_checkpoint(directory: Path, prefixes: Collection[str] = (), framework: str = "pt") -> Checkpoint:
    """Open the weights in a directory. Raises RequestError if there are none, or they can't be read.

    prefixes: the family's (`Family.prefixes`). framework: the library of the tensors, "pt" or "mapped".
    """
    paths = weight_files(directory)
    files: list[TensorFile] = [
        SafetensorsFile(path, framework) if path.suffix == ".safetensors" else read_pickle(path) for path in paths
    ]
    return Checkpoint(files, str(directory), prefixes)


# --- into the network -----------------------------------------------------------------------------------


def _as_stored(checkpoint: Checkpoint, config: ModelConfig) -> ModelConfig:
    """Return a configuration whose family places its tensors as this checkpoint does."""
    return replace(config, family=config.family.stored(checkpoint.shapes))


class HasParameters(Protocol):
    """A network whose parameters have names and shapes."""

    config: ModelConfig

    def shapes(self) -> dict[str, tuple[int, ...]]: ...


def check_shapes(checkpoint: Checkpoint, network: HasParameters) -> list[str]:
    """Compare the checkpoint's names and shapes with the network's, without reading values.

    Returns the names of the encoder's tensors that this network does not use, without those of heads for other tasks.
    Raises RequestError if a tensor is missing or has another shape.
    """
    expected: dict[str, tuple[int, ...]] = {}
    config = _as_stored(checkpoint, network.config)
    for name, shape in network.shapes().items():
        source = _source_of(name, config)
        expected.update(dict.fromkeys(source.names, source.shape(shape)))
    missing = [name for name in expected if name not in checkpoint.shapes]
    if missing:
        raise RequestError(f"{checkpoint.where} lacks {some_of(missing)}")
    for name, shape in expected.items():
        if checkpoint.shapes[name] != shape:
            raise RequestError(
                f"{checkpoint.where}: {name} has the shape {list(checkpoint.shapes[name])}, "
                f"but config.json requires {list(shape)}"
            )
    return [
        name
        for name in checkpoint.shapes
        if name.startswith(network.config.family.body) and name not in expected and not name.endswith(BUFFERS)
    ]


def read_parameters(
    checkpoint: Checkpoint, config: ModelConfig, module: str, names: Iterable[str], dtype: Any
) -> dict[str, list[Array]]:
    """Read the parameters of these names of one part of the network ("embeddings", "layers.3") from the checkpoint.

    Returns the tensors whose rows are stacked for each. Raises RequestError if a number is not finite.
    """
    config = _as_stored(checkpoint, config)
    sources = {name: _source_of(f"{module}.{name}", config) for name in names}
    return {name: [checkpoint.read(one, source, dtype) for one in source.names] for name, source in sources.items()}


def some_of(names: list[str], most: int = 3) -> str:
    """Return the first few of many names, and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
