import math

import torch


def attention(q, k, v, mask=None):
    """q, k and v [batch, head, token, dim]; mask [query, key], True where a query may look."""
    d_k = q.size(-1)
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(torch.logical_not(mask), -math.inf)
    weights = scores.softmax(dim=-1)
    return weights @ v
