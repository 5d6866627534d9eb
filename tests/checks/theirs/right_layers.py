"""Layers of encoders and decoders as people write them, all right: each in another style."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Heads(nn.Module):
    """Multi-head attention for the layers here: mask is True, or not 0, where a query may look."""

    def __init__(self, h, d_model):
        super().__init__()
        self.h = h
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])

    def forward(self, query, key, value, mask=None):
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)
        query, key, value = (
            layer(x).view(x.size(0), -1, self.h, x.size(-1) // self.h).transpose(1, 2)
            for layer, x in zip(self.linears, (query, key, value), strict=False)
        )
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        x = scores.softmax(-1) @ value
        return self.linears[-1](x.transpose(1, 2).flatten(2))


class NormOfSample(nn.Module):
    """By the standard deviation, to which eps is added."""

    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(features))
        self.b_2 = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        return self.a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.b_2


class SublayerConnection(nn.Module):
    def __init__(self, size, dropout):
        super().__init__()
        self.norm = NormOfSample(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))


class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.w_2(self.dropout(self.w_1(x).relu()))


class ConnectedDecoder(nn.Module):
    """Norms before, in connections of their own; the memory's mask comes first."""

    def __init__(self, size, h, d_ff=64, dropout=0.1):
        super().__init__()
        self.self_attn = Heads(h, size)
        self.src_attn = Heads(h, size)
        self.feed_forward = PositionwiseFeedForward(size, d_ff, dropout)
        self.sublayer = nn.ModuleList([SublayerConnection(size, dropout) for _ in range(3)])

    def forward(self, x, memory, src_mask, tgt_mask):
        x = self.sublayer[0](x, lambda y: self.self_attn(y, y, y, tgt_mask))
        x = self.sublayer[1](x, lambda y: self.src_attn(y, memory, memory, src_mask))
        return self.sublayer[2](x, self.feed_forward)


class ModuleOfTorch(nn.Module):
    """Around nn.MultiheadAttention; gives the weights too."""

    def __init__(self, embed_dim, num_heads, ff_dim, dropout=0.1):
        super().__init__()
        self.att = nn.MultiheadAttention(embed_dim, num_heads, dropout=dropout, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(embed_dim, ff_dim), nn.GELU(), nn.Linear(ff_dim, embed_dim))
        self.layernorm1 = nn.LayerNorm(embed_dim, eps=1e-6)
        self.layernorm2 = nn.LayerNorm(embed_dim, eps=1e-6)
        self.dropout1, self.dropout2 = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x, key_padding_mask=None):
        attended, weights = self.att(x, x, x, key_padding_mask=key_padding_mask)
        x = self.layernorm1(x + self.dropout1(attended))
        return self.layernorm2(x + self.dropout2(self.ffn(x))), weights


class Block(nn.Module):
    """Of a decoder without a memory: norms before, causal by itself, fused, GELU by tanh, all in one class."""

    def __init__(self, n_embd, n_head, block_size=64):
        super().__init__()
        self.n_head = n_head
        self.ln_1 = nn.LayerNorm(n_embd)
        self.qkv = nn.Linear(n_embd, 3 * n_embd)
        self.out = nn.Linear(n_embd, n_embd)
        self.ln_2 = nn.LayerNorm(n_embd)
        self.fc1 = nn.Linear(n_embd, 4 * n_embd)
        self.fc2 = nn.Linear(4 * n_embd, n_embd)
        self.register_buffer("bias", torch.tril(torch.ones(block_size, block_size)).bool())

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.n_head, -1).transpose(1, 2) for y in self.qkv(self.ln_1(x)).split(d, dim=2))
        scores = (q @ k.transpose(-2, -1)) * k.size(-1) ** -0.5
        y = scores.masked_fill(~self.bias[:t, :t], -torch.inf).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.fc2(F.gelu(self.fc1(self.ln_2(x)), approximate="tanh"))


