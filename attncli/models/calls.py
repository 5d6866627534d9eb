"""Make blocks of calls of attention in other people's networks."""

from functools import partial
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from attncli.base.errors import RequestError
from attncli.models.block import Block
from attncli.models.rows import LayerMask, RowRun


def block_of(
    module: nn.Module | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scaling: float | None,
    more: dict[str, Any],
) -> Block:
    """Build a block from the arguments of a module's attention function. Its layer is not known yet."""
    texts, heads, queries, size = query.shape
    keys = key.shape[2]
    shared = heads // key.shape[1]
    if shared > 1:  # heads in groups have the same keys and values
        key, value = key.repeat_interleave(shared, dim=1), value.repeat_interleave(shared, dim=1)
    shown, bias = _allowed_and_bias(mask, keys)
    terms = {"bias": bias} if bias is not None else {}
    if more.get("position_bias") is not None:
        terms["position"] = more["position_bias"][..., -queries:, :]
    every = slice(0, queries)
    return Block(
        layer=0,
        numbers=range(heads),
        run=RowRun(0, list(range(texts)), slice(0, texts * queries), queries, [], None, True, keys),
        texts=slice(0, texts),
        queries=every,
        keys=slice(0, keys),
        query=query,
        key=key,
        value=value,
        mask=None if shown is None else LayerMask(shown, None),
        scale=size**-0.5 if scaling is None else scaling,
        positional=partial(_parts_of, terms) if terms else None,
        inputs=query[:, 0],
        projection=no_projection,
        shared=shared,
        softcap=more.get("softcap"),
        sinks=more.get("s_aux", getattr(module, "sinks", None)),
    )


def by_head(module: Any, block: Block) -> Tensor:
    """Return W_O of a Linear, or of a Conv1D, whose weight is transposed: `[hidden_size, head, head_dim]`."""
    weight = module.weight if isinstance(module, nn.Linear) else module.weight.T
    return weight.unflatten(1, (len(block.numbers), -1))


def no_projection() -> NoReturn:
    """Raises RequestError: no projection reads the heads' outputs directly."""
    raise RequestError(
        "norms need the output projection, but this network changes the heads' outputs before it: omit --measure norm"
    )


def _parts_of(terms: dict[str, Tensor], block: Block) -> dict[str, Tensor]:
    """Return the part of a layer's terms that belongs to a block."""
    found = {}
    for name, term in terms.items():
        some = term[block.texts] if term.shape[0] > 1 else term
        some = some[:, list(block.numbers)] if some.shape[1] > 1 else some
        some = some[:, :, block.queries] if some.shape[2] > 1 else some
        found[name] = some[..., block.keys]
    return found


def _allowed_and_bias(mask: Tensor | None, keys: int) -> tuple[Tensor | None, Tensor | None]:
    """Split a mask of transformers into a bool mask and a bias for the allowed cells; None if there is nothing."""
    if mask is None:
        return None, None
    mask = mask[..., :keys]
    if mask.dtype == torch.bool:
        return (None if bool(mask.all()) else mask), None
    hidden = mask <= torch.finfo(mask.dtype).min / 2
    bias = mask.masked_fill(hidden, 0.0)
    return (~hidden if bool(hidden.any()) else None), (bias if bool(bias.any()) else None)
