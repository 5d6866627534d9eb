"""Right attention, in the programs that `mistakes.txt` changes. Each part is a program below the imports."""

import math

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import nn


# --- separate
class MultiHeadAttention(nn.Module):
    """forward(query, key, value, mask): mask [query, key], True where a query may look."""

    def __init__(self, d_model, num_heads, dropout=0.1):
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def split_heads(self, x):
        batch, length, _ = x.shape
        return x.view(batch, length, self.num_heads, self.d_k).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        batch, length, _ = query.shape
        q = self.split_heads(self.W_q(query))
        k = self.split_heads(self.W_k(key))
        v = self.split_heads(self.W_v(value))

        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        weights = self.dropout(weights)

        out = torch.matmul(weights, v)
        out = out.transpose(1, 2).reshape(batch, length, self.d_model)
        return self.W_o(out)


# --- einsums
class EinsumAttention(nn.Module):
    """forward(x, memory, padding_mask): padding_mask [batch, key], True where a token is real."""

    def __init__(self, embed_dim, num_heads, dropout=0.1):
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(4))

    def heads(self, x):
        b, t, _ = x.shape
        return x.reshape(b, t, self.num_heads, self.head_dim)

    def forward(self, x, memory=None, padding_mask=None):
        if memory is None:
            memory = x
        q = self.heads(self.q_proj(x))
        k = self.heads(self.k_proj(memory))
        v = self.heads(self.v_proj(memory))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * self.head_dim**-0.5
        if padding_mask is not None:
            scores = scores.masked_fill(~padding_mask[:, None, None, :], -torch.inf)
        weights = scores.softmax(dim=-1)
        weights = F.dropout(weights, p=self.dropout, training=self.training)
        out = torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2)
        return self.out_proj(out)


# --- fused
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


# --- function
def attention(q, k, v, mask=None):
    """q, k and v [batch, head, token, dim]; mask [query, key], True where a query may look."""
    d_k = q.size(-1)
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(torch.logical_not(mask), -math.inf)
    weights = scores.softmax(dim=-1)
    return weights @ v


# --- padded
def masked_attention(query, key, value, padding_mask=None):
    """[batch, head, token, dim]; padding_mask [batch, token], 1 for a real token. Gives output and weights."""
    scores = torch.einsum("bhid,bhjd->bhij", query, key) / query.shape[-1] ** 0.5
    if padding_mask is not None:
        hidden = padding_mask[:, None, None, :] == 0
        scores = scores.masked_fill(hidden, -torch.inf)
    weights = F.softmax(scores, dim=-1)
    output = torch.einsum("bhij,bhjd->bhid", weights, value)
    return output, weights


# --- head_by_head
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


# --- rearranged
class Attention(nn.Module):
    """forward(x, context, mask): mask [batch, key], True where a token is real."""

    def __init__(self, dim, heads, dropout=0.1):
        super().__init__()
        self.dim = dim
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(dim, dim) for _ in range(4))
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


# --- causal_buffer
class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size=64):
        super().__init__()
        self.n_embd, self.n_head = n_embd, n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.register_buffer("seen", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        att = att.masked_fill(self.seen[:T, :T] == 0, float("-inf"))
        att = att.softmax(dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


# --- causal_function
def causal_attention(query, key, value):
    """[batch, head, token, dim]"""
    length = query.shape[-2]
    seen = torch.ones(length, length, dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)


# --- causal_loop
def decode(q, k, v):
    """[batch, head, token, dim], a query at a time."""
    outputs = []
    for i in range(q.shape[2]):
        past = slice(0, i + 1)
        scores = torch.einsum("bhd,bhjd->bhj", q[:, :, i], k[:, :, past]) / q.shape[-1] ** 0.5
        outputs.append(torch.einsum("bhj,bhjd->bhd", scores.softmax(-1), v[:, :, past]))
    return torch.stack(outputs, dim=2)


# --- causal_places
class MaskedSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj, self.k_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v_proj, self.o_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        q, k, v = (proj(x).unflatten(-1, (self.n_heads, -1)) for proj in (self.q_proj, self.k_proj, self.v_proj))
        scores = torch.einsum("bihd,bjhd->bhij", q, k) / q.shape[-1] ** 0.5
        places = torch.arange(x.shape[1])
        hidden = places[None, :] > places[:, None]
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        return self.o_proj(torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2))


# --- grouped_module
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads=2):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, d_model // num_heads
        self.q_proj = nn.Linear(d_model, num_heads * self.head_dim)
        self.k_proj = nn.Linear(d_model, num_kv_heads * self.head_dim)
        self.v_proj = nn.Linear(d_model, num_kv_heads * self.head_dim)
        self.o_proj = nn.Linear(num_heads * self.head_dim, d_model)

    def forward(self, x):
        b, t, _ = x.shape
        q = self.q_proj(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, t, self.num_kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, t, self.num_kv_heads, self.head_dim).transpose(1, 2)
        groups = self.num_heads // self.num_kv_heads
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        weights = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(self.head_dim), dim=-1)
        return self.o_proj((weights @ v).transpose(1, 2).reshape(b, t, -1))


# --- grouped_function
def repeat_kv(x, times):
    batch, heads, tokens, dim = x.shape
    x = x[:, :, None].expand(batch, heads, times, tokens, dim)
    return x.reshape(batch, heads * times, tokens, dim)


def grouped_attention(q, k, v):
    """q [batch, head, token, dim]; k and v have fewer heads."""
    times = q.shape[1] // k.shape[1]
    scores = q @ repeat_kv(k, times).transpose(-2, -1) / q.shape[-1] ** 0.5
    return F.softmax(scores, dim=-1) @ repeat_kv(v, times)


# --- grouped_loop
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


# --- grouped_einsum
def attend_in_groups(query, key, value):
    """query [batch, token, head, dim]; key and value have fewer heads."""
    query = rearrange(query, "b i (g r) d -> b g r i d", g=key.shape[2])
    scores = torch.einsum("bgrid,bjgd->bgrij", query, key) / query.shape[-1] ** 0.5
    out = torch.einsum("bgrij,bjgd->bgrid", scores.softmax(dim=-1), value)
    return rearrange(out, "b g r i d -> b i (g r) d")
