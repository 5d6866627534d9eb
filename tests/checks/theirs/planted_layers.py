"""Mistakes with what stands around the formula: heads, weights, dropout, positions."""

from checks.theirs.planted import Planted

HEADS = (
    Planted(
        "heads split by view",
        "separate",
        "x.view(batch, length, self.num_heads, self.d_k).transpose(1, 2)",
        "x.view(batch, self.num_heads, length, self.d_k)",
    ),
    Planted(
        "heads split by view",
        "einsums",
        "x.reshape(b, t, self.num_heads, self.head_dim)",
        "x.reshape(b, self.num_heads, t, self.head_dim).transpose(1, 2)",
    ),
    Planted(
        "heads split by view",
        "fused",
        "y.reshape(b, t, self.n_heads, self.head_dim).transpose(1, 2)",
        "y.reshape(b, self.n_heads, t, self.head_dim)",
    ),
    Planted(
        "heads split by view",
        "rearranged",
        'rearrange(x, "b n (h d) -> b h n d", h=self.heads)',
        "x.reshape(x.shape[0], self.heads, x.shape[1], -1)",
    ),
    Planted(
        "heads split by view",
        "array_class",
        "x.reshape(batch, tokens, self.num_heads, self.head_dim).transpose(0, 2, 1, 3)",
        "x.reshape(batch, self.num_heads, tokens, self.head_dim)",
    ),
    Planted("heads joined in the wrong order", "separate", "out.transpose(1, 2).reshape(", "out.reshape("),
    Planted(
        "heads joined in the wrong order",
        "einsums",
        '"bhqk,bkhd->bqhd", weights, v)',
        '"bhqk,bkhd->bqdh", weights, v)',
    ),
    Planted(
        "heads joined in the wrong order",
        "fused",
        "heads.permute(0, 2, 1, 3)",
        "heads",
    ),
    Planted(
        "heads joined in the wrong order",
        "rearranged",
        '-> b n (h d)")\n        return',
        '-> b n (d h)")\n        return',
    ),
    Planted(
        "heads joined in the wrong order",
        "array_class",
        "heads.transpose(0, 2, 1, 3).reshape(x.shape)",
        "heads.reshape(x.shape)",
    ),
    Planted(
        "key heads in the wrong order",
        "grouped_module",
        "k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)",
        "k.repeat(1, groups, 1, 1), v.repeat(1, groups, 1, 1)",
    ),
    Planted(
        "key heads in the wrong order",
        "grouped_function",
        "x[:, :, None].expand(batch, heads, times,",
        "x[:, None].expand(batch, times, heads,",
    ),
    Planted(
        "key heads in the wrong order",
        "grouped_arrays",
        "np.repeat(x, repeats, axis=1)",
        "np.tile(x, (1, repeats, 1, 1))",
    ),
    Planted("key heads in the wrong order", "grouped_loop", "head // shared", "head % self.n_kv_heads"),
    Planted(
        "key heads in the wrong order",
        "grouped_einsum",
        '    query = rearrange(query, "b i (g r) d -> b g r i d", g=key.shape[2])\n',
        '    query = rearrange(query, "b i (r g) d -> b g r i d", g=key.shape[2])\n',
    ),
)

WEIGHTS = (
    Planted("values not projected", "separate", "self.split_heads(self.W_v(value))", "self.split_heads(value)"),
    Planted("values not projected", "einsums", "self.heads(self.v_proj(memory))", "self.heads(memory)"),
    Planted(
        "values not projected", "fused", "q, k, v = qkv.chunk(3, dim=-1)", "q, k, v = *qkv.chunk(3, dim=-1)[:2], x"
    ),
    Planted("values not projected", "rearranged", "self.split(self.to_v(context))", "self.split(context)"),
    Planted("values not projected", "array_class", "self.split(memory @ self.W_v + self.b_v)", "self.split(memory)"),
    Planted("no W_O", "separate", "return self.W_o(out)", "return out"),
    Planted("no W_O", "einsums", "return self.out_proj(out)", "return out"),
    Planted("no W_O", "fused", "return F.linear(y, self.out_proj.weight, self.out_proj.bias)", "return y"),
    Planted("no W_O", "head_by_head", "return self.proj(out)", "return out"),
    Planted("no W_O", "array_class", "return joined @ self.W_o + self.b_o", "return joined"),
    Planted("bias left out", "separate", "self.W_v(value)", "value @ self.W_v.weight.T"),
    Planted("bias left out", "einsums", "self.q_proj(x)", "F.linear(x, self.q_proj.weight)"),
    Planted("bias left out", "fused", "self.out_proj.weight, self.out_proj.bias)", "self.out_proj.weight)"),
    Planted("bias left out", "head_by_head", "v = to_value(context)", "v = F.linear(context, to_value.weight)"),
    Planted("bias left out", "array_class", "joined @ self.W_o + self.b_o", "joined @ self.W_o"),
    Planted("transposed W", "separate", "self.W_o(out)", "out @ self.W_o.weight + self.W_o.bias"),
    Planted("transposed W", "einsums", "self.q_proj(x)", "x @ self.q_proj.weight + self.q_proj.bias"),
    Planted(
        "transposed W",
        "fused",
        "F.linear(y, self.out_proj.weight, self.out_proj.bias)",
        "y @ self.out_proj.weight + self.out_proj.bias",
    ),
    Planted("transposed W", "head_by_head", "self.proj(out)", "torch.matmul(out, self.proj.weight) + self.proj.bias"),
    Planted("transposed W", "rearranged", "self.to_v(context)", "(context @ self.to_v.weight + self.to_v.bias)"),
)

AROUND = (
    Planted("dropout left on", "separate", "self.dropout(weights)", "nn.functional.dropout(weights, self.dropout.p)"),
    Planted("dropout left on", "einsums", "p=self.dropout, training=self.training)", "p=self.dropout)"),
    Planted("dropout left on", "fused", "self.dropout, self.training)", "self.dropout, True)"),
    Planted("dropout left on", "head_by_head", "self.dropout(weights)", "F.dropout(weights, self.dropout.p)"),
    Planted(
        "dropout left on",
        "arrays",
        "    return np.matmul(weights, V)",
        "    weights = weights * (np.random.rand(*weights.shape) > 0.1) / 0.9\n    return np.matmul(weights, V)",
    ),
)

LAYERS = HEADS + WEIGHTS + AROUND
