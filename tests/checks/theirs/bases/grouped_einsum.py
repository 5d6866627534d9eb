import torch
from einops import rearrange


def attend_in_groups(query, key, value):
    """query [batch, token, head, dim]; key and value have fewer heads."""
    query = rearrange(query, "b i (g r) d -> b g r i d", g=key.shape[2])
    scores = torch.einsum("bgrid,bjgd->bgrij", query, key) / query.shape[-1] ** 0.5
    out = torch.einsum("bgrij,bjgd->bgrid", scores.softmax(dim=-1), value)
    return rearrange(out, "b g r i d -> b i (g r) d")
