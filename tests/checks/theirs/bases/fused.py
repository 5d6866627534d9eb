import torch
import torch.nn.functional as F
from torch import nn


class FusedAttention(nn.Module):
    """forward(x, mask): mask [batch, token], 1 where a token is real and 0 for [PAD]."""

    def __init__(self, d_model, n_heads, dropout=0.1):
        super().__init__()
        self.d_model, self.n_heads, self.dropout = d_model, n_heads, dropout
        self.head_dim = d_model // n_heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * d_model, d_model))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * d_model))
        self.out_proj = nn.Linear(d_model, d_model)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def forward(self, x, mask=None):
        b, t, d = x.shape
        qkv = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = qkv.chunk(3, dim=-1)
        q, k, v = (y.reshape(b, t, self.n_heads, self.head_dim).transpose(1, 2) for y in (q, k, v))
        q = q / self.head_dim**0.5
        scores = q @ k.mT
        if mask is not None:
            hidden = mask[:, None, None, :] == 0
            scores = scores + torch.zeros_like(scores).masked_fill(hidden, float("-inf"))
        weights = F.softmax(scores, dim=3)
        weights = F.dropout(weights, self.dropout, self.training)
        heads = weights @ v
        y = heads.permute(0, 2, 1, 3).reshape(b, t, d)
        return F.linear(y, self.out_proj.weight, self.out_proj.bias)
