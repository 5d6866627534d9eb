"""Multi-head attention under many names: a layer for each projection, one for three, matrices, or single heads."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from einops.layers.torch import Rearrange
from torch import nn
from torch.nn import MultiheadAttention  # noqa: F401  checked as it is


class MultiHeadAttention(nn.Module):
    """mask [query, key], 1 = look."""

    def __init__(self, d_model, num_heads, dropout=0.1):
        super().__init__()
        self.d_model, self.num_heads, self.d_k = d_model, num_heads, d_model // num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def split_heads(self, x):
        return x.view(x.size(0), x.size(1), self.num_heads, self.d_k).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        Q, K, V = self.split_heads(self.W_q(query)), self.split_heads(self.W_k(key)), self.split_heads(self.W_v(value))
        scores = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        out = torch.matmul(self.dropout(torch.softmax(scores, dim=-1)), V)
        return self.W_o(out.transpose(1, 2).contiguous().view(query.size(0), -1, self.d_model))


class ProjAttention(nn.Module):
    """attention_mask is added, [batch, 1, query, key]. Returns the weights too."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(4))

    def forward(self, hidden_states, attention_mask=None):
        shape = (*hidden_states.shape[:-1], self.num_heads, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2) * self.head_dim**-0.5
        scores = query @ self.k_proj(hidden_states).view(shape).transpose(1, 2).transpose(2, 3)
        if attention_mask is not None:
            scores = scores + attention_mask
        weights = F.softmax(scores, dim=-1)
        out = weights @ self.v_proj(hidden_states).view(shape).transpose(1, 2)
        return self.out_proj(out.transpose(1, 2).flatten(2)), weights


class EncoderSelfAttention(nn.Module):
    """As in BERT, with query, key and value in a part of its own. attention_mask [batch, token], 1 = real."""

    class Heads(nn.Module):
        def __init__(self, hidden_size, num_attention_heads):
            super().__init__()
            self.num_attention_heads = num_attention_heads
            self.query, self.key, self.value = (nn.Linear(hidden_size, hidden_size) for _ in range(3))

        def forward(self, x, mask):
            layers = self.query, self.key, self.value
            q, k, v = (layer(x).unflatten(-1, (self.num_attention_heads, -1)).transpose(1, 2) for layer in layers)
            scores = q @ k.mT / math.sqrt(q.size(-1))
            if mask is not None:
                scores = scores.masked_fill(mask[:, None, None, :] == 0, -torch.inf)
            return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)

    def __init__(self, hidden_size, num_attention_heads):
        super().__init__()
        self.self = self.Heads(hidden_size, num_attention_heads)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states, attention_mask=None):
        return self.dense(self.self(hidden_states, attention_mask))


class DimHeadAttention(nn.Module):
    """The inner width is heads * dim_head. mask [batch, key]."""

    def __init__(self, dim, heads=8, dim_head=64, dropout=0.0):
        super().__init__()
        self.heads, self.scale = heads, dim_head**-0.5
        self.to_q = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_kv = nn.Linear(dim, heads * dim_head * 2, bias=False)
        self.to_out = nn.Sequential(nn.Linear(heads * dim_head, dim), nn.Dropout(dropout))

    def forward(self, x, context=None, mask=None):
        context = x if context is None else context
        q, k, v = self.to_q(x), *self.to_kv(context).chunk(2, dim=-1)
        q, k, v = (rearrange(t, "b n (h d) -> b h n d", h=self.heads) for t in (q, k, v))
        dots = torch.einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        if mask is not None:
            dots = dots.masked_fill(~rearrange(mask, "b j -> b 1 1 j"), -torch.inf)
        out = torch.einsum("b h i j, b h j d -> b h i d", dots.softmax(dim=-1), v)
        return self.to_out(rearrange(out, "b h n d -> b n (h d)"))


