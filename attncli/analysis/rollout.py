"""Attention rollout: how much of each input token is in a token of some layer, if what flows is followed down.

Above the first layer a token is a mixture already, so a map says little about the text. Rollout follows every
path from a token down to the input, through attention and through the residual connection beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from attncli.base.arrays import Bools, Doubles
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


def shares_record(
    record: AttentionRecord, layers: Sequence[int], shares: Mapping[str, Doubles], queries: Sequence[int] | None = None
) -> AttentionRecord:
    """Shares `[layer, query, input token]` by method as one record, so that they are saved and drawn as maps are.

    It is of a network like the model with a head a method, in their order, and the model's name says so:
    "minilm (raw, rollout, flow)" has heads 0, 1 and 2. A layer's mask is where a share can be: what a token reaches
    through this layer and those below. queries: the places of the tokens whose rows they are; by default all.
    """
    chosen = list(range(len(record.tokens))) if queries is None else list(queries)
    numbers = sorted(record.layers)
    paths = reachable([record.mask_of(layer) for layer in numbers])
    return replace(
        record,
        weights=np.stack(list(shares.values()), axis=1).astype(np.float32),
        layers=list(layers),
        heads=list(range(len(shares))),
        tokens=record.tokens.take(chosen),
        key_tokens=None if chosen == list(range(len(record.tokens))) else record.tokens,
        masks=paths[[numbers.index(layer) for layer in layers]][:, chosen],
        measure="weight" if record.measure == "weight" else "share of norm",
        model=replace(record.model, name=f"{record.model.name} ({', '.join(shares)})", heads=len(shares)),
        vectors=None,
        sinks=False,
    )


def reachable(masks: Sequence[Bools]) -> Bools:
    """Which input tokens the tokens of each layer have a path to, their own residual among them: `[layer, query, key]`.

    masks: bool `[query, key]` of every layer, from layer 0 on.
    """
    paths: Bools = np.stack(masks) | np.eye(len(masks[0]), dtype=bool)
    for layer in range(1, len(paths)):
        paths[layer] = paths[layer].astype(np.float32) @ paths[layer - 1].astype(np.float32) > 0
    return paths
