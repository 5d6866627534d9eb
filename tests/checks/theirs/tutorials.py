"""The listings of the tutorials that this program is for, written anew after what they describe, slips and all."""

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Tutorial(NamedTuple):
    """mistake: what is wrong with `name`, None if nothing is. convention: what is not wrong, but has to be known."""

    name: str
    mistake: str | None
    convention: str | None = None


class FirstMultiHeadAttention(nn.Module):
    """The score of query i and key j is at [batch, i, j, head]."""

    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("num_heads must divide d_model")
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.W_Q = nn.Linear(d_model, d_model)
        self.W_K = nn.Linear(d_model, d_model)
        self.W_V = nn.Linear(d_model, d_model)
        self.W_O = nn.Linear(d_model, d_model)

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
    """padding_mask [batch, key], attention_mask [query, key]: where they are 0, the score is -inf."""

    def forward(self, x_q, x_k, x_v, padding_mask=None, attention_mask=None):
        Q, K, V = self.split(self.W_Q(x_q)), self.split(self.W_K(x_k)), self.split(self.W_V(x_v))
        score = torch.einsum("nihd,njhd->nijh", Q, K) / self.d_k**0.5
        if attention_mask is not None:
            score = score.masked_fill(attention_mask[None, :, :, None] == 0, float("-inf"))
        if padding_mask is not None:
            score = score.masked_fill(padding_mask[:, None, :, None] == 0, float("-inf"))
        score = F.softmax(score, dim=2)
        return self.W_O(torch.einsum("nijh,njhd->nihd", score, V).flatten(2))


class CompleteSelfAttention(CompleteMultiHeadAttention):
    def forward(self, x, padding_mask=None, attention_mask=None):
        return super().forward(x, x, x, padding_mask, attention_mask)


def scaled_dot_product_attention(q, k, v, mask=None):
    """As TensorFlow's tutorial has it, here in torch: mask is 1 where a query must not look."""
    matmul_qk = torch.matmul(q, k.transpose(-2, -1))
    dk = torch.tensor(k.shape[-1], dtype=q.dtype)
    scaled_attention_logits = matmul_qk / torch.sqrt(dk)
    if mask is not None:
        scaled_attention_logits = scaled_attention_logits + mask * -1e9
    attention_weights = F.softmax(scaled_attention_logits, dim=-1)
    return torch.matmul(attention_weights, v), attention_weights


def scaled_dot_product_attention_of_arrays(q, k, v, mask=None):
    """The same in numpy."""
    logits = np.matmul(q, np.swapaxes(k, -1, -2)) / np.sqrt(k.shape[-1])
    if mask is not None:
        logits = logits + mask * -1e9
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return np.matmul(weights, v), weights


class BahdanauAttention(nn.Module):
    """query [batch, hidden] is a decoder's state, values [batch, token, hidden] are an encoder's."""

    def __init__(self, hidden_size: int, units: int):
        super().__init__()
        self.W1 = nn.Linear(hidden_size, units)
        self.W2 = nn.Linear(hidden_size, units)
        self.V = nn.Linear(units, 1)

    def forward(self, query, values):
        score = self.V(torch.tanh(self.W1(values) + self.W2(query.unsqueeze(1))))
        attention_weights = F.softmax(score, dim=1)
        return (attention_weights * values).sum(dim=1), attention_weights


NAN = "a row that may see nothing is NaN"
TUTORIALS = (
    Tutorial("FirstMultiHeadAttention", "mask never used"),
    Tutorial("FirstSelfAttention", "mask never used"),
    Tutorial("CompleteMultiHeadAttention", None, NAN),
    Tutorial("CompleteSelfAttention", None, NAN),
    Tutorial("scaled_dot_product_attention", "fully masked rows uniform", "True means forbidden"),
    Tutorial("scaled_dot_product_attention_of_arrays", "fully masked rows uniform", "True means forbidden"),
    Tutorial("BahdanauAttention", None, "scores are additive"),
)
