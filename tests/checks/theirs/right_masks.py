"""Mask functions as people write them, all of them right."""

import math

import torch
from torch import nn

PAD = 0


def generate_square_subsequent_mask(sz):
    """Float mask for the decoder: -inf above the diagonal."""
    return torch.triu(torch.full((sz, sz), float("-inf")), diagonal=1)


def subsequent_mask(size):
    upper = torch.triu(torch.ones((1, size, size)), diagonal=1).type(torch.uint8)
    return upper == 0


def look_ahead_mask(n):
    return 1 - torch.tril(torch.ones(n, n))


def lower_triangle(length):
    rows = []
    for i in range(length):
        rows.append([j <= i for j in range(length)])
    return torch.tensor(rows)[None, None]


def future_of(query_len, key_len):
    queries = torch.arange(key_len - query_len, key_len)
    return torch.arange(key_len)[None, :] > queries[:, None]


def causal_from_the_first(q_len, k_len):
    return torch.ones(q_len, k_len, dtype=torch.bool).tril(diagonal=0)


def causal_like(x):
    """x [batch, token, d_model]"""
    batch, tokens, _ = x.shape
    return torch.tril(torch.ones(tokens, tokens, device=x.device)).bool().expand(batch, 1, tokens, tokens)


def causal_biases(T, dtype=torch.float32):
    places = torch.arange(T)
    hidden = places[None] > places[:, None]
    return torch.zeros(T, T, dtype=dtype).masked_fill(hidden, torch.finfo(dtype).min)


def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def key_padding_mask(input_ids, pad_token_id):
    return input_ids.eq(pad_token_id)


def pad_attn_mask(seq_q, seq_k):
    """[batch, query, key], 1 where the key is [PAD]"""
    pads = seq_k.eq(PAD).unsqueeze(1)
    return pads.expand(seq_k.size(0), seq_q.size(1), seq_k.size(1))


def extended_attention_mask(attention_mask):
    extended = attention_mask[:, None, None, :].float()
    return (1.0 - extended) * -10000.0


def sequence_mask(lengths, max_len):
    return torch.arange(max_len)[None, :] < lengths[:, None]


def lengths_to_mask(lens):
    longest = int(lens.max())
    mask = torch.ones(len(lens), longest, dtype=torch.bool)
    for text, length in enumerate(lens.tolist()):
        mask[text, :length] = False
    return mask


def outer_padding(mask):
    """mask [batch, token], 1 for a real token"""
    return (mask[:, :, None] * mask[:, None, :]).bool()


def make_trg_mask(trg, trg_pad_idx):
    length = trg.shape[1]
    pad = (trg != trg_pad_idx).unsqueeze(1).unsqueeze(2)
    return pad & torch.tril(torch.ones(length, length)).bool()


def combined_hidden(tgt, pad=0):
    size = tgt.size(1)
    future = torch.triu(torch.ones(size, size), diagonal=1).bool()
    return future | (tgt == pad)[:, None]


def causal_with_padding(attention_mask):
    tokens = attention_mask.shape[-1]
    seen = torch.full((tokens, tokens), 1.0).tril() * attention_mask[:, None].float()
    return torch.where(seen > 0, 0.0, -math.inf)


class CausalMask(nn.Module):
    """Kept in a buffer, True where a query may not look."""

    def __init__(self, max_len):
        super().__init__()
        self.register_buffer("future", torch.ones(200, 200).triu(1).bool())

    def forward(self, x):
        return self.future[: x.size(1), : x.size(1)]


def for_torchs_heads(mask, num_heads):
    """Of nn.MultiheadAttention: [batch · head, query, key], True where a query may not look."""
    keys = mask.shape[1]
    future = torch.ones(keys, keys).triu(1).bool()
    hidden = future | (mask == 0)[:, None, :]
    return hidden.repeat_interleave(num_heads, dim=0)


def mask_mod(b, h, q_idx, kv_idx):
    """As flex_attention takes it."""
    return q_idx >= kv_idx


def for_a_batch(batch_size, seq_len):
    return torch.ones(seq_len, seq_len).tril().repeat(batch_size, 1, 1)


# What each is said to be, and the words that name its convention.
CAUSAL, PADDING, COMBINED = "a causal mask", "a padding mask", "a causal mask that hides [PAD]"
RIGHT = {
    generate_square_subsequent_mask: (CAUSAL, "[query, key], -inf is added"),
    subsequent_mask: (CAUSAL, "[1, query, key], True = allowed"),
    look_ahead_mask: (CAUSAL, "[query, key], 1.0 = forbidden"),
    lower_triangle: (CAUSAL, "[1, 1, query, key], True = allowed"),
    future_of: (CAUSAL, "[query, key], True = forbidden"),
    causal_from_the_first: (CAUSAL, "as in torch's is_causal"),
    causal_like: (CAUSAL, "[batch, 1, query, key], True = allowed"),
    causal_biases: (CAUSAL, "-3.40282e+38 is added"),
    mask_mod: (CAUSAL, "[query, key], True = allowed; the first query stands at the first key"),
    for_a_batch: (CAUSAL, "[batch, query, key], 1.0 = allowed"),
    CausalMask: (CAUSAL, "[query, key], True = forbidden"),
    padding_mask: (PADDING, "[batch, 1, 1, key], True = allowed"),
    key_padding_mask: (PADDING, "[batch, key], True = forbidden"),
    pad_attn_mask: (PADDING, "[batch, query, key], True = forbidden; [PAD] is token 0"),
    extended_attention_mask: (PADDING, "[batch, 1, 1, key], -10000 is added"),
    sequence_mask: (PADDING, "[batch, key], True = allowed"),
    lengths_to_mask: (PADDING, "[batch, key], True = forbidden"),
    outer_padding: (PADDING, "[PAD] sees nothing either"),
    make_trg_mask: (COMBINED, "[batch, 1, query, key], True = allowed"),
    combined_hidden: (COMBINED, "[batch, query, key], True = forbidden"),
    causal_with_padding: (COMBINED, "[batch, query, key], -inf is added"),
    for_torchs_heads: (COMBINED, "[batch·head, query, key], True = forbidden"),
}
