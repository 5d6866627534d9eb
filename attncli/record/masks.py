"""Which keys the queries of each layer may attend to: one mask for all layers where they agree."""

import numpy as np

from attncli.base.arrays import Bools


def masks_of_layers(masks: Bools, shape: tuple[int, int, int]) -> Bools:
    """A mask `[query, key]`, or one a layer, as `[layer, query, key]` of this shape.

    Where the layers agree it is a view of one `[query, key]`. Raises ValueError for masks of another shape.
    """
    return np.broadcast_to(compact(masks) if masks.ndim == len(shape) else masks, shape)


def agree(masks: Bools) -> bool:
    """Whether all layers of `[layer, query, key]` have the same mask."""
    return masks.strides[0] == 0 or all(np.array_equal(masks[0], one) for one in masks[1:])


def compact(masks: Bools) -> Bools:
    """The one mask `[query, key]` of all layers where they agree, else `[layer, query, key]` as they are."""
    return masks[0] if agree(masks) else masks
