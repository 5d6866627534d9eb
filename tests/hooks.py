"""The same changes done to transformers' modules by hooks: what ours are held against."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from attncli.models.model import Model


@contextmanager
def outputs_put(network: Any, model: Model, outputs: dict[tuple[int, int], Any]) -> Iterator[None]:
    """What heads, (layer, head), give before the projection that joins them is something else: a number or a tensor."""
    handles = []
    for layer in range(model.config.layers):
        [name] = model.config.family.source(f"layers.{layer}.attention.output").names

        def put(module: Any, inputs: tuple[Tensor, ...], layer: int = layer) -> tuple[Tensor, ...]:
            joined = inputs[0].clone()
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


def silenced(network: Any, model: Model, heads: Sequence[tuple[int, int]]) -> Any:
    return outputs_put(network, model, dict.fromkeys(heads, 0.0))
