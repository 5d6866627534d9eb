"""Right attention in numpy, in the programs that `mistakes.txt` changes."""

import numpy as np


# --- arrays
def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def attention(Q, K, V, mask=None):
    """[batch, head, token, dim]; mask [query, key], True where a query may look."""
    scores = np.matmul(Q, K.swapaxes(-1, -2)) / np.sqrt(Q.shape[-1], dtype=Q.dtype)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = softmax(scores, axis=-1)
    return np.matmul(weights, V)


# --- array_class
class NumpyAttention:
    """attend(x, memory, mask): mask [batch, key], True where a token is real."""

    def __init__(self, d_model, num_heads):
        rng = np.random.default_rng(0)
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = rng.normal(0, d_model**-0.5, (4, d_model, d_model))
        self.b_q, self.b_k, self.b_v, self.b_o = rng.normal(0, 0.1, (4, d_model))

    def split(self, x):
        batch, tokens, _ = x.shape
        return x.reshape(batch, tokens, self.num_heads, self.head_dim).transpose(0, 2, 1, 3)

    def __call__(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.split(x @ self.W_q + self.b_q)
        k = self.split(memory @ self.W_k + self.b_k)
        v = self.split(memory @ self.W_v + self.b_v)
        scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(self.head_dim)
        if mask is not None:
            scores = np.where(mask[:, None, None, :], scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = weights / weights.sum(axis=-1, keepdims=True)
        heads = np.einsum("bhqk,bhkd->bhqd", weights, v)
        joined = heads.transpose(0, 2, 1, 3).reshape(x.shape)
        return joined @ self.W_o + self.b_o


# --- causal_arrays
def masked_attention(q, k, v):
    """[batch, head, token, dim]"""
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    future = np.triu(np.ones(scores.shape[-2:], dtype=bool), k=1)
    scores = np.where(future, -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights @ v


# --- grouped_arrays
def grouped_query_attention(q, k, v):
    """q [batch, head, token, dim]; k and v have fewer heads."""
    repeats = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, repeats, axis=1) for x in (k, v))
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhqk,bhkd->bhqd", weights / weights.sum(-1, keepdims=True), v)
