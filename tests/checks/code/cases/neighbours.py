"""Attention as people write it, in pairs of a right one and a wrong one. Each `# kind` begins with what is wrong in it.

A class or function is right if its docstring says so. Otherwise the docstring is the name that `check` has for it.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Base(nn.Module):
    """The projections, and attention in steps that the classes below replace."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.size = heads, dim // heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def cut(self, x):
        return x.unflatten(-1, (self.heads, self.size)).transpose(1, 2)

    def parts(self, x, memory=None):
        memory = x if memory is None else memory
        return self.cut(self.q(x)), self.cut(self.k(memory)), self.cut(self.v(memory))

    def scores(self, q, k):
        return q @ k.mT / self.size**0.5

    def glue(self, out):
        return self.o(out.transpose(1, 2).flatten(-2))


# --- flags: one way to call it is another attention ----------------------------------------------------------


class WeightsOnDemand(Base):
    """right"""

    fast = staticmethod(F.scaled_dot_product_attention)

    def forward(self, x, need_weights=False):
        q, k, v = self.parts(x)
        if not need_weights:
            return self.glue(self.fast(q, k, v))
        weights = self.scores(q, k).softmax(-1)
        return self.glue(weights @ v), weights


class FastScaledTwice(WeightsOnDemand):
    """another output + scale without root"""

    @staticmethod
    def fast(q, k, v):
        return F.scaled_dot_product_attention(q / q.shape[-1] ** 0.5, k, v)


class FastSwapsKeys(WeightsOnDemand):
    """another output + keys as values"""

    @staticmethod
    def fast(q, k, v):
        return F.scaled_dot_product_attention(q, k, k)


class Averaged(Base):
    """right"""

    def mean(self, weights, out):
        return weights.mean(1), out

    def forward(self, x, need_weights=True, average_attn_weights=True):
        q, k, v = self.parts(x)
        weights = self.scores(q, k).softmax(-1)
        out = weights @ v
        if need_weights and average_attn_weights:
            weights, out = self.mean(weights, out)
        return self.glue(out), weights if need_weights else None


class AveragesOutput(Averaged):
    """another output"""

    def mean(self, weights, out):
        weights = weights.mean(1)
        return weights, out.mean(1, keepdim=True).expand_as(out)


class EvalKernel(Base):
    """right"""

    def fast(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)

    def forward(self, x):
        q, k, v = self.parts(x)
        if not self.training:
            return self.glue(self.fast(q, k, v))
        return self.glue(F.dropout(self.scores(q, k).softmax(-1), 0.1) @ v)


class TrainsCausally(EvalKernel):
    """another output"""

    def fast(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class KeepsOrNot(Base):
    """right"""

    def now(self, use_cache):
        return True

    def forward(self, x, past_kv=None, use_cache=False):
        q, k, v = self.parts(x)
        if past_kv is not None:
            k, v = torch.cat((past_kv[0], k), 2), torch.cat((past_kv[1], v), 2)
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        scores = self.scores(q, k)
        if self.now(use_cache):
            scores = scores.masked_fill(~seen, -torch.inf)
        out = self.glue(scores.softmax(-1) @ v)
        return (out, (k, v)) if use_cache else out


class SeesAllWithoutCache(KeepsOrNot):
    """another output"""

    def now(self, use_cache):
        return use_cache


class MaskOnlyWithWeights(Base):
    """another output + mask never used"""

    def forward(self, x, attn_mask=None, output_attentions=False):
        q, k, v = self.parts(x)
        scores = self.scores(q, k)
        if attn_mask is not None and output_attentions:
            scores = scores.masked_fill(~attn_mask, -torch.inf)
        weights = scores.softmax(-1)
        return (self.glue(weights @ v), weights) if output_attentions else (self.glue(weights @ v),)


class MaskAlways(Base):
    """right"""

    def forward(self, x, attn_mask=None, output_attentions=False):
        q, k, v = self.parts(x)
        scores = self.scores(q, k)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf)
        weights = scores.softmax(-1)
        return (self.glue(weights @ v), weights) if output_attentions else (self.glue(weights @ v),)


class FlagOfOtherName(Base):
    """right"""

    def forward(self, x, flash=False):
        q, k, v = self.parts(x)
        return self.glue(F.scaled_dot_product_attention(q, k, v) if flash else self.scores(q, k).softmax(-1) @ v)


# --- parts without an effect -------------------------------------------------------------------------------


def turned(x, places, base=10000.0):
    half = x.shape[-1] // 2
    angles = torch.outer(places.double(), base ** (-torch.arange(half).double() / half))
    cos, sin = torch.cat((angles, angles), -1).cos().to(x.dtype), torch.cat((angles, angles), -1).sin().to(x.dtype)
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Rotated(Base):
    """right"""

    def forward(self, x):
        q, k, v = self.parts(x)
        places = torch.arange(x.shape[1])
        q, k = turned(q, places), turned(k, places)
        return self.glue(self.scores(q, k).softmax(-1) @ v)


