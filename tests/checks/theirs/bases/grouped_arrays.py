import numpy as np


def grouped_query_attention(q, k, v):
    """q [batch, head, token, dim]; k and v have fewer heads."""
    repeats = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, repeats, axis=1) for x in (k, v))
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhqk,bhkd->bhqd", weights / weights.sum(-1, keepdims=True), v)
