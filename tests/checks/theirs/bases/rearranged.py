import torch
from einops import einsum, rearrange
from torch import nn


class Attention(nn.Module):
    """forward(x, context, mask): mask [batch, key], True where a token is real."""

    def __init__(self, dim, heads, dropout=0.1):
        super().__init__()
        self.dim = dim
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.to_out = nn.Linear(dim, dim)
        self.attend = nn.Softmax(dim=-1)
        self.dropout = nn.Dropout(dropout)

    def split(self, x):
        return rearrange(x, "b n (h d) -> b h n d", h=self.heads)

    def forward(self, x, context=None, mask=None):
        context = x if context is None else context
        q = self.split(self.to_q(x))
        k = self.split(self.to_k(context))
        v = self.split(self.to_v(context))
        dots = einsum(q, k, "b h i d, b h j d -> b h i j") * self.scale
        if mask is not None:
            dots = dots.masked_fill(~rearrange(mask, "b j -> b 1 1 j"), -torch.inf)
        attn = self.attend(dots)
        attn = self.dropout(attn)
        out = einsum(attn, v, "b h i j, b h j d -> b h i d")
        out = rearrange(out, "b h n d -> b n (h d)")
        return self.to_out(out)
