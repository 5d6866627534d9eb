"""A sentence embedding: poolings of the last hidden states, then what modules.json names, Dense and Normalize."""

import reprlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.base.errors import RequestError
from attncli.models.families.family import whole
from attncli.models.linear import NO_ACTIVATION, Linear
from attncli.models.output import Output
from attncli.models.outputs.modules import Module, modules_of
from attncli.models.pooling import CLS, MEAN, POOLINGS
from attncli.models.walker import Walker
from attncli.models.weights import open_checkpoint

# How config.json named poolings before version 6, in the order in which several are put after each other.
FLAGS = {
    "pooling_mode_cls_token": CLS,
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": MEAN,
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
# torch's classes, and what config.json of an encoder calls them.
ACTIVATIONS = {"Identity": NO_ACTIVATION, "Tanh": "tanh", "ReLU": "relu", "GELU": "gelu", "SiLU": "silu"}
VECTOR = "sentence_embedding"  # what modules after the pooling are given


class Normalize(nn.Module):
    """x / ‖x‖"""

    def forward(self, vectors: Tensor) -> Tensor:
        return F.normalize(vectors, dim=-1)


def sentence_embedding(model: Walker) -> Output:
    """Raises RequestError where the files are garbled, or name what attncli does not do."""
    _, *modules = modules_of(model.place.path)
    pooling = modules[0] if modules else None
    if pooling is None or pooling.name != "Pooling":
        raise RequestError(f"{model.place.path}: no Pooling follows the encoder in modules.json")
    size = model.info.hidden_size
    if pooling.size("embedding_dimension", "word_embedding_dimension") != size:
        raise pooling.refused(f"it pools vectors of another size than the encoder's {size}")
    poolings = poolings_of(pooling)
    size *= len(poolings)
    loaders: list[Callable[[], nn.Module]] = []
    for module in modules[1:]:
        if module.name in ("Dense", "Normalize"):
            check_given(module)
        if module.name == "Dense":
            made = empty_dense(module, size)
            loaders.append(partial(load_dense, model, module, made))
            size = made.out_features
        elif module.name == "Normalize":
            loaders.append(Normalize)
        elif module.name != "Dropout":  # which does nothing but in training
            raise module.refused(f"attncli does not know what {reprlib.repr(module.name)} does to an embedding")
    return Output("embedding", poolings, None, list, lambda: nn.Sequential(*(load() for load in loaders)))


def poolings_of(module: Module) -> list[str]:
    """Raises RequestError for one that there is not."""
    stated: Any = module.settings.get("pooling_mode")
    if stated is None:
        named = [name for flag, name in FLAGS.items() if module.flag(flag)] or [MEAN]
    else:
        named = [stated] if isinstance(stated, str) else stated
    if (
        not isinstance(named, list)
        or not named
        or not all(isinstance(name, str) and name in POOLINGS for name in named)
    ):
        raise module.refused(f"pooling_mode is {reprlib.repr(stated)}, not some of {', '.join(POOLINGS)}")
    return named


def check_given(module: Module) -> None:
    """Raises RequestError where a module is given something else than the embedding, or makes something else of it."""
    for key in ("module_input_name", "module_output_name"):
        if module.settings.get(key) not in (None, VECTOR):
            raise module.refused(f"{key} is {reprlib.repr(module.settings[key])}, and attncli has the {VECTOR} only")
    if module.flag("use_residual"):
        raise module.refused("use_residual is set, which attncli does not do")


def empty_dense(module: Module, size: int) -> Linear:
    """f(x W + b), without its parameters. Raises RequestError where it is for other vectors, or f is unknown here."""
    if (given := module.size("in_features")) != size:
        raise module.refused(f"in_features is {given}, and what comes before it makes {size}")
    named = module.settings.get("activation_function", "torch.nn.Tanh")
    package, _, name = named.rpartition(".") if isinstance(named, str) else ("", "", "")
    if not package.startswith("torch.nn") or name not in ACTIVATIONS:
        raise module.refused(f"activation_function is {reprlib.repr(named)}, not one of {', '.join(ACTIVATIONS)}")
    with torch.device("meta"):
        return Linear(size, module.size("out_features"), module.flag("bias", True), activation=ACTIVATIONS[name])


def load_dense(model: Walker, module: Module, made: Linear) -> Linear:
    """Raises RequestError where its tensors are missing, damaged, or of another shape."""
    checkpoint = open_checkpoint(module.folder)
    read = {}
    for name, parameter in made.named_parameters():
        there = checkpoint.shapes.get(f"linear.{name}")
        if there != tuple(parameter.shape):
            raise module.refused(f"linear.{name} is {there and list(there)}, and not {list(parameter.shape)}")
        read[name] = checkpoint.read(f"linear.{name}", whole(f"linear.{name}"), model.dtype).to(model.device)
    made.load_state_dict(read, assign=True)
    made.requires_grad_(False)
    return made
