import math

import torch
from torch import nn


class DecoderLayer(nn.Module):
    """forward(x, memory, memory_mask, causal_mask): masks True where a query may look. Norms stand before."""

    def __init__(self, d_model, n_heads, d_ff=64, dropout=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.self_attn = nn.ModuleDict({name: nn.Linear(d_model, d_model) for name in ("q", "k", "v", "o")})
        self.cross_attn = nn.ModuleDict({name: nn.Linear(d_model, d_model) for name in ("q", "k", "v", "o")})
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def attend(self, layers, query, memory, mask):
        q, k, v = layers["q"](query), layers["k"](memory), layers["v"](memory)
        q, k, v = (x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for x in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        heads = torch.softmax(scores, dim=-1) @ v
        return layers["o"](heads.transpose(1, 2).flatten(2))

    def forward(self, x, memory, memory_mask=None, causal_mask=None):
        y = self.norm1(x)
        x = x + self.dropout(self.attend(self.self_attn, y, y, causal_mask))
        y = self.norm2(x)
        x = x + self.dropout(self.attend(self.cross_attn, y, memory, memory_mask))
        y = self.norm3(x)
        return x + self.dropout(self.linear2(nn.functional.gelu(self.linear1(y))))
