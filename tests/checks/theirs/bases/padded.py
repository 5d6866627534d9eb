import torch
import torch.nn.functional as F


def masked_attention(query, key, value, padding_mask=None):
    """[batch, head, token, dim]; padding_mask [batch, token], 1 for a real token. Gives output and weights."""
    scores = torch.einsum("bhid,bhjd->bhij", query, key) / query.shape[-1] ** 0.5
    if padding_mask is not None:
        hidden = padding_mask[:, None, None, :] == 0
        scores = scores.masked_fill(hidden, -torch.inf)
    weights = F.softmax(scores, dim=-1)
    output = torch.einsum("bhij,bhjd->bhid", weights, value)
    return output, weights
