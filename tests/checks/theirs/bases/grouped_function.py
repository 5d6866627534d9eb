import torch.nn.functional as F


def repeat_kv(x, times):
    batch, heads, tokens, dim = x.shape
    x = x[:, :, None].expand(batch, heads, times, tokens, dim)
    return x.reshape(batch, heads * times, tokens, dim)


def grouped_attention(q, k, v):
    """q [batch, head, token, dim]; k and v have fewer heads."""
    times = q.shape[1] // k.shape[1]
    scores = q @ repeat_kv(k, times).transpose(-2, -1) / q.shape[-1] ** 0.5
    return F.softmax(scores, dim=-1) @ repeat_kv(v, times)
