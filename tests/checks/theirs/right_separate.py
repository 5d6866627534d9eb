"""Multi-head attention with a layer each for query, key and value, under many names. All are right."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn


class MultiHeadAttention(nn.Module):
    """forward(query, key, value, mask): mask [query, key], 1 = look."""

    def __init__(self, d_model, num_heads, dropout=0.1):
        super().__init__()
        self.d_model, self.num_heads, self.d_k = d_model, num_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def split_heads(self, x):
        return x.view(x.size(0), x.size(1), self.num_heads, self.d_k).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        Q, K, V = self.split_heads(self.W_q(query)), self.split_heads(self.W_k(key)), self.split_heads(self.W_v(value))
        scores = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = self.dropout(torch.softmax(scores, dim=-1))
        out = torch.matmul(weights, V).transpose(1, 2).contiguous().view(query.size(0), -1, self.d_model)
        return self.W_o(out)


class ProjAttention(nn.Module):
    """forward(hidden_states, attention_mask): attention_mask is added, [batch, 1, query, key]."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.scaling = self.head_dim**-0.5
        self.q_proj, self.k_proj = nn.Linear(embed_dim, embed_dim), nn.Linear(embed_dim, embed_dim)
        self.v_proj, self.out_proj = nn.Linear(embed_dim, embed_dim), nn.Linear(embed_dim, embed_dim)

    def forward(self, hidden_states, attention_mask=None):
        shape = (*hidden_states.shape[:-1], self.num_heads, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2) * self.scaling
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        scores = query @ key.transpose(2, 3)
        if attention_mask is not None:
            scores = scores + attention_mask
        weights = F.softmax(scores, dim=-1)
        out = (weights @ value).transpose(1, 2).flatten(2)
        return self.out_proj(out), weights


class EncoderSelfAttention(nn.Module):
    """As in BERT: query, key and value in a part of its own, dense behind. attention_mask [batch, token], 1 = real."""

    class Heads(nn.Module):
        def __init__(self, hidden_size, num_attention_heads):
            super().__init__()
            self.num_attention_heads = num_attention_heads
            self.query = nn.Linear(hidden_size, hidden_size)
            self.key = nn.Linear(hidden_size, hidden_size)
            self.value = nn.Linear(hidden_size, hidden_size)

        def forward(self, x, mask):
            q, k, v = (
                layer(x).unflatten(-1, (self.num_attention_heads, -1)).transpose(1, 2)
                for layer in (self.query, self.key, self.value)
            )
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
    """The inner width is heads * dim_head; no bias but behind. forward(x, context, mask): mask [batch, key]."""

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
    """forward(x, memory), through the fused kernel, without any bias."""

    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.wq, self.wk = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.wv, self.wo = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, x, memory):
        xq, xk, xv = self.wq(x), self.wk(memory), self.wv(memory)
        xq, xk, xv = (t.view(*t.shape[:2], self.n_heads, -1).transpose(1, 2) for t in (xq, xk, xv))
        return self.wo(F.scaled_dot_product_attention(xq, xk, xv).transpose(1, 2).reshape(x.shape))


class ListOfLinears(nn.Module):
    """Four layers in a list; the last stands behind the heads. mask: True = look."""

    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.h, self.d_k = h, d_model // h
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))
        self.attn = None
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        nbatches = query.size(0)
        query, key, value = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value), strict=False)
        ]
        scores = query @ key.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(-3) == 0, -math.inf)
        self.attn = scores.softmax(dim=-1)
        x = self.dropout(self.attn) @ value
        return self.linears[-1](x.transpose(1, 2).reshape(nbatches, -1, self.h * self.d_k))


class LinearQ(nn.Module):
    """linear_q and its like; the heads lie along the batch. forward(q, k, v)."""

    def __init__(self, in_features, head_num, bias=True):
        super().__init__()
        self.head_num = head_num
        self.linear_q = nn.Linear(in_features, in_features, bias)
        self.linear_k = nn.Linear(in_features, in_features, bias)
        self.linear_v = nn.Linear(in_features, in_features, bias)
        self.linear_o = nn.Linear(in_features, in_features, bias)

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
    """q_linear and its like; mask [batch, query, key], 1 = look; gives output and weights."""

    def __init__(self, heads, d_model):
        super().__init__()
        self.d_k, self.heads = d_model // heads, heads
        self.q_linear = nn.Linear(d_model, d_model)
        self.v_linear = nn.Linear(d_model, d_model)
        self.k_linear = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        bs = q.size(0)
        k = self.k_linear(k).view(bs, -1, self.heads, self.d_k).transpose(1, 2)
        q = self.q_linear(q).view(bs, -1, self.heads, self.d_k).transpose(1, 2)
        v = self.v_linear(v).view(bs, -1, self.heads, self.d_k).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1) == 0, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        concat = torch.matmul(weights, v).transpose(1, 2).contiguous().view(bs, -1, self.heads * self.d_k)
        return self.out(concat), weights


