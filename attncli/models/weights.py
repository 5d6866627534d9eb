"""A checkpoint's tensors -> the encoder's parameters.

Reads model.safetensors, shards with an index, and pytorch_model.bin (through `weights_only`, which runs no code
that a file brings along). Only the tensors that are asked for are read.
"""

import math
import pickle
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from attncli.base.errors import RequestError
from attncli.base.printable import first_line
from attncli.models.checkpoint_files import weight_files
from attncli.models.config import ModelConfig
from attncli.models.encoder import Encoder

# --- names ----------------------------------------------------------------------------------------------
# This program's name for a module -> the checkpoint's. {n} is the layer's number.

BERT_NAMES = {
    "embeddings.tokens": "embeddings.word_embeddings",
    "embeddings.positions.table": "embeddings.position_embeddings",
    "embeddings.segments": "embeddings.token_type_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
    "embeddings.project": "embeddings_project",
    "layers.{n}.attention.query": "encoder.layer.{n}.attention.self.query",
    "layers.{n}.attention.key": "encoder.layer.{n}.attention.self.key",
    "layers.{n}.attention.value": "encoder.layer.{n}.attention.self.value",
    "layers.{n}.attention.output": "encoder.layer.{n}.attention.output.dense",
    "layers.{n}.attention_norm": "encoder.layer.{n}.attention.output.LayerNorm",
    "layers.{n}.up": "encoder.layer.{n}.intermediate.dense",
    "layers.{n}.down": "encoder.layer.{n}.output.dense",
    "layers.{n}.mlp_norm": "encoder.layer.{n}.output.LayerNorm",
}
DISTILBERT_NAMES = {
    "embeddings.tokens": "embeddings.word_embeddings",
    "embeddings.positions.table": "embeddings.position_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
    "layers.{n}.attention.query": "transformer.layer.{n}.attention.q_lin",
    "layers.{n}.attention.key": "transformer.layer.{n}.attention.k_lin",
    "layers.{n}.attention.value": "transformer.layer.{n}.attention.v_lin",
    "layers.{n}.attention.output": "transformer.layer.{n}.attention.out_lin",
    "layers.{n}.attention_norm": "transformer.layer.{n}.sa_layer_norm",
    "layers.{n}.up": "transformer.layer.{n}.ffn.lin1",
    "layers.{n}.down": "transformer.layer.{n}.ffn.lin2",
    "layers.{n}.mlp_norm": "transformer.layer.{n}.output_layer_norm",
}
NAMES = {"bert": BERT_NAMES, "roberta": BERT_NAMES, "electra": BERT_NAMES, "distilbert": DISTILBERT_NAMES}

PREFIXES = ("bert.", "roberta.", "distilbert.", "electra.")  # where the encoder is part of a larger model
OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}  # LayerNorm in checkpoints of 2018
BODY = ("embeddings.", "embeddings_project.", "encoder.", "transformer.")  # the encoder; the rest are heads
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")  # 0, 1, 2, ... and 0, 0, 0, ...


def checkpoint_name(parameter: str, family: str) -> str:
    """ "layers.3.up.weight" -> "encoder.layer.3.intermediate.dense.weight"."""
    module, _, kind = parameter.rpartition(".")
    parts = module.split(".")
    if parts[0] == "layers":
        number, parts[1] = parts[1], "{n}"
        return f"{NAMES[family]['.'.join(parts)].format(n=number)}.{kind}"
    return f"{NAMES[family][module]}.{kind}"


def plain_name(name: str) -> str:
    """A checkpoint's own name for a tensor, without the larger model's prefix and in today's words."""
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    for old, new in OLD_ENDINGS.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


# --- files ----------------------------------------------------------------------------------------------


class TensorFile(Protocol):
    """Some tensors by name; shapes without reading, values when asked for."""

    def shapes(self) -> Mapping[str, tuple[int, ...]]: ...

    def read(self, name: str) -> Tensor: ...


