"""Attention rollout: how much of each input token is in a token of some layer, if what flows is followed down.

Above the first layer a token is a mixture already, so a map says little about the text. Rollout follows every
path from a token down to the input, through attention and through the residual connection beside it.
"""

import numpy as np

from attncli.base.arrays import Doubles
from attncli.base.errors import RequestError
from attncli.record import AttentionRecord
from attncli.record.selection import number_list


def mean_maps(record: AttentionRecord) -> Doubles:
    """The mean over heads, `[layer, query, key]`; every row divided by its sum, or 0 where nothing is attended to.

    Rows of weights sum to 1 as they are, unless heads have sinks; other rows are made to.
    """
    means = record.weights.mean(axis=1, dtype=np.float64)
    sums = means.sum(axis=-1, keepdims=True)
    shares: Doubles = np.divide(means, sums, out=np.zeros_like(means), where=sums > 0)
    return shares


def residual_steps(record: AttentionRecord) -> Doubles:
    """What a layer's tokens are made of: Ã = 0.5 W + 0.5 I, `[layer, query, key]`, from layer 0 on.

    Abnar and Zuidema 2020, section 3: W is the mean over heads, I stands for the residual connection. Rows sum to
    1. A token that attends to nothing is what the residual connection brings: its row is I's.

    Raises RequestError when a layer on the way down is missing, or queries and keys are different texts.
    """
    if record.key_tokens is not None:
        raise RequestError(
            "cross-attention leads into another text, so it can't be followed down: take --which encoder or decoder"
        )
    record = record.select(layers=sorted(record.layers))
    if record.layers != list(range(len(record.layers))):
        raise RequestError(
            f"the record holds layers {number_list(record.layers)}, and the way down to the input needs all from 0 on: "
            "save it with -l all"
        )
    means, own = mean_maps(record), np.eye(len(record.tokens))
    nowhere = means.sum(axis=-1, keepdims=True) == 0
    steps: Doubles = np.where(nowhere, own, 0.5 * means + 0.5 * own)
    return steps


def rollout(steps: Doubles) -> Doubles:
    """R_l = Ã_l R_(l-1), with R_0 = Ã_0: `[layer, token, token below]` -> `[layer, token, input token]`.

    Abnar and Zuidema 2020, section 3. Rows sum to 1.
    """
    rolled = steps.copy()
    for layer in range(1, len(steps)):
        rolled[layer] = steps[layer] @ rolled[layer - 1]
    return rolled
