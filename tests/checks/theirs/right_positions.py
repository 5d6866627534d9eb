"""Positional encodings as people write them, all of them right."""

import math

import numpy as np
import torch
from torch import nn


def numpy_table(seq_len, d_model, n=10000):
    table = np.zeros((seq_len, d_model))
    for k in range(seq_len):
        for i in np.arange(d_model // 2):
            denominator = np.power(n, 2 * i / d_model)
            table[k, 2 * i] = np.sin(k / denominator)
            table[k, 2 * i + 1] = np.cos(k / denominator)
    return table


def positional_encoding(length, depth):
    half = depth / 2
    places = np.arange(length)[:, np.newaxis]
    rates = 1 / (10000 ** (np.arange(half)[np.newaxis, :] / half))
    return np.concatenate([np.sin(places * rates), np.cos(places * rates)], axis=-1)


def timing_signal(length, channels):
    """As tensor2tensor has it."""
    scales = channels // 2
    step = math.log(10000) / max(scales - 1, 1)
    scaled = torch.arange(length).float()[:, None] * torch.exp(torch.arange(scales).float() * -step)[None]
    return torch.cat([scaled.sin(), scaled.cos()], dim=1)[None]


def of_a_position(pos, d_model):
    return torch.tensor(
        [(math.cos if i % 2 else math.sin)(pos / 10000 ** (2 * (i // 2) / d_model)) for i in range(d_model)]
    )


def of_positions(positions, dim):
    rates = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
    table = torch.empty(*positions.shape, dim)
    table[..., 0::2] = torch.sin(positions[..., None] * rates)
    table[..., 1::2] = torch.cos(positions[..., None] * rates)
    return table


class TokenFirst(nn.Module):
    """x [token, batch, d_model], as in torch's own tutorial"""

    def __init__(self, d_model, dropout=0.1, max_len=100):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        position = torch.arange(max_len).unsqueeze(1)
        rates = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        table = torch.zeros(max_len, 1, d_model)
        table[:, 0, 0::2] = torch.sin(position * rates)
        table[:, 0, 1::2] = torch.cos(position * rates)
        self.register_buffer("table", table)

    def forward(self, x):
        return self.dropout(x + self.table[: x.size(0)])


class Scaled(nn.Module):
    """x (batch_size, seq_len, d_model) is made larger first, so that positions don't drown it"""

    def __init__(self, d_model, max_seq_len=80):
        super().__init__()
        self.d_model = d_model
        table = [
            [f(p / 10000 ** (2 * i / d_model)) for i in range(d_model // 2) for f in (math.sin, math.cos)]
            for p in range(max_seq_len)
        ]
        self.register_buffer("pe", torch.tensor(table).unsqueeze(0))

    def forward(self, x):
        x = x * math.sqrt(self.d_model)
        return x + self.pe[:, : x.size(1)]


class Alone(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.register_buffer("rates", 1.0 / (10000 ** (torch.arange(0.0, d_model, 2.0) / d_model)))

    def forward(self, x):
        angles = torch.outer(torch.arange(x.shape[1], dtype=x.dtype), self.rates.to(x.dtype))
        return torch.stack((angles.sin(), angles.cos()), dim=2).view(1, x.shape[1], -1)


class Table(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.emb = nn.Embedding(max_len, d_model)

    def forward(self, positions):
        return self.emb(positions)


class ParameterTable(nn.Module):
    """x [batch, token, hidden_size]"""

    def __init__(self, num_positions, hidden_size):
        super().__init__()
        self.pos = nn.Parameter(torch.zeros(1, num_positions, hidden_size))

    def forward(self, hidden_states):
        return hidden_states + self.pos[:, : hidden_states.shape[1]]


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin):
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def rope(q, k):
    """[batch, head, token, d]"""
    d = q.shape[-1]
    angles = torch.arange(q.shape[-2])[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    angles = torch.cat([angles, angles], dim=-1)
    return apply_rotary_pos_emb(q, k, angles.cos(), angles.sin())


def apply_to_neighbours(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)


class OfNumbers(nn.Module):
    """Of the numbers of tokens [batch, token] the shape alone is looked at"""

    def __init__(self, config):
        super().__init__()
        self.wpe = nn.Embedding(config.block_size, config.n_embd)

    def forward(self, idx):
        return self.wpe(torch.arange(idx.shape[1]))


def rope_complex(x):
    """[batch, token, head, d], pairs as complex numbers"""
    d = x.shape[-1]
    angles = torch.outer(torch.arange(x.shape[1]), 10000.0 ** (-torch.arange(0, d, 2) / d)).to(x.dtype)
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[:, None]).flatten(-2)


def apply_freqs(xq, xk, freqs_cis):
    """[batch, token, head, d], as in Llama's first release"""
    turned = []
    for x in (xq, xk):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        turned.append(torch.view_as_real(pairs * freqs_cis[None, :, None]).flatten(3))
    return tuple(turned)


class Rotary(nn.Module):
    """Pair after pair, at any positions"""

    def __init__(self, head_dim, base=500000.0):
        super().__init__()
        self.head_dim, self.base = head_dim, base

    def forward(self, x, positions):
        out = torch.empty_like(x)
        for i in range(self.head_dim // 2):
            angle = positions * self.base ** (-2 * i / self.head_dim)
            a, b = x[..., 2 * i], x[..., 2 * i + 1]
            out[..., 2 * i] = a * angle.cos() - b * angle.sin()
            out[..., 2 * i + 1] = b * angle.cos() + a * angle.sin()
        return out


# What each is said to be, and the words that name its convention.
SINES, LEARNED, ROTARY = "sinusoidal positions", "learned positions", "rotary positions"
RIGHT = {
    numpy_table: (SINES, ""),
    positional_encoding: (SINES, "sines before cosines"),
    timing_signal: (SINES, "the last rate is 1/10000 itself"),
    of_a_position: (SINES, ""),
    of_positions: (SINES, ""),
    TokenFirst: (SINES, "[token, batch, d_model]"),
    Scaled: (SINES, "x is multiplied by √d_model first"),
    Alone: (SINES, "given alone, not added to x"),
    Table: (LEARNED, ""),
    ParameterTable: (LEARNED, "[batch, token, d_model]"),
    rope: (ROTARY, "[batch, head, token, d]; pairs are elements i and i + d/2"),
    apply_rotary_pos_emb: (ROTARY, "pairs are elements i and i + d/2"),
    apply_to_neighbours: (ROTARY, "pairs are elements 2i and 2i + 1"),
    OfNumbers: (LEARNED, ""),
    rope_complex: (ROTARY, "[batch, token, head, d]; pairs are elements 2i and 2i + 1"),
    apply_freqs: (ROTARY, "[batch, token, head, d]; pairs are elements 2i and 2i + 1"),
    Rotary: (ROTARY, "base 500000"),
}
