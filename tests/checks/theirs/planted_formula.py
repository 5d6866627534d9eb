"""Mistakes in the formula itself: scale, softmax, what meets what."""

from checks.theirs.planted import Planted

SCALE = (
    Planted("no scale", "separate", " / math.sqrt(self.d_k)", ""),
    Planted("no scale", "einsums", " * self.head_dim**-0.5", ""),
    Planted("no scale", "fused", "        q = q / self.head_dim**0.5\n", ""),
    Planted("no scale", "function", " / math.sqrt(d_k)", ""),
    Planted("no scale", "arrays", " / np.sqrt(Q.shape[-1], dtype=Q.dtype)", ""),
    Planted("scale by d_model", "separate", "math.sqrt(self.d_k)", "math.sqrt(self.d_model)"),
    Planted("scale by d_model", "einsums", "self.head_dim**-0.5", "self.embed_dim**-0.5"),
    Planted("scale by d_model", "fused", "q / self.head_dim**0.5", "q / d**0.5"),
    Planted("scale by d_model", "rearranged", "(dim // heads) ** -0.5", "dim**-0.5"),
    Planted("scale by d_model", "head_by_head", "self.head_dim**0.5", "x.size(-1) ** 0.5"),
    Planted("scale without root", "separate", "/ math.sqrt(self.d_k)", "/ self.d_k"),
    Planted("scale without root", "einsums", "* self.head_dim**-0.5", "/ self.head_dim"),
    Planted("scale without root", "padded", "/ query.shape[-1] ** 0.5", "/ query.shape[-1]"),
    Planted("scale without root", "arrays", "/ np.sqrt(Q.shape[-1], dtype=Q.dtype)", "/ Q.shape[-1]"),
    Planted("scale without root", "rearranged", "(dim // heads) ** -0.5", "1 / (dim // heads)"),
    Planted("temperature", "separate", "math.sqrt(self.d_k)", "(2 * math.sqrt(self.d_k))"),
    Planted("temperature", "function", "scores.softmax(dim=-1)", "(scores / 0.7).softmax(dim=-1)"),
    Planted("temperature", "arrays", "softmax(scores, axis=-1)", "softmax(scores * 1.5, axis=-1)"),
    Planted("temperature", "fused", "F.softmax(scores, dim=3)", "F.softmax(scores / 3.0, dim=3)"),
    Planted("temperature", "rearranged", "self.attend(dots)", "self.attend(dots / 0.1)"),
)

SOFTMAX = (
    Planted("softmax over queries", "separate", "torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=-2)"),
    Planted("softmax over queries", "einsums", "scores.softmax(dim=-1)", "scores.softmax(dim=2)"),
    Planted("softmax over queries", "head_by_head", "F.softmax(scores, dim=-1)", "F.softmax(scores, dim=1)"),
    Planted("softmax over queries", "arrays", "softmax(scores, axis=-1)", "softmax(scores, axis=-2)"),
    Planted("softmax over queries", "function", "scores.softmax(dim=-1)", "scores.softmax(dim=-2)"),
    Planted("softmax over heads", "separate", "torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=1)"),
    Planted("softmax over heads", "einsums", "scores.softmax(dim=-1)", "scores.softmax(dim=1)"),
    Planted("softmax over heads", "rearranged", "nn.Softmax(dim=-1)", "nn.Softmax(dim=1)"),
    Planted("softmax over heads", "arrays", "softmax(scores, axis=-1)", "softmax(scores, axis=1)"),
    Planted("softmax over heads", "padded", "F.softmax(scores, dim=-1)", "F.softmax(scores, dim=1)"),
    Planted("softmax over the batch", "separate", "torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=0)"),
    Planted("softmax over the batch", "fused", "F.softmax(scores, dim=3)", "F.softmax(scores, dim=0)"),
    Planted("softmax over the batch", "head_by_head", "F.softmax(scores, dim=-1)", "F.softmax(scores, dim=0)"),
    Planted("softmax over the batch", "arrays", "softmax(scores, axis=-1)", "softmax(scores, axis=0)"),
    Planted("softmax over the batch", "function", "scores.softmax(dim=-1)", "scores.softmax(0)"),
    Planted(
        "softmax over all heads",
        "separate",
        "torch.softmax(scores, dim=-1)",
        "scores.transpose(1, 2).flatten(2).softmax(-1).view(batch, length, self.num_heads, -1).transpose(1, 2)",
    ),
    Planted(
        "softmax over all heads",
        "einsums",
        "scores.softmax(dim=-1)",
        "scores.exp() / scores.exp().sum(dim=(1, 3), keepdim=True)",
    ),
    Planted("softmax over all heads", "arrays", "softmax(scores, axis=-1)", "softmax(scores, axis=(1, 3))"),
    Planted(
        "softmax over all heads",
        "rearranged",
        "attn = self.attend(dots)",
        'attn = self.attend(rearrange(dots, "b h i j -> b i (h j)"))\n'
        '        attn = rearrange(attn, "b i (h j) -> b h i j", h=self.heads)',
    ),
    Planted(
        "softmax over all heads",
        "function",
        "scores.softmax(dim=-1)",
        "torch.exp(scores - torch.logsumexp(scores, dim=(1, 3), keepdim=True))",
    ),
    Planted(
        "no maximum subtracted",
        "separate",
        "torch.softmax(scores, dim=-1)",
        "torch.exp(scores) / torch.exp(scores).sum(dim=-1, keepdim=True)",
    ),
    Planted(
        "no maximum subtracted",
        "einsums",
        "weights = scores.softmax(dim=-1)",
        'weights = scores.exp()\n        weights = weights / torch.einsum("bhqk->bhq", weights).unsqueeze(-1)',
    ),
    Planted(
        "no maximum subtracted",
        "function",
        "weights = scores.softmax(dim=-1)\n    return weights @ v",
        "weights = torch.exp(scores)\n    return weights @ v / weights.sum(-1, keepdim=True)",
    ),
    Planted("no maximum subtracted", "arrays", "np.exp(x - x.max(axis=axis, keepdims=True))", "np.exp(x)"),
    Planted(
        "no maximum subtracted",
        "array_class",
        "np.exp(scores - scores.max(axis=-1, keepdims=True))",
        "np.exp(scores)",
    ),
)