class RotatedAtZero(Base):
    """part without an effect"""

    def forward(self, x):
        q, k, v = self.parts(x)
        places = torch.zeros(x.shape[1])
        q, k = turned(q, places), turned(k, places)
        return self.glue(self.scores(q, k).softmax(-1) @ v)


class RotationOff(Base):
    """right"""

    def __init__(self, dim, heads, use_rope=False):
        super().__init__(dim, heads)
        self.use_rope = use_rope

    def forward(self, x):
        q, k, v = self.parts(x)
        if self.use_rope:
            q, k = turned(q, torch.arange(x.shape[1])), turned(k, torch.arange(x.shape[1]))
        return self.glue(self.scores(q, k).softmax(-1) @ v)


class Tables(Base):
    """right"""

    def __init__(self, dim, heads):
        super().__init__(dim, heads)
        angles = torch.outer(torch.arange(128.0), 10000.0 ** (-torch.arange(self.size // 2) / (self.size // 2)))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def turn(self, x):
        cos, sin = self.cos[: x.shape[-2]], self.sin[: x.shape[-2]]
        one, other = x[..., 0::2], x[..., 1::2]
        return torch.stack((one * cos - other * sin, one * sin + other * cos), -1).flatten(-2)

    def forward(self, x):
        q, k, v = self.parts(x)
        return self.glue(self.scores(self.turn(q), self.turn(k)).softmax(-1) @ v)


class TablesUnread(Tables):
    """part without an effect"""

    def turn(self, x):
        return x


class Capped(Base):
    """right"""

    def __init__(self, dim, heads, logit_cap=3.0):
        super().__init__(dim, heads)
        self.logit_cap = logit_cap

    def cap(self, scores):
        return self.logit_cap * torch.tanh(scores / self.logit_cap)

    def forward(self, x):
        q, k, v = self.parts(x)
        return self.glue(self.cap(self.scores(q, k)).softmax(-1) @ v)


class CappedToNothing(Capped):
    """part without an effect"""

    def cap(self, scores):
        torch.tanh(scores / self.logit_cap)  # not in place
        return scores


class Windowed(Base):
    """right"""

    def __init__(self, dim, heads, window_size=4):
        super().__init__(dim, heads)
        self.window_size = window_size

    def near(self, offsets):
        return (offsets >= 0) & (offsets < self.window_size)

    def forward(self, x):
        q, k, v = self.parts(x)
        places = torch.arange(x.shape[1])
        scores = self.scores(q, k).masked_fill(~self.near(places[:, None] - places), -torch.inf)
        return self.glue(scores.softmax(-1) @ v)


class WindowForgotten(Windowed):
    """part without an effect"""

    def near(self, offsets):
        return offsets >= 0


class LongWindow(Windowed):
    """right"""

    def __init__(self, dim, heads):
        super().__init__(dim, heads, 20)


class LongWindowForgotten(LongWindow):
    """part without an effect"""

    def near(self, offsets):
        return offsets >= 0


class Slopes(Base):
    """right"""

    def bias(self, n):
        slopes = 2.0 ** (-8.0 / self.heads * torch.arange(1, self.heads + 1))
        places = torch.arange(n)
        return -slopes[:, None, None] * (places[:, None] - places).abs()

    def forward(self, x):
        q, k, v = self.parts(x)
        return self.glue((self.scores(q, k) + self.bias(x.shape[1]).to(x.dtype)).softmax(-1) @ v)


class SlopesOfQueriesOnly(Slopes):
    """part without an effect"""

    def bias(self, n):
        slopes = 2.0 ** (-8.0 / self.heads * torch.arange(1, self.heads + 1))
        return -slopes[:, None, None] * torch.arange(n)[:, None]  # the same for all keys of a query


# --- parameters of other names, and masks of the query -----------------------------------------------------


class KeepMask(Base):
    """right"""

    def forward(self, x, keep=None):
        q, k, v = self.parts(x)
        scores = self.scores(q, k)
        if keep is not None:
            scores = scores.masked_fill(~keep[:, None, None, :], -torch.inf)
        return self.glue(scores.softmax(-1) @ v)


class Crossed(Base):
    """right"""

    def hide(self, scores, mask, context_mask):
        return scores if context_mask is None else scores.masked_fill(~context_mask[:, None, None, :], -1e9)

    def forward(self, x, context=None, mask=None, context_mask=None):
        if context is None:
            context, context_mask = x, mask
        q, k, v = self.parts(x, context)
        return self.glue(self.hide(self.scores(q, k), mask, context_mask).softmax(-1) @ v)


class CrossedByQuery(Crossed):
    """wrong"""

    def hide(self, scores, mask, context_mask):
        if mask is not None and mask.shape[1] == scores.shape[-1]:
            scores = scores.masked_fill(~mask[:, None, None, :], -1e9)
        return super().hide(scores, mask, context_mask)


class SelfUnmasked(Crossed):
    """wrong"""

    def forward(self, x, context=None, mask=None, context_mask=None):
        q, k, v = self.parts(x, context)
        return self.glue(self.hide(self.scores(q, k), mask, context_mask).softmax(-1) @ v)


class KeyPadding(Base):
    """right"""

    def hide(self, scores, key_padding_mask):
        return scores.masked_fill(key_padding_mask[:, None, None, :], -torch.inf)

    def forward(self, x, key_padding_mask=None):
        q, k, v = self.parts(x)
        scores = self.scores(q, k)
        if key_padding_mask is not None:
            scores = self.hide(scores, key_padding_mask)
        return self.glue(scores.softmax(-1) @ v)


class PaddingOfQueries(KeyPadding):
    """wrong"""

    def hide(self, scores, key_padding_mask):
        return scores.masked_fill(key_padding_mask[:, None, :, None], -1e9)


# --- masks of 1 and 0, and what hides too little -----------------------------------------------------------


class OnesAndZeros(Base):
    """right"""

    number = -1e4

    def hide(self, scores, mask):
        return scores + (1.0 - mask[:, None, None, :]) * self.number

    def forward(self, x, attention_mask=None):
        q, k, v = self.parts(x)
        scores = self.scores(q, k)
        if attention_mask is not None:
            scores = self.hide(scores, attention_mask)
        return self.glue(scores.softmax(-1) @ v)


class OnesMillion(OnesAndZeros):
    """right"""

    number = -1e6


class OnesBillion(OnesAndZeros):
    """right"""

    number = -1e9


class OnesTen(OnesAndZeros):
    """hidden keys keep weight"""

    number = -10.0


class OnesOne(OnesAndZeros):
    """hidden keys keep weight"""

    number = -1.0


class OnesThousand(OnesAndZeros):
    """hidden keys keep weight"""

    number = -1000.0


class Forbidden(OnesAndZeros):
    """right"""

    def hide(self, scores, mask):
        return scores - 1e4 * mask.to(scores.dtype)[:, None, None, :]


class ForbiddenWeakly(OnesAndZeros):
    """hidden keys keep weight"""

    def hide(self, scores, mask):
        return scores - 50.0 * mask.to(scores.dtype)[:, None, None, :]


class Added(OnesAndZeros):
    """right"""

    def hide(self, scores, mask):
        return scores + mask


class CausalFill(Base):
    """right"""

    number = -1e4

    def forward(self, x):
        q, k, v = self.parts(x)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.glue(self.scores(q, k).masked_fill(future, self.number).softmax(-1) @ v)


class CausalFillLow(CausalFill):
    """hidden keys keep weight"""

    number = -60.0


class CausalFillMiswritten(CausalFill):
    """hidden keys keep weight"""

    number = -1e-4


def filled_function(q, k, v, mask=None):
    """right"""
    scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask.bool(), scores, torch.full_like(scores, -1e4))
    return torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)


def weakly_filled_function(q, k, v, mask=None):
    """hidden keys keep weight"""
    scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask.bool(), scores, torch.full_like(scores, -30.0))
    return torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)


