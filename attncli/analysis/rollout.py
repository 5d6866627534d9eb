"""Attention rollout: the share of each input token in a token of a higher layer.

Above the first layer a token is already a mixture, so a map says little about the text. Rollout follows every path from
a token down to the input, through attention and through the residual connection.
"""

import numpy as np

from attncli.base.arrays import Doubles
from attncli.base.errors import RequestError
from attncli.record import AttentionRecord
from attncli.record.selection import number_list


def mean_maps(record: AttentionRecord) -> Doubles:
    """Return the mean map over heads, `[layer, query, key]`, with each row divided by its sum.

    A row that attends to nothing stays 0.
    """
    means = record.weights.mean(axis=1, dtype=np.float64)
    sums = means.sum(axis=-1, keepdims=True)
    return np.divide(means, sums, out=np.zeros_like(means), where=sums > 0)


def residual_steps(record: AttentionRecord) -> Doubles:
    """Return the composition of the tokens of each layer, Ã = 0.5 W + 0.5 I, `[layer, query, key]`, from layer 0 on.

    Abnar and Zuidema 2020, section 3: W is the mean over heads, I stands for the residual connection. Rows sum to 1. A
    token that attends to nothing keeps the row of I.

    Raises RequestError if a layer is missing, or queries and keys are of different texts.
    """
    if record.rows is not None:
        raise RequestError(
            "the record has only some rows, and following attention down to the input needs all: save it without "
            "--query"
        )
    if record.crosses:
        raise RequestError(
            "cross-attention leads into another text, so it can't be followed down: use --which encoder or decoder"
        )
    record = record.select(layers=sorted(record.layers))
    if record.layers != list(range(len(record.layers))):
        raise RequestError(
            f"the record holds layers {number_list(record.layers)}, and following attention down to the input needs "
            "all layers from 0 on: save it without -l, or choose heads of each layer"
        )
    means, own = mean_maps(record), np.eye(len(record.tokens))
    nowhere = means.sum(axis=-1, keepdims=True) == 0
    return np.where(nowhere, own, 0.5 * means + 0.5 * own)


def rollout(steps: Doubles) -> Doubles:
    """Return R_l = Ã_l R_(l-1), with R_0 = Ã_0: `[layer, token, token below]` -> `[layer, token, input token]`.

    Abnar and Zuidema 2020, section 3. Rows sum to 1.
    """
    rolled = steps.copy()
    for layer in range(1, len(steps)):
        rolled[layer] = steps[layer] @ rolled[layer - 1]
    return rolled
