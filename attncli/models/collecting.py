"""The records of several masks beside each other, and whose queries and keys there is room for: what a page holds."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from attncli.base.errors import RequestError
from attncli.models.engine import Engine
from attncli.models.model import Model
from attncli.record import AttentionRecord, Input, Request
from attncli.record.selection import select


def under_masks(
    engine: Engine, inputs: Sequence[Input], request: Request, masks: Sequence[str]
) -> Iterator[list[AttentionRecord]]:
    """Every text's records, one a mask, in the order of `masks`.

    Raises RequestError as the engine does, and for several masks of a model that transformers runs: what it hides
    from a decoder it hides under any of them.
    """
    if len(masks) > 1 and engine.name == "transformers":
        raise RequestError("transformers takes one --mask a page: give padding or none")
    runs = [engine.answer(inputs, replace(request, mask=mask)) for mask in masks]
    for records in zip(*runs, strict=True):
        yield list(records)


def vectors_within(model: Model, inputs: Iterable[Input], request: Request, masks: int, most: float) -> str:
    """The heads, from the first on, whose queries and keys under all masks are no more than `most` numbers; one at
    least. Written as `Request.vectors` takes it.
    """
    tokens = sum(len(text) for text in model.tokenize(inputs, request.pad_to)) * masks
    layers = select(request.layers, model.config.layers, "layer")
    heads = select(request.heads, model.config.heads, "head")
    every = [f"{layer}.{head}" for layer in layers for head in heads]
    return ",".join(every[: max(1, int(most / (2 * tokens * model.config.head_dim)))])
