"""Attention of a decoder to an encoder, as Bahdanau's, BART's and a decoder layer's."""

import torch
from torch import nn


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size, units):
        super().__init__()
        self.W1 = nn.Linear(hidden_size, units)
        self.W2 = nn.Linear(hidden_size, units)
        self.V = nn.Linear(units, 1)

    def forward(self, query, values):
        query_with_time_axis = query.unsqueeze(1)
        # score shape == (batch_size, max_length, 1)
        score = self.V(torch.tanh(self.W1(query_with_time_axis) + self.W2(values)))
        attention_weights = torch.softmax(score, dim=1)
        # context_vector shape after sum == (batch_size, hidden_size)
        context_vector = attention_weights * values
        return context_vector.sum(dim=1), attention_weights


class BartAttention(nn.Module):
    """Multi-headed attention; the keys and values of the encoder are made once and then kept."""

    def __init__(self, embed_dim, num_heads, bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.scaling = self.head_dim**-0.5
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (
            nn.Linear(embed_dim, embed_dim, bias=bias) for _ in range(4)
        )

    def _shape(self, tensor):
        return tensor.view(tensor.size(0), -1, self.num_heads, self.head_dim).transpose(1, 2).contiguous()

    def forward(self, hidden_states, key_value_states=None, past_key_value=None, attention_mask=None):
        """attention_mask (batch, 1, query, key): 0 or a very large negative value, added to the scores."""
        bsz, tgt_len, _ = hidden_states.size()
        is_cross_attention = key_value_states is not None
        query_states = self.q_proj(hidden_states) * self.scaling
        if is_cross_attention and past_key_value is not None:
            # reuse k, v, cross_attentions
            key_states, value_states = past_key_value
        elif is_cross_attention:
            key_states = self._shape(self.k_proj(key_value_states))
            value_states = self._shape(self.v_proj(key_value_states))
        else:
            key_states = self._shape(self.k_proj(hidden_states))
            value_states = self._shape(self.v_proj(hidden_states))
            if past_key_value is not None:  # reuse k, v, self_attention
                key_states = torch.cat([past_key_value[0], key_states], dim=2)
                value_states = torch.cat([past_key_value[1], value_states], dim=2)
        past_key_value = (key_states, value_states)
        attn_weights = torch.matmul(self._shape(query_states), key_states.transpose(2, 3))
        if attention_mask is not None:
            attn_weights = attn_weights + attention_mask
        attn_weights = nn.functional.softmax(attn_weights, dim=-1)
        attn_output = torch.matmul(attn_weights, value_states).transpose(1, 2).reshape(bsz, tgt_len, -1)
        return self.out_proj(attn_output), attn_weights, past_key_value


class DecoderCrossAttention(nn.Module):
    """x_mask and memory_mask (batch, length): True for tokens. What stands at padding of x is 0."""

    def __init__(self, d_model, nhead):
        super().__init__()
        self.nhead = nhead
        self.q_proj = nn.Linear(d_model, d_model)
        self.kv_proj = nn.Linear(d_model, 2 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x, memory, x_mask=None, memory_mask=None):
        q = self.q_proj(x).unflatten(-1, (self.nhead, -1)).transpose(1, 2)
        k, v = self.kv_proj(memory).unflatten(-1, (2, self.nhead, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        if memory_mask is not None:
            scores = scores.masked_fill(~memory_mask[:, None, None, :], torch.finfo(scores.dtype).min)
        out = self.out_proj((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))
        return out if x_mask is None else out * x_mask[..., None]
