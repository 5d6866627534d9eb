"""Masks and softmax of attention in NumPy, for short texts, records and pages, to avoid importing torch.

Names and rules are those of `attncli.attention`, which is the readable version.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attncli.base.arrays import Bools

# For texts of one length: from bool `[text, token]`, False at [PAD], to bool that broadcasts to `[text, 1, query,
# key]`, True where a query may attend.
_Rule = Callable[[Bools], Bools]


def no_padding(real: Bools) -> Bools:
    """Hide [PAD]."""
    return real[:, None, None, :]


def no_future(real: Bools) -> Bools:
    """Hide later tokens."""
    return np.tri(real.shape[1], dtype=bool)


def near(reach: int) -> _Rule:
    """Hide tokens more than `reach` tokens away on either side."""

    def rule(real: Bools) -> Bools:
        every = np.arange(real.shape[1])
        nearby: Bools = abs(every - every[:, None]) <= reach
        return nearby

    return rule


def self_mask(real: Bools, *rules: _Rule) -> Bools:
    """Return the self-attention mask of texts of one length, bool `[1 or text, 1, 1 or query, key]`."""
    allowed = np.ones((1, 1, 1, real.shape[1]), dtype=bool)
    for rule in rules:
        allowed = allowed & rule(real)
    return allowed


# The rules of named masks, the strictest first.
MASKS: dict[str, tuple[_Rule, ...]] = {"causal": (no_padding, no_future), "padding": (no_padding,), "none": ()}


class Softmax(NamedTuple):
    """The steps of a softmax. All but `raised`, `[..., query, key]`, are `[..., query, 1]`.

    largest: the largest allowed score m, which is subtracted so that exp does not overflow; 0 if none is allowed.
    raised: exp(s - m), 0 where the mask hides the key. sink: the same for the sink; 0 without one. total: their sum.
    """

    largest: npt.NDArray[Any]
    raised: npt.NDArray[Any]
    sink: npt.NDArray[Any]
    total: npt.NDArray[Any]

    @property
    def weights(self) -> npt.NDArray[Any]:
        """Return raised / total, `[..., query, key]`. A row with no allowed key is 0."""
        weights: npt.NDArray[Any] = self.raised / np.where(self.total == 0, self.total.dtype.type(1), self.total)
        return weights


def softmax(scores: npt.NDArray[Any], allowed: Bools | None = None, sinks: npt.NDArray[Any] | None = None) -> Softmax:
    """Take softmax of scores `[..., query, key]` over the keys that a mask allows, in the dtype of the scores.

    allowed: bool, broadcasts to the scores; None hides nothing. sinks: a score per row that is in the softmax but
    belongs to no key, broadcasts to `[..., query, 1]`; -inf for none.
    """
    shown = scores if allowed is None else np.where(allowed, scores, scores.dtype.type(-np.inf))
    largest = shown.max(axis=-1, keepdims=True)
    if sinks is not None:
        largest = np.maximum(largest, sinks)
    largest = np.where(np.isneginf(largest), scores.dtype.type(0), largest)
    raised = np.exp(shown - largest)
    total = raised.sum(axis=-1, keepdims=True)
    sink = np.zeros_like(largest) if sinks is None else np.exp(sinks - largest)
    return Softmax(largest, raised, sink, total if sinks is None else total + sink)
