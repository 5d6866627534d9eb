import math

import torch
from torch import nn


class EncoderLayer(nn.Module):
    """forward(x, mask): mask [batch, token], True where a token is real. Norms stand behind."""

    def __init__(self, d_model, n_heads, d_ff=64, dropout=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def attend(self, x, mask):
        q, k, v = (
            layer(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
        heads = torch.softmax(scores, dim=-1) @ v
        return self.output(heads.transpose(1, 2).flatten(2))

    def forward(self, x, mask=None):
        x = self.norm1(x + self.dropout(self.attend(x, mask)))
        hidden = torch.relu(self.up(x))
        return self.norm2(x + self.dropout(self.down(hidden)))
