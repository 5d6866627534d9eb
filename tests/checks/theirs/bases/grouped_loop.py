import torch
from torch import nn


class GroupedHeads(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads=2):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)

    def forward(self, x):
        queries = self.wq(x).split(self.head_dim, dim=-1)
        keys = self.wk(x).split(self.head_dim, dim=-1)
        values = self.wv(x).split(self.head_dim, dim=-1)
        shared = self.n_heads // self.n_kv_heads
        outputs = []
        for head in range(self.n_heads):
            group = head // shared
            scores = queries[head] @ keys[group].mT * self.head_dim**-0.5
            outputs.append(scores.softmax(dim=-1) @ values[group])
        return self.wo(torch.cat(outputs, dim=-1))