class SafetensorsFile:
    """One .safetensors file, mapped into memory."""

    def __init__(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        self.path = path
        self.damage = SafetensorError
        try:
            self.file = safe_open(str(path), framework="pt")
            self._shapes = {
                name: tuple(self.file.get_slice(name).get_shape())
                for name in self.file.keys()  # noqa: SIM118
            }
        except (SafetensorError, OSError) as error:
            raise RequestError(f"{path} is damaged: {first_line(error)}") from error

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return self._shapes

    def read(self, name: str) -> Tensor:
        try:
            tensor: Tensor = self.file.get_tensor(name)
        except (self.damage, OSError) as error:
            raise RequestError(f"{self.path} is damaged at {name}: {first_line(error)}") from error
        return tensor


class StateDict:
    """Tensors that are in memory already: a model's `state_dict()`, or what a .bin file held."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = tensors

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}

    def read(self, name: str) -> Tensor:
        return self.tensors[name]


def read_pickle(path: Path) -> StateDict:
    """A pytorch_model.bin. Raises RequestError when it is damaged, or wants to run code."""
    try:
        try:
            tensors: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except (RuntimeError, ValueError):  # files from before torch 1.6 can't be mapped into memory
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise RequestError(
            f"{path} was not read: it holds more than tensors and could run code, or it is damaged; "
            "ask for the model as .safetensors"
        ) from error
    except Exception as error:
        raise RequestError(f"{path} is damaged: {first_line(error)}") from error
    if not isinstance(tensors, dict) or not tensors:
        raise RequestError(f"{path} holds no tensors by name")
    return StateDict({str(name): value for name, value in tensors.items() if isinstance(value, Tensor)})


FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def all_finite(tensor: Tensor) -> bool:
    """Whether every number is finite. A sum is cheaper than a look at each, and finite only if they all are.

    By numpy, on one thread: on a busy machine torch's threads would wait for each other, a hundred times.
    """
    if tensor.dtype in (torch.float32, torch.float64):
        with np.errstate(all="ignore"):
            total = float(np.sum(tensor.numpy()))
    else:
        total = float(tensor.sum(dtype=torch.float32))
    return math.isfinite(total) or bool(tensor.isfinite().all())


class Checkpoint:
    """The tensors of one model, whatever files they lie in, under the names of `plain_name`."""

    def __init__(self, files: Iterable[TensorFile], where: str) -> None:
        self.where = where
        self.files: dict[str, tuple[TensorFile, str]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        for file in files:
            for name, shape in file.shapes().items():
                self.files[plain_name(name)] = (file, name)
                self.shapes[plain_name(name)] = shape

    def read(self, name: str, dtype: torch.dtype) -> Tensor:
        """One tensor, in this dtype. Raises RequestError when it is not of floating point, or not every number
        is finite.
        """
        file, own_name = self.files[name]
        stored = file.read(own_name)
        if stored.dtype not in FLOATS:
            raise RequestError(f"{self.where}: {own_name} is {stored.dtype}, not a float of 16 to 64 bits")
        tensor = stored.to(dtype)
        if not all_finite(tensor):
            raise RequestError(f"{self.where}: {own_name} has a number that is {flaw(stored, dtype)}")
        return tensor


def flaw(stored: Tensor, dtype: torch.dtype) -> str:
    """Why a tensor of a file is not finite in this dtype."""
    if stored.isnan().any():
        return "NaN"
    return "infinite" if stored.isinf().any() else f"too large for {dtype}"


def open_checkpoint(directory: Path) -> Checkpoint:
    """Raises RequestError when the directory has no weights, or they can't be read."""
    paths = weight_files(directory)
    files: list[TensorFile] = [
        SafetensorsFile(path) if path.suffix == ".safetensors" else read_pickle(path) for path in paths
    ]
    return Checkpoint(files, str(directory))


# --- into the encoder -----------------------------------------------------------------------------------


def check_shapes(checkpoint: Checkpoint, encoder: Encoder, family: str) -> list[str]:
    """Hold the checkpoint's names and shapes against the encoder's; nothing is read.

    Returns the names of tensors that belong to an encoder and have no place in this one (heads for other
    tasks are not named). Raises RequestError when a tensor is missing or has another shape.
    """
    expected = {checkpoint_name(name, family): tuple(parameter.shape) for name, parameter in encoder.named_parameters()}
    missing = [name for name in expected if name not in checkpoint.shapes]
    if missing:
        raise RequestError(f"{checkpoint.where} lacks {some_of(missing)}")
    for name, shape in expected.items():
        if checkpoint.shapes[name] != shape:
            raise RequestError(
                f"{checkpoint.where}: {name} has the shape {list(checkpoint.shapes[name])}, "
                f"and by config.json it is {list(shape)}"
            )
    return [
        name for name in checkpoint.shapes if name.startswith(BODY) and name not in expected and name not in BUFFERS
    ]


def load_parameters(
    checkpoint: Checkpoint,
    encoder: Encoder,
    config: ModelConfig,
    module: str,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    """Read one part of the encoder ("embeddings", "layers.3") from the checkpoint.

    Raises RequestError when a tensor has a number that is not finite.
    """
    encoder.get_submodule(module).load_state_dict(
        dict(module_tensors(checkpoint, encoder, config.family, module, dtype, device)), assign=True
    )


def module_tensors(
    checkpoint: Checkpoint,
    encoder: Encoder,
    family: str,
    module: str,
    dtype: torch.dtype,
    device: torch.device,
) -> Iterator[tuple[str, Tensor]]:
    for name, _ in encoder.get_submodule(module).named_parameters():
        yield name, checkpoint.read(checkpoint_name(f"{module}.{name}", family), dtype).to(device)


def some_of(names: list[str], most: int = 3) -> str:
    """The first few of many names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
