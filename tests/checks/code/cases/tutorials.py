"""The two listings of a tutorial: the first takes a mask and never uses it; the complete one is right."""

import torch
import torch.nn.functional as F
from torch import nn


class FirstMultiHeadAttention(nn.Module):
    """The score of query i and key j is at [batch, i, j, head]."""

    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        self.num_heads, self.d_k = num_heads, d_model // num_heads
        self.W_Q, self.W_K, self.W_V, self.W_O = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        return x.reshape(x.size(0), x.size(1), self.num_heads, self.d_k)

    def forward(self, x_q, x_k, x_v, mask=None):
        Q, K, V = self.split(self.W_Q(x_q)), self.split(self.W_K(x_k)), self.split(self.W_V(x_v))
        score = F.softmax(torch.einsum("nihd,njhd->nijh", Q, K) / self.d_k**0.5, dim=2)
        return self.W_O(torch.einsum("nijh,njhd->nihd", score, V).flatten(2))


class FirstSelfAttention(FirstMultiHeadAttention):
    def forward(self, x, mask=None):
        return super().forward(x, x, x, mask)


class CompleteMultiHeadAttention(FirstMultiHeadAttention):
    """padding_mask [batch, key], attention_mask [query, key]: 0 = hidden. A row that may see nothing is NaN."""

    def forward(self, x_q, x_k, x_v, padding_mask=None, attention_mask=None):
        Q, K, V = self.split(self.W_Q(x_q)), self.split(self.W_K(x_k)), self.split(self.W_V(x_v))
        score = torch.einsum("nihd,njhd->nijh", Q, K) / self.d_k**0.5
        if attention_mask is not None:
            score = score.masked_fill(attention_mask[None, :, :, None] == 0, float("-inf"))
        if padding_mask is not None:
            score = score.masked_fill(padding_mask[:, None, :, None] == 0, float("-inf"))
        return self.W_O(torch.einsum("nijh,njhd->nihd", F.softmax(score, dim=2), V).flatten(2))


class CompleteSelfAttention(CompleteMultiHeadAttention):
    def forward(self, x, padding_mask=None, attention_mask=None):
        return super().forward(x, x, x, padding_mask, attention_mask)