class Zeroed(Base):
    """right"""

    number = -1e4

    def forward(self, x, mask=None):
        q, k, v = self.parts(x)
        scores = self.scores(q, k)
        if mask is None:
            return self.glue(scores.softmax(-1) @ v)
        weights = scores.masked_fill(~mask, self.number).softmax(-1)
        return self.glue(weights * mask.any(-1, keepdim=True) @ v)


class ZeroedLow(Zeroed):
    """hidden keys keep weight"""

    number = -200.0


class CausalAndAdded(Base):
    """right"""

    def forward(self, x, mask=None, key_padding_mask=None):
        q, k, v = self.parts(x)
        scores = self.scores(q, k).masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1) > 0, -torch.inf)
        if mask is not None:
            scores = scores + mask
        if key_padding_mask is not None:
            scores = scores + key_padding_mask[:, None, None]
        return self.glue(scores.softmax(-1) @ v)


# --- causality that a mask turns off -----------------------------------------------------------------------


class CausalUnlessMasked(Base):
    """right"""

    def forward(self, x, mask=None):
        q, k, v = self.parts(x)
        return self.glue(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None))


class CausalUnlessMaskedByHand(Base):
    """right"""

    def forward(self, x, attn_mask=None):
        q, k, v = self.parts(x)
        if attn_mask is None:
            attn_mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return self.glue(self.scores(q, k).masked_fill(~attn_mask, -1e9).softmax(-1) @ v)


class CausalUnlessMaskedInverted(Base):
    """wrong"""

    def forward(self, x, attn_mask=None):
        q, k, v = self.parts(x)
        if attn_mask is None:
            attn_mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.glue(self.scores(q, k).masked_fill(~attn_mask, -1e9).softmax(-1) @ v)


class CausalAndMasked(Base):
    """right"""

    def forward(self, x, mask=None):
        q, k, v = self.parts(x)
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        seen = seen if mask is None else seen & mask
        return self.glue(F.scaled_dot_product_attention(q, k, v, attn_mask=seen))


class CausalByFlag(Base):
    """right"""

    def forward(self, x, attn_mask=None, is_causal=True):
        q, k, v = self.parts(x)
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
        seen = seen.tril() if is_causal else seen
        return self.glue(F.scaled_dot_product_attention(q, k, v, seen if attn_mask is None else seen & attn_mask))


