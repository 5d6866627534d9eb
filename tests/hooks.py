"""Change transformers' modules by hooks, as a reference for our changes."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, cycle
from typing import Any

import pytest
import torch
from torch import Tensor

from attncli.models.model import Model


def joining(model: Model) -> dict[str, list[int]]:
    """The modules that join the heads, and the layers in which they do, one after the other where they share one."""
    made: dict[str, list[int]] = {}
    for layer in range(model.config.layers):
        [name] = model.config.source(f"layers.{layer}.attention.output").names
        made.setdefault(name, []).append(layer)
    return made


@contextmanager
def outputs_put(network: Any, model: Model, outputs: dict[tuple[int, int], Any]) -> Iterator[None]:
    """Replace the outputs of heads, (layer, head), before the output projection: by a number or a tensor."""
    handles = []
    for name, layers in joining(model).items():

        def put(module: Any, inputs: tuple[Tensor, ...], turns: Iterator[int] = cycle(layers)) -> tuple[Tensor, ...]:
            joined, layer = inputs[0].clone(), next(turns)
            size = model.config.head_dim
            for (of, head), output in outputs.items():
                if of == layer:
                    joined[..., head * size : (head + 1) * size] = output
            return (joined, *inputs[1:])

        handles.append(network.get_submodule(name).register_forward_pre_hook(put))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def edges_cut(edges: dict[tuple[int, int], list[tuple[int, int]]], keep_rest: bool = False) -> Iterator[None]:
    """Edges (query, key) of heads, (layer, head), are cut in softmax, which every family calls once a layer: their
    scores are -inf, or their weights 0 and the rest kept.
    """
    softmax, calls = torch.Tensor.softmax, count()

    def without(scores: Tensor, dim: int, dtype: Any = None) -> Tensor:
        layer, gone = next(calls), torch.zeros_like(scores, dtype=torch.bool)
        for (of, head), some in edges.items():
            for query, key in some if of == layer else ():
                gone[:, head, query, key] = True
        if keep_rest:
            return softmax(scores, dim, dtype=dtype).masked_fill(gone, 0)
        hidden = gone | (scores < torch.finfo(scores.dtype).min / 2)  # what a mask hides stays so where all else is cut
        return softmax(scores.masked_fill(hidden, -torch.inf), dim, dtype=dtype).nan_to_num(0.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "softmax", without)
        yield


@contextmanager
def outputs_seen(network: Any, model: Model) -> Iterator[list[Tensor]]:
    """Return the inputs of the output projection, layer by layer, `[token, head * head_dim]`."""
    seen: list[Tensor] = []
    handles = []
    for name in joining(model):
        module = network.get_submodule(name)
        handles.append(module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][0])))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
