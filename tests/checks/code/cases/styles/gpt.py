"""Causal attention as in minGPT, GPT-2 and GPT-J."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class GPTConfig:
    block_size: int = 32
    n_head: int = 4
    n_embd: int = 32
    attn_pdrop: float = 0.1


class CausalSelfAttention(nn.Module):
    """A vanilla multi-head masked self-attention layer with a projection at the end."""

    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        # key, query, value projections for all heads, but in a batch
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.attn_dropout = nn.Dropout(config.attn_pdrop)
        size = config.block_size
        self.register_buffer("bias", torch.tril(torch.ones(size, size)).view(1, 1, size, size))
        self.n_head = config.n_head
        self.n_embd = config.n_embd

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        att = self.attn_dropout(att)
        y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class GPT2Attention(nn.Module):
    def __init__(self, embed_dim, num_heads, max_positions=64):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.split_size = embed_dim
        causal = torch.ones((max_positions, max_positions), dtype=torch.bool).tril()
        self.register_buffer("bias", causal.view(1, 1, max_positions, max_positions), persistent=False)
        self.c_attn = nn.Linear(embed_dim, 3 * embed_dim)
        self.c_proj = nn.Linear(embed_dim, embed_dim)

    def _attn(self, query, key, value):
        attn_weights = torch.matmul(query, key.transpose(-1, -2)) / value.size(-1) ** 0.5
        query_length, key_length = query.size(-2), key.size(-2)
        causal_mask = self.bias[:, :, key_length - query_length : key_length, :key_length]
        mask_value = torch.full([], torch.finfo(attn_weights.dtype).min, dtype=attn_weights.dtype)
        attn_weights = torch.where(causal_mask, attn_weights, mask_value)
        return torch.matmul(nn.functional.softmax(attn_weights, dim=-1), value)

    def _split_heads(self, tensor):
        return tensor.view(*tensor.size()[:-1], self.num_heads, self.head_dim).permute(0, 2, 1, 3)

    def forward(self, hidden_states, layer_past=None, use_cache=False):
        query, key, value = self.c_attn(hidden_states).split(self.split_size, dim=2)
        query, key, value = self._split_heads(query), self._split_heads(key), self._split_heads(value)
        if layer_past is not None:
            past_key, past_value = layer_past
            key = torch.cat((past_key, key), dim=-2)
            value = torch.cat((past_value, value), dim=-2)
        present = (key, value) if use_cache else None
        attn_output = self._attn(query, key, value).permute(0, 2, 1, 3).contiguous()
        attn_output = attn_output.view(*attn_output.size()[:-2], self.num_heads * self.head_dim)
        return self.c_proj(attn_output), present


class GPTJAttention(nn.Module):
    """The root of the head's size is a float32 tensor, whatever the module is converted to."""

    def __init__(self, hidden_size, num_attention_heads):
        super().__init__()
        self.num_attention_heads = num_attention_heads
        self.head_dim = hidden_size // num_attention_heads
        self.scale_attn = torch.sqrt(torch.tensor(self.head_dim, dtype=torch.float32))
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (
            nn.Linear(hidden_size, hidden_size, bias=False) for _ in range(4)
        )

    def forward(self, hidden_states):
        batch, length, _ = hidden_states.shape
        shape = (batch, length, self.num_attention_heads, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).permute(0, 2, 1, 3)
        key = self.k_proj(hidden_states).view(shape).permute(0, 2, 1, 3)
        value = self.v_proj(hidden_states).view(shape).permute(0, 2, 1, 3)
        # Keep the attention weights computation in fp32 to avoid overflow issues
        attn_weights = torch.matmul(query.to(torch.float32), key.to(torch.float32).transpose(-1, -2))
        causal_mask = torch.tril(torch.ones((length, length), dtype=torch.bool, device=query.device))
        attn_weights = attn_weights.masked_fill(~causal_mask, torch.finfo(attn_weights.dtype).min)
        attn_weights = attn_weights / self.scale_attn
        attn_weights = nn.functional.softmax(attn_weights, dim=-1).to(value.dtype)
        attn_output = torch.matmul(attn_weights, value)
        return self.out_proj(attn_output.permute(0, 2, 1, 3).reshape(batch, length, -1))


class PaddedCausalAttention(nn.Module):
    """attention_mask (batch, length): 1 for tokens, 0 for padding. Nobody looks ahead, and nobody at padding."""

    def __init__(self, d_model, n_heads, dropout=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.dropout = dropout
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x, attention_mask=None):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.n_heads, c // self.n_heads).permute(2, 0, 3, 1, 4)
        allowed = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, None, :].bool()
        dropout_p = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout_p)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))
