"""Attention as people write it: networks after nanoGPT, the Annotated Transformer, fairseq, d2l, lucidrains, a VAE.

Each keeps the weights that it computes in `seen`, `[text, head, query, key]` of the last call.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS = 32, 4


def split(x: Tensor) -> Tensor:
    """Return `[text, head, token, size]`."""
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


class Projections(nn.Module):
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))


class NanoGPT(nn.Module):
    """After nanoGPT's CausalSelfAttention, without its fused kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.attn_dropout = nn.Dropout(0.0)
        self.register_buffer("bias", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.size()
        q, k, v = self.c_attn(x).split(width, dim=2)
        k = k.view(batch, tokens, HEADS, width // HEADS).transpose(1, 2)
        q = q.view(batch, tokens, HEADS, width // HEADS).transpose(1, 2)
        v = v.view(batch, tokens, HEADS, width // HEADS).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :tokens, :tokens] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        self.seen = att
        y = self.attn_dropout(att) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(batch, tokens, width))


class FusedGPT(NanoGPT):
    """After nanoGPT's CausalSelfAttention, with the fused kernel."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = map(split, self.c_attn(x).chunk(3, -1))
        return self.c_proj(joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


class Annotated(Projections):
    """After the Annotated Transformer: a function for attention, and a mask of -1e9."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        def attention(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
            if mask is not None:
                scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
            p_attn = scores.softmax(dim=-1)
            return torch.matmul(F.dropout(p_attn, 0.0), value), p_attn

        found, self.seen = attention(split(self.q(x)), split(self.k(x)), split(self.v(x)))
        return self.o(joined(found))


class Fairseq(Projections):
    """After fairseq's MultiheadAttention: tokens first, heads of all texts one after another, bmm."""

    def forward(self, query: Tensor, memory: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        tgt, bsz, _ = query.size()
        src = memory.size(0)
        q = (self.q(query) * (WIDTH // HEADS) ** -0.5).contiguous().view(tgt, bsz * HEADS, -1).transpose(0, 1)
        k, v = (part(memory).contiguous().view(src, bsz * HEADS, -1).transpose(0, 1) for part in (self.k, self.v))
        attn = torch.bmm(q, k.transpose(1, 2))
        if key_padding_mask is not None:
            attn = attn.view(bsz, HEADS, tgt, src)
            attn = attn.masked_fill(key_padding_mask.unsqueeze(1).unsqueeze(2), float("-inf"))
            attn = attn.view(bsz * HEADS, tgt, src)
        attn_float = F.softmax(attn, dim=-1, dtype=torch.promote_types(attn.dtype, torch.float32))
        self.seen = attn_float.view(bsz, HEADS, tgt, src)
        found = torch.bmm(F.dropout(attn_float.type_as(attn), 0.0), v)
        return self.o(found.transpose(0, 1).contiguous().view(tgt, bsz, WIDTH))


class D2L(Projections):
    """After d2l's MultiHeadAttention: masked_softmax writes -1e6 in place, by valid lengths."""

    def forward(self, x: Tensor, valid_lens: Tensor) -> Tensor:
        def transpose_qkv(x: Tensor) -> Tensor:
            x = x.reshape(x.shape[0], x.shape[1], HEADS, -1).permute(0, 2, 1, 3)
            return x.reshape(-1, x.shape[2], x.shape[3])

        def masked_softmax(x: Tensor, lengths: Tensor) -> Tensor:
            shape = x.shape
            lengths = torch.repeat_interleave(lengths, shape[1])
            x = x.reshape(-1, shape[-1])
            hidden = torch.arange(shape[-1])[None, :] >= lengths[:, None]
            x[hidden] = -1e6
            return F.softmax(x.reshape(shape), dim=-1)

        queries, keys, values = (transpose_qkv(part(x)) for part in (self.q, self.k, self.v))
        scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(queries.shape[-1])
        weights = masked_softmax(scores, torch.repeat_interleave(valid_lens, HEADS))
        self.seen = weights.view(len(x), HEADS, *weights.shape[1:])
        found = torch.bmm(F.dropout(weights, 0.0), values).reshape(-1, HEADS, x.shape[1], WIDTH // HEADS)
        return self.o(found.permute(0, 2, 1, 3).reshape(x.shape))


class Lucidrains(Projections):
    """After lucidrains' networks: einsum, nn.Softmax as a module, masks of the smallest number, keys before queries."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.Softmax(dim=-1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = map(split, (self.q(x), self.k(x), self.v(x)))
        sim = torch.einsum("b h i d, b h j d -> b h i j", q * q.shape[-1] ** -0.5, k)
        sim = sim.masked_fill(~mask[:, None, None], -torch.finfo(sim.dtype).max)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        self.seen = self.attend(sim)
        return self.o(joined(torch.einsum("b h j d, b h i j -> b h i d", v, self.seen)))


class OfAnImage(nn.Module):
    """After the attention of CompVis' autoencoders: values times transposed weights."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Conv2d(WIDTH, WIDTH, 1) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part(x).flatten(2) for part in (self.q, self.k, self.v))
        w = torch.bmm(q.permute(0, 2, 1), k) * (WIDTH**-0.5)
        w = F.softmax(w, dim=2)
        self.seen = w[:, None]
        return x + self.o(torch.bmm(v, w.permute(0, 2, 1)).view(x.shape))


class InBlocks(Projections):
    """Flash-style attention by hand: blocks of keys, with a running maximum or the logarithms of their sums."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = map(split, (self.q(x), self.k(x), self.v(x)))
        q = q * q.shape[-1] ** -0.5
        largest = q.new_full((*q.shape[:3], 1), -math.inf)
        total, output = torch.zeros_like(largest), torch.zeros_like(q)
        for keys, values in zip(k.split(2, dim=2), v.split(2, dim=2), strict=True):
            scores = q @ keys.mT
            if self.way == "logsumexp":
                of_block = scores.logsumexp(-1, keepdim=True)
                now = torch.logaddexp(largest, of_block)
                output = output * (largest - now).exp() + (scores.softmax(-1) @ values) * (of_block - now).exp()
            else:
                now = torch.maximum(largest, scores.amax(-1, keepdim=True))
                weights, kept = torch.exp(scores - now), torch.exp(largest - now)
                total = total * kept + weights.sum(-1, keepdim=True)
                output = output * kept + weights @ values
            largest = now
        return self.o(joined(output if self.way == "logsumexp" else output / total))


class Block(nn.Module):
    """A layer around attention, with a norm, a residual and a feed-forward."""

    def __init__(self, attn: nn.Module) -> None:
        super().__init__()
        self.norm, self.attn, self.mlp = nn.LayerNorm(WIDTH), attn, nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, *more: Tensor | None) -> Tensor:
        x = x + self.attn(self.norm(x), *more)
        return x + F.gelu(self.mlp(x))


class Stack(nn.Module):
    """Two blocks above an embedding."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, WIDTH)
        self.blocks = nn.ModuleList(Block(kind()) for _ in range(2))

    def forward(self, ids: Tensor, *more: Tensor | None) -> Tensor:
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, *more)
        return x