class CausalUnlessAdded(Base):
    """right"""

    def default(self, n):
        return torch.full((n, n), -torch.inf).triu(1)

    def forward(self, x, attn_mask=None):
        q, k, v = self.parts(x)
        added = self.default(x.shape[1]) if attn_mask is None else attn_mask
        return self.glue((self.scores(q, k) + added).softmax(-1) @ v)


class CausalUnlessAddedPeeks(CausalUnlessAdded):
    """causal off by one"""

    def default(self, n):
        return torch.full((n, n), -torch.inf).triu(2)


class CausalUnlessAddedBlind(CausalUnlessAdded):
    """wrong"""

    def default(self, n):
        hidden = torch.full((n, n), -torch.inf).triu(0)
        hidden[0, 0] = 0
        return hidden


# --- one projection for all heads, norms, residual sums ---------------------------------------------------


class OneForAll(nn.Module):
    """right"""

    def __init__(self, emb, heads):
        super().__init__()
        self.heads, self.size = heads, emb // heads
        self.tokeys, self.toqueries, self.tovalues = (nn.Linear(self.size, self.size) for _ in range(3))
        self.unifyheads = nn.Linear(emb, emb)

    def scale(self, dots):
        return dots / math.sqrt(self.size)

    def forward(self, x):
        b, t, e = x.shape
        x = x.view(b, t, self.heads, self.size)
        k, q, v = (
            layer(x).transpose(1, 2).reshape(b * self.heads, t, self.size)
            for layer in (self.tokeys, self.toqueries, self.tovalues)
        )
        out = torch.bmm(F.softmax(self.scale(torch.bmm(q, k.transpose(1, 2))), dim=2), v)
        out = out.view(b, self.heads, t, self.size).transpose(1, 2).reshape(b, t, e)
        return self.unifyheads(out)


class OneForAllUnscaled(OneForAll):
    """no scale"""

    def scale(self, dots):
        return dots


class LayerNormed(Base):
    """right"""

    def __init__(self, dim, heads):
        super().__init__(dim, heads)
        self.q_norm, self.k_norm = nn.LayerNorm(self.size), nn.LayerNorm(self.size)

    def norms(self, q, k):
        return self.q_norm(q), self.k_norm(k)

    def forward(self, x):
        q, k, v = self.parts(x)
        q, k = self.norms(q, k)
        return self.glue(self.scores(q, k).softmax(-1) @ v)


class KeysUnnormed(LayerNormed):
    """norms unused"""

    def norms(self, q, k):
        return self.q_norm(q), k


class NormedResults(LayerNormed):
    """norms unused"""

    def norms(self, q, k):
        self.q_norm(q), self.k_norm(k)
        return q, k


class PostNorm(Base):
    """right"""

    def __init__(self, dim, heads):
        super().__init__(dim, heads)
        self.layer_norm = nn.LayerNorm(dim)

    def forward(self, query, key, value, mask=None):
        q, k, v = self.cut(self.q(query)), self.cut(self.k(key)), self.cut(self.v(value))
        scores = self.scores(q, k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.layer_norm(query + self.glue(scores.softmax(-1) @ v))


class PostNormUnscaled(PostNorm):
    """no scale"""

    def scores(self, q, k):
        return q @ k.mT


class RmsNormed(Base):
    """right"""

    def __init__(self, dim, heads):
        super().__init__(dim, heads)
        self.q_norm, self.k_norm = nn.RMSNorm(self.size), nn.RMSNorm(self.size)

    def forward(self, x):
        q, k, v = self.parts(x)
        return self.glue(F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v))


class PreNorm(Base):
    """right"""

    def __init__(self, dim, heads):
        super().__init__(dim, heads)
        self.norm1 = nn.LayerNorm(dim)

    def forward(self, x):
        q, k, v = self.parts(self.norm1(x))
        return x + self.glue(self.scores(q, k).softmax(-1) @ v)


class PreNormUnscaled(PreNorm):
    """no scale"""

    def scores(self, q, k):
        return q @ k.mT


class PreNormByRms(PreNorm):
    """right"""

    def __init__(self, dim, heads):
        super().__init__(dim, heads)
        self.norm1 = nn.RMSNorm(dim, eps=1e-6)


# --- mistakes beside a part --------------------------------------------------------------------------------


class RotatedUnscaled(Rotated):
    """no scale"""

    def scores(self, q, k):
        return q @ k.mT


class RotatedOverQueries(Rotated):
    """softmax over queries"""

    def forward(self, x):
        q, k, v = self.parts(x)
        places = torch.arange(x.shape[1])
        return self.glue(self.scores(turned(q, places), turned(k, places)).softmax(-2) @ v)


class RotatedPeeking(Rotated):
    """causal off by one"""

    def forward(self, x):
        q, k, v = self.parts(x)
        places = torch.arange(x.shape[1])
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(2)
        scores = self.scores(turned(q, places), turned(k, places)).masked_fill(hidden, -torch.inf)
        return self.glue(scores.softmax(-1) @ v)


