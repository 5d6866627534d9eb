"""Multi-head attention under many names: a layer for each projection, one for three, matrices, or single heads."""

import math

import torch
import torch.nn.functional as F
from einops.layers.torch import Rearrange
from torch import nn
from torch.nn import MultiheadAttention  # noqa: F401  checked as it is


class Projections(nn.Module):
    """Keys and values may be narrower than the model."""

    def __init__(self, d_model, n_heads, d_keys=None, d_values=None):
        super().__init__()
        d_keys, d_values = d_keys or d_model // n_heads, d_values or d_model // n_heads
        self.query_projection = nn.Linear(d_model, d_keys * n_heads)
        self.key_projection = nn.Linear(d_model, d_keys * n_heads)
        self.value_projection = nn.Linear(d_model, d_values * n_heads)
        self.out_projection = nn.Linear(d_values * n_heads, d_model)
        self.n_heads = n_heads

    def forward(self, queries, keys, values):
        (B, L, _), S, H = queries.shape, keys.shape[1], self.n_heads
        queries = self.query_projection(queries).view(B, L, H, -1)
        keys = self.key_projection(keys).view(B, S, H, -1)
        values = self.value_projection(values).view(B, S, H, -1)
        A = torch.softmax(queries.shape[-1] ** -0.5 * torch.einsum("blhe,bshe->bhls", queries, keys), dim=-1)
        return self.out_projection(torch.einsum("bhls,bshd->blhd", A, values).reshape(B, L, -1))


class CausalOfContext(nn.Module):
    """The mask is a buffer as long as context_length."""

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3))
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))

    def forward(self, x):
        keys = self.W_key(x).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
        queries = self.W_query(x).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
        values = self.W_value(x).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
        attn_scores = queries @ keys.transpose(2, 3)
        attn_scores = attn_scores.masked_fill(self.mask.bool()[: x.shape[1], : x.shape[1]], -torch.inf)
        attn_weights = self.dropout(torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1))
        return self.out_proj((attn_weights @ values).transpose(1, 2).flatten(2))


class CausalColumns(nn.Module):
    """The weight of c_attn stands to the right of x, [in, out], as OpenAI stored it."""

    class Conv1D(nn.Module):
        def __init__(self, nf, nx):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(nx, nf) * nx**-0.5)
            self.bias = nn.Parameter(torch.zeros(nf))

        def forward(self, x):
            return torch.addmm(self.bias, x.reshape(-1, x.size(-1)), self.weight).view(*x.shape[:-1], -1)

    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn, self.c_proj = self.Conv1D(3 * n_embd, n_embd), self.Conv1D(n_embd, n_embd)

    def forward(self, x):
        q, k, v = (t.unflatten(2, (self.n_head, -1)).transpose(1, 2) for t in self.c_attn(x).chunk(3, dim=2))
        return self.c_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape))


class Inherits(nn.MultiheadAttention):
    """mask [query, key]: True = must not look, as in torch."""

    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads, batch_first=True)

    def forward(self, x, mask=None):
        return super().forward(x, x, x, attn_mask=mask, need_weights=False)[0]


class Wraps(nn.Module):
    """padding_mask [batch, key], True = real."""

    def __init__(self, d_model, nhead, dropout=0.1):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=True)

    def forward(self, x, padding_mask=None):
        return self.attention(x, x, x, key_padding_mask=None if padding_mask is None else ~padding_mask)


class MatricesBefore(nn.Module):
    """W x + b, as papers that write a token as a column have it."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        for name in ("query", "key", "value", "output"):
            self.register_parameter(name, nn.Parameter(torch.randn(d_model, d_model) / math.sqrt(d_model)))
            self.register_parameter(f"{name}_bias", nn.Parameter(torch.zeros(d_model, 1)))

    def forward(self, x):
        columns = x.transpose(1, 2)
        q = (self.query @ columns + self.query_bias).unflatten(1, (self.n_heads, -1))
        k = (self.key @ columns + self.key_bias).unflatten(1, (self.n_heads, -1))
        v = (self.value @ columns + self.value_bias).unflatten(1, (self.n_heads, -1))
        weights = torch.softmax(torch.einsum("bhdj,bhdi->bhji", k, q) / q.shape[2] ** 0.5, dim=2)
        out = torch.einsum("bhdj,bhji->bhdi", v, weights).flatten(1, 2)
        return (self.output @ out + self.output_bias).transpose(1, 2)


class HeadMatrices(nn.Module):
    """A matrix for every head, [heads, d_model, d_head]. Causal."""

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


class SelfAttention(nn.Module):
    """One head and nothing behind it."""

    def __init__(self, d_in, d_out, qkv_bias=False):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3))

    def forward(self, x):
        keys, queries, values = self.W_key(x), self.W_query(x), self.W_value(x)
        return torch.softmax(queries @ keys.transpose(-2, -1) / keys.shape[-1] ** 0.5, dim=-1) @ values


class OneHeadOfMatrix(nn.Module):
    """One head of [token, d_in]. Returns the weights too."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        for name in ("W_query", "W_key", "W_value"):
            self.register_parameter(name, nn.Parameter(torch.rand(input_size, hidden_size)))

    def forward(self, x):
        queries, keys, values = x.matmul(self.W_query), x.matmul(self.W_key), x.matmul(self.W_value)
        weights = F.softmax(queries.matmul(keys.t()) / keys.size(1) ** 0.5, dim=1)
        return weights.matmul(values), weights


class RearrangeLayers(nn.Module):
    """Layers split and join the heads. attn_mask: True = must not look."""

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
