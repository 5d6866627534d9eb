"""A file of somebody's, for tests of `check`."""

MINE = """import torch
from torch import nn


def attention(q, k, v, mask=None):
    # a fully masked row attends to everything
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e4)
    return torch.softmax(scores, -1) @ v


def unscaled(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), -1) @ v


class MyAttention(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, q, k, v, mask=None):
        scores = self.split(self.W_q(q)) @ self.split(self.W_k(k)).transpose(-2, -1)
        scores = scores / (self.W_q.out_features // self.heads) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return self.W_o((torch.softmax(scores, -1) @ self.split(self.W_v(v))).transpose(1, 2).flatten(-2))
"""