class RotatedOtherBase(Base):
    """right"""

    def __init__(self, dim, heads, rope_theta=500000.0):
        super().__init__(dim, heads)
        self.rope_theta = rope_theta

    def forward(self, x):
        q, k, v = self.parts(x)
        places = torch.arange(x.shape[1])
        q, k = turned(q, places, self.rope_theta), turned(k, places, self.rope_theta)
        return self.glue(self.scores(q, k).softmax(-1) @ v)


class SlopesJoined(Slopes):
    """heads joined in the wrong order"""

    def glue(self, out):
        return self.o(out.reshape(out.shape[0], out.shape[2], -1))


class SlopesUnscaled(Slopes):
    """no scale"""

    def scores(self, q, k):
        return q @ k.mT


class CappedKeysAsValues(Capped):
    """keys as values"""

    def parts(self, x, memory=None):
        q, k, _ = super().parts(x, memory)
        return q, k, k


class LayerNormedTwice(LayerNormed):
    """softmax twice"""

    def forward(self, x):
        q, k, v = self.parts(x)
        q, k = self.norms(q, k)
        return self.glue(self.scores(q, k).softmax(-1).softmax(-1) @ v)


class WindowedByHeads(Windowed):
    """scale by heads"""

    def scores(self, q, k):
        return q @ k.mT / self.heads**0.5


# --- a memory of another name ------------------------------------------------------------------------------


class OtherMemory(Base):
    """right"""

    def forward(self, x, encoded):
        q, k, v = self.parts(x, encoded)
        return self.glue(self.scores(q, k).softmax(-1) @ v)


class OtherMemoryIgnored(Base):
    """memory ignored"""

    def forward(self, x, encoded):
        q, k, v = self.parts(x)
        return self.glue(self.scores(q, k).softmax(-1) @ v)


class Translated(Base):
    """right"""

    def memory(self, tgt, src):
        return src

    def forward(self, tgt, src):
        q, k, v = self.parts(tgt, self.memory(tgt, src))
        return self.glue(F.scaled_dot_product_attention(q, k, v))


class TranslatedIgnored(Translated):
    """memory ignored"""

    def memory(self, tgt, src):
        return tgt


# --- homework ----------------------------------------------------------------------------------------------


def homework(Q, K, V):
    """right"""
    scores = Q @ K.T / np.sqrt(K.shape[1])
    e = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True) @ V


def homework_without_maximum(Q, K, V):
    """no maximum subtracted"""
    e = np.exp(Q @ K.T / np.sqrt(K.shape[1]))
    return e / np.sum(e, axis=1, keepdims=True) @ V


def homework_over_rows(Q, K, V):
    """softmax over queries"""
    scores = Q @ K.T / np.sqrt(K.shape[1])
    e = np.exp(scores - scores.max(axis=0))
    return (e / e.sum(axis=0)) @ V


def homework_without_axis(Q, K, V):
    """softmax over everything"""
    scores = Q @ K.T / np.sqrt(K.shape[1])
    e = np.exp(scores - np.max(scores))
    return np.dot(e / np.sum(e), V)


def homework_without_keepdims(Q, K, V):
    """sum without keepdims"""
    scores = Q.dot(K.T) / np.sqrt(K.shape[1])
    e = np.exp(scores - np.max(scores))
    return (e / np.sum(e, axis=1)).dot(V)


def homework_unscaled(Q, K, V):
    """no scale"""
    scores = Q @ K.T
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ V


def homework_by_tokens(Q, K, V):
    """scale by tokens"""
    scores = Q @ K.T / np.sqrt(K.shape[0])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ V


