"""Rows that transformers itself gives no numbers in: nothing can be held against these."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.models.transformers_peer import Reference
from attncli.text.tokens import Tokens


class Lost(NamedTuple):
    """Rows of real tokens that transformers gives NaN in.

    layer: the first one that has such rows; rows: how many have NaN in that layer or a later one. in_float32: whether
    transformers gives numbers there when it runs in float32.
    """

    mask: str
    layer: int
    rows: int
    in_float32: bool

    def __str__(self) -> str:
        instead = "its float32 numbers were taken instead" if self.in_float32 else "nothing was proven there"
        return (
            f"transformers is at fault: from layer {self.layer} on it gives NaN in {self.rows} rows of real tokens "
            f"(mask {self.mask}); {instead}"
        )


def lost_rows(tokens: Tokens, mask: str, weights: Iterable[Tensor], states: Iterable[Tensor]) -> Lost | None:
    """The rows of real tokens in which transformers gives NaN; None when there are none."""
    real = torch.tensor([not padding for padding in tokens.padding])
    after = list(states)[1:]
    bad = torch.stack(
        [
            real & (one.isnan().any(dim=-1).any(dim=0) | state.isnan().any(dim=-1)).cpu()
            for one, state in zip(weights, after, strict=True)
        ]
    )
    layers = bad.any(dim=1).nonzero()
    return Lost(mask, int(layers[0]), int(bad.any(dim=0).sum()), False) if len(layers) else None


def run_finite(
    reference: Reference, tokens: Tokens, mask: str
) -> tuple[tuple[list[Tensor], list[Tensor]], Lost | None]:
    """`reference.run`; in float32 where that gives numbers in rows of real tokens, and float64 gives NaN."""
    made = reference.run(tokens, mask)
    lost = lost_rows(tokens, mask, *made)
    if lost is not None and reference.dtype == torch.float64:
        instead = reference.in_float32.run(tokens, mask)
        if lost_rows(tokens, mask, *instead) is None:
            return instead, lost._replace(in_float32=True)
    return made, lost


def merge_lost(lost: Iterable[Lost]) -> tuple[Lost, ...]:
    """One for each mask, and each way of going on: its first layer, and all rows."""
    found: dict[tuple[str, bool], Lost] = {}
    for one in lost:
        before = found.get((one.mask, one.in_float32), one._replace(rows=0))
        found[one.mask, one.in_float32] = one._replace(layer=min(one.layer, before.layer), rows=one.rows + before.rows)
    return tuple(found.values())