class FullyConnected(nn.Module):
    """fc_q and its like, of inputs of several widths."""

    def __init__(self, query_size, key_size, value_size, num_hiddens, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.fc_q = nn.Linear(query_size, num_hiddens)
        self.fc_k = nn.Linear(key_size, num_hiddens)
        self.fc_v = nn.Linear(value_size, num_hiddens)
        self.fc_o = nn.Linear(num_hiddens, num_hiddens)

    def forward(self, queries, keys, values, valid_lens=None):
        q, k, v = (
            x.unflatten(2, (self.num_heads, -1)).transpose(1, 2)
            for x in (self.fc_q(queries), self.fc_k(keys), self.fc_v(values))
        )
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if valid_lens is not None:
            real = torch.arange(keys.shape[1]) < valid_lens[:, None]
            scores = scores.masked_fill(~real[:, None, None], -torch.inf)
        return self.fc_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Projections(nn.Module):
    """query_projection and its like; keys and values may be narrower than the model."""

    def __init__(self, d_model, n_heads, d_keys=None, d_values=None):
        super().__init__()
        d_keys, d_values = d_keys or d_model // n_heads, d_values or d_model // n_heads
        self.query_projection = nn.Linear(d_model, d_keys * n_heads)
        self.key_projection = nn.Linear(d_model, d_keys * n_heads)
        self.value_projection = nn.Linear(d_model, d_values * n_heads)
        self.out_projection = nn.Linear(d_values * n_heads, d_model)
        self.n_heads = n_heads

    def forward(self, queries, keys, values):
        B, L, _ = queries.shape
        _, S, _ = keys.shape
        H = self.n_heads
        queries = self.query_projection(queries).view(B, L, H, -1)
        keys = self.key_projection(keys).view(B, S, H, -1)
        values = self.value_projection(values).view(B, S, H, -1)
        A = torch.softmax(queries.shape[-1] ** -0.5 * torch.einsum("blhe,bshe->bhls", queries, keys), dim=-1)
        return self.out_projection(torch.einsum("bhls,bshd->blhd", A, values).reshape(B, L, -1))


class UnifyHeads(nn.Module):
    """tokeys and its like; forward(x)."""

    def __init__(self, emb, heads=8):
        super().__init__()
        self.heads = heads
        self.tokeys = nn.Linear(emb, emb, bias=False)
        self.toqueries = nn.Linear(emb, emb, bias=False)
        self.tovalues = nn.Linear(emb, emb, bias=False)
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
    """forward(values, keys, query, mask): in this order. mask: 1 = look."""

    def __init__(self, embed_size, heads):
        super().__init__()
        self.embed_size, self.heads, self.head_dim = embed_size, heads, embed_size // heads
        self.values = nn.Linear(embed_size, embed_size)
        self.keys = nn.Linear(embed_size, embed_size)
        self.queries = nn.Linear(embed_size, embed_size)
        self.fc_out = nn.Linear(embed_size, embed_size)

    def forward(self, values, keys, query, mask=None):
        N, value_len, key_len, query_len = query.shape[0], values.shape[1], keys.shape[1], query.shape[1]
        values = self.values(values).reshape(N, value_len, self.heads, self.head_dim)
        keys = self.keys(keys).reshape(N, key_len, self.heads, self.head_dim)
        queries = self.queries(query).reshape(N, query_len, self.heads, self.head_dim)
        energy = torch.einsum("nqhd,nkhd->nhqk", [queries, keys])
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-inf"))
        attention = torch.softmax(energy / (self.head_dim ** (1 / 2)), dim=3)
        out = torch.einsum("nhql,nlhd->nqhd", [attention, values]).reshape(N, query_len, self.embed_size)
        return self.fc_out(out)


class Interleaved(nn.Module):
    """A head has every num_heads-th column: "b t (d h)"."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.lin_q, self.lin_k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.lin_v, self.lin_out = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        q, k, v = (
            rearrange(lin(x), "b t (d h) -> b h t d", h=self.num_heads) for lin in (self.lin_q, self.lin_k, self.lin_v)
        )
        weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)
        return self.lin_out(rearrange(weights @ v, "b h t d -> b t (d h)"))


class GroupedQuery(nn.Module):
    """Two heads of queries share a head of keys and values; with n_kv_heads=1 all do."""

    def __init__(self, dim, n_heads, n_kv_heads=None):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads or n_heads // 2, dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)

    def forward(self, x):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xk, xv = (w(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim) for w in (self.wk, self.wv))
        xk, xv = (t.repeat_interleave(self.n_heads // self.n_kv_heads, dim=2) for t in (xk, xv))
        scores = torch.einsum("bihd,bjhd->bhij", xq, xk) / math.sqrt(self.head_dim)
        out = torch.einsum("bhij,bjhd->bihd", F.softmax(scores, dim=-1), xv)
        return self.wo(out.reshape(bsz, seqlen, -1))


class MultiQuery(nn.Module):
    """Every head of queries looks at the same keys and values."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.Wq = nn.Linear(d_model, d_model)
        self.Wk = nn.Linear(d_model, self.d_head)
        self.Wv = nn.Linear(d_model, self.d_head)
        self.Wo = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        q, k, v = self.Wq(x).unflatten(-1, (self.n_heads, self.d_head)), self.Wk(x), self.Wv(x)
        scores = torch.einsum("bihd,bjd->bhij", q, k) / self.d_head**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        return self.Wo(torch.einsum("bhij,bjd->bihd", scores.softmax(-1), v).flatten(2))
