"""Prove each style: plain loops over queries and keys, in float64, give the output that it has to have."""
# ruff: noqa: N802 - a proof is named after the class that it is about

import sys
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

B, T, S, D, H, K = 2, 5, 7, 16, 4, 2
LOWER = torch.ones(S, S, dtype=torch.bool).tril()


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.manual_seed(seed))


class Given:
    """The inputs: one text, another one of another length, one of the same length, and which tokens are real."""

    def __init__(self):
        self.x = random(B, T, D, seed=1)
        self.memory = random(B, S, D, seed=2)
        self.beside = random(B, T, D, seed=3)
        self.q, self.k, self.v = random(B, H, T, 4, seed=4), random(B, H, S, 4, seed=5), random(B, H, S, 4, seed=6)
        self.real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=torch.bool)
        self.real_memory = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [1] * 7], dtype=torch.bool)
        self.pairs = torch.rand(B, T, S, generator=torch.manual_seed(7)) < 0.6
        self.pairs[..., 0] = True


def attend(q, k, v, allowed=None, bias=0.0, cap=None, sinks=None, factors=None):
    """One query after the other. Key heads are shared by neighbouring query heads; bias and allowed are broadcast."""
    batch, heads, queries, d = q.shape
    keys, group = k.shape[2], heads // k.shape[1]
    allowed = torch.as_tensor(True if allowed is None else allowed).expand(batch, heads, queries, keys)
    bias = torch.as_tensor(bias, dtype=torch.float64).expand(batch, heads, queries, keys)
    out = q.new_zeros(batch, heads, queries, v.shape[-1])
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                seen = [j for j in range(keys) if allowed[b, h, i, j]]
                scores = [q[b, h, i].dot(k[b, h // group, j]) * d**-0.5 for j in seen]
                scores = [cap * torch.tanh(score / cap) for score in scores] if cap else scores
                shares = [torch.exp(score + bias[b, h, i, j]) for score, j in zip(scores, seen, strict=True)]
                total = sum(shares) + (0 if sinks is None else torch.exp(sinks[h]))
                out[b, h, i] = sum(share / total * v[b, h // group, j] for share, j in zip(shares, seen, strict=True))
    return out if factors is None else out * factors[:, None, None]


def attend_additively(q, k, v, score, real):
    """The score of a query and a key is that of tanh of their sum."""
    out = q.new_zeros(*q.shape[:2], v.shape[-1])
    for b in range(q.shape[0]):
        for i in range(q.shape[1]):
            shares = torch.stack([score(torch.tanh(q[b, i] + one)).exp() for one in k[b, real[b]]])
            out[b, i] = (shares.flatten() / shares.sum()) @ v[b, real[b]]
    return out


def split(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(2)


def of_projections(it, x, key_heads=K):
    return split(it.q_proj(x), H), split(it.k_proj(x), key_heads), split(it.v_proj(x), key_heads)


def of_fused(x):
    return tuple(split(one, H) for one in x.chunk(3, -1))


def lower(x):
    return LOWER[: x.shape[1], : x.shape[1]]


def over(mask):
    """[batch, key] for all heads and queries."""
    return None if mask is None else mask[:, None, None, :]


def ready(module, *dry, **named):
    """The module with random parameters, in float64, not in training. dry: what it is called with first, if lazy."""
    module = module.double().eval()
    if dry:
        module(*dry, **named)
    for number, parameter in enumerate(module.parameters()):
        parameter.data = random(*parameter.shape, seed=100 + number) * 0.4
    return module


def in_steps(call, *stops):
    """Return the outputs of steps that hand on a cache; `call` takes which tokens to run, and the cache."""
    cache, outputs = None, []
    for start, stop in pairwise((0, *stops)):
        out, cache = call(slice(start, stop), cache)
        outputs.append(out)
    return torch.cat(outputs, 1)


def attention(thing, given):
    yield thing(given.q, given.k, given.v)[0], attend(given.q, given.k, given.v)
    allowed = given.pairs[:, None]
    yield thing(given.q, given.k, given.v, allowed)[0], attend(given.q, given.k, given.v, allowed)


def MultiHeadedAttention(thing, given):
    it = ready(thing(H, D))
    for other, mask in ((given.beside, None), (given.memory, None), (given.memory, given.pairs)):
        q, k, v = (split(lin(x), H) for lin, x in zip(it.linears, (given.x, other, other), strict=False))
        allowed = None if mask is None else mask[:, None]
        yield it(given.x, other, other, mask), it.linears[3](merge(attend(q, k, v, allowed)))


def AdditiveAttention(thing, given):
    it = ready(thing(6, 0.1), given.x, given.memory, given.memory, None)
    q, k, v, real = it.W_q(given.x), it.W_k(given.memory), given.memory, given.real_memory
    yield it(given.x, v, v, None), attend_additively(q, k, v, it.w_v.weight[0].dot, torch.ones_like(real))
    yield it(given.x, v, v, real.sum(-1)), attend_additively(q, k, v, it.w_v.weight[0].dot, real)


def DotProductAttention(thing, given):
    it, q, real = thing(0.1).eval(), given.x, given.real_memory
    k, v = given.memory, given.memory.flip(1)
    yield it(q, k, v), attend(q[:, None], k[:, None], v[:, None])[:, 0]
    yield it(q, k, v, real.sum(-1)), attend(q[:, None], k[:, None], v[:, None], over(real))[:, 0]
    per_query = torch.arange(1, T + 1).expand(B, T)
    yield it(q, q, q, per_query), attend(q[:, None], q[:, None], q[:, None], lower(q))[:, 0]


def MultiHeadAttention(thing, given):
    it = ready(thing(D, H, 0.1), given.x, given.memory, given.memory, None)
    q, k, v = (split(w(x), H) for w, x in ((it.W_q, given.x), (it.W_k, given.memory), (it.W_v, given.memory)))
    yield it(given.x, given.memory, given.memory, None), it.W_o(merge(attend(q, k, v)))
    got = it(given.x, given.memory, given.memory, given.real_memory.sum(-1))
    yield got, it.W_o(merge(attend(q, k, v, over(given.real_memory))))


def Attention(thing, given):
    it = ready(thing(D, H, 3))
    for other, mask, real in (
        (None, None, None),
        (None, given.real, given.real),
        (given.memory, None, None),
        (given.memory, given.real, given.real_memory),
    ):
        seen = given.x if other is None else other
        k, v = it.to_kv(seen).chunk(2, -1)
        out = attend(split(it.to_q(given.x), H), split(k, H), split(v, H), over(real))
        rows = torch.ones_like(given.real) if mask is None else mask  # rows of padding see nothing
        context = {"context_mask": real} if other is not None else {}
        yield it(given.x, other, mask, **context)[rows], it.to_out(merge(out))[rows]


def CrossAttention(thing, given):
    it = ready(thing(D, heads=H, dim_head=3))
    k, v = (split(one, H) for one in it.to_kv(given.memory).chunk(2, -1))
    k, v = (torch.cat((null.expand(B, H, 1, 3), one), 2) for null, one in zip(it.null_kv, (k, v), strict=True))
    for mask in (None, given.real_memory, given.real_memory & given.real_memory[:1]):
        real = None if mask is None else over(torch.cat((torch.ones(B, 1, dtype=torch.bool), mask), 1))
        expected = it.to_out(merge(attend(split(it.to_q(given.x), H), k, v, real)))
        yield it(given.x, given.memory, mask), expected


def GPT2Attention(thing, given):
    it, x = ready(thing(D, H)), given.memory
    expected = it.c_proj(merge(attend(*of_fused(it.c_attn(x)), lower(x))))
    yield it(x)[0], expected
    yield in_steps(lambda some, past: it(x[:, some], past, use_cache=True), 3, 4, 7), expected


def PaddedCausalAttention(thing, given):
    it = ready(thing(D, H))
    x, q_k_v = given.x, of_fused(it.qkv(given.x))
    yield it(x), it.proj(merge(attend(*q_k_v, lower(x))))
    yield it(x, given.real.long()), it.proj(merge(attend(*q_k_v, lower(x) & over(given.real))))


def turned(x, neighbours):
    """Turn pairs of elements by position * 10000 ** (-2 pair / size): 0 with 1 if neighbours, else 0 with size / 2."""
    out, half = x.clone(), x.shape[-1] // 2
    for position in range(x.shape[-2]):
        for pair in range(half):
            a, b = (2 * pair, 2 * pair + 1) if neighbours else (pair, pair + half)
            angle = torch.tensor(position * 10000.0 ** (-pair / half), dtype=torch.float64)
            first, second = x[..., position, a], x[..., position, b]
            out[..., position, a] = first * angle.cos() - second * angle.sin()
            out[..., position, b] = first * angle.sin() + second * angle.cos()
    return out


def of_llama(it, x):
    q, k, v = split(it.wq(x), H), split(it.wk(x), K), split(it.wv(x), K)
    return attend(turned(q, True), turned(k, True), v, LOWER)


def of_qwen(it, x):
    q, k, v = of_projections(it, x)
    q, k = (F.rms_norm(one, (D // H,), norm.weight, 1e-6) for one, norm in ((q, it.q_norm), (k, it.k_norm)))
    return attend(q, k, v, LOWER)


NEAR = torch.tensor([[i - 2 <= j <= i for j in range(S)] for i in range(S)])
SLOPES = 1 / 4, 1 / 16, 1 / 64, 1 / 256  # of four heads, as the paper says
FAR = torch.tensor([[[-slope * (i - j) for j in range(S)] for i in range(S)] for slope in SLOPES])
# Causal attention of one text: the arguments, or the config, of the constructor; the last layer; what comes before it.
CAUSAL = {
    "CausalSelfAttention": ("GPTConfig", (S + 2, H, D), "c_proj", lambda it, x: attend(*of_fused(it.c_attn(x)), LOWER)),
    "LlamaReferenceAttention": ("ModelArgs", (D, H, K), "wo", of_llama),
    "GPTJAttention": ("", (D, H), "out_proj", lambda it, x: attend(*of_projections(it, x, H), LOWER)),
    "MistralAttention": ("", (D, H, K, 3), "o_proj", lambda it, x: attend(*of_projections(it, x), NEAR)),
    "Gemma2Attention": ("", (D, H, K, 2.0), "o_proj", lambda it, x: attend(*of_projections(it, x), LOWER, cap=2.0)),
    "GptOssAttention": ("", (D, H, K), "o_proj", lambda it, x: attend(*of_projections(it, x), LOWER, sinks=it.sinks)),
    "Qwen3Attention": ("", (D, H, K), "o_proj", of_qwen),
    "AlibiAttention": ("", (D, H), "out_proj", lambda it, x: attend(*of_fused(it.Wqkv(x)), LOWER, FAR)),
}


def prove(name, thing, given):
    """Yield pairs: an output of the style, and the right output."""
    if name not in CAUSAL:
        yield from globals()[name](thing, given)
        return
    config, arguments, last, before = CAUSAL[name]
    it = ready(thing(getattr(sys.modules[thing.__module__], config)(*arguments)) if config else thing(*arguments))
    yield it(given.memory), getattr(it, last)(merge(before(it, given.memory)))


def LlamaAttention(thing, given):
    it, x = ready(thing(D, H, K)), given.memory
    q, k, v = of_projections(it, x)
    for mask in (None, given.real_memory):
        allowed = LOWER if mask is None else LOWER & over(mask)
        expected = it.o_proj(merge(attend(turned(q, False), turned(k, False), v, allowed)))
        yield it(x, mask)[0], expected

        def step(some, past, mask=mask):
            return it(x[:, some], None if mask is None else mask[:, : some.stop], past, use_cache=True)

        yield in_steps(step, 3, 4, 7), expected


def T5Attention(thing, given):
    it, x = ready(thing(D, H, 3)), given.memory
    table = it.relative_attention_bias.weight
    rows = [[table[min(max(j - i, -3), 3) + 3] for j in range(S)] for i in range(S)]
    bias = torch.stack([torch.stack(row) for row in rows]).permute(2, 0, 1)
    for mask in (None, given.real_memory):
        q, k, v = split(it.q(x), H), split(it.k(x), H), split(it.v(x), H)
        yield it(x, mask), it.o(merge(attend(q, k, v, over(mask), bias)))


def BertSelfAttention(thing, given):
    it = ready(thing(sys.modules[thing.__module__].BertConfig(D, H)))
    x = torch.cat((given.x, given.beside))  # as many texts as heads
    real = torch.cat((given.real, given.real.flip(0)))
    q, k, v = (split(lin(x), H) for lin in (it.query, it.key, it.value))
    kept = torch.tensor([1.0, 0.0, 1.0, 0.5], dtype=torch.float64)
    yield it(x)[0], merge(attend(q, k, v))
    yield it(x, real.long())[0], merge(attend(q, k, v, over(real)))
    yield it(x, real.long(), kept)[0], merge(attend(q, k, v, over(real), factors=kept))


def MultiheadAttention(thing, given):
    it = ready(thing(D, H))
    torchs = nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64)
    torchs.load_state_dict(it.state_dict())
    pairs, real = given.pairs[0], given.real_memory
    for padding, mask in ((None, None), (~real, None), (None, ~pairs), (~real, ~pairs)):
        inputs = given.x, given.memory, given.memory.flip(1)
        expected = torchs(*inputs, key_padding_mask=padding, attn_mask=mask, need_weights=False)[0]
        yield it(*inputs, key_padding_mask=padding, attn_mask=mask)[0], expected


def MemEffAttention(thing, given):
    it, x, bias = ready(thing(D, H)), given.x, random(B, H, T, T)
    yield it(x), it.proj(merge(attend(*of_fused(it.qkv(x)))))
    yield it(x, bias), it.proj(merge(attend(*of_fused(it.qkv(x)), bias=bias)))


def EinsumDenseAttention(thing, given):
    it = ready(thing(D, H))

    def project(x, name: str):
        kernel, bias = getattr(it, f"{name}_kernel"), getattr(it, f"{name}_bias")
        return split(x @ kernel.flatten(1) + bias.flatten(), H)

    q, v = project(given.x, "query"), project(given.memory, "value")
    for key in (given.memory.flip(1), None):
        out = merge(attend(q, project(given.memory if key is None else key, "key"), v))
        yield it(given.x, given.memory, key), out @ it.output_kernel.flatten(0, 1) + it.output_bias


def FlexAttention(thing, given):
    it, x, real = ready(thing(D, H)), given.x, given.real
    yield it(x), it.to_out(merge(attend(*of_fused(it.to_qkv(x)))))
    yield it(x, real), it.to_out(merge(attend(*of_fused(it.to_qkv(x)), over(real))))


def BahdanauAttention(thing, given):
    it, query, values = ready(thing(D, 6)), given.x[:, 0], given.memory
    every = torch.ones(B, S, dtype=torch.bool)
    expected = attend_additively(it.W1(query)[:, None], it.W2(values), values, it.V, every)[:, 0]
    yield it(query, values)[0], expected


def BartAttention(thing, given):
    it, x, memory = ready(thing(D, H)), given.x, given.memory
    q, k, v = split(it.q_proj(x), H), split(it.k_proj(memory), H), split(it.v_proj(memory), H)
    for mask in (None, given.real_memory):
        expected = it.out_proj(merge(attend(q, k, v, over(mask))))
        added = None if mask is None else over(~mask).double() * torch.finfo(torch.float64).min
        yield in_steps(lambda some, past, added=added: it(x[:, some], memory, past, added)[::2], 1, 2, 5), expected
        yield it(x, memory, attention_mask=added)[0], expected
    expected = it.out_proj(merge(attend(*of_projections(it, x, H), LOWER[:T, :T])))
    yield in_steps(lambda some, past: it(x[:, some], None, past)[::2], *range(1, T + 1)), expected


def DecoderCrossAttention(thing, given):
    it = ready(thing(D, H))
    for memory, real in ((given.memory, given.real_memory), (given.beside, given.real.flip(0))):
        q = split(it.q_proj(given.x), H)
        k, v = (split(one, H) for one in it.kv_proj(memory).chunk(2, -1))
        yield it(given.x, memory), it.out_proj(merge(attend(q, k, v)))
        expected = it.out_proj(merge(attend(q, k, v, over(real))))
        yield it(given.x, memory, memory_mask=real), expected
        yield it(given.x, memory, given.real, real), expected * given.real[..., None]


def flash_attention(thing, given):
    yield thing(given.q, given.k, given.v), attend(given.q, given.k, given.v)
    q = given.k.flip(2)
    yield thing(q, given.k, given.v, causal=True), attend(q, given.k, given.v, LOWER)


def ColumnSelfAttention(thing, given):
    it, x = ready(thing(D, 6, 5)), given.memory
    q, k, v = ((x @ w.T)[:, None] for w in (it.W_q, it.W_k, it.W_v))
    yield it(x.mT), attend(q, k, v)[:, 0].mT


def scaled_dot_product_attention(thing, given):
    for hidden in (None, ~given.pairs[:, None]):
        mask = None if hidden is None else hidden.double().numpy()
        got = thing(given.q.numpy(), given.k.numpy(), given.v.numpy(), mask)[0]
        yield torch.as_tensor(got), attend(given.q, given.k, given.v, None if hidden is None else ~hidden)
