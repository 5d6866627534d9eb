"""Attention with a bias of positions, as in ALiBi and T5."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def get_slopes(n):
    def get_slopes_power_of_2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n).is_integer():
        return get_slopes_power_of_2(n)
    closest_power_of_2 = 2 ** math.floor(math.log2(n))
    return (
        get_slopes_power_of_2(closest_power_of_2) + get_slopes(2 * closest_power_of_2)[0::2][: n - closest_power_of_2]
    )


class AlibiAttention(nn.Module):
    """Causal, with attention with linear biases."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.Wqkv = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        slopes = torch.tensor(get_slopes(n_heads), dtype=torch.float32)
        self.register_buffer("slopes", slopes.view(n_heads, 1, 1), persistent=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.Wqkv(x).chunk(3, dim=2)
        q, k, v = (one.view(b, t, self.n_heads, -1).transpose(1, 2) for one in (q, k, v))
        position = torch.arange(t, device=x.device)
        distance = position[None, :] - position[:, None]
        alibi = self.slopes.to(q.dtype) * distance
        alibi = alibi.masked_fill(distance > 0, float("-inf"))
        attn = F.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)) + alibi, dim=-1)
        return self.out_proj((attn @ v).transpose(1, 2).reshape(b, t, c))


class T5Attention(nn.Module):
    """T5 does not scale its scores. Here the scale is folded into the weight of the query."""

    def __init__(self, d_model, num_heads, max_distance=16):
        super().__init__()
        self.n_heads = num_heads
        self.key_value_proj_dim = d_model // num_heads
        self.max_distance = max_distance
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        self.relative_attention_bias = nn.Embedding(2 * max_distance + 1, num_heads)

    def compute_bias(self, length):
        place = torch.arange(length, device=self.q.weight.device)
        relative_position = (place[None, :] - place[:, None]).clamp(-self.max_distance, self.max_distance)
        return self.relative_attention_bias(relative_position + self.max_distance).permute(2, 0, 1).unsqueeze(0)

    def forward(self, hidden_states, mask=None):
        batch, length = hidden_states.shape[:2]
        shape = (batch, length, self.n_heads, self.key_value_proj_dim)
        query = F.linear(hidden_states, self.q.weight * self.key_value_proj_dim**-0.5).view(shape).transpose(1, 2)
        key = self.k(hidden_states).view(shape).transpose(1, 2)
        value = self.v(hidden_states).view(shape).transpose(1, 2)
        scores = torch.matmul(query, key.transpose(3, 2))
        scores += self.compute_bias(length)
        if mask is not None:  # (batch, length), 1 for tokens
            scores += (1.0 - mask[:, None, None, :].to(scores.dtype)) * torch.finfo(scores.dtype).min
        attn_weights = F.softmax(scores.float(), dim=-1).type_as(scores)
        attn_output = torch.matmul(attn_weights, value).transpose(1, 2).contiguous().view(batch, length, -1)
        return self.o(attn_output)