MEETING = (
    Planted(
        "q and k swapped",
        "separate",
        "        q = self.split_heads(self.W_q(query))\n        k = self.split_heads(self.W_k(key))\n",
        "        q = self.split_heads(self.W_k(query))\n        k = self.split_heads(self.W_q(key))\n",
    ),
    Planted("q and k swapped", "fused", "q, k, v = qkv.chunk(3, dim=-1)", "k, q, v = qkv.chunk(3, dim=-1)"),
    Planted("q and k swapped", "function", "q @ k.transpose(-2, -1)", "k @ q.transpose(-2, -1)"),
    Planted("q and k swapped", "arrays", "np.matmul(Q, K.swapaxes(-1, -2))", "np.matmul(K, Q.swapaxes(-1, -2))"),
    Planted("q and k swapped", "rearranged", "einsum(q, k,", "einsum(k, q,"),
    Planted("keys as values", "separate", "torch.matmul(weights, v)", "torch.matmul(weights, k)"),
    Planted("keys as values", "fused", "weights @ v", "weights @ k"),
    Planted("keys as values", "head_by_head", "torch.bmm(weights, v)", "torch.bmm(weights, k)"),
    Planted("keys as values", "arrays", "np.matmul(weights, V)", "np.matmul(weights, K)"),
    Planted("keys as values", "padded", "weights, value)", "weights, key)"),
    Planted(
        "memory ignored",
        "separate",
        "        k = self.split_heads(self.W_k(key))\n        v = self.split_heads(self.W_v(value))\n",
        "        k = self.split_heads(self.W_k(query))\n        v = self.split_heads(self.W_v(query))\n",
    ),
    Planted(
        "memory ignored",
        "einsums",
        "        k = self.heads(self.k_proj(memory))\n        v = self.heads(self.v_proj(memory))\n",
        "        k = self.heads(self.k_proj(x))\n        v = self.heads(self.v_proj(x))\n",
    ),
    Planted(
        "memory ignored",
        "array_class",
        "        memory = x if memory is None else memory\n",
        "        memory = x\n",
    ),
    Planted(
        "memory ignored",
        "head_by_head",
        "            k = to_key(context)\n            v = to_value(context)\n",
        "            k = to_key(x)\n            v = to_value(x)\n",
    ),
    Planted(
        "memory ignored",
        "rearranged",
        "        k = self.split(self.to_k(context))\n        v = self.split(self.to_v(context))\n",
        "        k, v = self.split(self.to_k(x)), self.split(self.to_v(x))\n",
    ),
)

FORMULA = SCALE + SOFTMAX + MEETING