class CrossAttention(nn.Module):
    """The fused kernel, without any bias."""

    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x, memory):
        xq, xk, xv = self.wq(x), self.wk(memory), self.wv(memory)
        xq, xk, xv = (t.view(*t.shape[:2], self.n_heads, -1).transpose(1, 2) for t in (xq, xk, xv))
        return self.wo(F.scaled_dot_product_attention(xq, xk, xv).transpose(1, 2).reshape(x.shape))


class ListOfLinears(nn.Module):
    """Four layers in a list; the last stands behind the heads. mask: True = look."""

    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.h, self.d_k, self.attn = h, d_model // h, None
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        pairs = zip(self.linears, (query, key, value), strict=False)
        query, key, value = [lin(x).view(len(x), -1, self.h, self.d_k).transpose(1, 2) for lin, x in pairs]
        scores = query @ key.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(-3) == 0, -math.inf)
        self.attn = scores.softmax(dim=-1)
        return self.linears[-1]((self.dropout(self.attn) @ value).transpose(1, 2).flatten(2))


class LinearQ(nn.Module):
    """The heads lie along the batch."""

    def __init__(self, in_features, head_num, bias=True):
        super().__init__()
        self.head_num = head_num
        layers = (nn.Linear(in_features, in_features, bias) for _ in range(4))
        self.linear_q, self.linear_k, self.linear_v, self.linear_o = layers

    def to_batches(self, x):
        batch, length, width = x.size()
        x = x.reshape(batch, length, self.head_num, width // self.head_num).permute(0, 2, 1, 3)
        return x.reshape(batch * self.head_num, length, width // self.head_num)

    def forward(self, q, k, v):
        heads = [self.to_batches(lin(x)) for lin, x in ((self.linear_q, q), (self.linear_k, k), (self.linear_v, v))]
        weights = torch.bmm(heads[0], heads[1].mT).div(math.sqrt(heads[0].size(-1))).softmax(-1)
        y = torch.bmm(weights, heads[2]).view(q.size(0), self.head_num, q.size(1), -1)
        return self.linear_o(y.permute(0, 2, 1, 3).flatten(2))


class QLinear(nn.Module):
    """mask [batch, query, key], 1 = look. Returns the weights too."""

    def __init__(self, heads, d_model):
        super().__init__()
        self.d_k, self.heads = d_model // heads, heads
        self.q_linear, self.v_linear, self.k_linear, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        bs = q.size(0)
        k = self.k_linear(k).view(bs, -1, self.heads, self.d_k).transpose(1, 2)
        q = self.q_linear(q).view(bs, -1, self.heads, self.d_k).transpose(1, 2)
        v = self.v_linear(v).view(bs, -1, self.heads, self.d_k).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1) == 0, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        return self.out(torch.matmul(weights, v).transpose(1, 2).flatten(2)), weights


class FullyConnected(nn.Module):
    """Inputs may have several widths. valid_lens [batch]: so many keys are real."""

    def __init__(self, query_size, key_size, value_size, num_hiddens, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.fc_q, self.fc_k = nn.Linear(query_size, num_hiddens), nn.Linear(key_size, num_hiddens)
        self.fc_v, self.fc_o = nn.Linear(value_size, num_hiddens), nn.Linear(num_hiddens, num_hiddens)

    def forward(self, queries, keys, values, valid_lens=None):
        projected = self.fc_q(queries), self.fc_k(keys), self.fc_v(values)
        q, k, v = (x.unflatten(2, (self.num_heads, -1)).transpose(1, 2) for x in projected)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if valid_lens is not None:
            real = torch.arange(keys.shape[1]) < valid_lens[:, None]
            scores = scores.masked_fill(~real[:, None, None], -torch.inf)
        return self.fc_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


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


class UnifyHeads(nn.Module):
    """The scale is divided between queries and keys."""

    def __init__(self, emb, heads=8):
        super().__init__()
        self.heads = heads
        self.tokeys, self.toqueries, self.tovalues = (nn.Linear(emb, emb, bias=False) for _ in range(3))
        self.unifyheads = nn.Linear(emb, emb)

    def forward(self, x):
        b, t, e = x.size()
        h, s = self.heads, e // self.heads
        keys = self.tokeys(x).view(b, t, h, s).transpose(1, 2).contiguous().view(b * h, t, s)
        queries = self.toqueries(x).view(b, t, h, s).transpose(1, 2).contiguous().view(b * h, t, s)
        values = self.tovalues(x).view(b, t, h, s).transpose(1, 2).contiguous().view(b * h, t, s)
        dot = torch.bmm(queries / s**0.25, (keys / s**0.25).transpose(1, 2))
        out = torch.bmm(F.softmax(dot, dim=2), values).view(b, h, t, s)
        return self.unifyheads(out.transpose(1, 2).contiguous().view(b, t, e))


class ValuesFirst(nn.Module):
    """Values, keys, query: in this order. mask: 1 = look."""

    def __init__(self, embed_size, heads):
        super().__init__()
        self.heads, self.head_dim = heads, embed_size // heads
        self.values, self.keys, self.queries, self.fc_out = (nn.Linear(embed_size, embed_size) for _ in range(4))

    def forward(self, values, keys, query, mask=None):
        values = self.values(values).unflatten(2, (self.heads, self.head_dim))
        keys = self.keys(keys).unflatten(2, (self.heads, self.head_dim))
        queries = self.queries(query).unflatten(2, (self.heads, self.head_dim))
        energy = torch.einsum("nqhd,nkhd->nhqk", [queries, keys])
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-inf"))
        attention = torch.softmax(energy / (self.head_dim ** (1 / 2)), dim=3)
        return self.fc_out(torch.einsum("nhql,nlhd->nqhd", [attention, values]).flatten(2))


class Interleaved(nn.Module):
    """A head has every num_heads-th column."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.lin_q, self.lin_k, self.lin_v, self.lin_out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        layers = self.lin_q, self.lin_k, self.lin_v
        q, k, v = (rearrange(lin(x), "b t (d h) -> b h t d", h=self.num_heads) for lin in layers)
        weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)
        return self.lin_out(rearrange(weights @ v, "b h t d -> b t (d h)"))


class GroupedQuery(nn.Module):
    """Two query heads share a key head; with n_kv_heads=1 all do."""

    def __init__(self, dim, n_heads, n_kv_heads=None):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads or n_heads // 2, dim // n_heads
        self.wq, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(2))
        self.wk, self.wv = (nn.Linear(dim, self.n_kv_heads * self.head_dim, bias=False) for _ in range(2))

    def forward(self, x):
        xq = self.wq(x).unflatten(2, (self.n_heads, self.head_dim))
        xk, xv = (w(x).unflatten(2, (self.n_kv_heads, self.head_dim)) for w in (self.wk, self.wv))
        xk, xv = (t.repeat_interleave(self.n_heads // self.n_kv_heads, dim=2) for t in (xk, xv))
        scores = torch.einsum("bihd,bjhd->bhij", xq, xk) / math.sqrt(self.head_dim)
        return self.wo(torch.einsum("bhij,bjhd->bihd", F.softmax(scores, dim=-1), xv).flatten(2))


class MultiQuery(nn.Module):
    """All query heads share one key head. mask: True = look."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.Wq, self.Wo = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.Wk, self.Wv = nn.Linear(d_model, self.d_head), nn.Linear(d_model, self.d_head)

    def forward(self, x, mask=None):
        q, k, v = self.Wq(x).unflatten(-1, (self.n_heads, self.d_head)), self.Wk(x), self.Wv(x)
        scores = torch.einsum("bihd,bjd->bhij", q, k) / self.d_head**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        return self.Wo(torch.einsum("bhij,bjd->bihd", scores.softmax(-1), v).flatten(2))


class ThreeHeadsDim(nn.Module):
    """The rows of qkv are [3, heads, dim], as in vision transformers."""

    def __init__(self, dim, num_heads=8, qkv_bias=True, attn_drop=0.0):
        super().__init__()
        self.num_heads, self.scale = num_heads, (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4).unbind(0)
        attn = ((q * self.scale) @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.proj((self.attn_drop(attn) @ v).transpose(1, 2).reshape(B, N, C))


class HeadsThreeDim(nn.Module):
    """The rows of qkv_proj are [heads, 3, dim]. mask [query, key], 0 = hidden. A flag asks for the weights."""

    def __init__(self, input_dim, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv_proj, self.o_proj = nn.Linear(input_dim, 3 * embed_dim), nn.Linear(embed_dim, embed_dim)

    def forward(self, x, mask=None, return_attention=False):
        q, k, v = self.qkv_proj(x).unflatten(2, (self.num_heads, -1)).permute(0, 2, 1, 3).chunk(3, dim=-1)
        logits = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -torch.inf)
        attention = F.softmax(logits, dim=-1)
        out = self.o_proj(torch.matmul(attention, v).permute(0, 2, 1, 3).flatten(2))
        return (out, attention) if return_attention else out


class HeadsDimThree(nn.Module):
    """The rows of to_qkv are [heads, dim, 3]. mask: True = look."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv, self.to_out = nn.Linear(dim, dim * 3, bias=False), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = rearrange(self.to_qkv(x), "b t (h d three) -> three b h t d", three=3, h=self.heads)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        return self.to_out(rearrange(scores.softmax(-1) @ v, "b h t d -> b t (h d)"))


class InProjection(nn.Module):
    """Parameters with the names that torch gives them. key_padding_mask: True = [PAD]."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def forward(self, query, key, value, key_padding_mask=None):
        inputs = zip((query, key, value), self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3), strict=True)
        q, k, v = (F.linear(*three).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for three in inputs)
        seen = None if key_padding_mask is None else ~key_padding_mask[:, None, None, :]
        return self.out_proj(F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).flatten(2))


@dataclass
class GPTConfig:
    block_size: int = 32
    n_head: int = 4
    n_embd: int = 16
    dropout: float = 0.1
    bias: bool = True


class CausalSelfAttention(nn.Module):
    """The mask is a buffer, and the constructor takes a config."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.attn_dropout = nn.Dropout(config.dropout)
        self.n_head, self.n_embd = config.n_head, config.n_embd
        lower = torch.tril(torch.ones(config.block_size, config.block_size))
        self.register_buffer("bias", lower.view(1, 1, config.block_size, config.block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        y = self.attn_dropout(F.softmax(att, dim=-1)) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


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


def make_attention():
    """Takes nothing and returns a module."""
    return ThreeHeadsDim(dim=24, num_heads=3)


class MatricesBehind(nn.Module):
    """x @ W."""

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


class Head(nn.Module):
    def __init__(self, n_embd, head_size):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(n_embd, head_size, bias=False) for _ in range(3))

    def forward(self, x, mask=None):
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        if mask is not None:
            wei = wei.masked_fill(mask == 0, float("-inf"))
        return F.softmax(wei, dim=-1) @ self.value(x)


class HeadByHead(nn.Module):
    """Small layers for each head. mask [query, key]: 1 = look."""

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


class TokenFirst(nn.Module):
    """[token, batch, d_model], as torch without batch_first. mask [query, key] is added."""

    def __init__(self, d_model, nhead):
        super().__init__()
        self.nhead = nhead
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        T, B, D = x.shape
        q, k, v = (lin(x).view(T, B * self.nhead, D // self.nhead).transpose(0, 1) for lin in (self.q, self.k, self.v))
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(D // self.nhead)
        if mask is not None:
            scores = scores + mask
        return self.o(torch.bmm(scores.softmax(dim=-1), v).transpose(0, 1).reshape(T, B, D))


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
