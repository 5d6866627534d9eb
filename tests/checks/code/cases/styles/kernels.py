"""Attention on queries, keys and values: in blocks as FlashAttention, and on tokens that stand in columns."""

import math

import torch
from torch import nn


def flash_attention(q, k, v, causal=False, block_size=3):
    """Goes through blocks of keys and keeps the running maximum and sum of each row (batch, heads, length, size)."""
    q = q * q.shape[-1] ** -0.5
    out = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype, device=q.device)
    row_max = torch.full((*q.shape[:-1], 1), -torch.inf, dtype=q.dtype, device=q.device)
    row_sum = torch.zeros_like(row_max)
    rows = torch.arange(q.shape[-2], device=q.device)[:, None]
    for start in range(0, k.shape[-2], block_size):
        k_block, v_block = k[..., start : start + block_size, :], v[..., start : start + block_size, :]
        s = q @ k_block.transpose(-2, -1)
        if causal:
            columns = start + torch.arange(k_block.shape[-2], device=q.device)
            s = s.masked_fill(columns > rows, -torch.inf)
        new_max = torch.maximum(row_max, s.amax(dim=-1, keepdim=True))
        p = torch.exp(s - new_max)
        correction = torch.exp(row_max - new_max)
        row_sum = row_sum * correction + p.sum(dim=-1, keepdim=True)
        out = out * correction + p @ v_block
        row_max = new_max
    return out / row_sum


class ColumnSelfAttention(nn.Module):
    """H = V softmax(K^T Q / sqrt(D_k)), normalised by column; X (batch, D, N) has a token in each column."""

    def __init__(self, dim, key_dim, value_dim):
        super().__init__()
        self.W_q = nn.Parameter(torch.randn(key_dim, dim) / math.sqrt(dim))
        self.W_k = nn.Parameter(torch.randn(key_dim, dim) / math.sqrt(dim))
        self.W_v = nn.Parameter(torch.randn(value_dim, dim) / math.sqrt(dim))

    def forward(self, X):
        Q, K, V = self.W_q @ X, self.W_k @ X, self.W_v @ X
        scores = K.transpose(-2, -1) @ Q / math.sqrt(K.shape[-2])
        return V @ torch.softmax(scores, dim=-2)