def homework_heads(X, Wq, Wk, Wv, Wo, h):
    """right"""
    n, d = X.shape
    q, k, v = ((X @ W).reshape(n, h, d // h).transpose(1, 0, 2) for W in (Wq, Wk, Wv))
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(d // h)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(n, d) @ Wo


def homework_heads_joined(X, Wq, Wk, Wv, Wo, h):
    """heads joined in the wrong order"""
    n, d = X.shape
    q, k, v = ((X @ W).reshape(n, h, d // h).transpose(1, 0, 2) for W in (Wq, Wk, Wv))
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(d // h)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True) @ v).reshape(n, d) @ Wo


def homework_one_head(x, W_Q, W_K, W_V):
    """right"""
    q, k, v = x @ W_Q, x @ W_K, x @ W_V
    scores = np.einsum("bid,bjd->bij", q, k) / np.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bij,bjd->bid", e / e.sum(-1, keepdims=True), v)


def homework_torch_heads(x, wq, wk, wv, wo, num_heads):
    """right"""
    q, k, v = ((x @ w).unflatten(-1, (num_heads, -1)).transpose(1, 2) for w in (wq, wk, wv))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2) @ wo


# --- positions -----------------------------------------------------------------------------------------------


class RotatedQueriesOnly(Rotated):
    """rotary on one side"""

    def forward(self, x):
        q, k, v = self.parts(x)
        return self.glue(self.scores(turned(q, torch.arange(x.shape[1])), k).softmax(-1) @ v)


class RotatedByWrongFrequencies(Rotated):
    """rotary frequencies"""

    def forward(self, x):
        q, k, v = self.parts(x)
        places = torch.arange(x.shape[1])
        q, k = turned(q, places, 10000.0**0.5), turned(k, places, 10000.0**0.5)
        return self.glue(self.scores(q, k).softmax(-1) @ v)


class SlopesFromZero(Slopes):
    """ALiBi slopes"""

    def bias(self, n):
        return super().bias(n) * 2.0 ** (8.0 / self.heads)


class SlopesBeforeScale(Slopes):
    """ALiBi slopes"""

    def forward(self, x):
        q, k, v = self.parts(x)
        bias = self.bias(x.shape[1]).to(x.dtype)
        return self.glue(((q @ k.mT + bias) / self.size**0.5).softmax(-1) @ v)


class RotatedInPairs(Rotated):
    """right"""

    def turned(self, x, places):
        angles = places[:, None] * 10000.0 ** (-torch.arange(0, self.size, 2) / self.size)
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack((even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()), -1)

    def forward(self, x):
        q, k, v = self.parts(x)
        places = torch.arange(x.shape[1])
        q, k = (self.turned(one, places).flatten(-2).to(x.dtype) for one in (q, k))
        return self.glue(self.scores(q, k).softmax(-1) @ v)


class SlopesCausal(Slopes):
    """right"""

    def forward(self, x):
        q, k, v = self.parts(x)
        hidden = torch.full((x.shape[1], x.shape[1]), -torch.inf).triu(1)
        bias = self.bias(x.shape[1]).to(x.dtype) + hidden.to(x.dtype)
        return self.glue(F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(len(x), -1, -1, -1)))


# --- steps with a cache ------------------------------------------------------------------------------------


class Steps(Base):
    """right"""

    def __init__(self, dim, heads):
        super().__init__(dim, heads)

    def seen(self, queries, keys):
        return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)

    def turn(self, x, first):
        return x

    def forward(self, x, cache=None, use_cache=False):
        q, k, v = self.parts(x)
        first = 0 if cache is None else cache[0].shape[2]
        q, k = self.turn(q, first), self.turn(k, first)
        if cache is not None:
            k, v = self.extend(cache, k, v)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=self.seen(q.shape[2], k.shape[2]))
        return self.glue(out), (k, v) if use_cache else None

    def extend(self, cache, k, v):
        return torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)


class StepsFromTheFirstKey(Steps):
    """causal from the first key"""

    def seen(self, queries, keys):
        return torch.ones(queries, keys, dtype=torch.bool).tril()


class SeveralStepsFromTheFirstKey(Steps):
    """causal from the first key"""

    def seen(self, queries, keys):
        return torch.ones(queries, keys, dtype=torch.bool).tril(0 if queries > 1 else keys)


class StepsSeeTheFuture(Steps):
    """future of a step"""

    def seen(self, queries, keys):
        seen = torch.ones(queries, keys, dtype=torch.bool)
        return seen.tril() if queries == keys else seen


class StepsForget(Steps):
    """cache ignored"""

    def extend(self, cache, k, v):
        return k, v


class RotatedSteps(Steps):
    """right"""

    def turn(self, x, first):
        return turned(x, torch.arange(first, first + x.shape[-2]))


class RotatedStepsFromZero(Steps):
    """positions from 0 after a cache"""

    def turn(self, x, first):
        return turned(x, torch.arange(x.shape[-2]))


class StepsByConcat(Base):
    """right"""

    def join(self, old, new):
        return torch.cat((old, new), 1)

    def forward(self, x, past_key_value=None):
        keys = x if past_key_value is None else self.join(past_key_value, x)
        q, k, v = self.parts(x, keys)
        hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(1 + k.shape[2] - q.shape[2])
        return self.glue(self.scores(q, k).masked_fill(hidden, -torch.inf).softmax(-1) @ v), keys


class StepsInTheWrongOrder(Steps):
    """cache after the new tokens"""

    def extend(self, cache, k, v):
        return torch.cat((k, cache[0]), 2), torch.cat((v, cache[1]), 2)


# --- masks of texts, and heads that are read back ------------------------------------------------------------


class Folded(Base):
    """right"""

    def repeat(self, mask):
        return mask.repeat_interleave(self.heads, 0)

    def unfold(self, out, texts):
        return out.unflatten(0, (texts, self.heads))

    def forward(self, q, k, v, mask=None):
        texts = len(q)
        q, k, v = (self.cut(layer(x)).flatten(0, 1) for layer, x in ((self.q, q), (self.k, k), (self.v, v)))
        scores = self.scores(q, k)
        if mask is not None:
            scores = scores.masked_fill(self.repeat(mask) == 0, -1e9)
        return self.glue(self.unfold(scores.softmax(-1) @ v, texts))


class FoldedOtherMasks(Folded):
    """mask of another text"""

    def repeat(self, mask):
        return mask.repeat(self.heads, 1, 1)


class FoldedReadBack(Folded):
    """heads and texts mixed"""

    def unfold(self, out, texts):
        return out.unflatten(0, (self.heads, texts)).transpose(0, 1)


class ByLengths(nn.Module):
    """right"""

    def __init__(self, d_model, nhead):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, nhead, batch_first=True)

    def hidden(self, places, lengths):
        return places >= lengths

    def forward(self, x, lengths):
        hidden = self.hidden(torch.arange(x.shape[1]), lengths[:, None])
        return self.attn(x, x, x, key_padding_mask=hidden, need_weights=False)[0]