class RMS(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class GatedBlock(nn.Module):
    """RMSNorm before, keys shared by heads, a gated feed-forward network, no biases."""

    def __init__(self, dim, n_heads, hidden_dim=48):
        super().__init__()
        self.n_heads = n_heads
        kv = dim // 2
        self.wq, self.wk, self.wv = nn.Linear(dim, dim, False), nn.Linear(dim, kv, False), nn.Linear(dim, kv, False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.w1 = nn.Linear(dim, hidden_dim, bias=False)
        self.w2 = nn.Linear(hidden_dim, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden_dim, bias=False)
        self.attention_norm, self.ffn_norm = RMS(dim), RMS(dim)

    def forward(self, x, is_causal=False):
        y = self.attention_norm(x)
        q, k, v = self.wq(y), self.wk(y), self.wv(y)
        q = q.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        k, v = (z.unflatten(-1, (self.n_heads // 2, -1)).transpose(1, 2) for z in (k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)
        h = x + self.wo(out.transpose(1, 2).flatten(2))
        y = self.ffn_norm(h)
        return h + self.w2(F.silu(self.w1(y)) * self.w3(y))


class TokenFirstLayer(nn.Module):
    """[token, batch, d_model]; numbers are added for what is forbidden; its matrices are parameters."""

    def __init__(self, d_model, nhead, dim_feedforward):
        super().__init__()
        self.nhead = nhead
        self.self_attn = nn.MultiheadAttention(d_model, nhead)
        self.w1 = nn.Parameter(torch.randn(d_model, dim_feedforward))
        self.b1 = nn.Parameter(torch.zeros(dim_feedforward))
        self.w2 = nn.Parameter(torch.randn(dim_feedforward, d_model))
        self.b2 = nn.Parameter(torch.zeros(d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, src, src_mask=None):
        src = self.norm1(src + self.self_attn(src, src, src, attn_mask=src_mask)[0])
        return self.norm2(src + (src @ self.w1 + self.b1).relu() @ self.w2 + self.b2)


class DecoderOfLookAhead(nn.Module):
    """Norms after, one causal mask and one of the memory's [PAD]; the feed-forward network is a convolution."""

    def __init__(self, d_model, num_heads, dff):
        super().__init__()
        self.mha1, self.mha2 = Heads(num_heads, d_model), Heads(num_heads, d_model)
        self.conv1, self.conv2 = nn.Conv1d(d_model, dff, 1), nn.Conv1d(dff, d_model, 1)
        self.layer_norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, enc_output, look_ahead_mask=None, padding_mask=None):
        padding = None if padding_mask is None else padding_mask[:, None, None, :]
        out1 = self.layer_norms[0](self.mha1(x, x, x, look_ahead_mask) + x)
        out2 = self.layer_norms[1](self.mha2(out1, enc_output, enc_output, padding) + out1)
        hidden = self.conv2(torch.relu(self.conv1(out2.transpose(1, 2)))).transpose(1, 2)
        return self.layer_norms[2](hidden + out2)


class CausalDecoder(nn.Module):
    """Hides the future itself, norms before, in its own words."""

    def __init__(self, dim, heads, mlp_dim=96):
        super().__init__()
        self.heads = heads
        self.norm_self, self.norm_cross, self.norm_mlp = (nn.LayerNorm(dim) for _ in range(3))
        self.self_qkv, self.self_out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.cross_q, self.cross_kv = nn.Linear(dim, dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)
        self.cross_out = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp_dim), nn.SiLU(), nn.Dropout(0.1), nn.Linear(mlp_dim, dim))

    def attend(self, q, k, v, causal):
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)

    def forward(self, x, context):
        x = x + self.self_out(self.attend(*self.self_qkv(self.norm_self(x)).chunk(3, dim=-1), True))
        x = x + self.cross_out(
            self.attend(self.cross_q(self.norm_cross(x)), *self.cross_kv(context).chunk(2, -1), False)
        )
        return x + self.mlp(self.norm_mlp(x))


class LayerWithPositions(nn.Module):
    """An encoder of one layer, which adds positions to what it is given."""

    def __init__(self, hidden_size, num_attention_heads, intermediate_size, max_position_embeddings=64):
        super().__init__()
        self.position_embeddings = nn.Embedding(max_position_embeddings, hidden_size)
        self.attention = Heads(num_attention_heads, hidden_size)
        self.intermediate = nn.Linear(hidden_size, intermediate_size)
        self.output = nn.Linear(intermediate_size, hidden_size)
        self.attention_layer_norm, self.output_layer_norm = nn.LayerNorm(hidden_size), nn.LayerNorm(hidden_size)

    def forward(self, hidden_states, attention_mask=None):
        mask = None if attention_mask is None else attention_mask[:, None, None, :]
        x = hidden_states + self.position_embeddings.weight[: hidden_states.size(1)]
        x = self.attention_layer_norm(x + self.attention(x, x, x, mask))
        return self.output_layer_norm(x + self.output(F.gelu(self.intermediate(x))))


RIGHT = (
    ConnectedDecoder,
    ModuleOfTorch,
    Block,
    GatedBlock,
    TokenFirstLayer,
    DecoderOfLookAhead,
    CausalDecoder,
    LayerWithPositions,
)
