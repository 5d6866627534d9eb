"""Which masks transformers puts on a network, and what it hides from each layer (the future, what lies outside a
window, [PAD]), found by where weight is.

transformers does not say what it hides: that has no weight in any head of any layer of the same kind.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attncli.attention import MASKS, self_mask
from attncli.attention.masks import Rule

KINDS = ("layer_types", "attention_layers")  # where a configuration names the kind of every layer's attention


def for_all_queries(mask: str) -> list[Rule]:
    """Of a mask's rules those that are the same for all queries, which transformers can be told for any network."""
    two = torch.ones(1, 2, dtype=torch.bool)
    return [rule for rule in MASKS[mask] if self_mask(two, rule).shape[2] == 1]


def on_any() -> list[str]:
    """The masks that transformers puts on any network: they have no other rules."""
    return [name for name, rules in MASKS.items() if len(for_all_queries(name)) == len(rules)]


def layer_kinds(config: Any, count: int) -> list[str]:
    """The kind of attention of each of `count` layers: all with a window see as far.

    The names are the configuration's; where it has none, all layers are of one kind.
    """
    for kinds in (getattr(config, name, None) or [] for name in KINDS):
        if len(kinds) == count:
            return list(kinds)
    return ["attention"] * count


def masks_of(maps: Sequence[Tensor], kinds: Sequence[str]) -> list[Tensor]:
    """For every layer, where any head of any layer of its kind gives any weight at all: bool `[query, key]` each.

    maps: every layer's weights `[head, query, key]`.
    """
    masks = {kind: allowed([one for one, its in zip(maps, kinds, strict=True) if its == kind]) for kind in {*kinds}}
    return [masks[kind] for kind in kinds]


def allowed(maps: Sequence[Tensor]) -> Tensor:
    """Where any head of any layer gives any weight at all: bool `[query, key]`."""
    return torch.stack([(layer > 0).any(dim=0) for layer in maps]).any(dim=0)