class ByLengthsInverted(ByLengths):
    """mask inverted"""

    def hidden(self, places, lengths):
        return places < lengths


class LengthsOffByOne(ByLengths):
    """wrong"""

    def hidden(self, places, lengths):
        return places > lengths


class StepsThenWeights(Base):
    """right"""

    def forward(self, x, layer_past=None, use_cache=False, output_attentions=False):
        q, k, v = self.parts(x)
        if layer_past is not None:
            k, v = torch.cat((layer_past[0], k), -2), torch.cat((layer_past[1], v), -2)
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        weights = self.scores(q, k).masked_fill(~seen, -1e4).softmax(-1)
        out = (self.glue(weights @ v), (k, v) if use_cache else None)
        return (*out, weights) if output_attentions else out


class CappedAtOne(Capped):
    """softcap not multiplied back"""

    def cap(self, scores):
        return torch.tanh(scores / self.logit_cap)


class WindowOpenAhead(Windowed):
    """window open ahead"""

    def near(self, offsets):
        return offsets < self.window_size


class FlashUnscaled(Base):
    """another output + scale without root"""

    def forward(self, x, use_flash=True):
        q, k, v = self.parts(x)
        if use_flash:
            return self.glue(F.scaled_dot_product_attention(q, k, v))
        return self.glue(F.scaled_dot_product_attention(q / self.size**0.5, k, v))


class PaddingInsteadOfCausality(Base):
    """mask instead of causality"""

    def forward(self, x, padding_mask=None):
        q, k, v = self.parts(x)
        mask = None if padding_mask is None else self.widen(padding_mask[:, None, None, :].bool())
        return self.glue(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None))

    def widen(self, real):
        return real


class PaddingBesideCausality(PaddingInsteadOfCausality):
    """right"""

    def widen(self, real):
        return real & torch.ones(real.shape[-1], real.shape[-1], dtype=torch.bool).tril()


