"""Attention as functions of query, key, value and perhaps a mask, in torch, as people write it. All are right."""

import math

import torch
import torch.nn.functional as F


def keys_third(q, k, v):
    """[batch, token, head, head_dim], with the scores as [batch, query, key, head]."""
    scores = torch.einsum("nihd,njhd->nijh", q, k) / math.sqrt(q.shape[3])
    return torch.einsum("nijh,njhd->nihd", scores.softmax(dim=2), v)


def batched(q, k, v):
    """[batch, token, dim]"""
    weights = F.softmax(torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(2)), dim=2)
    return torch.bmm(weights, v)


def batched_added(q, k, v, attn_mask):
    """[batch, token, dim]; attn_mask is added to the scores."""
    scores = torch.baddbmm(attn_mask.expand(q.size(0), -1, -1), q, k.mT, alpha=q.size(-1) ** -0.5)
    return scores.softmax(-1).bmm(v)


def one_matrix(Q, K, V):
    """[token, dim]"""
    S = Q @ K.T / Q.shape[1] ** 0.5
    A = S.softmax(dim=1)
    return A @ V


def in_loops(query, key, value):
    """[batch, head, token, dim], a number at a time."""
    batches, heads, length, width = query.shape
    out = value.new_zeros(batches, heads, length, value.shape[-1])
    for b in range(batches):
        for h in range(heads):
            for i in range(length):
                scores = torch.stack([query[b, h, i].dot(one) / math.sqrt(width) for one in key[b, h]])
                weights = torch.exp(scores - scores.max())
                weights = weights / weights.sum()
                for j, weight in enumerate(weights):
                    out[b, h, i] = out[b, h, i] + weight * value[b, h, j]
    return out


def online_softmax(q, k, v, mask=None, block_size=2):
    """A block of keys at a time, as FlashAttention goes. A row that may see nothing is 0."""
    q = q * q.shape[-1] ** -0.5
    out = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    total = torch.zeros(*q.shape[:-1], 1, dtype=q.dtype)
    top = torch.full_like(total, -torch.inf)
    for start in range(0, k.shape[-2], block_size):
        block = slice(start, start + block_size)
        scores = q @ k[..., block, :].transpose(-1, -2)
        if mask is not None:
            scores = scores.masked_fill(~mask[..., block], -torch.inf)
        new_top = torch.maximum(top, scores.amax(-1, keepdim=True))
        safe_top = new_top.masked_fill(new_top == -torch.inf, 0)
        p = torch.exp(scores - safe_top)
        correction = torch.exp(top - safe_top)
        total = total * correction + p.sum(-1, keepdim=True)
        out = out * correction + p @ v[..., block, :]
        top = new_top
    return out / total.masked_fill(total == 0, 1)


def by_logsumexp(q, k, v, mask=None):
    s = torch.einsum("...qd,...kd->...qk", q, k) / q.shape[-1] ** 0.5
    if mask is not None:
        s = s + torch.zeros_like(s).masked_fill(~mask, -torch.inf)
    return torch.exp(s - torch.logsumexp(s, dim=-1, keepdim=True)) @ v


def fused_kernel(query, key, value, attn_mask=None, is_causal=False, scale=None):
    return F.scaled_dot_product_attention(query, key, value, attn_mask, is_causal=is_causal, scale=scale)


def weights_first(q, k, v):
    attn = F.softmax((q / q.size(-1) ** 0.5) @ k.transpose(-1, -2), -1)
    return attn, attn @ v


def as_dict(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(key.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), -torch.inf)
    weights = scores.softmax(dim=-1)
    return {"output": weights @ value, "attention": weights}


def broadcast_padding(query, key, value, mask):
    """mask [batch, 1, 1, key] of 1 and 0. A row that may see nothing is 0."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(mask == 0, -torch.inf)
    return torch.nan_to_num(scores.softmax(-1)) @ value


def softmax_by_hand(q, k, v, mask=None):
    """A row that may see nothing is 0."""
    scores = q.matmul(k.transpose(-2, -1)) / q.shape[-1] ** 0.5
    if mask is None:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool)
    biggest = scores.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True).clamp(min=torch.finfo(q.dtype).min)
    exps = torch.exp(scores.masked_fill(~mask, -torch.inf) - biggest)
    sums = exps.sum(-1, keepdim=True)
    return (exps / torch.where(sums > 0, sums, 1)) @ v


def causal_or_not(query, key, value, is_causal=False, scale=None):
    scale = query.size(-1) ** -0.5 if scale is None else scale
    scores = query @ key.transpose(-2, -1) * scale
    if is_causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf)
    return scores.softmax(-1) @ value


def a_head_at_a_time(q, k, v):
    """vmap over batch and head of attention for one head."""

    def head(q, k, v):
        return torch.softmax(q @ k.T / math.sqrt(q.shape[-1]), dim=-1) @ v

    return torch.vmap(torch.vmap(head))(q, k, v)


class HandBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        p = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1)
        ctx.save_for_backward(q, k, v, p)
        return p @ v

    @staticmethod
    def backward(ctx, grad):
        q, k, v, p = ctx.saved_tensors
        grad_p = grad @ v.mT
        grad_s = p * (grad_p - (grad_p * p).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
        return grad_s @ k, grad_s.mT @ q, p.mT @ grad


def backward_by_hand(q, k, v):
    return HandBackward.apply(q, k, v)


class DotProduct(torch.nn.Module):
    """Has no weights: forward of q, k, v [..., token, dim] and a mask, True = look."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        scores = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = self.dropout(torch.softmax(scores, dim=-1))
        return weights @ v, weights
