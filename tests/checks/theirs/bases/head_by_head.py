import torch
import torch.nn.functional as F
from torch import nn


class HeadByHead(nn.Module):
    """forward(x, context, mask): mask [batch, key], 1 where a token is real."""

    def __init__(self, dim, num_heads, dropout=0.1):
        super().__init__()
        self.dim, self.head_dim = dim, dim // num_heads
        self.queries = nn.ModuleList(nn.Linear(dim, self.head_dim) for _ in range(num_heads))
        self.keys = nn.ModuleList(nn.Linear(dim, self.head_dim) for _ in range(num_heads))
        self.values = nn.ModuleList(nn.Linear(dim, self.head_dim) for _ in range(num_heads))
        self.proj = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, context=None, mask=None):
        context = x if context is None else context
        outputs = []
        for to_query, to_key, to_value in zip(self.queries, self.keys, self.values, strict=True):
            q = to_query(x)
            k = to_key(context)
            v = to_value(context)
            scores = torch.bmm(q, k.transpose(1, 2)) / self.head_dim**0.5
            if mask is not None:
                scores = scores.masked_fill(mask[:, None, :] == 0, float("-inf"))
            weights = F.softmax(scores, dim=-1)
            weights = self.dropout(weights)
            outputs.append(torch.bmm(weights, v))
        out = torch.cat(outputs, dim=-1)
        return self.proj(out)
