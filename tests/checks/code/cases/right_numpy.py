"""Attention in numpy. All are right."""

import numpy as np


def softmax(x):
    """A row of -inf gives 0."""
    biggest = np.max(x, axis=-1, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(biggest), biggest, 0))
    total = np.sum(e, axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def matrices(Q, K, V):
    """[..., token, dim]"""
    return softmax(Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]).astype(Q.dtype)) @ V


def with_einsum(query, key, value, mask=None):
    """[batch, token, head, dim]; mask is added to the scores."""
    scores = np.einsum("bihd,bjhd->bhij", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores + mask
    return np.einsum("bhij,bjhd->bihd", softmax(scores), value)


def one_query_at_a_time(q, k, v):
    """[token, dim]"""
    rows = []
    for query in q:
        scores = np.array([np.dot(query, key) for key in k]) / np.sqrt(len(query))
        scores = np.exp(scores - scores.max())
        rows.append(sum(weight * value for weight, value in zip(scores / scores.sum(), v, strict=True)))
    return np.stack(rows)


class NumpyHead:
    """One head, without a projection behind it: W_q and its like stand to the left, x is [token, dim]."""

    def __init__(self, d_in, d_out):
        rng = np.random.default_rng(1)
        self.Wq, self.Wk, self.Wv = (rng.standard_normal((d_out, d_in)) for _ in range(3))

    def forward(self, x):
        q, k, v = (x @ W.T for W in (self.Wq, self.Wk, self.Wv))
        return softmax(q @ k.T / np.sqrt(k.shape[1])) @ v
