import torch
import torch.nn.functional as F
from torch import nn


class EinsumAttention(nn.Module):
    """forward(x, memory, padding_mask): padding_mask [batch, key], True where a token is real."""

    def __init__(self, embed_dim, num_heads, dropout=0.1):
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def heads(self, x):
        b, t, _ = x.shape
        return x.reshape(b, t, self.num_heads, self.head_dim)

    def forward(self, x, memory=None, padding_mask=None):
        if memory is None:
            memory = x
        q = self.heads(self.q_proj(x))
        k = self.heads(self.k_proj(memory))
        v = self.heads(self.v_proj(memory))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * self.head_dim**-0.5
        if padding_mask is not None:
            scores = scores.masked_fill(~padding_mask[:, None, None, :], -torch.inf)
        weights = scores.softmax(dim=-1)
        weights = F.dropout(weights, p=self.dropout, training=self.training)
        out = torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2)
        return self.out_proj(out)
