import numpy as np


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
