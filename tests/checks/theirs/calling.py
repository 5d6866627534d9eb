"""How attention as people write it is called: what it takes, in which layout, what its mask says, what it gives."""

import importlib
import inspect
from collections.abc import Callable
from typing import NamedTuple

import torch
from einops import rearrange
from torch import nn


def theirs(file: str, name: str):
    return getattr(importlib.import_module(f"checks.theirs.{file.removesuffix('.py')}"), name)


def seen_keys(queries: int, keys: int) -> torch.Tensor:
    """What may be seen, [query, key]: some of all, and the first key of each."""
    seen = torch.rand(queries, keys, generator=torch.manual_seed(1)) > 0.5
    seen[:, 0] = True
    return seen


def as_added(seen: torch.Tensor) -> torch.Tensor:
    return torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, -torch.inf)


MASKS: dict[str, Callable] = {
    "allowed": lambda seen: seen,
    "ones": lambda seen: seen.long(),
    "forbidden": lambda seen: ~seen,
    "added": as_added,
    "batched ones": lambda seen: seen.long()[None],
}
# Of what is real and not [PAD], [batch, key].
PADDINGS: dict[str, Callable] = {
    "real": lambda real: real.long(),
    "padding": lambda real: ~real,
    "broadcast": lambda real: real[:, None, None].long(),
    "lengths": lambda real: real.sum(1),
    "bools": lambda real: real,
}


class Function(NamedTuple):
    """How a function of q, k, v is called: the layout of its arrays, what its mask says, where its output is."""

    layout: str = "b h t d"
    mask: str | None = None
    output: int | str | None = None
    key_heads: int | None = None
    causal: bool = False
    gradients: bool = True
    hidden_row: float | None = None
    numpy: bool = False


class Called:
    """A function of q, k, v that somebody wrote, on arrays of torch [batch, head, token, dim]."""

    def __init__(self, function: Callable, how: Function) -> None:
        self.function = function() if inspect.isclass(function) else function
        self.how = how

    def laid_out(self, x: torch.Tensor) -> torch.Tensor:
        return x[0, 0] if self.how.layout == "t d" else rearrange(x, f"b h t d -> {self.how.layout}")

    def __call__(self, q, k, v, mask=None) -> torch.Tensor:
        given = [self.laid_out(x) for x in (q, k, v)]
        masks = [] if mask is None else [mask]
        if self.how.numpy:
            given, masks = [x.numpy() for x in given], [x.numpy() for x in masks]
        parameters = list(inspect.signature(getattr(self.function, "forward", self.function)).parameters)
        out = self.function(*given, **dict(zip(parameters[3:], masks, strict=False)))
        return torch.as_tensor(out if self.how.output is None else out[self.how.output])


class Module(NamedTuple):
    """How a module is made, what its weights are, what it takes and what its mask says.

    takes: "x", "q k v", "v k q", "x memory", "t" (x without a batch) or "token first". mask: a name in MASKS or
    PADDINGS, or "causal" for one of its own.
    """

    make: Callable
    weights: Callable
    takes: str = "x"
    mask: str | None = None
    output: int | None = None
    mask_name: str | None = None

    def __call__(self, module, x, memory=None, mask=None) -> torch.Tensor:
        """What a module that somebody wrote gives for x and memory [batch, token, d_model], in its own layout."""
        memory = x if memory is None else memory
        given = {
            "x": (x,),
            "t": (x[0],),
            "token first": (x.transpose(0, 1),),
            "x memory": (x, memory),
            "q k v": (x, memory, memory),
            "v k q": (memory, memory, x),
        }[self.takes]
        forward = getattr(module, "forward", module)
        if not isinstance(module, nn.Module):
            given, mask = tuple(one.numpy() for one in given), None if mask is None else mask.numpy()
        names = list(inspect.signature(forward).parameters)
        out = forward(*given, **({} if mask is None else {self.mask_name or names[len(given)]: mask}))
        return torch.as_tensor(out if self.output is None else out[self.output])
