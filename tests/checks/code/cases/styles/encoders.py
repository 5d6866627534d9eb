"""Attention without an order of tokens, as in BERT, torch, DINOv2 and Keras."""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention


@dataclass
class BertConfig:
    hidden_size: int = 32
    num_attention_heads: int = 4
    attention_probs_dropout_prob: float = 0.1


class BertSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = config.hidden_size // config.num_attention_heads
        self.query, self.key, self.value = (nn.Linear(config.hidden_size, config.hidden_size) for _ in range(3))
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def transpose_for_scores(self, x):
        new_x_shape = (*x.size()[:-1], self.num_attention_heads, self.attention_head_size)
        return x.view(new_x_shape).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask=None, head_mask=None, output_attentions=False):
        query_layer = self.transpose_for_scores(self.query(hidden_states))
        key_layer = self.transpose_for_scores(self.key(hidden_states))
        value_layer = self.transpose_for_scores(self.value(hidden_states))
        attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(self.attention_head_size)
        if attention_mask is not None:  # (batch, length), 1 for tokens and 0 for padding
            extended_attention_mask = attention_mask[:, None, None, :].to(attention_scores.dtype)
            extended_attention_mask = (1.0 - extended_attention_mask) * torch.finfo(attention_scores.dtype).min
            attention_scores = attention_scores + extended_attention_mask
        attention_probs = nn.functional.softmax(attention_scores, dim=-1)
        attention_probs = self.dropout(attention_probs)
        if head_mask is not None:  # (heads,), 1 for heads that are kept
            attention_probs = attention_probs * head_mask[None, :, None, None]

        context_layer = torch.matmul(attention_probs, value_layer)
        context_layer = context_layer.permute(0, 2, 1, 3).contiguous()
        context_layer = context_layer.view(*context_layer.size()[:-2], -1)
        return (context_layer, attention_probs) if output_attentions else (context_layer,)


class MultiheadAttention(nn.Module):
    """Torch's own layout: batch first, both masks are True where attention is forbidden, empty rows are NaN."""

    def __init__(self, embed_dim, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        self.in_proj_weight = nn.Parameter(torch.randn(3 * embed_dim, embed_dim) / embed_dim**0.5)
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, query, key, value, key_padding_mask=None, attn_mask=None):
        weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        q, k, v = (
            nn.functional.linear(x, w, b).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for x, w, b in zip((query, key, value), weights, biases, strict=True)
        )
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask, float("-inf"))
        if key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask[:, None, None, :], float("-inf"))
        attn = nn.functional.dropout(scores.softmax(-1), self.dropout, self.training)
        return self.out_proj((attn @ v).transpose(1, 2).flatten(2)), attn


def memory_efficient_attention(query, key, value, attn_bias=None, p=0.0, scale=None):
    """xformers.ops.memory_efficient_attention on tensors of [batch, length, heads, size]."""
    scale = 1.0 / query.shape[-1] ** 0.5 if scale is None else scale
    query, key, value = (one.transpose(1, 2) for one in (query * scale, key, value))
    attn = query @ key.transpose(-2, -1)
    if attn_bias is not None:
        attn = attn + attn_bias
    attn = nn.functional.dropout(attn.softmax(-1), p)
    return (attn @ value).transpose(1, 2).contiguous()


class MemEffAttention(nn.Module):
    def __init__(self, dim, num_heads=8, qkv_bias=False, proj_bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim, bias=proj_bias)

    def forward(self, x, attn_bias=None):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads)
        q, k, v = torch.unbind(qkv, 2)
        x = memory_efficient_attention(q, k, v, attn_bias=attn_bias, scale=self.scale)
        return self.proj(x.reshape([B, N, C]))


class EinsumDenseAttention(nn.Module):
    """A kernel and a bias for each projection, as in Keras."""

    def __init__(self, dim, num_heads):
        super().__init__()
        size = dim // num_heads
        self.query_kernel = nn.Parameter(torch.randn(dim, num_heads, size) / dim**0.5)
        self.key_kernel = nn.Parameter(torch.randn(dim, num_heads, size) / dim**0.5)
        self.value_kernel = nn.Parameter(torch.randn(dim, num_heads, size) / dim**0.5)
        self.query_bias = nn.Parameter(torch.zeros(num_heads, size))
        self.key_bias = nn.Parameter(torch.zeros(num_heads, size))
        self.value_bias = nn.Parameter(torch.zeros(num_heads, size))
        self.output_kernel = nn.Parameter(torch.randn(num_heads, size, dim) / dim**0.5)
        self.output_bias = nn.Parameter(torch.zeros(dim))

    def forward(self, query, value, key=None):
        key = value if key is None else key
        query = torch.einsum("abc,cde->abde", query, self.query_kernel) + self.query_bias
        key = torch.einsum("abc,cde->abde", key, self.key_kernel) + self.key_bias
        value = torch.einsum("abc,cde->abde", value, self.value_kernel) + self.value_bias
        query = query * (1.0 / math.sqrt(query.shape[-1]))
        scores = torch.einsum("aecd,abcd->acbe", key, query)
        attention_output = torch.einsum("acbe,aecd->abcd", scores.softmax(dim=-1), value)
        return torch.einsum("abcd,cde->abe", attention_output, self.output_kernel) + self.output_bias


class FlexAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, mask=None):
        """mask (batch, length): True for tokens."""

        def only_tokens(score, b, h, q_idx, kv_idx):
            return torch.where(mask[b, kv_idx], score, -float("inf"))

        q, k, v = self.to_qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        out = flex_attention(q, k, v, score_mod=None if mask is None else only_tokens)
        return self.to_out(out.transpose(1, 2).flatten(2))
