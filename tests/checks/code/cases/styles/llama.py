"""Causal attention with fewer key heads, as in Llama, Mistral, Gemma 2, gpt-oss and Qwen3."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    t = torch.arange(end, device=freqs.device, dtype=torch.float32)
    freqs = torch.outer(t, freqs)
    return torch.polar(torch.ones_like(freqs), freqs)  # complex64


def apply_rotary_emb(xq: torch.Tensor, xk: torch.Tensor, freqs_cis: torch.Tensor):
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs_cis = freqs_cis[None, :, None, :]
    xq_out = torch.view_as_real(xq_ * freqs_cis).flatten(3)
    xk_out = torch.view_as_real(xk_ * freqs_cis).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    """torch.repeat_interleave(x, dim=2, repeats=n_rep)"""
    bs, slen, n_kv_heads, head_dim = x.shape
    if n_rep == 1:
        return x
    return x[:, :, :, None, :].expand(bs, slen, n_kv_heads, n_rep, head_dim).reshape(bs, slen, -1, head_dim)


@dataclass
class ModelArgs:
    dim: int = 64
    n_heads: int = 8
    n_kv_heads: int | None = None


class LlamaReferenceAttention(nn.Module):
    """Multi-head attention module."""

    def __init__(self, args: ModelArgs):
        super().__init__()
        self.n_heads = args.n_heads
        self.n_kv_heads = args.n_heads if args.n_kv_heads is None else args.n_kv_heads
        self.n_rep = self.n_heads // self.n_kv_heads
        self.head_dim = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * self.head_dim, args.dim, bias=False)

    def forward(self, x: torch.Tensor):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xq, xk = apply_rotary_emb(xq, xk, precompute_freqs_cis(self.head_dim, seqlen))
        keys = repeat_kv(xk, self.n_rep).transpose(1, 2)
        values = repeat_kv(xv, self.n_rep).transpose(1, 2)
        xq = xq.transpose(1, 2)
        scores = torch.matmul(xq, keys.transpose(2, 3)) / math.sqrt(self.head_dim)
        scores = scores + torch.full((seqlen, seqlen), float("-inf"), device=x.device).triu(diagonal=1)
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        output = torch.matmul(scores, values)
        output = output.transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        return self.wo(output)


def rotate_half(x):
    """Rotates half the hidden dims of the input."""
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


class LlamaAttention(nn.Module):
    """Multi-headed attention from 'Attention Is All You Need' paper, with rotary positions and a cache."""

    def __init__(self, hidden_size, num_attention_heads, num_key_value_heads, rope_theta=10000.0):
        super().__init__()
        self.num_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads
        self.head_dim = hidden_size // num_attention_heads
        self.scaling = self.head_dim**-0.5
        inv_freq = 1.0 / (rope_theta ** (torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self.q_proj = nn.Linear(hidden_size, num_attention_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_key_value_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_key_value_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(num_attention_heads * self.head_dim, hidden_size, bias=False)

    def rotary_emb(self, position_ids, dtype):
        freqs = position_ids[:, None].float() * self.inv_freq[None, :].float()
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(dtype), emb.sin().to(dtype)

    def forward(self, hidden_states, attention_mask=None, past_key_value=None, use_cache=False):
        bsz, q_len, _ = hidden_states.size()
        query_states = self.q_proj(hidden_states).view(bsz, q_len, -1, self.head_dim).transpose(1, 2)
        key_states = self.k_proj(hidden_states).view(bsz, q_len, -1, self.head_dim).transpose(1, 2)
        value_states = self.v_proj(hidden_states).view(bsz, q_len, -1, self.head_dim).transpose(1, 2)
        past_len = past_key_value[0].shape[2] if past_key_value is not None else 0
        position_ids = torch.arange(past_len, past_len + q_len, device=hidden_states.device)
        cos, sin = self.rotary_emb(position_ids, hidden_states.dtype)
        query_states = (query_states * cos) + (rotate_half(query_states) * sin)
        key_states = (key_states * cos) + (rotate_half(key_states) * sin)
        if past_key_value is not None:
            key_states = torch.cat([past_key_value[0], key_states], dim=2)
            value_states = torch.cat([past_key_value[1], value_states], dim=2)
        past_key_value = (key_states, value_states) if use_cache else None

        n_rep = self.num_heads // self.num_key_value_heads
        key_states = torch.repeat_interleave(key_states, n_rep, dim=1)
        value_states = torch.repeat_interleave(value_states, n_rep, dim=1)
        attn_weights = torch.matmul(query_states, key_states.transpose(2, 3)) * self.scaling
        kv_len = key_states.shape[-2]
        causal = torch.arange(kv_len, device=hidden_states.device)[None, :] <= position_ids[:, None]
        if attention_mask is not None:  # (batch, key), 0 for padding
            causal = causal & attention_mask[:, None, None, :kv_len].bool()
        attn_weights = attn_weights.masked_fill(~causal, torch.finfo(attn_weights.dtype).min)
        attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(query_states.dtype)
        attn_output = torch.matmul(attn_weights, value_states)
        attn_output = attn_output.transpose(1, 2).reshape(bsz, q_len, -1).contiguous()
        return self.o_proj(attn_output), past_key_value


class GroupedQueryAttention(nn.Module):
    """The projections that the classes below share."""

    def __init__(self, hidden_size, num_heads, num_kv_heads, bias=False):
        super().__init__()
        self.head_dim = hidden_size // num_heads
        self.num_key_value_groups = num_heads // num_kv_heads
        self.q_proj = nn.Linear(hidden_size, num_heads * self.head_dim, bias=bias)
        self.k_proj = nn.Linear(hidden_size, num_kv_heads * self.head_dim, bias=bias)
        self.v_proj = nn.Linear(hidden_size, num_kv_heads * self.head_dim, bias=bias)
        self.o_proj = nn.Linear(num_heads * self.head_dim, hidden_size, bias=bias)

    def heads(self, projected):
        return projected.view(*projected.shape[:-1], -1, self.head_dim).transpose(1, 2)


class MistralAttention(GroupedQueryAttention):
    """A token sees `sliding_window` tokens: itself and those before it."""

    def __init__(self, hidden_size, num_heads, num_kv_heads, sliding_window=4096):
        super().__init__(hidden_size, num_heads, num_kv_heads)
        self.sliding_window = sliding_window

    def forward(self, x):
        q, k, v = self.heads(self.q_proj(x)), self.heads(self.k_proj(x)), self.heads(self.v_proj(x))
        q_idx = torch.arange(x.shape[1], device=x.device)[:, None]
        kv_idx = torch.arange(x.shape[1], device=x.device)[None, :]
        mask = (kv_idx <= q_idx) & (kv_idx > q_idx - self.sliding_window)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.o_proj(out.transpose(1, 2).flatten(2))


class Gemma2Attention(GroupedQueryAttention):
    def __init__(self, hidden_size, num_heads, num_kv_heads, attn_logit_softcapping=50.0):
        super().__init__(hidden_size, num_heads, num_kv_heads)
        self.attn_logit_softcapping = attn_logit_softcapping

    def forward(self, hidden_states):
        q = self.heads(self.q_proj(hidden_states))
        k = self.heads(self.k_proj(hidden_states)).repeat_interleave(self.num_key_value_groups, dim=1)
        v = self.heads(self.v_proj(hidden_states)).repeat_interleave(self.num_key_value_groups, dim=1)
        attn_weights = torch.matmul(q, k.transpose(2, 3)) * self.head_dim**-0.5
        future = torch.ones(attn_weights.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        attn_weights = attn_weights / self.attn_logit_softcapping
        attn_weights = torch.tanh(attn_weights)
        attn_weights = attn_weights * self.attn_logit_softcapping
        attn_weights = attn_weights.masked_fill(future, float("-inf"))
        attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.o_proj(torch.matmul(attn_weights, v).transpose(1, 2).flatten(2))


class GptOssAttention(GroupedQueryAttention):
    """Grouped heads, each with a sink that takes part of the softmax and has no value."""

    def __init__(self, hidden_size, num_attention_heads, num_key_value_heads):
        super().__init__(hidden_size, num_attention_heads, num_key_value_heads, bias=True)
        self.sinks = nn.Parameter(torch.randn(num_attention_heads))

    def forward(self, hidden_states):
        query = self.heads(self.q_proj(hidden_states))
        key = self.heads(self.k_proj(hidden_states)).repeat_interleave(self.num_key_value_groups, dim=1)
        value = self.heads(self.v_proj(hidden_states)).repeat_interleave(self.num_key_value_groups, dim=1)
        attn_weights = torch.matmul(query, key.transpose(2, 3)) * self.head_dim**-0.5
        future = torch.ones(attn_weights.shape[-2:], dtype=torch.bool, device=query.device).triu(1)
        attn_weights = attn_weights.masked_fill(future, torch.finfo(attn_weights.dtype).min)
        sinks = self.sinks.reshape(1, -1, 1, 1).expand(query.shape[0], -1, query.shape[-2], -1)
        combined_logits = torch.cat([attn_weights, sinks], dim=-1)
        combined_logits = combined_logits - combined_logits.max(dim=-1, keepdim=True).values
        probs = F.softmax(combined_logits, dim=-1, dtype=combined_logits.dtype)
        scores = probs[..., :-1]  # we drop the sink here
        return self.o_proj(torch.matmul(scores, value).transpose(1, 2).flatten(2))


class RMSNorm(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class Qwen3Attention(GroupedQueryAttention):
    """Queries and keys are normalised, each head by itself."""

    def __init__(self, hidden_size, num_heads, num_kv_heads):
        super().__init__(hidden_size, num_heads, num_kv_heads)
        self.q_norm = RMSNorm(self.head_dim)  # unlike olmo, only on the head dim!
        self.k_norm = RMSNorm(self.head_dim)

    def forward(self, hidden_states):
        query_states = self.q_norm(self.heads(self.q_proj(hidden_states)))
        key_states = self.k_norm(self.heads(self.k_proj(hidden_states)))
        value_states = self.heads(self.v_proj(hidden_states))
        key_states = key_states.repeat_interleave(self.num_key_value_groups, 1)
        value_states = value_states.repeat_interleave(self.num_key_value_groups, 1)
        out = F.scaled_dot_product_attention(query_states, key_states, value_states, is_causal=True)
        return self.o_proj(out.transpose(1, 2).flatten(2))
