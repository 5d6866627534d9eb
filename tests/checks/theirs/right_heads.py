"""Attention with matrices of its own, by single heads, or with tokens before the batch. All are right."""

import math

import torch
import torch.nn.functional as F
from einops.layers.torch import Rearrange
from torch import nn


class MatricesBehind(nn.Module):
    """x @ W; no bias."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            self.register_parameter(name, nn.Parameter(torch.randn(d_model, d_model) / math.sqrt(d_model)))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = ((x @ W).reshape(b, t, self.n_heads, -1).transpose(1, 2) for W in (self.W_Q, self.W_K, self.W_V))
        p = F.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1)
        return (p @ v).transpose(1, 2).reshape(b, t, d) @ self.W_O


class MatricesBefore(nn.Module):
    """W x, as papers that write a token as a column have it; with a bias."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query, self.key, self.value, self.output = (
            nn.Parameter(torch.randn(d_model, d_model) / math.sqrt(d_model)) for _ in range(4)
        )
        self.query_bias, self.key_bias, self.value_bias, self.output_bias = (
            nn.Parameter(torch.zeros(d_model, 1)) for _ in range(4)
        )

    def forward(self, x):
        columns = x.transpose(1, 2)
        q = (self.query @ columns + self.query_bias).unflatten(1, (self.n_heads, -1))
        k = (self.key @ columns + self.key_bias).unflatten(1, (self.n_heads, -1))
        v = (self.value @ columns + self.value_bias).unflatten(1, (self.n_heads, -1))
        weights = torch.softmax(torch.einsum("bhdj,bhdi->bhji", k, q) / q.shape[2] ** 0.5, dim=2)
        out = torch.einsum("bhdj,bhji->bhdi", v, weights).flatten(1, 2)
        return (self.output @ out + self.output_bias).transpose(1, 2)


class HeadMatrices(nn.Module):
    """A matrix for every head, [heads, d_model, d_head], and W_O [heads, d_head, d_model]; it is causal."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        d_head = d_model // n_heads
        self.W_Q, self.W_K, self.W_V = (nn.Parameter(torch.randn(n_heads, d_model, d_head) * 0.3) for _ in range(3))
        self.W_O = nn.Parameter(torch.randn(n_heads, d_head, d_model) * 0.3)
        self.b_Q, self.b_K, self.b_V = (nn.Parameter(torch.zeros(n_heads, d_head)) for _ in range(3))
        self.b_O = nn.Parameter(torch.zeros(d_model))

    def forward(self, resid):
        q = torch.einsum("bpm,nmh->bpnh", resid, self.W_Q) + self.b_Q
        k = torch.einsum("bpm,nmh->bpnh", resid, self.W_K) + self.b_K
        v = torch.einsum("bpm,nmh->bpnh", resid, self.W_V) + self.b_V
        scores = torch.einsum("bqnh,bknh->bnqk", q, k) / self.W_Q.shape[-1] ** 0.5
        places = torch.arange(resid.shape[1])
        pattern = scores.masked_fill(places[None, :] > places[:, None], -torch.inf).softmax(dim=-1)
        z = torch.einsum("bnqk,bknh->bqnh", pattern, v)
        return torch.einsum("bqnh,nhm->bqm", z, self.W_O) + self.b_O


class Head(nn.Module):
    def __init__(self, n_embd, head_size):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)

    def forward(self, x, mask=None):
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        if mask is not None:
            wei = wei.masked_fill(mask == 0, float("-inf"))
        return F.softmax(wei, dim=-1) @ self.value(x)


class HeadByHead(nn.Module):
    """Heads with small layers of their own, joined, and a projection. mask [query, key]: 1 = look."""

    def __init__(self, n_embd, num_heads):
        super().__init__()
        self.heads = nn.ModuleList([Head(n_embd, n_embd // num_heads) for _ in range(num_heads)])
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x, mask=None):
        return self.proj(torch.cat([h(x, mask) for h in self.heads], dim=-1))


class SelfAttention(nn.Module):
    """One head and nothing behind it."""

    def __init__(self, d_in, d_out, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x):
        keys, queries, values = self.W_key(x), self.W_query(x), self.W_value(x)
        return torch.softmax(queries @ keys.transpose(-2, -1) / keys.shape[-1] ** 0.5, dim=-1) @ values


class OneHeadOfMatrix(nn.Module):
    """One head, x is [token, d_in]; gives output and weights."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.W_query = nn.Parameter(torch.rand(input_size, hidden_size))
        self.W_key = nn.Parameter(torch.rand(input_size, hidden_size))
        self.W_value = nn.Parameter(torch.rand(input_size, hidden_size))

    def forward(self, x):
        queries, keys, values = x.matmul(self.W_query), x.matmul(self.W_key), x.matmul(self.W_value)
        weights = F.softmax(queries.matmul(keys.t()) / keys.size(1) ** 0.5, dim=1)
        return weights.matmul(values), weights


class TokenFirst(nn.Module):
    """[token, batch, d_model], as torch's own without batch_first; mask [query, key], added."""

    def __init__(self, d_model, nhead):
        super().__init__()
        self.nhead = nhead
        self.q, self.k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v, self.o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        T, B, D = x.shape
        q, k, v = (lin(x).view(T, B * self.nhead, D // self.nhead).transpose(0, 1) for lin in (self.q, self.k, self.v))
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(D // self.nhead)
        if mask is not None:
            scores = scores + mask
        return self.o(torch.bmm(scores.softmax(dim=-1), v).transpose(0, 1).reshape(T, B, D))


class RearrangeLayers(nn.Module):
    """The heads are split and joined by layers; forward(q, k, v, mask), True = must not look."""

    def __init__(self, dim, heads):
        super().__init__()
        self.query = nn.Sequential(nn.Linear(dim, dim), Rearrange("b t (h d) -> b h t d", h=heads))
        self.key = nn.Sequential(nn.Linear(dim, dim), Rearrange("b t (h d) -> b h d t", h=heads))
        self.value = nn.Sequential(nn.Linear(dim, dim), Rearrange("b t (h d) -> b h t d", h=heads))
        self.output = nn.Sequential(Rearrange("b h t d -> b t (h d)"), nn.Linear(dim, dim))

    def forward(self, query, key, value, attn_mask=None):
        q, k, v = self.query(query), self.key(key), self.value(value)
        scores = q @ k / q.shape[-1] ** 0.5
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask, -torch.inf)
        return self.output(scores.softmax(dim=-1) @ v)