class PaddingInsteadOfWindow(Windowed):
    """mask instead of causality"""

    def forward(self, x, padding_mask=None):
        q, k, v = self.parts(x)
        offsets = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
        mask = (self.near(offsets) & (offsets >= 0))[None, None]
        if padding_mask is not None:
            mask = padding_mask[:, None, None, :].bool()
        return self.glue(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


class TextByText(Base):
    """right"""

    more = 0

    def forward(self, x, padding_mask=None):
        lengths = [x.shape[1]] * len(x) if padding_mask is None else padding_mask.long().sum(-1).tolist()
        out = torch.zeros_like(x)
        for row, length in enumerate(lengths):
            q, k, v = self.parts(x[row : row + 1, : length + self.more])
            out[row, :length] = self.glue(F.scaled_dot_product_attention(q, k, v))[0, :length]
        return out


class TextByTextOneMore(TextByText):
    """wrong"""

    more = 1


def homework_heads_by_reshape(X, W_q, W_k, W_v, W_o, num_heads):
    """heads split by view"""
    tokens, size = X.shape
    q, k, v = (np.reshape(X @ W, (num_heads, tokens, size // num_heads)) for W in (W_q, W_k, W_v))
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(size // num_heads)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(tokens, size) @ W_o


def homework_divided_by_the_inverse(x, w_q, w_k, w_v):
    """scale multiplied"""
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    a = q @ k.T / k.shape[-1] ** -0.5
    a = np.exp(a - a.max(-1, keepdims=True))
    return a / a.sum(-1, keepdims=True) @ v


def homework_columns_of_all(x, w_q, w_k, w_v):
    """softmax over queries"""
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    scores = q @ k.T / np.sqrt(k.shape[1])
    e = np.exp(scores - scores.max())
    return e / e.sum(axis=0) @ v


# --- cosines, of queries and keys of length 1 ----------------------------------------------------------------


class Cosines(Base):
    """right"""

    axes = (-1, -1)

    def __init__(self, dim, heads, temperature=0.1):
        super().__init__(dim, heads)
        self.temperature = temperature

    def forward(self, x):
        q, k, v = self.parts(x)
        q, k = (
            one if axis is None else F.normalize(one, dim=axis) for one, axis in zip((q, k), self.axes, strict=True)
        )
        return self.glue((q @ k.mT / self.temperature).softmax(-1) @ v)


class CosinesOfQueries(Cosines):
    """cosine of one side"""

    axes = (-1, None)


class CosinesOfKeys(Cosines):
    """cosine of one side"""

    axes = (None, -1)


class CosinesOverTokens(Cosines):
    """cosine over tokens"""

    axes = (-1, -2)


def cosines(query, key, value):
    """right"""
    return (20 * F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).mT).softmax(-1) @ value


def cosines_normalised_late(query, key, value):
    """softmax twice"""
    scores = F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).mT
    return scores.softmax(-1).softmax(-1) @ value


# --- one matrix for the queries and fewer keys and values; a norm of the queries alone; sinks --------------------


class FewKeysFused(nn.Module):
    """right"""

    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.heads, self.size = num_heads, hidden_size // num_heads
        self.query_key_value = nn.Linear(hidden_size, hidden_size + 4 * self.size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, x):
        both = self.query_key_value(x).split([self.heads * self.size, 2 * self.size, 2 * self.size], -1)
        q, k, v = (one.unflatten(-1, (-1, self.size)).transpose(1, 2) for one in both)
        k, v = (self.shared(one) for one in (k, v))
        return self.dense(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    def shared(self, x):
        return x.repeat_interleave(self.heads // 2, 1)


class FewKeysFusedInTurns(FewKeysFused):
    """key heads in the wrong order"""

    def shared(self, x):
        return x.repeat(1, self.heads // 2, 1, 1)


class QueriesNormed(Base):
    """right"""

    residual = False

    def __init__(self, dim, heads):
        super().__init__(dim, heads)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, memory, memory_mask=None):
        q, k, v = self.parts(self.norm(x), memory)
        mask = None if memory_mask is None else memory_mask[:, None, None, :]
        out = self.glue(F.scaled_dot_product_attention(q, k, v, mask))
        return x + out if self.residual else out


class QueriesNormedAndAdded(QueriesNormed):
    """right"""

    residual = True


class QueriesNormedUnscaled(QueriesNormed):
    """no scale"""

    def parts(self, x, memory=None):
        q, k, v = super().parts(x, memory)
        return q * self.size**0.5, k, v


class SinkBehind(Base):
    """right"""

    def __init__(self, dim, heads):
        super().__init__(dim, heads)
        self.sinks = nn.Parameter(torch.zeros(heads))

    def forward(self, x):
        q, k, v = self.parts(x)
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        scores = self.scores(q, k).masked_fill(~seen, -torch.inf)
        return self.glue(self.weights(scores, self.sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)) @ v)

    def weights(self, scores, sinks):
        return torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]


class SinkBefore(SinkBehind):
    """sinks before the keys"""

    def weights(self, scores, sinks):
        return torch.cat([sinks, scores], -1).softmax(-1)[..., :-1]


class SinkBeforeAndDropped(SinkBehind):
    """right"""

    def weights(self, scores, sinks):
        return torch.cat([sinks, scores], -1).softmax(-1)[..., 1:]


class DroppedInTraining(nn.Module):
    """right"""

    def __init__(self, dim, heads, dropout=0.1):
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class PaddedQueries(Base):
    """[PAD] hidden as query"""

    def forward(self, x, padding_mask=None):
        q, k, v = self.parts(x)
        scores = self.scores(q, k)
        if padding_mask is not None:
            scores = scores.masked_fill(padding_mask[:, None, :, None], -1e9)
        return self.glue(scores.softmax(-1) @ v)


class KeysFirst(Base):
    """right"""

    order = (0, 1, 2)

    def __init__(self, dim, heads):
        super().__init__(dim, heads)
        del self.q, self.k, self.v
        self.kqv = nn.Linear(dim, 3 * dim)

    def forward(self, x):
        parts = [self.cut(one) for one in self.kqv(x).chunk(3, -1)]
        k, q, v = (parts[place] for place in self.order)
        return self.glue(self.scores(q, k).softmax(-1) @ v)


class KeysFirstForgotten(KeysFirst):
    """q and k swapped"""

    order = (1, 0, 2)


# --- one query, and a mask for each text ---------------------------------------------------------------------


class OneQuery(nn.Module):
    """right"""

    def __init__(self, query_size, key_size, num_hiddens):
        super().__init__()
        self.W_q, self.W_k = nn.Linear(query_size, num_hiddens), nn.Linear(key_size, num_hiddens)
        self.w_v = nn.Linear(num_hiddens, 1, bias=False)

    def of_texts(self, mask):
        return mask

    def forward(self, query, keys, mask=None):
        scores = self.w_v(torch.tanh(self.W_q(query)[:, None] + self.W_k(keys)))[..., 0]
        if mask is not None:
            scores = scores.masked_fill(~self.of_texts(mask), -torch.inf)
        return (scores.softmax(-1)[:, None] @ keys)[:, 0]


class OneQueryOneMask(OneQuery):
    """wrong"""

    def of_texts(self, mask):
        return mask[:1]


class OneMatrix(nn.Module):
    """right"""

    between = staticmethod(torch.tanh)

    def __init__(self, hidden_dim):
        super().__init__()
        self.attn, self.v = nn.Linear(2 * hidden_dim, hidden_dim), nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, hidden, encoder_outputs, mask=None):
        both = torch.cat([hidden[:, None].expand_as(encoder_outputs), encoder_outputs], -1)
        scores = self.v(self.between(self.attn(both)))[..., 0]
        scores = scores if mask is None else scores.masked_fill(mask == 0, -1e10)
        return (scores.softmax(-1)[:, None] @ encoder_outputs)[:, 0]


class OneMatrixWithoutTanh(OneMatrix):
    """tanh left out"""

    between = staticmethod(torch.nn.Identity())
