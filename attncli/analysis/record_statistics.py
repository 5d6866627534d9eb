"""The figures of `attncli stats` of records, whose maps are there already."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attncli.analysis.shares import row_shares
from attncli.analysis.statistics import Counting, Statistics, Sums
from attncli.analysis.window_sums import plain_part
from attncli.analysis.words import merge_words
from attncli.base.errors import RequestError
from attncli.record import AttentionRecord
from attncli.text.windows import Window


def record_statistics(records: Sequence[AttentionRecord], words: bool = False, distances: bool = False) -> Statistics:
    """What every head does over the texts of some records, each one window; words, distances: as in `Counting`.

    Norms count as shares of their rows. [PAD] is left out.

    Raises RequestError when there is no record, one lacks a layer or a head, is of another model, mask or measure than
    the first, is between two texts, or gives weight to [PAD]; and as `Counting` does.
    """
    if not records:
        raise RequestError("there is no record to make statistics of")
    first = records[0]
    counting = Counting(first.mask_name, distances, "weight" if first.measure == "weight" else "norm", words)
    total = Sums.nothing(first.model.layers, first.model.heads, distances)
    for record in records:
        for what, one, other in (
            ("model", record.model, first.model),
            ("mask", record.mask_name, first.mask_name),
            ("measure", record.measure, first.measure),
        ):
            if one != other:
                raise RequestError(f"statistics are of one {what}, and the records have several: save them apart")
        total += record_sums(whole(merge_words(record) if words else record), distances)
    return Statistics.of(total, first.model, counting)


def whole(record: AttentionRecord) -> AttentionRecord:
    """All layers and heads in their order, of a text without [PAD]. Raises RequestError where that is not there."""
    if record.key_tokens is not None:
        raise RequestError("statistics are of a text's attention to itself, and this record is between two texts")
    model = record.model
    if (len(record.layers), len(record.heads)) != (model.layers, model.heads):
        raise RequestError(
            f"statistics are of all {model.layers} layers and {model.heads} heads: save them with -l all and without -H"
        )
    record = row_shares(record.select(range(model.layers), range(model.heads)))
    padding = np.array(record.tokens.padding)
    if not padding.any():
        return record
    real = np.flatnonzero(~padding)
    if record.weights[:, :, real][..., padding].any():
        raise RequestError("statistics are of texts without [PAD], and this record gives it weight: save it without")
    return replace(
        record,
        weights=record.weights[..., real[:, None], real],
        tokens=record.tokens.take(real.tolist()),
        masks=record.masks[..., real[:, None], real],
        vectors=None,
    )


def record_sums(record: AttentionRecord, distances: bool = False) -> Sums:
    """The sums over the queries of a `whole` record."""
    return plain_part(Window.whole(record.tokens), record.weights, record.masks, distances).of_text()
